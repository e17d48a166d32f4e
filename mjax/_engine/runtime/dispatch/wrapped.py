"""The types of functions from `jit`, for `isinstance` and type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

from mjax._engine.base.signatures import Function, P, Q, R, R_co
from mjax._engine.runtime.dispatch.stages import Lowered, Traced

if TYPE_CHECKING:
    from mjax._engine.base.signatures import NoResult


@runtime_checkable
class Wrapped(Protocol[P, R_co]):
    """A function from `jit`: it can be called, or taken through the stages one by one.

    Example:
      >>> import mjax
      >>> isinstance(mjax.jit(lambda x: x), mjax.stages.Wrapped)
      True
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Runs it; arguments of new types compile it first."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The first stage: its jaxpr for arguments like these."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The second stage: its StableHLO module for arguments like these."""


class JitFunction(Wrapped[P, R_co], Function[P, R_co], Protocol[P, R_co]):
    """The type of a function from `jit` for type checkers."""

    @overload
    def __call__(self, *args: P.args,  # type: ignore[overload-overlap]
                 **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: JitFunction[[NoResult], NoResult], f: Callable[Q, R], /
                 ) -> JitFunction[Q, R]: ...

    @property
    def __name__(self) -> str:
        """The name of the function."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function."""

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for arguments like these, without computing them."""

    def clear_cache(self) -> None:
        """Forgets the programs of this function."""
