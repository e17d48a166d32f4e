"""The sources of equations: where in the user's program, and in which named scopes, they were made.

An interpreter that applies an equation again opens `user_context(eqn.source_info.traceback,
name_stack=...)`, so that what it makes has the source of the equation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.folding import register_exclusion
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import (
    Mark,
    NameStack,
    Scope,
    SourceInfo,
    here,
    source_info_of,
    summarize,
)

__all__ = [
    # values
    "NameStack", "SourceInfo", "new_name_stack", "new_source_info",
    # the current one
    "current", "current_name_stack", "extend_name_stack", "reset_name_stack", "set_name_stack",
    "transform_name_stack", "user_context",
    # messages
    "register_exclusion", "summarize",
]


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one scope, or without scopes.

    Args:
      name: the name of the scope; empty: none.

    Returns:
      The stack.

    Raises:
      TypeError: at `str` of the stack: the name is not a string.

    Example:
      >>> from mjax_ext import source_info_util
      >>> str(source_info_util.new_name_stack("waves"))
      'waves'

    Source: JAX, `jax.extend.source_info_util.new_name_stack`.
    """
    return NameStack((name,) if name else ())


def new_source_info() -> SourceInfo:
    """A source that says nothing.

    Example:
      >>> from mjax_ext import source_info_util
      >>> source_info_util.new_source_info().traceback

    Source: JAX, `jax.extend.source_info_util.new_source_info`.
    """
    return SourceInfo(None)


def current() -> SourceInfo:
    """The source that an equation made now would have.

    Example:
      >>> from mjax_ext import source_info_util
      >>> with mjax.named_scope("waves"):
      ...   print(source_info_util.current().name_stack)
      waves

    Source: JAX, `jax.extend.source_info_util.current`.
    """
    return source_info_of(here(thread.interpreter))


def current_name_stack() -> NameStack:
    """The names of the scopes that are open in the current trace.

    Example:
      >>> from mjax_ext import source_info_util
      >>> with mjax.named_scope("a"), mjax.named_scope("b"):
      ...   print(source_info_util.current_name_stack())
      a/b

    Source: JAX, `jax.extend.source_info_util.current_name_stack`.
    """
    source = thread.source
    if type(source) is Scope:
        return NameStack(source.names_in(thread.interpreter))
    return NameStack() if source is None else source_info_of(source).name_stack


@contextmanager
def _opened(names: tuple[str, ...], outer: Scope | None, traceback: Any) -> Iterator[NameStack]:
    """Opens a scope; gives the current names."""
    before = thread.source
    thread.source = Scope(names, thread.interpreter, outer, traceback)
    try:
        yield current_name_stack()
    finally:
        thread.source = before


def _around() -> tuple[Scope | None, Any]:
    """The open scope, and the traceback that equations are given instead of that of the call."""
    source = thread.source
    if source is None or type(source) is Scope:
        return source, source and source.traceback
    info = source_info_of(source)
    return (Scope(info.name_stack, thread.interpreter, None, info.traceback) if info.name_stack
            else None), info.traceback


@contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """Opens a named scope in the body of a `with`, and gives the stack; also a decorator.

    `mjax.named_scope` is the same for users.

    Args:
      name: the name.

    Returns:
      A context manager.

    Raises:
      TypeError: when an operation in the body is lowered, or the stack is printed: the name is
        not a string.

    Example:
      >>> from mjax_ext import source_info_util
      >>> with source_info_util.extend_name_stack("waves") as stack:
      ...   print(stack)
      waves

    Source: JAX, `jax.extend.source_info_util.extend_name_stack`.
    """
    outer, traceback = _around()
    with _opened((name,), outer, traceback) as stack:
        yield stack


@contextmanager
def transform_name_stack(name: str) -> Iterator[NameStack]:
    """Wraps the names of scopes that are opened in the body of a `with`; also a decorator.

    Args:
      name: that of a transformation.

    Returns:
      A context manager.

    Example:
      >>> from mjax_ext import source_info_util
      >>> with source_info_util.transform_name_stack("jvp"), mjax.named_scope("waves"):
      ...   print(source_info_util.current().name_stack)
      jvp(waves)

    Source: JAX, `jax.extend.source_info_util.transform_name_stack`.
    """
    outer, traceback = _around()
    with _opened((Mark(name),), outer, traceback) as stack:
        yield stack


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Replaces the names of all open scopes in the body of a `with`; also a decorator.

    Args:
      name_stack: the names.

    Returns:
      A context manager.

    Raises:
      TypeError: `name_stack` is not iterable; or, when an operation in the body is lowered: one
        of the names is not a string.

    Example:
      >>> from mjax_ext import source_info_util
      >>> stack = source_info_util.new_name_stack("other")
      >>> with mjax.named_scope("waves"), source_info_util.set_name_stack(stack):
      ...   print(source_info_util.current_name_stack())
      other

    Source: JAX, `jax.extend.source_info_util.set_name_stack`.
    """
    with _opened(tuple(name_stack), None, _around()[1]):
        yield


@contextmanager
def reset_name_stack() -> Iterator[None]:
    """Closes all open scopes in the body of a `with`; also a decorator.

    Example:
      >>> from mjax_ext import source_info_util
      >>> with mjax.named_scope("waves"), source_info_util.reset_name_stack():
      ...   print(len(source_info_util.current_name_stack()))
      0

    Source: JAX, `jax.extend.source_info_util.reset_name_stack`.
    """
    with set_name_stack(NameStack()):
        yield


@contextmanager
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Gives operations in the body of a `with` the source of an equation that is applied again.

    An exception that leaves the body says where that equation came from.

    Args:
      traceback: the equation's `source_info.traceback`; None: that of each call.
      name_stack: the names of scopes; None: those that are open.

    Returns:
      A context manager.

    Raises:
      TypeError: `name_stack` is not iterable; or, when an operation in the body is lowered: one
        of the names is not a string.
      AttributeError: an operation in the body is lowered, or an exception leaves it, and
        `traceback` is not a traceback.

    Example:
      >>> from mjax_ext import core, source_info_util
      >>> eqn, = mjax.make_jaxpr(mjax.named_call(lax.sin, name="waves"))(1.0).eqns
      >>> def again(x):
      ...   info = eqn.source_info
      ...   names = source_info_util.current_name_stack() + info.name_stack
      ...   with source_info_util.user_context(info.traceback, name_stack=names):
      ...     return eqn.primitive.bind(x, **eqn.params)
      >>> str(mjax.make_jaxpr(again)(1.0).eqns[0].source_info.name_stack)
      'waves'

    Source: JAX, `jax.extend.source_info_util.user_context`.
    """
    outer, around = _around()
    names = () if name_stack is None else tuple(name_stack)
    try:
        with _opened(names, outer if name_stack is None else None, traceback or around):
            yield
    except Exception as error:
        if traceback is not None and not any(
                note.startswith(_APPLIED) for note in getattr(error, "__notes__", ())):
            error.add_note(_APPLIED + summarize(SourceInfo(traceback)) + ".")
        raise


_APPLIED = "Raised by an operation that was applied at "


def __dir__() -> list[str]:
    return sorted(__all__)
