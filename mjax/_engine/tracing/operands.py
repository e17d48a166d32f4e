"""How the operands of a primitive vary along mesh axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError

#: The axes along which an invariant value varies: none.
no_axes: frozenset[Any] = frozenset()


class OperandsVaryError(LazyTypeError, shown_as=TypeError):
    """Operands vary along different mesh axes; staging makes them vary alike.

    Args:
      text: the text.
      least: axes along which all operands have to vary, besides their own.
    """

    def __init__(self, text: str | Callable[[], str], least: frozenset[Any] = no_axes):
        super().__init__(text)
        self.least = least


def joint_varying(primitive: Any, avals: Sequence[Any]) -> frozenset[Any]:
    """The manual mesh axes along which all operands of a primitive vary.

    Raises:
      OperandsVaryError: they do not vary alike.
    """
    found = {a.varying for a in avals if a.varies}
    if len(found) > 1:
        raise OperandsVaryError(lambda: (
            f"the operands of {primitive} vary along different mesh axes: "
            f"{', '.join(map(str, avals))}. Cast those that vary less with "
            "mjax.lax.pcast(x, axes, to='varying')."))
    return found.pop() if found else no_axes
