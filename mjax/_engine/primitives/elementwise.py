"""Types, broadcasting, lowering and batching of elementwise primitives.

Operands have one dtype and equal shapes, except that scalars (shape `()`) and axes of
size 1 stretch to the others' sizes. The tables of operations are in `arithmetic` and `special`;
`convert` and `select` hold those that need rules of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.thread import thread
from mjax._engine.base.util import counted
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import NO_PARAMS
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof
from mjax._engine.primitives.accuracy import accuracy_attributes, accuracy_params
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.emit import broadcast_ir, hlo, ir_type, op
from mjax._engine.primitives.shapes import (
    broadcast_in_dim_p,
    moveaxis,
    reduce_sum,
    reshape,
    scalar_of,
)
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjaxlib_shim.mlir import folds_nan_right

#: Names of sets of dtype kinds, for messages.
KIND_NAMES = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating",
              "c": "complex", "X": "key"}


def broadcast_types(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The common shape of operands: equal ranks, where scalars and sizes of 1 stretch.

    Raises:
      TypeError: the shapes do not fit.
    """
    shapes = [a.shape for a in avals if a.shape]
    if not shapes:
        return ()
    first = shapes[0]
    if all(s == first for s in shapes):
        return first

    def refuse() -> str:
        listed = ", ".join(str(a.shape) for a in avals)
        return (f"{name} got operands of shapes {listed}: they must be equal, or scalars, or of "
                f"equal rank with sizes of 1 where they differ. (mjax.numpy functions broadcast "
                "as NumPy does.)")

    if any(len(s) != len(first) for s in shapes):
        raise LazyTypeError(refuse)
    out = []
    for sizes in zip(*shapes, strict=True):
        distinct = {n for n in sizes if n != 1}
        if len(distinct) > 1:
            raise LazyTypeError(refuse)
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def check_kinds(name: str, aval: ShapedArray, kinds: str, position: int = 0) -> None:
    """Refuses an operand whose dtype is not of the given kinds."""
    if dtypes.kind(aval.dtype) not in kinds:
        where = f" as operand {position}" if position else ""
        accepted = ", ".join(KIND_NAMES[k] for k in kinds)
        msg = f"{name} does not accept dtype {aval.dtype}{where}. Accepted dtypes: {accepted}."
        raise TypeError(msg)


def define_elementwise(name: str, kinds: str | Sequence[str], lowering: Any,
                       result: Callable[[Any], Any] | None = None,
                       params: Mapping[str, Any] = NO_PARAMS) -> Primitive:
    """A primitive that works element by element, with type, lowering and batching rules.

    Args:
      name: its name.
      kinds: accepted dtype kinds, one string per operand; one string for a unary one.
      lowering: the name of a StableHLO or CHLO operation, or `(ctx, *operands, **params) ->
        values` on operands already broadcast to the result's shape.
      result: result dtype from that of the first operand; the same by default.
      params: its schema.
    """
    primitive = EnginePrimitive(name, params=params)
    operands = (kinds,) if isinstance(kinds, str) else tuple(kinds)

    @primitive.def_abstract_eval
    def type_rule(*avals: ShapedArray, **params: Any) -> ShapedArray:
        if len(avals) != len(operands):
            msg = f"{name} takes {counted(len(operands), 'operand')}, got {len(avals)}."
            raise TypeError(msg)
        for position, (aval, accepted) in enumerate(zip(avals, operands, strict=True)):
            check_kinds(name, aval, accepted, position if len(operands) > 1 else 0)
        dtype = avals[0].dtype
        if any(a.dtype != dtype for a in avals):
            msg = (f"{name} requires arguments to have the same dtypes, got "
                   f"{', '.join(str(a.dtype) for a in avals)}. (The function of mjax.numpy "
                   "promotes its arguments.)")
            raise TypeError(msg)
        out = result(dtype) if result else dtype
        return ShapedArray(broadcast_types(name, avals), out, all(a.weak_type for a in avals))

    define_elementwise_lowering(primitive, lowering)
    define_elementwise_batching(primitive)
    return primitive


def define_elementwise_lowering(primitive: Primitive, lowering: Any) -> None:
    """Sets a lowering that is given its operands broadcast to the result's shape."""
    def operation(ctx: Any, *operands: Any, accuracy: Any = None) -> Any:
        return op(lowering, ctx.out_types, broadcast_operands(ctx, operands),
                  accuracy_attributes(accuracy))

    def function(ctx: Any, *operands: Any, **params: Any) -> Any:
        return lowering(ctx, *broadcast_operands(ctx, operands), **params)

    if isinstance(lowering, str):
        primitive.def_lowering(operation)
    else:
        function.__wrapped__ = lowering  # type: ignore[attr-defined]
        primitive.def_lowering(function)


def keeping_nan(lowering: Any) -> Callable[..., Any]:
    """A lowering of a function of one operand that is computed by an exponential.

    LLVM folds exponentials of literal NaNs, which may reach them through `where`, to any value. So
    programs with such literals select: NaN stays NaN.

    Args:
      lowering: the name of an operation, or a function.
    """

    def lower(ctx: Any, x: Any, *, accuracy: Any = None) -> Any:
        out, = (op(lowering, ctx.out_types, [x], accuracy_attributes(accuracy))
                if isinstance(lowering, str) else lowering(ctx, x, accuracy=accuracy))
        module, dtype = ctx.module_context, ctx.avals_in[0].dtype
        if not module.has_nan or dtypes.is_complex(dtype) or folds_nan_right(module.platform):
            return [out]
        return [hlo.select(compare_ir(x, x, "NE", dtype), x, out)]

    return lower


def broadcast_operands(ctx: Any, operands: Sequence[Any]) -> list[Any]:
    """Operands broadcast to the shape of the first result, inside a lowering rule."""
    shape = ctx.avals_out[0].shape
    out = []
    for value, aval in zip(operands, ctx.avals_in, strict=True):
        if aval.shape != shape:
            stretched = aval.update(shape=shape)
            # The element axes of extended dtypes are the last ones.
            sizes = physical_aval(stretched).shape
            dims = range(len(sizes)) if aval.shape else range(len(shape), len(sizes))
            value = broadcast_ir(ir_type(stretched), sizes, value, dims)
        out.append(value)
    return out


def define_elementwise_batching(primitive: Primitive) -> None:
    """Sets the batching rule that all elementwise primitives share."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        args, dim = align_batches(args, dims)
        return primitive.bind(*args, **params), dim

    primitive.define("batch", batch, derived=True)


def align_batches(args: Sequence[Any], dims: Sequence[int | None]
                  ) -> tuple[Sequence[Any], int | None]:
    """Elementwise operands with their batch axes at one position, and that position.

    Operands stay in place if all batched ones agree and the others are scalars.
    """
    if len(args) == 1:
        return args, dims[0]
    ndims = [typeof(a).ndim for a in args]
    batched = {(d, n) for d, n in zip(dims, ndims, strict=True) if d is not None}
    if len(batched) == 1:
        (dim, ndim), = batched
        rest = [n for d, n in zip(dims, ndims, strict=True) if d is None]
        if all(n == 0 for n in rest) and (ndim > 1 or not rest or dim == 0):
            return args, dim
    if not batched:
        return args, None
    rank = max(n - (d is not None) for d, n in zip(dims, ndims, strict=True))
    return [_align(a, d, n, rank) for a, d, n in zip(args, dims, ndims, strict=True)], 0


def _align(x: Any, dim: int | None, ndim: int, rank: int) -> Any:
    if dim is None:
        return reshape(x, (1, *typeof(x).shape)) if ndim else x
    x = moveaxis(x, dim, 0)
    if ndim - 1 < rank:
        x = reshape(x, (typeof(x).shape[0],) + (1,) * rank)
    return x


def unbroadcast(aval: ShapedArray, ct: Any) -> Any:
    """A cotangent summed down to the shape of an operand that was stretched."""
    shape = typeof(ct).shape
    if shape == aval.shape:
        return ct
    if not aval.shape:
        return reduce_sum(ct, tuple(range(len(shape))))
    axes = tuple(i for i, (m, n) in enumerate(zip(aval.shape, shape, strict=True)) if m != n)
    return reshape(reduce_sum(ct, axes), aval.shape)


def stretch(x: Any, shape: tuple[int, ...]) -> Any:
    """A tangent stretched to the shape of the result."""
    own = typeof(x).shape
    if own == shape:
        return x
    dims = tuple(range(len(shape))) if own else ()
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)


def constant_like(x: Any, value: Any) -> Any:
    """A scalar of the dtype of `x`, to be broadcast beside it."""
    return scalar_of(typeof(x), value)


def settling_constant(x: Any, value: Any) -> Any:
    """`constant_like`, but strongly typed for an array with axes, as results then are."""
    aval = typeof(x)
    return scalar_of(aval.strip_weak_type() if aval.shape else aval, value)


def public_function(primitive: Primitive, name: str, doc: str, args: str = "x",
                    kinds: str = "", example: str = "",
                    result: Callable[[Any], Any] | None = None) -> Any:
    """The public function of a primitive: `bind` behind an error boundary.

    Args:
      primitive: the primitive.
      name: name of the function.
      doc: its docstring.
      args: names of its arguments, as in a signature.
      kinds: accepted dtype kinds, if the docstring does not describe the arguments.
      example: arguments of a call, `->`, and the printed result.
      result: as in `define_elementwise`.

    Unary and binary ones are spelled out instead of made by `boundary` from `bind`: every traced
    operation takes this path, and each call saved is a tenth of its cost.
    """

    def unary(x: Any) -> Any:
        try:
            return thread.interpreter.process(primitive, (x,), {})
        except Exception as error:
            fold(error)
            raise

    def binary(x: Any, y: Any) -> Any:
        """

        Raises:
          TypeError: an argument is not an array or scalar.
        """
        try:
            return thread.interpreter.process(primitive, (x, y), {})
        except Exception as error:
            fold(error)
            raise

    def unary_to_an_accuracy(x: Any, *, accuracy: Any = None) -> Any:
        try:
            params = {} if accuracy is None else accuracy_params(name, accuracy)
            return thread.interpreter.process(primitive, (x,), params)
        except Exception as error:
            fold(error)
            raise

    simple = {"x": unary, "x, y": binary, "x, *, accuracy=None": unary_to_an_accuracy}
    function: Any = simple.get(args)
    if function is None:
        operands = args.removesuffix(", /")
        function = boundary(eval(f"lambda {args}: bind({operands})", {"bind": primitive.bind}))
    doc = _documentation(name, inspect.cleandoc(doc), args, kinds, example, result)
    return in_lax(function, name, doc)


def in_lax(function: Any, name: str, doc: str) -> Any:
    """A function made by a table, with its name in `mjax.lax`."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "mjax.lax"
    function.__doc__ = doc
    return function


def _returned(args: str, kinds: str, result: Callable[[Any], Any] | None) -> str:
    """The sentence about the shape and the dtype of a result."""
    many = "," in args.partition(", *")[0].removesuffix(", /")
    shape = "that the operands stretch to" if many else "of `x`"
    if result is None:
        return f"An array of the shape {shape}, in {'their' if many else 'its'} dtype."
    if result(np.dtype("float32")).kind == "b":
        return f"An array of booleans, of the shape {shape}."
    if many:
        return f"A complex array of the shape {shape}."
    others = "" if kinds == "c" else "; other dtypes stay"
    return f"An array of the shape {shape}. The numbers of complex dtypes give real ones{others}."


def _documentation(name: str, doc: str, args: str, kinds: str, example: str,
                   result: Callable[[Any], Any] | None) -> str:
    """A docstring with the sections common to all rows of the tables."""
    if kinds and "Args:" not in doc:
        *others, last = [KIND_NAMES[k] for k in kinds if k != "X"]
        accepted = f"{', '.join(others)} or {last}" if others else last
        if "," in args:
            doc += (f"\n\nArgs:\n  x: array or scalar of a {accepted} dtype.\n  y: the same, of "
                    "the dtype and the shape of `x`; scalars and axes of size 1 stretch."
                    "\n\nRaises:\n  TypeError: another dtype, or shapes that do not fit.")
        else:
            doc += (f"\n\nArgs:\n  x: array or scalar of a {accepted} dtype."
                    "\n\nRaises:\n  TypeError: another dtype.")
    if "Returns:" not in doc:
        head, raises, tail = doc.partition("\n\nRaises:")
        doc = f"{head}\n\nReturns:\n  {_returned(args, kinds, result)}{raises}{tail}"
    if "Raises:" not in doc:
        doc += "\n\nRaises:\n  TypeError: another dtype, or shapes that do not fit."
    if example:
        given, _, shown = example.partition(" -> ")
        call = f"lax.{name}({given})"
        # Five digits agree on every device.
        is_float = ("." in given or "e-" in given) and shown[-1] not in "jse)"
        doc += "\n\nExample:\n  >>> print({})\n  {}".format(
            f'f"{{{call}:.5g}}"' if is_float else call, shown)
    return doc
