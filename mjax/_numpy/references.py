"""Mutable references for users: `new_ref`, `freeze`, `ref[...]`, and their functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mjax._engine.base.errors import LazyArgumentError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.control.references.indexers import WHOLE
from mjax._engine.control.references.primitives import (
    addupdate_p,
    exchanged,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
)
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.references import AbstractRef, is_reference
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.gather import GatherScatterMode
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.shape_dtype_struct import aval_of
from mjax._engine.tracing.interpreter import Tracer, staging
from mjax._engine.tracing.reference import Ref
from mjax._numpy.array_methods import refuse_assignment
from mjax._numpy.core import check_array
from mjax._numpy.creation import zeros
from mjax._numpy.indexing.eager import grown_shape, with_operands
from mjax._numpy.indexing.parse import NEW, At, Each, Index, Range, parse
from mjax._numpy.indexing.read import getitem, read
from mjax._numpy.indexing.update import _IndexUpdateHelper, write
from mjax._numpy.methods import lacks

# ---- indices ---------------------------------------------------------------------------------


class _Places(Record):
    """A NumPy-style index as an indexer; operands replace each None in it.

    Attributes:
      entries, grown: fields of the parsed index.
      shape: the array's shape.
    """

    entries: tuple[Any, ...]
    grown: tuple[int, ...]
    shape: tuple[int, ...]

    def joined(self, operands: Sequence[Any]) -> Index:
        """The parsed index with its operands."""
        given = iter(operands)
        return Index(tuple(
            e if e is NEW or e[0] is not None else type(e)(next(given), *e[1:])
            for e in self.entries), self.grown)

    def take(self, x: Any, *operands: Any) -> Any:
        """The part that it selects."""
        return read(x, self.joined(operands))

    def put(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with a value there."""
        return self._written("set", x, value, operands)

    def add(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with a value added there; the sum of booleans is their disjunction."""
        return self._written("max" if typeof(x).dtype.kind == "b" else "add", x, value, operands)

    def _written(self, operation: str, x: Any, value: Any, operands: Sequence[Any]) -> Any:
        # Places outside are dropped if they come from arrays; integers are clamped.
        arrays = any(type(e) is Each for e in self.entries)
        return write(operation, x, value, self.joined(operands), GatherScatterMode.FILL_OR_DROP
                     if arrays else GatherScatterMode.CLIP)

    def text(self, names: Sequence[str]) -> str:
        """Its text in jaxprs."""
        sizes, given = iter(self.shape), iter(names)
        return ", ".join("None" if e is NEW else _text(e, next(sizes, 0), given)
                         for e in self.entries)


def _text(e: Any, size: int, given: Iterator[str]) -> str:
    first = next(given) if e[0] is None else e[0]
    if type(e) is not Range:
        return str(first)
    if e[0] is None:
        return f"{first}:{first}+{e.size * e.step}" + (f":{e.step}" if e.step != 1 else "")
    end = e.low + e.size * e.step
    low = "" if e.low == (0 if e.step > 0 else size - 1) else str(e.low)
    high = "" if not 0 <= end < size else str(end)
    return f"{low}:{high}" + (f":{e.step}" if e.step != 1 else "")


class _Then(Record):
    """A part of a part: `ref.at[i][j]`.

    Attributes:
      outer, inner: indexers; the second indexes the selection of the first.
      n: the number of operands of the first.
    """

    outer: Any
    inner: Any
    n: int

    def take(self, x: Any, *operands: Any) -> Any:
        """The part that it selects."""
        return self.inner.take(self.outer.take(x, *operands[:self.n]), *operands[self.n:])

    def put(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with a value there."""
        part = self.outer.take(x, *operands[:self.n])
        return self.outer.put(x, self.inner.put(part, value, *operands[self.n:]),
                              *operands[:self.n])

    def add(self, x: Any, value: Any, *operands: Any) -> Any:
        """The array with a value added there."""
        part = self.outer.take(x, *operands[:self.n])
        return self.outer.put(x, self.inner.add(part, value, *operands[self.n:]),
                              *operands[:self.n])

    def text(self, names: Sequence[str]) -> str:
        """Its text in jaxprs."""
        return f"{self.outer.text(names[:self.n])}][{self.inner.text(names[self.n:])}"


def _indexer(shape: tuple[int, ...], idx: Any) -> tuple[Any, list[Any]]:
    """The indexer of an index from the user, and its operands.

    Raises:
      IndexError, TypeError: as indexing of arrays does.
      ValueError: as `_check_bounds`.
    """
    index = parse(shape, () if idx is None or idx is Ellipsis else idx)
    _check_bounds(shape, index)
    if not index.grown and [type(e) for e in index.entries] == [Range] * len(shape) and all(
            (e.low, e.size, e.step) == (0, n, 1)
            for e, n in zip(index.entries, shape, strict=True)):
        return WHOLE, []
    if not staging():  # one program for all integers
        index = with_operands(index, grown_shape(shape, index))
    entries, operands = [], []
    for e in index.entries:
        if e is not NEW and type(e[0]) is not int:
            operands.append(e[0])
            e = type(e)(None, *e[1:])
        entries.append(e)
    return _Places(tuple(entries), index.grown, shape), operands


def _check_bounds(shape: tuple[int, ...], index: Index) -> None:
    """Refuses an integer beyond the end of its axis. (In programs it is clamped.)

    Raises:
      ValueError: there is one.
    """
    if staging():
        return
    sizes = iter(grown_shape(shape, index))
    for axis, (e, size) in enumerate((e, next(sizes)) for e in index.entries if e is not NEW):
        if type(e) is At and type(e.index) in (int, Array) and int(e.index) >= size:
            msg = (f"a reference to an array of shape {shape}: the index {int(e.index)} is out of "
                   f"bounds for axis {axis}, of size {size}.")
            raise ValueError(msg)


class _RefView:
    """A part of a reference's array: `ref.at[index]`, which is read and written like a reference.

    Example:
      >>> ref = mjax.new_ref(jnp.zeros(4))
      >>> part = ref.at[1:]
      >>> part[0] = 5.0
      >>> ref[...]
      Array([0., 5., 0., 0.], dtype=float32)
    """

    __slots__ = ("indexer", "inner_aval", "operands", "ref")

    def __init__(self, ref: Any, indexer: Any, operands: list[Any]):
        self.ref, self.indexer, self.operands = ref, indexer, operands
        # The type of its selection is that of a read.
        self.inner_aval = get_p.type_of((typeof(ref), *map(typeof, operands)),
                                        {"indexer": indexer})[0]

    shape = property(lambda self: self.inner_aval.shape, doc="Sizes of the axes.")
    dtype = property(lambda self: self.inner_aval.dtype, doc="The dtype of the elements.")
    ndim = property(lambda self: self.inner_aval.ndim, doc="The number of axes.")
    size = property(lambda self: self.inner_aval.size, doc="The number of elements.")

    def __len__(self) -> int:
        return self.inner_aval.length()

    def __getitem__(self, idx: Any) -> Any:
        return get(self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        set(self, idx, value)

    @property
    def at(self) -> _At:
        """Parts of the part."""
        return _At(self)

    def __repr__(self) -> str:
        return f"{self.ref!r}.at[{self.indexer.text([str(o) for o in self.operands])}]"


class _At:
    """The value of `ref.at`; indexing it returns a part of the reference's array."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any):
        self.ref = ref

    def __getitem__(self, idx: Any) -> _RefView:
        return _RefView(*_place("ref.at", self.ref, idx))


def _place(who: str, ref: Any, idx: Any) -> tuple[Any, Any, list[Any]]:
    """The reference, indexer and operands of an index of a reference or a part of one."""
    if type(ref) is _RefView:
        inner, more = _indexer(ref.shape, idx)
        return (ref.ref, _Then(ref.indexer, inner, len(ref.operands)), [*ref.operands, *more]
                ) if inner is not WHOLE else (ref.ref, ref.indexer, ref.operands)
    _check_reference(who, ref)
    return ref, *_indexer(typeof(ref).shape, idx)


def _check_reference(who: str, ref: Any) -> None:
    aval = getattr(ref, "aval", None)
    if not is_reference(aval):
        raise LazyArgumentError(lambda: (
            f"{who} takes a reference, but was given {type(ref).__name__ if aval is None else aval}"
            ": make one with mjax.new_ref, or index arrays with x[i] and x.at[i]."))


def _value(who: str, value: Any, own: Any = None, written: bool = False) -> Any:
    """The value for a reference, as an array.

    Args:
      who: names the function in messages.
      value: from the user.
      own: the dtype of the reference; None: that of the value.
      written: whether it replaces elements. Then integers are cast to those of the reference.

    Raises:
      TypeError: it is not one.
      ValueError: it is a reference.
    """
    if is_reference(getattr(value, "aval", None)):
        raise LazyValueError(lambda: (
            f"{who}: a reference of type {value.aval} is written where an array is needed: write "
            "ref[...]."))
    value = check_array(who, value, "value")
    aval = typeof(value)
    own, ints = own or aval.dtype, {own and own.kind, aval.dtype.kind} <= _INTS
    if not aval.weak_type and not (written and ints):
        return value
    # A Python number takes the dtype of its kind.
    return convert(value, own if ints or own.kind == aval.dtype.kind
                   or {own.kind, aval.dtype.kind} <= _FLOATS else aval.dtype, False)


_INTS, _FLOATS = frozenset("iu"), frozenset("fV")  # V: such as bfloat16


# ---- functions -------------------------------------------------------------------------------


@boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """Makes a reference to a mutable array.

    Args:
      init_val: the initial contents; the array itself is not changed.
      memory_space, kind: must be None: mjax does not place references.

    Returns:
      A `Ref` of the array's shape and dtype. `ref[i]` reads, `ref[i] = x` writes, `ref[i] += x`
      adds, by NumPy's rules of indexing; `freeze` returns the array. Transformed functions
      may take and use references, but must not return them.

    Raises:
      TypeError: the value is not an array, or does not have elements (float0).
      ValueError: it is a reference.
      NotImplementedError: `memory_space` or `kind` is given.

    Example:
      >>> @mjax.jit
      ... def squares(n):
      ...   ref = mjax.new_ref(jnp.zeros(4))
      ...   def body(i, _):
      ...     ref[i] = n * i * i
      ...   mjax.lax.fori_loop(0, 4, body, None)
      ...   return mjax.freeze(ref)
      >>> squares(2.0)
      Array([ 0.,  2.,  8., 18.], dtype=float32)

    Source: the public interface of `jax.new_ref`.
    """
    if memory_space is not None or kind is not None:
        msg = "new_ref: memory_space and kind must be None: mjax does not place references."
        raise NotImplementedError(msg)
    value = _value("new_ref", init_val)
    if typeof(value).dtype == float0:
        msg = "new_ref: an array of float0 holds nothing that could change."
        raise TypeError(msg)
    return new_ref_p.bind(value)


@boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Makes a reference whose contents must be written before they are read.

    Args:
      ty: an array, or an object with a shape and a dtype, such as `ShapeDtypeStruct`.
      memory_space: must be None.

    Returns:
      A `Ref` to zeros.

    Raises:
      TypeError: it does not have a shape and a dtype.
      NotImplementedError: `memory_space` is given.

    Example:
      >>> mjax.empty_ref(mjax.ShapeDtypeStruct((2,), "int32")).shape
      (2,)

    Source: the public interface of `jax.empty_ref`.
    """
    if memory_space is not None:
        msg = "empty_ref: memory_space must be None: mjax does not place references."
        raise NotImplementedError(msg)
    try:
        aval = aval_of(ty)
    except TypeError as error:
        msg = ("empty_ref takes an object with shape and dtype, such as mjax.ShapeDtypeStruct; got "
               f"{ty!r} of type {type(ty).__name__}.")
        raise TypeError(msg) from error
    return new_ref_p.bind(zeros(aval.shape, aval.dtype))


@boundary
def freeze(ref: Any) -> Array:
    """Ends a reference and returns its array.

    Args:
      ref: a reference; it cannot be used afterwards.

    Returns:
      An array, without a copy.

    Raises:
      ValueError: it is not a reference, or was ended before.

    Example:
      >>> ref = mjax.new_ref(jnp.zeros(2))
      >>> ref[0] = 1.0
      >>> mjax.freeze(ref)
      Array([1., 0.], dtype=float32)

    Source: the public interface of `jax.freeze`.
    """
    _check_reference("freeze", ref)
    return freeze_p.bind(ref)


@boundary
def free_ref(ref: Any) -> None:
    """Ends a reference whose contents are not needed any more.

    Args:
      ref: a reference; it cannot be used afterwards.

    Raises:
      ValueError: it is not a reference, or was ended before.

    Example:
      >>> mjax.free_ref(mjax.new_ref(1.0))

    Source: the public interface of `jax.free_ref`.
    """
    _check_reference("free_ref", ref)
    free_ref_p.bind(ref)


@boundary
def get(ref: Any, idx: Any = None) -> Array:
    """Reads: `ref[idx]`.

    Args:
      ref: a reference, or a part of one (`ref.at[...]`).
      idx: a NumPy-style index; None: all.

    Returns:
      An array of the reference's dtype with its present contents; later writes do not change it.

    Raises:
      ValueError: it is not a reference, or an integer is beyond the end of its axis. (In
        programs it is clamped, as for arrays.)
      IndexError: the index does not fit the array.

    Example:
      >>> mjax.ref.get(mjax.new_ref(jnp.arange(3)), 1)
      Array(1, dtype=int32)

    Source: the public interface of `jax.ref.get`.
    """
    ref, indexer, operands = _place("ref[...]", ref, idx)
    return get_p.bind(ref, *operands, indexer=indexer)


@boundary
def swap(ref: Any, idx: Any, value: Any) -> Array:
    """Writes, and returns the old contents.

    Args:
      ref: a reference, or a part of one (`ref.at[...]`).
      idx: a NumPy-style index; None: all.
      value: the new contents, of the dtype of the reference and the shape of `ref[idx]`. Integers
        are cast to those of the reference.

    Returns:
      `ref[idx]` before.

    Raises:
      ValueError: as `get`, or the shape or dtype of the value differs.
      IndexError: the index does not fit the array.

    Example:
      >>> ref = mjax.new_ref(jnp.arange(3))
      >>> mjax.ref.swap(ref, 1, 7), ref[...]
      (Array(1, dtype=int32), Array([0, 7, 2], dtype=int32))

    Source: the public interface of `jax.ref.swap`.
    """
    return _exchanged(ref, idx, value, True)


def _exchanged(ref: Any, idx: Any, value: Any, wanted: bool) -> Any:
    ref, indexer, operands = _place("ref[...] = x", ref, idx)
    value = _value("ref[...] = x", value, typeof(ref).dtype, True)
    return exchanged(ref, value, *operands, indexer=indexer, wanted=wanted)


@boundary
def set(ref: Any, idx: Any, value: Any) -> None:
    """Writes: `ref[idx] = value`.

    Args:
      ref: a reference, or a part of one (`ref.at[...]`).
      idx: a NumPy-style index; None: all.
      value: the new contents, of the dtype of the reference and the shape of `ref[idx]`. Integers
        are cast to those of the reference.

    Raises:
      ValueError: as `swap`.
      IndexError: the index does not fit the array.

    Example:
      >>> ref = mjax.new_ref(jnp.arange(3))
      >>> mjax.ref.set(ref, slice(1, None), jnp.array([5, 6]))
      >>> ref[...]
      Array([0, 5, 6], dtype=int32)

    Source: the public interface of `jax.ref.set`.
    """
    _exchanged(ref, idx, value, False)


@boundary
def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Adds: `ref[idx] += x`, once for each occurrence of a place.

    Args:
      ref: a reference, or a part of one (`ref.at[...]`).
      idx: a NumPy-style index; None: all.
      x: the summand, of the dtype of the reference and the shape of `ref[idx]`.

    Raises:
      ValueError: as `swap`.
      IndexError: the index does not fit the array.

    Example:
      >>> ref = mjax.new_ref(jnp.arange(3))
      >>> mjax.ref.addupdate(ref, jnp.array([1, 1]), jnp.array([10, 10]))
      >>> ref[...]
      Array([ 0, 21,  2], dtype=int32)

    Source: the public interface of `jax.ref.addupdate`.
    """
    ref, indexer, operands = _place("ref[...] += x", ref, idx)
    x = _value("ref[...] += x", x, typeof(ref).dtype)
    addupdate_p.bind(ref, x, *operands, indexer=indexer)


#: Methods of references; the index comes last.
METHODS: dict[str, Callable[..., Any]] = {
    "get": get, "swap": lambda ref, value, idx=None: swap(ref, idx, value),
    "set": lambda ref, value, idx=None: set(ref, idx, value),
    "addupdate": lambda ref, x, idx=None: addupdate(ref, idx, x)}


def _only_of_references(name: str, method: Callable[..., Any]) -> property:
    """A method of references as a property, which raises AttributeError for other values."""
    refuse = lacks(name, "only references do.")
    return property(lambda self: functools.partial(method, self)
                    if type(self.aval) is AbstractRef else refuse(self))


for _name, _method in METHODS.items():
    setattr(_RefView, _name, _method)
    setattr(Tracer, _name, _only_of_references(_name, _method))


# ---- operators of tracers, which may be references -------------------------------------


def traced_getitem(self: Any, index: Any) -> Any:
    return get(self, index) if type(self.aval) is AbstractRef else getitem(self, index)


def traced_setitem(self: Any, index: Any, value: Any) -> None:
    (set if type(self.aval) is AbstractRef else refuse_assignment)(self, index, value)


def traced_at(self: Any) -> Any:
    return (_At if type(self.aval) is AbstractRef else _IndexUpdateHelper)(self)
