"""Programs with references among their arguments, as pure ones that take and give arrays."""

from __future__ import annotations

from collections.abc import Sequence

from mjax._engine.ir.references import written
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.transforms.discharge import discharge_jaxpr, in_order


def discharged(asked: Asked, refs: Sequence[int], same: tuple[tuple[int, int], ...] = ()
               ) -> tuple[Asked, tuple[int, ...]]:
    """The pure form of a program, to which references are donated if it writes them.

    Args:
      asked: the program, with placements of arrays.
      refs: the arguments that are references.
      same: see `discharge_jaxpr`.

    Returns:
      The program, whose last results are the final contents of references; the numbers of these.
    """
    ends = {dict(same).get(i, i) for i in written(asked.jaxpr.effects)}
    pure, finals = discharge_jaxpr(asked.jaxpr, refs, sorted(ends), True, same)
    donated = asked.donated or [False] * len(asked.placements)
    return asked._replace(
        jaxpr=in_order(pure, finals),
        donated=[i in finals or (d and i not in refs) for i, d in enumerate(donated)],
        out_shardings=asked.out_shardings and [*asked.out_shardings, *[None] * len(finals)],
        stored=finals), finals
