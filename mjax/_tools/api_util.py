"""Functions for authors of transformations: of pytrees as functions of leaves, names of arguments.

JAX's `api_util`. Wrapped functions are those of `mjax_ext.linear_util`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.calls.wrapped import (
    Store,
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import (
    PyTreeDef,
    keystr,
    prefix_leaves,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
)
from mjax._engine.ir.types import AbstractValue
from mjax._engine.runtime.arrays.shape_dtype_struct import aval_of
from mjax._engine.tracing.flat import describe_function

# ---- functions of pytrees as functions of leaves -----------------------------------------


@transformation_with_aux2
def _flatten_fun(f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any
                 ) -> list[Any]:
    args, kwargs = in_tree.unflatten(leaves)
    outs, out_tree = tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return outs


@transformation_with_aux2
def _flatten_fun_nokwargs(f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any
                          ) -> list[Any]:
    outs, out_tree = tree_flatten(f(*in_tree.unflatten(leaves)))
    store.store(out_tree)
    return outs


@boundary
def flatten_fun(fun: WrappedFun, in_tree: PyTreeDef, *, use_eq_store: bool = False,
                unk_names: bool = False) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """A function of pytrees as a function of leaves.

    Args:
      fun: a `WrappedFun` (`mjax_ext.linear_util.wrap_init`).
      in_tree: the structure of `(args, kwargs)`.
      use_eq_store: whether it may run again if the structure of its results is the same.
      unk_names: whether the names of arguments and results are not kept.

    Returns:
      A function of the leaves, whose results are leaves; and a function that gives the structure
      of the results, once the first has run.

    Raises:
      TypeError: `fun` is not a `WrappedFun`.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> leaves, tree = mjax.tree.flatten((({"x": 1, "y": 2},), {}))
      >>> fun = lu.wrap_init(lambda d: (d["y"], [d["x"]]))
      >>> fun, out_tree = mjax.api_util.flatten_fun(fun, tree)
      >>> fun.call_wrapped(*leaves), out_tree()
      ([2, 1], PyTreeDef((*, [*])))

    Source: JAX, `jax.api_util.flatten_fun`.
    """
    found: tuple[WrappedFun, Callable[[], PyTreeDef]] = _flatten_fun(
        fun, in_tree, use_eq_store=use_eq_store, unk_names=unk_names)
    return found


@boundary
def flatten_fun_nokwargs(fun: WrappedFun, in_tree: PyTreeDef, *, use_eq_store: bool = False,
                         unk_names: bool = False
                         ) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """`flatten_fun` of functions without keyword arguments.

    Args:
      fun: a `WrappedFun`.
      in_tree: the structure of the tuple of arguments.
      use_eq_store, unk_names: as for `flatten_fun`.

    Returns:
      The function of leaves, and a function that gives the structure of the results.

    Raises:
      TypeError: `fun` is not a `WrappedFun`.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> leaves, tree = mjax.tree.flatten((3, [4]))
      >>> fun, out_tree = mjax.api_util.flatten_fun_nokwargs(
      ...   lu.wrap_init(lambda x, y: {"sum": x + y[0]}), tree)
      >>> fun.call_wrapped(*leaves), out_tree()
      ([7], PyTreeDef({'sum': *}))

    Source: JAX, `jax.api_util.flatten_fun_nokwargs`.
    """
    found: tuple[WrappedFun, Callable[[], PyTreeDef]] = _flatten_fun_nokwargs(
        fun, in_tree, use_eq_store=use_eq_store, unk_names=unk_names)
    return found


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False,
                 tupled_args: bool = False) -> list[Any]:
    """An axis, or another specification, for each leaf of a structure.

    Args:
      name: the name of the specification, for messages.
      treedef: the structure.
      axis_tree: a tree prefix of it; None is a leaf.
      kws: whether both are pairs of positional and keyword arguments, of which messages leave out
        the latter.
      tupled_args: whether the structure is that of a tuple of arguments, for messages.

    Returns:
      A list, an entry for each leaf.

    Raises:
      ValueError: it is not a tree prefix.

    Example:
      >>> tree = mjax.tree.structure(({"x": 1, "y": 2}, 3))
      >>> mjax.api_util.flatten_axes("in_axes", tree, (0, None))
      [0, 0, None]

    Source: JAX, `jax.api_util.flatten_axes`.
    """
    try:
        return prefix_leaves(name, axis_tree, treedef, "the corresponding value", _is_none)
    except ValueError as error:
        if kws:
            treedef, axis_tree = treedef.children()[0], axis_tree[0]
        if tupled_args and type(axis_tree) is not tuple:
            error.add_note(f"{name} that is not one value for all arguments is a tuple with an "
                           "entry for each argument: write (spec,) for a single argument.")
        raise


def _is_none(x: Any) -> bool:
    return x is None


# ---- arguments by number -----------------------------------------------------------------


class _Fixed:
    """An argument that is held fixed: equal to others of its type and value."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = val

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and type(self.val) is type(other.val) and bool(
            self.val == other.val)

    def __hash__(self) -> int:
        return hash(self.val)


@transformation2
def _with_fixed(f: Callable[..., Any], places: tuple[int, ...], fixed: tuple[_Fixed, ...],
                *args: Any, **kwargs: Any) -> Any:
    given, rest = dict(zip(places, args, strict=True)), iter(fixed)
    return f(*[given[i] if i in given else next(rest).val
               for i in range(len(given) + len(fixed))], **kwargs)


@boundary
def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any],
                    require_static_args_hashable: bool = True
                    ) -> tuple[WrappedFun, tuple[Any, ...]]:
    """A function of some of its arguments, the others held fixed.

    Args:
      f: a `WrappedFun`.
      dyn_argnums: the positions of the arguments that it still takes; negative from the end.
      args: all arguments.
      require_static_args_hashable: whether those held fixed must be hashable, as the keys of
        caches are.

    Returns:
      The function, and the arguments that it takes.

    Raises:
      ValueError: a position does not exist; an argument held fixed is not hashable.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> fun, taken = mjax.api_util.argnums_partial(lu.wrap_init(lambda x, n: x * n), 0, (2, 3))
      >>> taken, fun.call_wrapped(10)
      ((2,), 30)

    Source: JAX, `jax.api_util.argnums_partial`.
    """
    places = tuple(_place(i, len(args)) for i in _integers(dyn_argnums))
    fixed = [(i, arg) for i, arg in enumerate(args) if i not in places]
    if require_static_args_hashable:
        for i, arg in fixed:
            if not isinstance(arg, Hashable) or not _hashable(arg):
                msg = (f"argument {i} of {f.__name__}, of type {type(arg).__name__}, is held fixed "
                       "but not hashable, so that no cache would find the function again. Pass "
                       "a tuple for a list, or name the argument in dyn_argnums.")
                raise ValueError(msg)
    return (_with_fixed(f, places, tuple(_Fixed(arg) for _, arg in fixed)),
            tuple(args[i] for i in places))


def _integers(numbers: Any) -> tuple[int, ...]:
    return (operator.index(numbers),) if hasattr(numbers, "__index__") else tuple(
        map(operator.index, numbers))


def _place(number: int, count: int) -> int:
    if not -count <= number < count:
        msg = f"argument number {number}: there are {count} positional arguments."
        raise ValueError(msg)
    return number % count


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def donation_vector(donate_argnums: Iterable[int], donate_argnames: Iterable[str],
                    in_tree: PyTreeDef, kws: bool = True) -> tuple[bool, ...]:
    """Which leaves of the arguments of a call are donated.

    Args:
      donate_argnums: positions of the arguments that are.
      donate_argnames: names of those, for arguments given by name.
      in_tree: the structure of `(args, kwargs)`.
      kws: whether it has `kwargs`; else it is that of `args`.

    Returns:
      A tuple of bools.

    Raises:
      TypeError: `donate_argnums` or `donate_argnames` is not iterable, or has an entry that is not
        hashable.
      ValueError: `kws` is true, and `in_tree` is a tuple of other than two parts.
      AttributeError: `in_tree` is not a `PyTreeDef`.

    Example:
      >>> tree = mjax.tree.structure(((1, [2, 3]), {"k": 4}))
      >>> mjax.api_util.donation_vector((1,), (), tree)
      (False, True, True, False)

    Source: JAX, `jax.api_util.donation_vector`.
    """
    numbers, names = set(donate_argnums), set(donate_argnames)
    filled = in_tree.unflatten(range(in_tree.num_leaves))
    args, kwargs = filled if kws else (filled, {})
    parts = [*((i in numbers, arg) for i, arg in enumerate(args)),
             *((name in names, kwargs[name]) for name in sorted(kwargs))]
    return tuple(donated for donated, part in parts for _ in tree_leaves(part))


def rebase_donate_argnums(donate_argnums: Iterable[int], static_argnums: Iterable[int]
                          ) -> tuple[int, ...]:
    """Positions of donated arguments among those that are not static, sorted.

    Args:
      donate_argnums: positions of donated arguments.
      static_argnums: positions of static ones.

    Returns:
      Tuples, in increasing order.

    Raises:
      ValueError: an argument is both.

    Example:
      >>> mjax.api_util.rebase_donate_argnums((3, 4), (0, 1))
      (1, 2)

    Source: JAX, `jax.api_util.rebase_donate_argnums`.
    """
    donated, static = sorted(set(donate_argnums)), sorted(set(static_argnums))
    both = sorted(set(donated) & set(static))
    if both:
        msg = f"the arguments {both} are both donated and static; a static one is not an array."
        raise ValueError(msg)
    return tuple(i - sum(s < i for s in static) for i in donated)


# ---- names, types ------------------------------------------------------------------------


def debug_info(traced_for: str, fun: Callable[..., Any], args: Sequence[Any],
               kwargs: dict[str, Any], *, static_argnums: Sequence[int] = (),
               static_argnames: Sequence[str] = (),
               result_paths_thunk: Callable[[], tuple[str, ...]] | None = None,
               sourceinfo: str | None = None, signature: inspect.Signature | None = None
               ) -> DebugInfo:
    """The names of a function and of the leaves of its arguments, for messages.

    Args:
      traced_for: the name of the transformation.
      fun: the function.
      args: its arguments, or examples of them.
      kwargs: its keyword arguments.
      static_argnums: positions of arguments without leaves.
      static_argnames: names of those given by keyword.
      result_paths_thunk: gives the paths of the results after the trace; None: not known.
      sourceinfo: the function as `name at file:line`; None: found from it.
      signature: the signature of the function; None: found from it.

    Returns:
      A `core.DebugInfo`. That of a function with an attribute `__fun_debug_info__` is this one.

    Raises:
      TypeError: `args`, `kwargs` or `static_argnums` is not iterable.
      ValueError: the keys of a dict among the arguments cannot be sorted.
      AttributeError: `signature` is not an `inspect.Signature`.

    Example:
      >>> mjax.api_util.debug_info("mine", lambda x, y: x, (1.0, {"a": 2.0}), {}).arg_names
      ('x', "y['a']")

    Source: JAX, `jax.api_util.debug_info`.
    """
    known = getattr(fun, "__fun_debug_info__", None)
    if isinstance(known, DebugInfo):
        return known
    names = _argument_names(signature or _signature(fun), args, kwargs, static_argnums,
                            static_argnames)
    paths: Any = result_paths_thunk
    return DebugInfo(traced_for, sourceinfo or fun_sourceinfo(fun), names, paths)


def fun_sourceinfo(fun: Callable[..., Any]) -> str:
    """A function as `name at file:line`, or its name alone.

    Args:
      fun: the function.

    Returns:
      A string.

    Raises:
      ValueError: the `__wrapped__` attributes of functions form a cycle.

    Example:
      >>> from mjax_ext import api_util
      >>> api_util.fun_sourceinfo(len)
      'len'

    Source: JAX, `jax._src.api_util.fun_sourceinfo`.
    """
    return describe_function(fun)


def _signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


_STATIC = object()


def _argument_names(signature: inspect.Signature | None, args: Sequence[Any],
                    kwargs: dict[str, Any], static_argnums: Sequence[int],
                    static_argnames: Sequence[str]) -> tuple[str, ...]:
    """Names of the leaves of the arguments that are not static: positional ones first."""
    static = {i % len(args) for i in static_argnums if -len(args) <= i < len(args)}
    given = [_STATIC if i in static else arg for i, arg in enumerate(args)]
    named = {name: kwargs[name] for name in sorted(kwargs) if name not in static_argnames}
    places, rest = [("args", given)], "kwargs"
    own: set[str] = set()
    if signature is not None:
        try:
            bound = signature.bind(*given, **kwargs)
        except TypeError:
            pass
        else:
            rest = next((p.name for p in signature.parameters.values()
                         if p.kind is p.VAR_KEYWORD), "kwargs")
            own = {*bound.arguments} - {rest}
            places = [(name, bound.arguments[name]) for name in bound.arguments
                      if name not in kwargs and name != rest]
    places += [(name if name in own else f"{rest}[{name!r}]", value)
               for name, value in named.items()]
    return tuple(name + keystr(path) for name, value in places
                 for path, leaf in tree_flatten_with_path(value)[0] if leaf is not _STATIC)


def infer_argnums_and_argnames(sig: inspect.Signature, argnums: int | Iterable[int] | None,
                               argnames: str | Iterable[str] | None
                               ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of arguments, of which a user gave one or both.

    Args:
      sig: the signature of the function.
      argnums: numbers; None: those of the names.
      argnames: names; None: those of the numbers.

    Returns:
      Two tuples: the numbers and the names.

    Raises:
      TypeError: `argnums` is neither an integer nor an iterable of integers, or `argnames` is
        neither a string nor iterable.
      AttributeError: `sig` is not a signature.

    Example:
      >>> import inspect
      >>> from mjax_ext import api_util
      >>> sig = inspect.signature(lambda x, n, *, m: x)
      >>> api_util.infer_argnums_and_argnames(sig, None, ("n", "m"))
      ((1,), ('n', 'm'))

    Source: JAX, `jax._src.api_util.infer_argnums_and_argnames`.
    """
    numbers = None if argnums is None else _integers(argnums)
    names = None if argnames is None else (
        (argnames,) if isinstance(argnames, str) else tuple(argnames))
    by_both = [(i, p.name) for i, p in enumerate(sig.parameters.values())
               if p.kind is p.POSITIONAL_OR_KEYWORD]
    if numbers is None:
        numbers = tuple(i for i, name in by_both if names is not None and name in names)
    if names is None:
        names = tuple(name for i, name in by_both if i in numbers)
    return numbers, names


def shaped_abstractify(x: Any) -> AbstractValue:
    """The type of a value, or of an object with the `shape` and `dtype` of an array.

    Args:
      x: an array, a tracer, a number, a type, or an object such as `ShapeDtypeStruct`.

    Returns:
      An abstract value.

    Raises:
      TypeError: it is none of these.

    Example:
      >>> mjax.api_util.shaped_abstractify(mjax.ShapeDtypeStruct((2,), "float32"))
      ShapedArray(float32[2])

    Source: JAX, `jax.api_util.shaped_abstractify`.
    """
    found: AbstractValue = aval_of(x)
    return found


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`map` over sequences of one length, as a list.

    Args:
      f: a function of one element of each.
      args: the sequences.

    Returns:
      A list.

    Raises:
      ValueError: their lengths differ.

    Example:
      >>> mjax.api_util.safe_map(max, [1, 5], (3, 4))
      [3, 5]

    Source: JAX, `jax.api_util.safe_map`.
    """
    return [f(*values) for values in safe_zip(*args)]


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` of sequences of one length, as a list.

    Args:
      args: the sequences.

    Returns:
      A list.

    Raises:
      ValueError: their lengths differ.

    Example:
      >>> from mjax_ext import util
      >>> util.safe_zip([1, 2], "ab")
      [(1, 'a'), (2, 'b')]

    Source: JAX, `jax.util.safe_zip`, before release 0.10.
    """
    lists = list(map(list, args))
    if len({len(values) for values in lists}) > 1:
        raise LazyValueError(lambda: (
            f"sequences of different lengths: {', '.join(str(len(values)) for values in lists)}."))
    return list(zip(*lists, strict=True))
