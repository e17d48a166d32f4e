"""Requests to XLA about operations that do not change what they compute.

`compute_on` and `set_xla_metadata` make them. Those in force are a setting, so that programs are
traced anew for others. Equations staged meanwhile have them in their source, and lowering writes
them to the attributes of operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mjax._engine.base.records import Record


class Annotations(Record):
    """The requests about one operation. None stands for no requests.

    Attributes:
      compute_type: where it runs; see `compute_on`.
      entries: its metadata, sorted: name, text and value of each. The text tells 1 from True.
    """

    compute_type: str | None
    entries: tuple[tuple[str, str, Any], ...] = ()

    @property
    def xla_metadata(self) -> dict[str, Any] | None:
        """The metadata by name, as the user wrote it."""
        return {name: value for name, _, value in self.entries} or None


def requests(compute_type: str | None, entries: Iterable[tuple[str, str, Any]]
                ) -> Annotations | None:
    """Requests; None if there are none."""
    found = Annotations(compute_type, tuple(entries))
    return found if any(found) else None


def with_compute_type(before: Annotations | None, compute_type: str | None) -> Annotations | None:
    """The requests with another compute type."""
    return requests(compute_type, before.entries if before else ())


def with_metadata(before: Annotations | None, updates: Mapping[str, Any]) -> Annotations | None:
    """The requests with more metadata, in place of that of the same names; None removes it.

    Raises:
      TypeError: a value is not hashable.
    """
    known = {entry[0]: entry for entry in before.entries} if before else {}
    for name, value in updates.items():
        hash(value)
        known[name] = (name, text_of(value), value)
    kept = [known[name] for name in sorted(known) if known[name][2] is not None]
    return requests(before and before.compute_type, kept)


def text_of(value: Any) -> str:
    """The text of a value of metadata in StableHLO."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_both(own: Annotations | None, around: Annotations | None) -> Annotations | None:
    """The requests for an equation that is staged again, while others are in force."""
    both = with_metadata(around, own.xla_metadata or {}) if own else around
    return with_compute_type(both, own and own.compute_type)
