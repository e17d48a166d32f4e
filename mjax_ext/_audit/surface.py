"""The generations and their names, as the manifest has them: what `audit` and `migrate` go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mjax_ext import _manifest
from mjax_ext._manifest import Row


class Surface:
    """The head and the generations.

    Attributes:
      generations: those that exist, oldest first.
    """

    def __init__(self, generations: tuple[str, ...],
                 rows: Callable[[str | None], Mapping[str, Row]]) -> None:
        self.generations = generations
        self._make = rows
        self._rows: dict[str | None, Mapping[str, Row]] = {}
        self._modules: dict[str | None, frozenset[str]] = {}

    @property
    def newest(self) -> str:
        """The newest generation."""
        return self.generations[-1]

    def until(self, generation: str) -> Surface:
        """The surface as it was when a generation was the newest."""
        place = self.generations.index(generation) + 1
        return Surface(self.generations[:place], self.rows)

    def rows(self, generation: str | None) -> Mapping[str, Row]:
        """Name -> row, of a generation; None: of the head."""
        if generation not in self._rows:
            self._rows[generation] = self._make(generation)
        return self._rows[generation]

    def is_module(self, generation: str | None, name: str) -> bool:
        """Whether a dotted path is that of a module; the empty one is that of the namespace."""
        if generation not in self._modules:
            self._modules[generation] = frozenset(
                name.rsplit(".", up)[0] for name in self.rows(generation)
                for up in range(1, name.count(".") + 1))
        return not name or name in self._modules[generation]

    def row(self, generation: str | None, name: str) -> Row | None:
        """The row that a dotted path begins with."""
        rows, parts = self.rows(generation), name.split(".")
        for end in range(len(parts), 0, -1):
            if row := rows.get(".".join(parts[:end])):
                return row
        return None

    def exports(self, module: str) -> frozenset[str]:
        """Names of a module of `mjax_ext` or of a generation."""
        below = module.partition(".")[2]
        generation: str | None = below.split(".", 1)[0]
        if generation in self.generations:
            below = below.partition(".")[2]
        else:
            generation = None
        return frozenset(name.rpartition(".")[2] for name in self.rows(generation)
                         if name.rpartition(".")[0] == below)


#: The surface of this release.
SURFACE = Surface(tuple(_manifest.GENERATIONS), _manifest.of)
