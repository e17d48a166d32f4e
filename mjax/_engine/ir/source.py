"""The origin of an equation: jaxlib's C++ traceback, decoded only on demand.

A traceback object costs 0.1 to 0.5 µs to take and pins no frame, so it never keeps a
user's locals alive. Decoding it is slow and happens in error texts, locations and prints.
Names of scopes are kept beside it if the user opened scopes, and cost nothing otherwise.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.config import set_here
from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.ir.annotations import Annotations, of_both
from mjaxlib_shim import tracebacks
from mjaxlib_shim.tracebacks import current_traceback

__all__ = ["DERIVATIVE_OF", "Frame", "Mark", "NameStack", "Scope", "SourceInfo", "annotate",
           "annotations_of", "current_traceback", "here", "plain", "replayed", "source_info_of",
           "summarize", "unnamed", "user_frame", "user_frames", "warn", "with_annotations",
           "without_names"]


#: How the name of a scope begins that is about the derivative of an operation (`debug_nans`).
DERIVATIVE_OF = "derivative of "


class Frame(Record):
    """A place in the user's program."""

    file: str
    function: str
    line: int


class Mark(str):
    """The name of a transformation among those of scopes: in texts it wraps the next one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mark) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Mark, str(self)))


class NameStack(tuple[str, ...]):
    """Names of scopes, the outermost first; as a text `outer/jvp(inner)`.

    Args:
      iterable: the names.

    Example:
      >>> from mjax_ext import source_info_util
      >>> stack = source_info_util.new_name_stack("outer").transform("jvp").extend("inner")
      >>> str(stack), len(stack), str(stack[:1] + stack)
      ('outer/jvp(inner)', 3, 'outer/outer/jvp(inner)')

    Source: JAX, `jax.extend.source_info_util.NameStack`.
    """

    __slots__ = ()

    def extend(self, name: str) -> NameStack:
        """The stack with one more scope inside."""
        return NameStack((*self, name))

    def transform(self, transform_name: str) -> NameStack:
        """The stack with a transformation inside, which wraps the scopes to come."""
        return NameStack((*self, Mark(transform_name)))

    def __add__(self, other: Any) -> NameStack:
        return NameStack((*self, *other))

    def __radd__(self, other: Any) -> NameStack:
        return NameStack((*other, *self))

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return NameStack(found) if isinstance(index, slice) else found

    def __str__(self) -> str:
        return "/".join(plain(self))


def plain(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of scopes, wrapped in those of transformations."""
    found: tuple[str, ...] = ()
    for name in reversed(names):
        found = _wrapped(name, found) if type(name) is Mark else (name, *found)
    return found


class SourceInfo(Record):
    """The value of `eqn.source_info`: the traceback and the stack of `named_scope` names.

    Attributes:
      traceback: jaxlib's; None: it is not known.
      name_stack: the names of the scopes.
      annotations: what `compute_on` and `set_xla_metadata` said of the equation; None: nothing.

    Example:
      >>> eqn, = mjax.make_jaxpr(mjax.named_call(lax.sin, name="waves"))(1.0).eqns
      >>> str(eqn.source_info.name_stack)
      'waves'

    Source: JAX, `jax.extend.source_info_util.SourceInfo`.
    """

    traceback: Any
    name_stack: NameStack = NameStack()
    annotations: Annotations | None = None

    def replace(self, *, traceback: Any = None, name_stack: NameStack | None = None) -> SourceInfo:
        """The same with another traceback or stack; None: as it is."""
        return SourceInfo(self.traceback if traceback is None else traceback,
                          self.name_stack if name_stack is None else name_stack, self.annotations)


class Scope:
    """An open scope, in `thread.source`: equations staged while it is open have its names.

    A program that is traced starts without names. Transformations inside of it wrap the names
    of the scopes inside of them: `outer/vmap(jvp(inner))`.

    Args:
      names: its names.
      interpreter: the interpreter it was opened under.
      outer: the scope around it.
      traceback: of an equation that is run again; otherwise each equation takes its own.
      annotations: of an equation that is run again.
    """

    __slots__ = ("_last", "annotations", "interpreter", "names", "outer", "traceback")

    def __init__(self, names: tuple[str, ...], interpreter: Any, outer: Scope | None = None,
                 traceback: Any = None, annotations: Any = NOT_GIVEN):
        self.names = names
        self.interpreter = interpreter
        self.outer = outer
        self.traceback = traceback
        self.annotations = annotations
        self._last: tuple[Any, tuple[str, ...]] = (None, ())

    def source_for(self, interpreter: Any) -> Any:
        """The source of an equation that an interpreter stages now."""
        known, names = self._last
        if known is not interpreter:
            names = plain(self.names_in(interpreter))
            self._last = (interpreter, names)
        traceback = self.traceback or current_traceback()
        noted = thread.settings.annotations
        if self.annotations is not NOT_GIVEN and (noted or self.annotations):
            noted = of_both(self.annotations, noted)
        return SourceInfo(traceback, NameStack(names), noted) if names or noted else traceback

    def names_in(self, interpreter: Any) -> tuple[str, ...]:
        """The names of this and outer scopes that were opened under an interpreter, and marks of
        the transformations between them."""
        names: tuple[str, ...] = ()
        scope: Scope | None = self
        while scope is not None:
            names = scope.names + names
            inner, end = scope.interpreter, scope.outer and scope.outer.interpreter
            while inner is not None and inner is not end:
                if inner is interpreter:
                    return names
                if inner.mark:
                    names = (Mark(inner.mark), *names)
                inner = inner.parent
            scope = scope.outer
        return ()  # it was opened around the interpreter


def _wrapped(mark: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names inside of a transformation."""
    return (f"{mark}({names[0] if names else ''})", *names[1:])


def here(interpreter: Any = None) -> Any:
    """The source of the present call, for an equation of an interpreter or for a message."""
    source = thread.source
    if source is None:
        return current_traceback()
    return source.source_for(interpreter) if type(source) is Scope else source


class without_names:
    """Closes the open scopes while a program is traced: its caller's equation has their names."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = before = thread.source
        if type(before) is Scope:
            thread.source = unnamed(before)
        elif before is not None:
            info = source_info_of(before)
            thread.source = with_annotations(info.traceback, info.annotations)

    def __exit__(self, *error: object) -> None:
        thread.source = self.before


def unnamed(before: Any) -> Any:
    """The value of `thread.source` outside of all named scopes.

    Args:
      before: the value inside; the annotations of an equation that is run again stay.
    """
    own = getattr(before, "annotations", NOT_GIVEN)
    if thread.settings.annotations or (own and own is not NOT_GIVEN):
        return Scope((), None, annotations=own)
    return None


@contextmanager
def annotate(change: Callable[[Annotations | None], Annotations | None]) -> Iterator[None]:
    """Changes the annotations in force in this thread, and those of equations staged meanwhile.

    Args:
      change: gives the new annotations for those in force.
    """
    undo = set_here(annotations=change(thread.settings.annotations))
    before = thread.source
    if type(before) is not Scope:
        thread.source = Scope((), thread.interpreter, None,
                              before and source_info_of(before).traceback)
    try:
        yield
    finally:
        thread.source = before
        undo()


def annotations_of(source: Any) -> Annotations | None:
    """The annotations in the field `source` of an equation."""
    return source.annotations if type(source) is SourceInfo else None


def with_annotations(source: Any, annotations: Annotations | None) -> Any:
    """The source of an equation with these annotations."""
    if annotations is None and annotations_of(source) is None:
        return source
    return source_info_of(source)._replace(annotations=annotations)


def replayed(source: Any, outer: Any, mark: str = "") -> Any:
    """The value of `thread.source` while an equation is run again.

    Args:
      source: that of the equation.
      outer: `thread.source` before.
      mark: the transformation that runs it, shown in its names.
    """
    info = source_info_of(source)
    if type(outer) is not Scope:
        if not mark or not info.name_stack:
            return source
        outer = None
    names = _wrapped(mark, info.name_stack) if mark else info.name_stack
    return Scope(names, thread.interpreter, outer, info.traceback, info.annotations)


def source_info_of(source: Any) -> SourceInfo:
    """The `SourceInfo` of the field `source` of an equation (a bare traceback in most cases)."""
    if type(source) is Scope:
        source = source.source_for(None)
    return source if type(source) is SourceInfo else SourceInfo(source)


def user_frames(source: Any) -> list[Frame]:
    """The user's frames, innermost first."""
    traceback = source_info_of(source).traceback
    if traceback is None:
        return []
    return [Frame(f[0], f[1], f[2]) for f in tracebacks.frames(traceback)
            if not is_engine_file(f[0])]


def user_frame(source: Any) -> Frame | None:
    """The innermost frame of the user's own code, if there is one."""
    frames = user_frames(source)
    return frames[0] if frames else None


def summarize(source: Any, num_frames: int = 1) -> str:
    """`file:line (function)` of the user's innermost frames, one a line, the innermost last.

    Args:
      source: the `source_info` of an equation.
      num_frames: the number of frames.

    Returns:
      A string.

    Raises:
      TypeError: `num_frames` is a string or a float.
      AttributeError: `source` is neither None nor that of an equation.

    Example:
      >>> from mjax_ext import source_info_util
      >>> eqn, = mjax.make_jaxpr(lax.sin)(1.0).eqns
      >>> source_info_util.summarize(eqn.source_info)
      '...:1 (<module>)'

    Source: JAX, `jax.extend.source_info_util.summarize`.
    """
    frames = user_frames(source)[:num_frames]
    return "\n".join(f"{f.file}:{f.line} ({f.function})" for f in reversed(frames)) or (
        "<unknown source>")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issues a warning at the innermost line of the user's code."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_engine_file(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
