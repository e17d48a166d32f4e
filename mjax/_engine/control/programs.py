"""Several programs that an equation holds, as one: branches, or a loop's body and condition.

The first one caches values for all of them, so that an equation finds the same programs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.effects import Effects, join_effects
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Var


class Programs(tuple[Jaxpr, ...]):
    """Jaxprs with the same inputs; shared attributes have the names of a jaxpr's attributes."""

    __slots__ = ()

    @property
    def invars(self) -> list[Var]:
        """Those of the first."""
        return self[0].invars

    @property
    def outvars(self) -> list[Any]:
        """Those of the first."""
        return self[0].outvars

    @property
    def in_avals(self) -> list[Any]:
        """Types of the inputs."""
        return self[0].in_avals

    @property
    def out_avals(self) -> list[Any]:
        """Types of the results of the first."""
        return self[0].out_avals

    @property
    def effects(self) -> Effects:
        """The effects of all programs together."""
        return join_effects(program.effects for program in self)

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The debug info of the first program that has one."""
        return next((program.eqns for program in self if program.eqns), [])

    def recall(self, key: Any) -> Any:
        """The value kept under a key, or None."""
        return self._known().get((self[1:], key))

    def keep(self, key: Any, value: Any) -> Any:
        """Keeps and returns a value."""
        return self._known().put((self[1:], key), value)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value kept under a key; made if there is none."""
        known = self.recall(key)
        return self.keep(key, make()) if known is None else known

    def _known(self) -> Any:
        return self[0].cached("of several", lambda: BoundedCache(64))


__all__ = ["Programs"]
