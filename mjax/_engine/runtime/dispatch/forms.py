"""Forms of calls and of results, and functions generated for one form each.

Calls of one form differ only in the values of their arguments. The same arguments are given by
name, and the same ones are static. The others are the same nest of tuples, lists and dicts with
leaves of the same classes. A function for one form reads each argument once, in Python without a
loop. For small trees that is faster than flattening them in C++. The same holds for results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import EXACT, NOT_GIVEN, BoundedCache, exact
from mjax._engine.ir.pytree import is_one_leaf, tree_structure
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.donation import ArgumentNames, explain_failure
from mjax._engine.runtime.arrays.placement import Placement
from mjax._engine.runtime.arrays.transfer import SCALARS, from_scalar, own_scalar
from mjax._engine.runtime.effects.pending import PendingArray
from mjaxlib_shim import trees

#: The key of a call, and the arguments of its program: buffers, and host values as they are.
Keyed = tuple[tuple[Any, ...], Sequence[Any]]
#: Takes apart the arguments of a call; None if it has another form. Given are the first two
#: positional ones or `NOT_GIVEN`, the others, and those by name.
Taker = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Keyed | None]

#: The most values of a form: the generated text grows with them.
_MOST = 200
#: The greatest depth of results: Python parses at most 200 open brackets.
_DEEPEST = 50
_GLOBALS = {"Array": Array, "new": object.__new__, "PendingArray": PendingArray,
            "ndarray": np.ndarray, "from_scalar": from_scalar, "own_scalar": own_scalar,
            "exact": exact, "NOT_GIVEN": NOT_GIVEN, "explain_failure": explain_failure}
#: The tree of one result.
LEAF = tree_structure(0)
#: Text -> the function `make` that it defines.
_makers = BoundedCache(1024)
#: (text, constants) -> taker.
_takers = BoundedCache(4096)


class _Unknown(Exception):
    """A function cannot be generated for the form."""


def maker(text: str) -> Any:
    """The function `make` that a text defines; equal texts are compiled once."""
    known = _makers.get(text)
    if known is None:
        names = dict(_GLOBALS)
        # Named after this module, so that tracebacks leave out its frames.
        exec(compile(text, f"{__file__}[written]", "exec"), names)
        known = _makers.put(text, names["make"])
    return known


# ---- arguments -------------------------------------------------------------------------


def _is_namedtuple(kind: type) -> bool:
    return (issubclass(kind, tuple) and hasattr(kind, "_fields")
            and trees.node_functions(kind) is None)


class _Text:
    """The text of a taker under construction.

    Attributes:
      scalar: the name of the function that makes arrays of scalars; empty: they stay as they are.
    """

    def __init__(self) -> None:
        self.scalar = ""
        self.lines: list[str] = []
        self.key = ["form"]
        self.values: list[str] = []
        self.constants: list[Any] = []
        self.count = 0

    def variable(self) -> str:
        """A new name."""
        self.count += 1
        if self.count > _MOST:
            raise _Unknown
        return f"x{self.count}"

    def constant(self, value: Any) -> str:
        """The name of a constant of the form."""
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"

    def write(self, *lines: str) -> None:
        """Adds lines."""
        self.lines += lines

    def require(self, condition: str) -> None:
        """Rejects calls that do not fulfil a condition: they have another form."""
        self.write(f"if not ({condition}): return None")

    def unpack(self, name: str, count: int) -> list[str]:
        """Names for the elements of a tuple or list of this length."""
        names = [self.variable() for _ in range(count)]
        self.write(f"{''.join(n + ', ' for n in names) or '()'} = {name}")
        return names

    def positional(self, count: int) -> list[str]:
        """Names for this many positional arguments, in calls without others."""
        if count < 2:
            self.require(f"{'xy'[count]} is NOT_GIVEN")
            return ["x"][:count]
        if count == 2:
            self.require("not args")
            return ["x", "y"]
        return ["x", "y", *self.unpack("args", count - 2)]

    def static(self, name: str, value: Any) -> None:
        """A static argument."""
        kind = type(value)
        if kind in EXACT:
            self.require(f"type({name}) is {self.constant(kind)}")
            self.key.append(name)
        elif kind is tuple:
            self.require(f"type({name}) is tuple")
            for element, part in zip(self.unpack(name, len(value)), value):
                self.static(element, part)
        else:
            self.key.append(f"exact({name})")

    def tree(self, name: str, value: Any) -> None:
        """An argument that is not static, or a part of one."""
        kind = type(value)
        if kind is Array or kind is PendingArray:
            self.require(f"type({name}) is Array or type({name}) is PendingArray")
            self.leaf(name)
        elif kind is np.ndarray:
            self.require(f"type({name}) is ndarray")
            self.key += f"{name}.dtype", f"{name}.shape"
            self.values.append(name)
        elif kind in SCALARS:
            self.require(f"type({name}) is {self.constant(kind)}")
            if self.scalar:
                self.write(f"{name} = {self.scalar}({name})")
                self.leaf(name)
                return
            if kind is int:  # others may not have the default dtype
                self.require(f"-2147483648 <= {name} <= 2147483647")
            self.values.append(name)
        elif kind is tuple or kind is list or _is_namedtuple(kind):
            self.require(f"type({name}) is {self.constant(kind)}")
            for element, part in zip(self.unpack(name, len(value)), value):
                self.tree(element, part)
        elif kind is dict and {*map(type, value)} <= {str}:
            self.require(f"type({name}) is dict and len({name}) == {len(value)}")
            for key in sorted(value):
                element = self.variable()
                self.write(f"{element} = {name}[{self.constant(key)}]")
                self.tree(element, value[key])
        elif value is None:
            self.require(f"{name} is None")
        elif (functions := trees.node_functions(kind)) is not None:
            self.node(name, value, functions[0])
        else:
            raise _Unknown

    def node(self, name: str, value: Any, flatten: Callable[[Any], Any]) -> None:
        """An argument, or a part of one, of a class that was registered as a container."""
        children, data = flatten(value)
        parts, children = self.variable(), tuple(children)
        self.require(f"type({name}) is {self.constant(type(value))}")
        self.write(f"{parts}, {name} = {self.constant(flatten)}({name})")
        self.require(f"{name} == {self.constant(data)}")
        for element, part in zip(self.unpack(parts, len(children)), children):
            self.tree(element, part)

    def leaf(self, name: str) -> None:
        """An array."""
        self.key.append(f"{name}._placement")
        self.values.append(f"{name}._buffer")

    def taker(self) -> Taker:
        """The generated source."""
        names = ", ".join(["form", *(f"c{i}" for i in range(len(self.constants)))])
        lines = "\n      ".join(self.lines)
        text = f"""
def make({names}):
  def take(x, y, args, kwargs):
    try:
      {lines}
    except (KeyError, ValueError, OverflowError):
      return None
    return ({", ".join(self.key)},), [{", ".join(self.values)}]
  return take
"""
        key = (text, *self.constants)
        return _takers.get(key) or _takers.put(key, maker(text)(object(), *self.constants))


def taker_of(args: tuple[Any, ...], kwargs: dict[str, Any], places: Collection[int],
             names: Collection[str], donated: Collection[int | str] = ()) -> Taker | None:
    """The taker for calls of the form of this one.

    It is None if the call has too many parts, or parts other than arrays, scalars, None, tuples,
    lists, and dicts with words as keys. Keys begin with an object that identifies the form.

    Args:
      args, kwargs: the arguments.
      places, names: which of them are static.
      donated: the places and names of those that are donated; their scalars are arrays of their
        own.
    """
    text = _Text()
    try:
        text.require(f"len(kwargs) == {len(kwargs)}" if kwargs else "not kwargs")
        for i, (name, value) in enumerate(zip(text.positional(len(args)), args)):
            text.scalar = _scalar_maker(i, donated)
            (text.static if i in places else text.tree)(name, value)
        for key in sorted(kwargs):
            name = text.variable()
            text.write(f"{name} = kwargs[{text.constant(key)}]")
            text.scalar = _scalar_maker(key, donated)
            (text.static if key in names else text.tree)(name, kwargs[key])
    except _Unknown:
        return None
    return text.taker()


def _scalar_maker(argument: int | str, donated: Collection[int | str]) -> str:
    """The name of the function that makes arrays of the scalars in an argument."""
    return "own_scalar" if argument in donated else "from_scalar" if donated else ""


# ---- results ---------------------------------------------------------------------------


def runner_of(execute: Callable[[Sequence[Any]], Any], placements: Sequence[Placement],
              names: ArgumentNames, out_tree: Any, stages: bool = False) -> Callable[..., Any]:
    """A function from the buffers of all arguments to the tree of results.

    Args:
      execute: takes these buffers.
      placements: of the results.
      names: the names of the program and its arguments.
      out_tree: the tree of the results.
      stages: the function takes two more arguments, and passes the second one to the first one if
        all results are computed then.

    If the result is one array, the attribute `one` of the function has what it consists of:
    `execute`, the handlers of the result and its placement; `names` has the names.
    """
    handlers, count = [p.handler for p in placements], len(placements)
    held: list[Any] = []
    nest = _nest(out_tree, iter(range(count)), 0, held) if count <= _MOST else None
    if nest is None:
        return _general_runner_of(execute, placements, handlers, names, out_tree)
    are_ready = " and ".join(f"x{i}.is_ready()" for i in range(count))
    parameters, give_back = (", give_back, slots", f"""
    if {are_ready}:
      give_back(slots)""") if stages else ("", "")
    outs = "".join(f"x{i}, " for i in range(count)) or "()"
    # The same as `Array(x, p)`, without a Python call.
    arrays = "".join(f"""
    r{i} = new(Array)
    r{i}._buffer = x{i}
    r{i}._placement = p{i}""" for i in range(count))
    text = f"""
def make(execute, handlers, names, held, {", ".join(f"p{i}" for i in range(count))}):
  {"".join(f"h{i}, " for i in range(len(held))) or "()"} = held
  def run(buffers{parameters}):
    try:
      {outs} = execute(buffers).consume_with_handlers(handlers)
    except Exception as error:
      explain_failure(error, names, buffers)
      raise{give_back}{arrays}
    return {nest}
  return run
"""
    written: Any = maker(text)(execute, handlers, names, held, *placements)
    if nest == "r0":  # the dispatcher does the same by itself
        written.one, written.names = (execute, handlers, *placements), names
    return written


def _general_runner_of(execute: Callable[[Sequence[Any]], Any], placements: Sequence[Placement],
                       handlers: list[Any], names: ArgumentNames, out_tree: Any
                       ) -> Callable[..., Any]:
    """`runner_of` for results that are too many, or nested in a way that is not generated."""

    def run(buffers: Sequence[Any], give_back: Any = None, slots: Any = None) -> Any:
        try:
            outs = execute(buffers).consume_with_handlers(handlers)
        except Exception as error:
            explain_failure(error, names, buffers)
            raise
        if give_back is not None and all([out.is_ready() for out in outs]):
            give_back(slots)
        # The same as `Array(x, p)` for each, without Python calls.
        arrays: list[Array] = [*map(object.__new__, classes)]
        for array, buffer, placement in zip(arrays, outs, placements):
            array._buffer = buffer
            array._placement = placement
        return out_tree.unflatten(arrays)

    classes = (Array,) * len(placements)
    return run


def _nest(tree: Any, numbers: Iterator[int], depth: int, held: list[Any]) -> str | None:
    """The text of results in a subtree at some depth; None if it is too deep, or has dicts with
    keys that are not words.

    Args:
      tree: the subtree.
      numbers: the numbers of the remaining results.
      depth: the depth of the subtree.
      held: receives the values that the text calls `h0`, `h1` and so on.
    """
    if depth > _DEEPEST:
        return None
    if is_one_leaf(tree):
        i = next(numbers)
        return f"r{i}"
    kind, keys = tree.node_data()
    parts = [_nest(child, numbers, depth + 1, held) for child in tree.children()]
    if None in parts:
        return None
    if kind is tuple:
        return f"({''.join(f'{part}, ' for part in parts)})"
    if kind is list:
        return f"[{', '.join(map(str, parts))}]"
    if kind is dict and {*map(type, keys)} <= {str}:
        return f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(keys, parts))}}}"
    if kind is type(None):
        return "None"
    functions = trees.node_functions(kind)
    if functions is not None:
        held += functions[1], keys
        return (f"h{len(held) - 2}(h{len(held) - 1}, "
                f"({''.join(f'{part}, ' for part in parts)}))")
    if _is_namedtuple(kind):
        held.append(kind)
        return f"h{len(held) - 1}({', '.join(map(str, parts))})"
    return None
