"""Public functions for loops: `scan`, `map`, `while_loop`, `fori_loop`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from mjax._engine.base.errors import (
    ConcretizationTypeError,
    LazyArgumentError,
    LazyTypeError,
    LazyValueError,
)
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import C, X, Y
from mjax._engine.base.thread import thread
from mjax._engine.control.loops import scan_frame as _scan_frame  # noqa: F401  # rules of scan
from mjax._engine.control.loops import while_frame as _while_frame  # noqa: F401  # rules of while
from mjax._engine.control.loops.scan import Loop, bind_scan, rearranged
from mjax._engine.control.loops.while_loop import Parts, bind_while
from mjax._engine.control.trace_body import (
    Body,
    Typed,
    agree,
    derived,
    differences,
    promote_weak,
    stage_body,
)
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import max_dim
from mjax._engine.ir.pytree import (
    is_one_leaf,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_structure,
    treedef_tuple,
)
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add, lt
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.joining import concatenate_p
from mjax._engine.primitives.shapes import expand_dims, reshape_p
from mjax._engine.primitives.slicing import index_in_dim, slice_in_dim
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import check_aliases
from mjax._engine.transforms.batching import element_type
from mjax._engine.transforms.vmap import vmap

# ---- scan ------------------------------------------------------------------------------


@overload
def scan(f: Callable[[Any, X], tuple[Any, Y]], init: complex, xs: X | None = None,
         length: int | None = None, reverse: bool = False, unroll: int | bool = 1,
         _split_transpose: bool = False) -> tuple[Any, Y]: ...
@overload
def scan(f: Callable[[C, X], tuple[C, Y]], init: C, xs: X | None = None,
         length: int | None = None, reverse: bool = False, unroll: int | bool = 1,
         _split_transpose: bool = False) -> tuple[C, Y]: ...
@boundary
def scan(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None,
         length: int | None = None, reverse: bool = False, unroll: int | bool = 1,
         _split_transpose: bool = False) -> tuple[Any, Any]:
    """Applies a function along the leading axes of arrays, and passes on a carry.

    It means `for x in xs: carry, y = f(carry, x); ys.append(y)`. It compiles `f` once, and can be
    differentiated in both modes.

    Args:
      f: from a carry and a slice of `xs` to a pair `(new carry, y)`. The carry keeps its
        structure, shapes and dtypes.
      init: the first carry, a pytree of arrays.
      xs: a pytree of arrays with a common leading axis, or None.
      length: the number of iterations; optional if `xs` determines it.
      reverse: whether to go from the last slice to the first; `ys` keep the places of their
        `xs`.
      unroll: the number of iterations per step of the compiled loop; True or 0: all of them.
      _split_transpose: accepted for compatibility; the transposed loop is split whenever that
        saves memory.

    Returns:
      The last carry, and the `y`s stacked along a new leading axis.

    Raises:
      TypeError: the carry changes its type; `f` does not return a pair; leaves that are not arrays.
      ValueError: leading axes that differ, or an unknown length.

    Example:
      >>> mjax.lax.scan(lambda c, x: (c + x, c * x), 0, mjax.numpy.arange(4))
      (Array(6, dtype=int32), Array([0, 0, 2, 9], dtype=int32))

    Source: the public interface of `jax.lax.scan`.
    """
    check_callable("scan", f)
    check_arguments("scan", init, "init")
    check_arguments("scan", xs, "xs")
    n = _common_length("scan", xs, length)
    loop = Loop(n, bool(reverse), _unrolled("scan", unroll, n))
    return _scan("scan", f, f, init, xs, loop)


def _scan(who: str, f: Callable[..., Any], users: Callable[..., Any], init: Any, xs: Any,
          loop: Loop, own: int = 0, again: bool = False) -> Any:
    """Stages the body and binds the primitive.

    Args:
      who: the public function, for messages.
      f: the body.
      users: the user's function, from which the body may be derived.
      init: the first carry.
      xs: the arrays to scan over.
      loop: the params.
      own: the number of leading carries that do not belong to the user.
      again: whether the body is staged in each call.
    """
    carry, carry_tree = tree_flatten(init)
    leaves, xs_tree = tree_flatten(xs)
    if thread.settings.disable_jit and loop.length and not any(
            is_reference(typeof(leaf)) or typeof(leaf).is_high for leaf in leaves):
        return _python_scan(f, init, leaves, xs_tree, loop)
    in_tree = treedef_tuple([treedef_tuple([carry_tree, xs_tree]), tree_structure({})])
    rows = [element_type(typeof(leaf), 0, loop.length) for leaf in leaves]

    def stage(carry: Sequence[Any]) -> tuple[Body, list[Any] | None]:
        body = stage_body(who, f, in_tree, [*(typeof(c) for c in carry), *rows],
                          None if users is f else users, again=again)
        after_tree, _ = _pair_of(who, users, body)
        start = Typed("the initial carry", carry_tree, [typeof(c) for c in carry])
        after = Typed("what the body returns", after_tree,
                      body.jaxpr.out_avals[:after_tree.num_leaves])
        return body, _promoted(who, users, start, after, carry, own)

    body, promoted = stage(carry)
    if promoted is not None:
        carry = promoted
        body, _ = stage(carry)
    return body.out_tree.unflatten(_bind_forwarding(body, carry, leaves, loop))


def _unrolled(who: str, unroll: int | bool, length: int) -> int:
    if is_symbolic_dim(length):
        if unroll not in (False, 1):
            raise LazyValueError(lambda: (
                f"{who}: unroll={unroll!r} needs a length that is a number; it is the symbolic "
                f"dimension {length}."))
        return 1
    if isinstance(unroll, (bool, np.bool_)):
        return max(length, 1) if unroll else 1
    if not hasattr(unroll, "__index__") or operator.index(unroll) < 0:
        msg = f"{who}: unroll must be a bool or an int that is not negative, got {unroll!r}."
        raise ValueError(msg)
    return operator.index(unroll) or max(length, 1)


def _as_length(who: str, length: Any) -> int:
    """The number of iterations from the user; a whole float is accepted."""
    def text() -> str:
        return (f"{who}: length must be a Python int, got {length!r}. The number of iterations is "
                "part of the program: mark it static, or use while_loop.")

    if is_symbolic_dim(length):
        return length
    if isinstance(length, Tracer):
        raise ConcretizationTypeError(text)
    try:
        return operator.index(int(length) if length == int(length) else length)
    except (TypeError, ValueError, OverflowError):
        raise LazyArgumentError(text) from None


def _common_length(who: str, xs: Any, length: Any = None) -> int:
    if length is not None:
        length = _as_length(who, length)
        if length < 0:
            msg = f"{who}: length must not be negative, got {length}."
            raise ValueError(msg)
    sizes, unknown = {}, []
    for path, leaf in tree_flatten_with_path(xs)[0]:
        aval = typeof(leaf)
        if aval.is_high:
            unknown.append(f"xs{keystr(path)}")
            continue
        shape = aval.shape
        if not shape:
            msg = (f"{who}: xs{keystr(path)} is a scalar of type {typeof(leaf)}; every leaf of xs "
                   "needs a leading axis to scan over. Close over values that do not change.")
            raise ValueError(msg)
        sizes[keystr(path)] = shape[0]
    found = set(sizes.values()) | ({length} if length is not None else set())
    if len(found) == 1:
        return found.pop()
    if not found:
        say = "; say the number of iterations by length" if who == "scan" else ""
        lacks = f"the type of {unknown[0]} does not tell" if unknown else "xs has no leaves to go"
        msg = f"{who}: {lacks} {'their number' if unknown else 'over'}{say}."
        raise ValueError(msg)
    shown = ", ".join(f"xs{path} has {size}" for path, size in sizes.items())
    said = f"length is {length}, but " if length is not None else ""
    msg = f"{who}: the leading axes must have one size: {said}{shown}."
    raise ValueError(msg)


def _pair_of(who: str, f: Any, body: Body) -> list[Any]:
    """The structures of a body's two results."""
    if type(body.results()) not in (tuple, list) or len(body.out_tree.children()) != 2:
        raise LazyTypeError(lambda: (
            f"{who}: the body {describe_function(f)} must return a pair (carry, y), but it "
            f"returned {body.results()!r}."))
    return body.out_tree.children()


def _promoted(who: str, f: Any, start: Typed, after: Typed, carry: Sequence[Any], own: int
              ) -> list[Any] | None:
    """None if the carry keeps its type; if weak types became strong, the promoted start.

    Raises:
      TypeError: the carry changes otherwise.
    """
    if agree(start, after):
        return None
    promoted = promote_weak(carry, after.avals) if start.tree == after.tree else None
    if promoted is None:
        if own:
            start, after = (Typed(t.name, t.tree.children()[-1], t.avals[own:])
                            for t in (start, after))
        raise LazyTypeError(lambda: (
            f"{who}: the carry must keep its structure and types from one iteration to the next, "
            f"but {describe_function(f)} changes it:\n{differences(start, after, 'carry')}"))
    return promoted


def _bind_forwarding(body: Body, carry: Sequence[Any], xs: Sequence[Any], loop: Loop
                     ) -> list[Any]:
    """Applies `scan` without values that the body only passes on.

    A carry that never changes becomes a const, so it is not stacked as a residual. A `y` that
    equals an `x` is that operand itself.
    """
    jaxpr, nc, nk = body.jaxpr, len(body.consts), len(carry)
    place: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    forwarded: dict[int, Any] = {}
    operands = [*body.consts, *carry, *xs]
    check_aliases(lambda: jaxpr.debug_info, operands)
    for i, out in enumerate(jaxpr.outvars):
        source = place.get(out, -1)
        if source == nc + i if i < nk else source >= nc + nk:
            forwarded[i] = _as_array(operands[source])
    if not forwarded:
        return bind_scan(jaxpr, nc, nk, operands, loop)
    fixed = [nc + i for i in forwarded if i < nk]
    moving = [nc + i for i in range(nk) if i not in forwarded]
    ins = [*range(nc), *fixed, *moving, *range(nc + nk, len(operands))]
    kept = [i for i in range(len(jaxpr.outvars)) if i not in forwarded]
    smaller = jaxpr.cached(("scan_forwarding", tuple(ins), tuple(kept)),
                           lambda: rearranged(jaxpr, ins, kept))
    outs = iter(bind_scan(smaller, nc + len(fixed), len(moving), [operands[i] for i in ins], loop))
    return [forwarded[i] if i in forwarded else next(outs) for i in range(len(jaxpr.outvars))]


def _as_array(x: Any) -> Any:
    """A value as a result, converted to an array if necessary."""
    aval = typeof(x)
    return convert(x, aval.dtype, aval.weak_type) if isinstance(aval, ShapedArray) else x


def _python_scan(f: Any, init: Any, leaves: Sequence[Any], xs_tree: Any, loop: Loop) -> Any:
    """The loop in Python, for debugging under `disable_jit`."""
    carry, ys = init, []
    for i in reversed(range(loop.length)) if loop.reverse else range(loop.length):
        carry, y = f(carry, xs_tree.unflatten(index_in_dim(x, i, 0, False) for x in leaves))
        ys.append(y)
    if loop.reverse:
        ys.reverse()
    return carry, tree_map(lambda *rows: concatenate_p.bind(
        *(expand_dims(row, (0,)) for row in rows), dimension=0), *ys)


@boundary
def map(f: Callable[[X], Y], xs: X, *, batch_size: int | None = None) -> Y:
    """Applies a function to each slice along the leading axes, one after the other.

    If there is enough memory, `vmap` is faster; `batch_size` is a compromise.

    Args:
      f: a function of one pytree.
      xs: a pytree of arrays with a common leading axis.
      batch_size: the number of slices to compute at once, by `vmap`; the rest is computed by
        itself. None or 0: one by one.

    Returns:
      The results stacked along a new leading axis.

    Raises:
      TypeError: the first argument is not a function.

    Example:
      >>> mjax.lax.map(lambda x: x * x, mjax.numpy.arange(3))
      Array([0, 1, 4], dtype=int32)
    """
    check_callable("map", f)
    check_arguments("map", xs, "xs")
    n = _common_length("map", xs)
    if batch_size is None or batch_size == 0:
        return _scan("map", derived(_step_of_map, f), f, (), xs, Loop(n, False, 1),
                     again=True)[1]
    if not hasattr(batch_size, "__index__") or operator.index(batch_size) < 1:
        raise LazyArgumentError(lambda: (
            f"map: batch_size must be a positive int, 0 or None, got {batch_size!r}."))
    size = min(operator.index(batch_size), max(n, 1))
    whole, many = n - n % size, derived(_vmapped, f)
    parts = []
    if whole or not n:
        blocks = tree_map(lambda x: _blocks(slice_in_dim(x, 0, whole), whole // size, size), xs)
        done = _scan("map", derived(_step_of_map, many), f, (), blocks,
                     Loop(whole // size, False, 1), again=True)[1]
        parts.append(tree_map(lambda y: reshape_p.bind(
            y, new_sizes=(whole, *y.shape[2:]), dimensions=None), done))
    if whole < n:
        parts.append(many(tree_map(lambda x: slice_in_dim(x, whole, n), xs)))
    return parts[0] if len(parts) == 1 else tree_map(
        lambda *rows: concatenate_p.bind(*rows, dimension=0), *parts)


def _step_of_map(f: Callable[[], Any]) -> Callable[..., Any]:
    return lambda _, x: ((), f()(x))


def _vmapped(f: Callable[[], Any]) -> Callable[..., Any]:
    return vmap(lambda x: f()(x))


def _blocks(x: Any, count: int, size: int) -> Any:
    return reshape_p.bind(x, new_sizes=(count, size, *typeof(x).shape[1:]), dimensions=None)


# ---- while and for ---------------------------------------------------------------------


@overload
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: complex
               ) -> Any: ...
@overload
def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C) -> C: ...
@boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
               ) -> Any:
    """Repeats a function on a value as long as a condition holds.

    It means `while cond_fun(val): val = body_fun(val)`. Forward mode goes through it;
    reverse mode cannot (use `scan`, or a bounded `fori_loop`).

    Args:
      cond_fun: from the value to a boolean scalar.
      body_fun: from the value to the next, of the same structure, shapes and dtypes.
      init_val: the first value, a pytree of arrays.

    Returns:
      The first value for which the condition does not hold.

    Raises:
      TypeError: the body changes the value's type; the condition is not a boolean scalar.

    Example:
      >>> mjax.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
      Array(192, dtype=int32, weak_type=True)
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    check_arguments("while_loop", init_val, "init_val")
    return _while("while_loop", cond_fun, body_fun, body_fun, init_val)


def _while(who: str, cond_fun: Callable[..., Any], body_fun: Callable[..., Any],
           users: Callable[..., Any], init_val: Any, own: int = 0) -> Any:
    """Stages condition and body, and binds the primitive; arguments are as for `_scan`."""
    if thread.settings.disable_jit:
        goes_on = cond_fun(init_val)
        if not isinstance(goes_on, Tracer) or goes_on.concrete() is not None:
            return _python_while(goes_on, cond_fun, body_fun, init_val)
    carry, tree = tree_flatten(init_val)
    in_tree = treedef_tuple([treedef_tuple([tree]), tree_structure({})])

    def stage(carry: Sequence[Any]) -> tuple[Body, list[Any] | None]:
        body = stage_body(who, body_fun, in_tree, [typeof(c) for c in carry],
                          None if users is body_fun else users)
        start = Typed("the initial value", tree, [typeof(c) for c in carry])
        after = Typed("what the body returns", body.out_tree, body.jaxpr.out_avals)
        return body, _promoted(who, users, start, after, carry, own)

    body, promoted = stage(carry)
    if promoted is not None:
        carry = promoted
        body, _ = stage(carry)
    cond = stage_body(who, cond_fun, in_tree, [typeof(c) for c in carry])
    _check_predicate(cond_fun, cond)
    outs = bind_while(cond.jaxpr, body.jaxpr, Parts(cond.consts, body.consts, list(carry)))
    return body.out_tree.unflatten(outs)


def _check_predicate(cond_fun: Any, cond: Body) -> None:
    avals = cond.jaxpr.out_avals
    if not is_one_leaf(cond.out_tree) or avals[0].shape or avals[0].dtype != np.dtype(bool):
        raise LazyTypeError(lambda: (
            f"while_loop: cond_fun must return a boolean scalar, but {describe_function(cond_fun)} "
            f"returned {cond.results()!r}. Compare, or reduce an array with .any() or .all()."))


def _python_while(goes_on: Any, cond_fun: Any, body_fun: Any, value: Any) -> Any:
    """The loop in Python, for debugging under `disable_jit`."""
    while goes_on:
        value = body_fun(value)
        goes_on = cond_fun(value)
    return tree_map(_as_array, value)


@overload
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: complex, *,
              unroll: int | bool | None = None) -> Any: ...
@overload
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, C], C], init_val: C, *,
              unroll: int | bool | None = None) -> C: ...
@boundary
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *,
              unroll: int | bool | None = None) -> Any:
    """Repeats a function for each number from `lower` up to, but not including, `upper`.

    It means `for i in range(lower, upper): val = body_fun(i, val)`. If the bounds are known when it
    is traced, it is a `scan`, which reverse mode can differentiate. Otherwise it is a `while_loop`.

    Args:
      lower: the first number, an integer scalar.
      upper: the end, of the same dtype.
      body_fun: from the number and the value to the next value, of the same type.
      init_val: the first value, a pytree of arrays.
      unroll: as in `scan`; needs bounds that are known.

    Returns:
      The last value.

    Raises:
      TypeError: the body changes the value's type; bounds that are not integers.
      ValueError: `unroll` with bounds that are not known.

    Example:
      >>> mjax.lax.fori_loop(0, 5, lambda i, x: x + i, 0)
      Array(10, dtype=int32, weak_type=True)
    """
    check_callable("fori_loop", body_fun)
    check_arguments("fori_loop", init_val, "init_val")
    dtype = _counter_dtype(lower, upper)
    first, last = _static(lower), _static(upper)
    if first is not None and last is not None:
        length = max_dim(last - first, 0)
        loop = Loop(length, False, _unrolled(
            "fori_loop", False if unroll is None else unroll, length))
        return _scan("fori_loop", derived(_step_of_fori, body_fun), body_fun, (first, init_val),
                     None, loop, own=1)[0][1]
    if unroll not in (None, False, 1):
        msg = "fori_loop: unroll needs bounds that are known when it is traced."
        raise ValueError(msg)
    bounds = [b if typeof(b).dtype == dtype else convert(b, dtype) for b in (lower, upper)]
    return _while("fori_loop", _before_end, derived(_body_of_fori, body_fun), body_fun,
                  (*bounds, init_val), own=2)[2]


def _counter_dtype(lower: Any, upper: Any) -> Any:
    """The common dtype of the bounds; only Python numbers take that of the other bound."""
    bounds = typeof(lower), typeof(upper)
    for name, aval in zip(("lower", "upper"), bounds, strict=True):
        if aval.shape or not dtypes.is_integer(aval.dtype):
            msg = f"fori_loop: {name} must be an integer scalar, got one of type {aval}."
            raise TypeError(msg)
    found = {a.dtype for a in bounds}
    if len(found) == 2 and not any(dtypes.kind(dtype) == "u" for dtype in found):
        found = {a.dtype for a in bounds if not a.weak_type}
    if len(found) != 1:
        msg = (f"fori_loop: lower and upper must have the same dtype, got {bounds[0]} and "
               f"{bounds[1]}; convert one of them with .astype.")
        raise TypeError(msg)
    return found.pop()


def _static(bound: Any) -> int | None:
    """The bound as an int if it is known."""
    if isinstance(bound, Tracer):
        bound = bound.concrete()
    if is_symbolic_dim(bound):
        return bound
    return None if bound is None or isinstance(bound, Tracer) else int(bound)


def _next(i: Any) -> Any:
    return add(i, constant_like(i, 1))


def _step_of_fori(f: Callable[[], Any]) -> Callable[..., Any]:
    def step(carry: Any, _: Any) -> Any:
        i, value = carry
        return (_next(i), f()(i, value)), None

    return step


def _body_of_fori(f: Callable[[], Any]) -> Callable[..., Any]:
    def body(carry: Any) -> Any:
        i, end, value = carry
        return _next(i), end, f()(i, value)

    return body


def _before_end(carry: Any) -> Any:
    return lt(carry[0], carry[1])


__all__ = ["fori_loop", "map", "scan", "while_loop"]
