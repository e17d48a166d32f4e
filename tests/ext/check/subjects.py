"""Forty correct primitives, with every rule written as an author would.

Each has an implementation in NumPy, a lowering, and the rules of derivatives and batching that make
sense for it. `mutators.py` makes them wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mjax.numpy as jnp
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir

hlo = mlir.hlo


class Subject(NamedTuple):
    """A correct primitive and one application of it.

    Attributes:
      name: its name.
      make: makes it, with the name it is given.
      operands: examples.
      params: params of the application.
    """

    name: str
    make: Callable[[str], Any]
    operands: tuple[Any, ...]
    params: dict[str, Any]


SUBJECTS: dict[str, Subject] = {}


def subject(*operands: Any, **params: Any) -> Callable[[Any], Any]:
    """Decorator of a function that gives a primitive its rules."""

    def register(define: Any) -> Any:
        name = define.__name__

        def make(given: str) -> Any:
            p = core.Primitive(given, multiple_results=name in SEVERAL)
            define(p)
            return p

        SUBJECTS[name] = Subject(name, make, operands, params)
        return define

    return register


SEVERAL = ("sine_cosine", "halves")

M = np.array([[1.5, -2.0, 0.5], [2.5, 1.0, -0.75]], np.float32)
N = np.array([[-0.5, 3.0, 1.25], [0.25, -1.5, 2.0]], np.float32)
V = np.array([0.4, -1.3, 2.2], np.float32)
POSITIVE = np.array([[0.5, 1.75], [2.5, 0.9], [1.3, 3.1]], np.float32)
W = np.arange(12, dtype=np.float32).reshape(3, 4) / 4 - 1.3
Z = np.array([1 + 2j, -0.5 + 1j, 0.25 - 2j], np.complex64)


def zero(x: Any) -> bool:
    return isinstance(x, ad.Zero)


def same_type(*xs: Any) -> Any:
    return core.ShapedArray(xs[0].shape, xs[0].dtype, all(x.weak_type for x in xs))


def aligned(args: Any, dims: Any) -> list[Any]:
    """The operands with their batches in front."""
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    return [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]


def elementwise(p: Any, in_numpy: Any, lowering: Any, *partials: Any) -> None:
    """Rules of an operation on elements; `partials` are `(*operands) -> d result / d operand`."""
    p.def_impl(lambda *xs: in_numpy(*xs))
    p.def_abstract_eval(same_type)
    p.def_lowering(lowering)

    def jvp(primals: Any, tangents: Any) -> Any:
        out = p.bind(*primals)
        tangent: Any = ad.Zero.from_primal_value(out)
        for partial, t in zip(partials, tangents, strict=True):
            if not zero(t):
                tangent = ad.add_tangents(tangent, lax.mul(t, partial(*primals)))
        return out, tangent

    p.def_jvp(jvp)
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), 0))


def traced(f: Any) -> Any:
    return mlir.lower_fun(f, multiple_results=False)


# ---- one operand ---------------------------------------------------------------------------


@subject(V)
def sine(p):
    elementwise(p, np.sin, lambda ctx, x: hlo.SineOp(x).results, lax.cos)


@subject(np.float32(0.7))
def cosine(p):
    elementwise(p, np.cos, traced(lax.cos), lambda x: -lax.sin(x))


@subject(M)
def hyperbolic_tangent(p):
    elementwise(p, np.tanh, lambda ctx, x: hlo.TanhOp(x).results,
                lambda x: 1 - lax.square(p.bind(x)))


@subject(V)
def exponential(p):
    elementwise(p, np.exp, traced(lax.exp), lambda x: p.bind(x))


@subject(POSITIVE)
def logarithm(p):
    elementwise(p, np.log, lambda ctx, x: hlo.LogOp(x).results, lambda x: 1 / x)


@subject(POSITIVE)
def root(p):
    elementwise(p, np.sqrt, lambda ctx, x: hlo.SqrtOp(x).results, lambda x: 0.5 / p.bind(x))


@subject(V)
def reciprocal(p):
    elementwise(p, lambda x: np.divide(np.float32(1).astype(x.dtype), x), traced(lambda x: 1 / x),
                lambda x: -lax.square(p.bind(x)))


@subject(M)
def absolute(p):
    elementwise(p, np.abs, lambda ctx, x: hlo.AbsOp(x).results, lax.sign)


@subject(V)
def logistic(p):
    elementwise(p, lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype), traced(lax.logistic),
                lambda x: p.bind(x) * (1 - p.bind(x)))


@subject(M)
def negated(p):
    elementwise(p, np.negative, lambda ctx, x: hlo.NegOp(x).results, lambda x: lax.full_like(x, -1))
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), p.bind(tangents[0])))
    p.def_transpose(lambda ct, x: [p.bind(ct)])


# ---- several operands ------------------------------------------------------------------------


def linear_jvp(p):
    """jvp of what is linear in all its operands together."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        return p.bind(*primals, **params), p.bind(*map(ad.instantiate_zeros, tangents), **params)

    p.def_jvp(jvp)


def undefined(*operands: Any) -> list[bool]:
    return [ad.is_undefined_primal(x) for x in operands]


@subject(M, N)
def addition(p):
    elementwise(p, np.add, lambda ctx, x, y: hlo.AddOp(x, y).results)
    linear_jvp(p)
    p.def_transpose(lambda ct, x, y: [ct if u else None for u in undefined(x, y)])


@subject(V, V[::-1].copy())
def subtraction(p):
    elementwise(p, np.subtract, lambda ctx, x, y: hlo.SubtractOp(x, y).results)
    linear_jvp(p)
    p.def_transpose(lambda ct, x, y: [ct if ad.is_undefined_primal(x) else None,
                                      lax.neg(ct) if ad.is_undefined_primal(y) else None])


@subject(M, N)
def product(p):
    elementwise(p, np.multiply, lambda ctx, x, y: hlo.MulOp(x, y).results)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = p.bind(x, y)
        left = ad.Zero.from_primal_value(out) if zero(dx) else p.bind(dx, y)
        right = ad.Zero.from_primal_value(out) if zero(dy) else p.bind(x, dy)
        return out, ad.add_tangents(left, right)

    p.def_jvp(jvp)
    p.def_transpose(lambda ct, x, y: [p.bind(ct, y), None] if ad.is_undefined_primal(x)
                    else [None, p.bind(x, ct)])


@subject(M, N)
def quotient(p):
    elementwise(p, np.divide, lambda ctx, x, y: hlo.DivOp(x, y).results)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = p.bind(x, y)
        left = ad.Zero.from_primal_value(out) if zero(dx) else p.bind(dx, y)
        right = (ad.Zero.from_primal_value(out) if zero(dy)
                 else lax.mul(dy, lax.neg(p.bind(out, y))))
        return out, ad.add_tangents(left, right)

    p.def_jvp(jvp)
    p.def_transpose(lambda ct, x, y: [p.bind(ct, y), None])


@subject(POSITIVE, POSITIVE[::-1].copy())
def power(p):
    elementwise(p, np.power, traced(lax.pow), lambda x, y: y * lax.pow(x, y - 1),
                lambda x, y: lax.pow(x, y) * lax.log(x))


@subject(M, N)
def maximum(p):
    elementwise(p, np.maximum, lambda ctx, x, y: hlo.MaxOp(x, y).results,
                lambda x, y: lax.convert_element_type(lax.gt(x, y), x.dtype),
                lambda x, y: lax.convert_element_type(lax.gt(y, x), x.dtype))


@subject(V, V[::-1].copy())
def minimum(p):
    elementwise(p, np.minimum, lambda ctx, x, y: hlo.MinOp(x, y).results,
                lambda x, y: lax.convert_element_type(lax.lt(x, y), x.dtype),
                lambda x, y: lax.convert_element_type(lax.lt(y, x), x.dtype))


@subject(M, N)
def hypotenuse(p):
    # Scaled, as NumPy's: squares would overflow.
    def f(x: Any, y: Any) -> Any:
        a, b = lax.abs(x), lax.abs(y)
        big, small = lax.max(a, b), lax.min(a, b)
        ratio = lax.select(lax.eq(big, lax.full_like(big, 0)), big, small / big)
        return big * lax.sqrt(1 + lax.square(ratio))

    elementwise(p, np.hypot, traced(f), lambda x, y: x / p.bind(x, y),
                lambda x, y: y / p.bind(x, y))


@subject(V, V[::-1].copy())
def angle(p):
    elementwise(p, np.arctan2, lambda ctx, x, y: hlo.Atan2Op(x, y).results,
                lambda x, y: y / (x * x + y * y), lambda x, y: -x / (x * x + y * y))


@subject(M, N, M + N)
def multiply_add(p):
    elementwise(p, lambda x, y, z: x * y + z,
                lambda ctx, x, y, z: hlo.AddOp(hlo.MulOp(x, y), z).results)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y, _), (dx, dy, tangent) = primals, tangents
        if not zero(dx):
            tangent = p.bind(dx, y, ad.instantiate_zeros(tangent))
        if not zero(dy):
            tangent = p.bind(x, dy, ad.instantiate_zeros(tangent))
        return p.bind(*primals), tangent

    def transpose(ct: Any, x: Any, y: Any, z: Any) -> Any:
        nothing = ad.zeros_like_aval(core.get_aval(ct))
        return [p.bind(ct, y, nothing) if ad.is_undefined_primal(x) else None,
                p.bind(x, ct, nothing) if ad.is_undefined_primal(y) else None,
                ct if ad.is_undefined_primal(z) else None]

    p.def_jvp(jvp)
    p.def_transpose(transpose)


@subject(M > 0, M, N)
def choice(p):
    elementwise(p, np.where, lambda ctx, c, x, y: hlo.SelectOp(c, x, y).results)
    p.def_abstract_eval(lambda c, x, y: same_type(x, y))

    def jvp(primals: Any, tangents: Any) -> Any:
        return p.bind(*primals), p.bind(primals[0], *map(ad.instantiate_zeros, tangents[1:]))

    def transpose(ct: Any, c: Any, x: Any, y: Any) -> Any:
        nothing = ad.zeros_like_aval(core.get_aval(ct))
        return [None, p.bind(c, ct, nothing) if ad.is_undefined_primal(x) else None,
                p.bind(c, nothing, ct) if ad.is_undefined_primal(y) else None]

    p.def_jvp(jvp)
    p.def_transpose(transpose)


@subject(np.array([5, -3, 12], np.int32), np.array([6, 7, -2], np.int32))
def exclusive_or(p):
    elementwise(p, np.bitwise_xor, lambda ctx, x, y: hlo.XorOp(x, y).results)


@subject(Z, Z[::-1].copy())
def conjugate_product(p):
    elementwise(p, lambda x, y: np.conj(x) * y, traced(lambda x, y: lax.mul(lax.conj(x), y)))

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = p.bind(x, y)
        left = ad.Zero.from_primal_value(out) if zero(dx) else p.bind(dx, y)
        right = ad.Zero.from_primal_value(out) if zero(dy) else p.bind(x, dy)
        return out, ad.add_tangents(left, right)

    p.def_jvp(jvp)
    p.def_transpose(lambda ct, x, y: [lax.conj(lax.mul(ct, y)), None]
                    if ad.is_undefined_primal(x) else [None, p.bind(x, ct)])


@subject(Z)
def modulus(p):
    elementwise(p, np.abs, lambda ctx, x: hlo.AbsOp(x).results)
    p.def_abstract_eval(lambda x: core.ShapedArray(
        x.shape, np.float64 if x.dtype == np.complex128 else np.float32))
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), lax.real(
        lax.conj(primals[0]) * tangents[0]) / p.bind(*primals)))


# ---- axes ------------------------------------------------------------------------------------


def without(shape: Any, axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1:])


def along(p, in_numpy, lowering, shape=lambda shape, axis: shape, removes=False):
    """Rules of an operation along the axis in its params."""
    p.def_impl(lambda x, *, axis: in_numpy(x, axis))
    p.def_abstract_eval(lambda x, *, axis: core.ShapedArray(shape(x.shape, axis), x.dtype,
                                                            x.weak_type))
    p.def_lowering(traced(lowering))

    def batch(args: Any, dims: Any, *, axis: int) -> Any:
        (x,), (dim,) = args, dims
        out = p.bind(x, axis=axis + (dim <= axis))
        return out, dim - (removes and axis < dim)

    p.def_batch(batch)


@subject(M, axis=1)
def total(p):
    along(p, np.sum, lambda x, *, axis: lax.reduce_sum(x, (axis,)), without, True)
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, axis: [lax.broadcast_in_dim(
        ct, x.aval.shape, [d for d in range(len(x.aval.shape)) if d != axis])])


@subject(M, axis=0)
def largest(p):
    along(p, lambda x, axis: np.max(x, axis, initial=-np.inf).astype(x.dtype),
          lambda x, *, axis: lax.reduce_max(x, (axis,)), without, True)

    def jvp(primals: Any, tangents: Any, *, axis: int) -> Any:
        (x,), (t,) = primals, tangents
        out = p.bind(x, axis=axis)
        place = lax.eq(x, lax.expand_dims(out, (axis,)) + lax.full_like(x, 0))
        return out, lax.reduce_sum(lax.select(place, t, lax.full_like(t, 0)), (axis,))

    p.def_jvp(jvp)


@subject(N, axis=1)
def log_sum_exp(p):
    def f(xp: Any, x: Any, axis: int) -> Any:
        top = xp.max(x, axis=axis, keepdims=True, initial=xp.finfo(x.dtype).min)
        return xp.squeeze(top, axis) + xp.log(xp.sum(xp.exp(x - top), axis=axis))

    along(p, lambda x, axis: f(np, x, axis), lambda x, *, axis: f(jnp, x, axis), without, True)

    def jvp(primals: Any, tangents: Any, *, axis: int) -> Any:
        (x,), (t,) = primals, tangents
        out = p.bind(x, axis=axis)
        return out, lax.reduce_sum(t * lax.exp(x - lax.expand_dims(out, (axis,))), (axis,))

    p.def_jvp(jvp)


@subject(M, axis=1)
def running_sum(p):
    along(p, lambda x, axis: np.cumsum(x, axis, x.dtype), lambda x, *, axis: lax.cumsum(x, axis))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, axis: [lax.cumsum(ct, axis, reverse=True)])


@subject(W, axis=0)
def reversed_axis(p):
    along(p, np.flip, lambda x, *, axis: lax.rev(x, (axis,)))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, axis: [p.bind(ct, axis=axis)])


@subject(M, axis=1)
def shifted(p):
    along(p, lambda x, axis: np.roll(x, 1, axis), lambda x, *, axis: jnp.roll(x, 1, axis))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, axis: [jnp.roll(ct, -1, axis)])


@subject(M)
def transposed(p):
    p.def_impl(lambda x: np.swapaxes(x, -1, -2))
    p.def_abstract_eval(lambda x: core.ShapedArray(
        (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, x.weak_type))
    p.def_lowering(traced(lambda x: jnp.swapaxes(x, -1, -2)))
    linear_jvp(p)
    p.def_transpose(lambda ct, x: [p.bind(ct)])
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), 0))


@subject(M)
def flattened(p):
    p.def_impl(lambda x: np.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1])))
    p.def_abstract_eval(lambda x: core.ShapedArray(
        (*x.shape[:-2], x.shape[-2] * x.shape[-1]), x.dtype, x.weak_type))
    p.def_lowering(lambda ctx, x: hlo.ReshapeOp(ctx.out_types[0], x).results)
    linear_jvp(p)
    p.def_transpose(lambda ct, x: [lax.reshape(ct, x.aval.shape)])
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), 0))


@subject(M, W[:2, :2].copy(), axis=1)
def joined(p):
    def type_of(x: Any, y: Any, *, axis: int) -> Any:
        if without(x.shape, axis) != without(y.shape, axis):
            raise TypeError(f"joined: {x} and {y} do not fit along axis {axis}.")
        shape = (*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1:])
        return core.ShapedArray(shape, x.dtype)

    p.def_impl(lambda x, y, *, axis: np.concatenate([x, y], axis))
    p.def_abstract_eval(type_of)
    p.def_lowering(traced(lambda x, y, *, axis: lax.concatenate([x, y], axis)))
    linear_jvp(p)

    def transpose(ct: Any, x: Any, y: Any, *, axis: int) -> Any:
        n = core.get_aval(ct).shape[axis] - (y.aval if ad.is_undefined_primal(y) else
                                             core.get_aval(y)).shape[axis]
        return [lax.slice_in_dim(ct, 0, n, axis=axis) if ad.is_undefined_primal(x) else None,
                lax.slice_in_dim(ct, n, None, axis=axis) if ad.is_undefined_primal(y) else None]

    p.def_transpose(transpose)
    p.def_batch(lambda args, dims, *, axis: (p.bind(*aligned(args, dims), axis=axis + 1), 0))


@subject(M, width=2)
def padded(p):
    """With zeros behind the last axis."""
    p.def_impl(lambda x, *, width: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width)]))
    p.def_abstract_eval(lambda x, *, width: core.ShapedArray(
        (*x.shape[:-1], x.shape[-1] + width), x.dtype, x.weak_type))
    p.def_lowering(traced(lambda x, *, width: jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width)])))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, width: [lax.slice_in_dim(
        ct, 0, x.aval.shape[-1], axis=len(x.aval.shape) - 1)])
    p.def_batch(lambda args, dims, *, width: (p.bind(*aligned(args, dims), width=width), 0))


@subject(V, size=4)
def spread(p):
    """Copies along a new last axis."""
    p.def_impl(lambda x, *, size: np.repeat(x[..., None], size, -1))
    p.def_abstract_eval(lambda x, *, size: core.ShapedArray((*x.shape, size), x.dtype, x.weak_type))
    p.def_lowering(traced(lambda x, *, size: lax.broadcast_in_dim(
        x, (*x.shape, size), range(x.ndim))))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, size: [lax.reduce_sum(ct, (len(x.aval.shape),))])
    p.def_batch(lambda args, dims, *, size: (p.bind(*args, size=size), dims[0]))


@subject(M, by=1.5)
def scaled(p):
    p.def_impl(lambda x, *, by: x * np.asarray(by, x.dtype))
    p.def_abstract_eval(lambda x, *, by: x)
    p.def_lowering(traced(lambda x, *, by: x * by))
    linear_jvp(p)
    p.def_transpose(lambda ct, x, *, by: [p.bind(ct, by=by)])
    p.def_batch(lambda args, dims, *, by: (p.bind(*args, by=by), dims[0]))


# ---- contractions ------------------------------------------------------------------------------


@subject(M, W)
def matrix_product(p):
    def type_of(x: Any, y: Any) -> Any:
        if x.ndim < 2 or y.ndim != x.ndim or x.shape[-1] != y.shape[-2]:
            raise TypeError(f"matrix_product: {x} and {y} do not fit.")
        return core.ShapedArray((*x.shape[:-1], y.shape[-1]), x.dtype)

    p.def_impl(np.matmul)
    p.def_abstract_eval(type_of)
    p.def_lowering(traced(jnp.matmul))
    turned = lambda x: jnp.swapaxes(x, -1, -2)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = p.bind(x, y)
        left = ad.Zero.from_primal_value(out) if zero(dx) else p.bind(dx, y)
        right = ad.Zero.from_primal_value(out) if zero(dy) else p.bind(x, dy)
        return out, ad.add_tangents(left, right)

    p.def_jvp(jvp)
    p.def_transpose(lambda ct, x, y: [p.bind(ct, turned(y)), None] if ad.is_undefined_primal(x)
                    else [None, p.bind(turned(x), ct)])
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), 0))


@subject(V, V[::-1].copy())
def inner_product(p):
    def type_of(x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            raise TypeError(f"inner_product: {x} and {y} do not fit.")
        return core.ShapedArray(x.shape[:-1], x.dtype)

    p.def_impl(lambda x, y: np.sum(x * y, -1))
    p.def_abstract_eval(type_of)
    p.def_lowering(traced(lambda x, y: lax.reduce_sum(x * y, (x.ndim - 1,))))

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = p.bind(x, y)
        left = ad.Zero.from_primal_value(out) if zero(dx) else p.bind(dx, y)
        right = ad.Zero.from_primal_value(out) if zero(dy) else p.bind(x, dy)
        return out, ad.add_tangents(left, right)

    p.def_jvp(jvp)
    p.def_transpose(lambda ct, x, y: [jnp.expand_dims(ct, -1) * y, None]
                    if ad.is_undefined_primal(x) else [None, jnp.expand_dims(ct, -1) * x])
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), 0))


# ---- two results ---------------------------------------------------------------------------------


@subject(V)
def sine_cosine(p):
    p.def_impl(lambda x: [np.sin(x), np.cos(x)])
    p.def_abstract_eval(lambda x: [x, x])
    p.def_lowering(lambda ctx, x: [hlo.SineOp(x).result, hlo.CosineOp(x).result])

    def jvp(primals: Any, tangents: Any) -> Any:
        s, c = p.bind(*primals)
        return [s, c], [tangents[0] * c, -tangents[0] * s]

    def linearize(nonzeros: Any, x: Any) -> Any:
        s, c = p.bind(x)
        return [s, c], [True, True], (s, c), lambda saved, t: [t * saved[1], -t * saved[0]]

    p.def_jvp(jvp)
    p.def_linearize(linearize)
    p.def_batch(lambda args, dims: (p.bind(*args), [dims[0], dims[0]]))


@subject(W)
def halves(p):
    """The two halves of the last axis."""
    def type_of(x: Any) -> Any:
        if x.shape[-1] % 2:
            raise TypeError(f"halves: {x} has an odd number of columns.")
        return [core.ShapedArray((*x.shape[:-1], x.shape[-1] // 2), x.dtype)] * 2

    p.def_impl(lambda x: np.split(x, 2, -1))
    p.def_abstract_eval(type_of)
    p.def_lowering(mlir.lower_fun(lambda x: jnp.split(x, 2, -1), multiple_results=True))
    linear_jvp(p)
    p.def_transpose(lambda cts, x: [lax.concatenate(
        list(map(ad.instantiate_zeros, cts)), len(x.aval.shape) - 1)])
    p.def_batch(lambda args, dims: (p.bind(*aligned(args, dims)), [0, 0]))

    def dce(used: Any, eqn: Any) -> Any:
        return ([any(used)], eqn if any(used) else None)

    p.def_dce(dce)
