"""Public functions that name parts of programs: `named_scope`, `named_call`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P, R
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import Scope
from mjax._engine.tracing.flat import check_callable, function_name, wraps


@boundary
def named_scope(name: str) -> AbstractContextManager[None]:
    """Gives a name to the operations in the body of a `with` statement.

    StableHLO locations and the metadata of compiled programs (`op_name`) show the name, and so do
    profiles. Transformations between it and the outer scope wrap it, as in
    `layer/transpose(jvp(dot))`. It also decorates functions.

    Args:
      name: the name.

    Returns:
      A context manager, which also decorates functions.

    Raises:
      TypeError: it is not a string.

    Example:
      >>> @mjax.jit
      ... def f(x):
      ...   with mjax.named_scope("waves"):
      ...     return lax.sin(x)
      >>> "jit(f)/waves/sin" in f.lower(1.0).as_text(debug_info=True)
      True

    Source: JAX, `jax.named_scope`.
    """
    if not isinstance(name, str):
        msg = f"named_scope: the name must be a string, got {name!r} of type {type(name).__name__}."
        raise TypeError(msg)
    return _open(name)


@contextmanager
def _open(name: str) -> Iterator[None]:
    before = thread.source
    thread.source = Scope((name,), thread.interpreter, before if type(before) is Scope else None)
    try:
        yield
    finally:
        thread.source = before


def calling(name: str, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function, in a scope of its own if its name is to show transformations."""
    if not thread.interpreter.mark:
        return f(*args, **kwargs)
    with named_scope(name):
        return f(*args, **kwargs)


@boundary
def named_call(fun: Callable[P, R], *, name: str | None = None) -> Function[P, R]:
    """A function whose operations have its name; see `named_scope`.

    Args:
      fun: a function.
      name: another name than the function's.

    Returns:
      A function of the same arguments.

    Raises:
      TypeError: `fun` is not a function, or `name` is not a string.

    Example:
      >>> f = mjax.named_call(lax.sin, name="waves")
      >>> mjax.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
      ('waves',)

    Source: JAX, `jax.named_call`.
    """
    check_callable("named_call", fun)
    if name is not None:
        named_scope(name)  # refuses other types here rather than at calls

    @wraps(fun)
    @boundary
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(function_name(fun) if name is None else name):
            return fun(*args, **kwargs)

    return named
