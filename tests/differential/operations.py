"""Operations of random programs: functions of a library and some values, by name.

jax is asked which of them fit, so that these tables need no rules for shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np


class Operation(NamedTuple):
    """A function of the library and some values."""

    name: str
    arity: int
    apply: Callable[..., Any]


def functions(path: str, arity: int, names: str) -> list[Operation]:
    """Operations that are called by name: `m.<path>.<name>(x, ...)`."""

    def named(name: str) -> Callable[..., Any]:
        return lambda m, *xs: getattr(getattr(m, path), name)(*xs)

    return [Operation(f"{path}.{name}", arity, named(name)) for name in names.split()]


def table(path: str, rows: dict[str, tuple[int, Callable[..., Any]]]) -> list[Operation]:
    """Operations with parameters, from functions of `(m.<path>, x, ...)`."""
    return [Operation(name, arity, lambda m, *xs, f=f: f(getattr(m, path), *xs))
            for name, (arity, f) in rows.items()]


LAX = [
    *functions("lax", 1, "neg sin cos tanh exp log1p abs sign floor round logistic square real "
               "imag is_finite bitwise_not population_count atan asinh expm1 erf sqrt "
               "rsqrt cbrt"),
    *functions("lax", 2, "add sub mul max min atan2 eq lt ge bitwise_and bitwise_xor add mul sub "
               "complex div rem nextafter pow shift_left"),
    *functions("lax", 3, "select_n select"),
    *table("lax", {
        "square twice": (1, lambda lax, x: lax.integer_pow(x, 2)),
        "cube": (1, lambda lax, x: lax.integer_pow(x, 3)),
        "to f32": (1, lambda lax, x: lax.convert_element_type(x, np.float32)),
        "to i32": (1, lambda lax, x: lax.convert_element_type(x, np.int32)),
        "to f16": (1, lambda lax, x: lax.convert_element_type(x, np.float16)),
        "to bf16": (1, lambda lax, x: lax.convert_element_type(x, ml_dtypes.bfloat16)),
        "to float": (1, lambda lax, x: lax.convert_element_type(x, float)),
        "bits": (1, lambda lax, x: lax.bitcast_convert_type(x, np.int32)),
        "rows": (1, lambda lax, x: lax.broadcast(x, (2,))),
        "spread": (1, lambda lax, x: lax.broadcast_in_dim(x, (2, 3), (1,))),
        "flat": (1, lambda lax, x: lax.reshape(x, (6,))),
        "folded": (1, lambda lax, x: lax.reshape(x, (3, 2))),
        "transposed": (1, lambda lax, x: lax.transpose(x, (1, 0))),
        "sum": (1, lambda lax, x: lax.reduce_sum(x, (0,))),
        "largest": (1, lambda lax, x: lax.reduce_max(x, (0,))),
        "product": (1, lambda lax, x: lax.reduce_prod(x, (0,))),
        "any": (1, lambda lax, x: lax.reduce_or(x, (0,))),
        "reversed": (1, lambda lax, x: lax.rev(x, (0,))),
        "with axis": (1, lambda lax, x: lax.expand_dims(x, (0,))),
        "without axis": (1, lambda lax, x: lax.squeeze(x, (0,))),
        "head": (1, lambda lax, x: lax.slice_in_dim(x, 0, 2)),
        "every second": (1, lambda lax, x: lax.slice_in_dim(x, 0, None, 2)),
        "window": (1, lambda lax, x: lax.dynamic_slice_in_dim(x, 1, 2)),
        "second": (1, lambda lax, x: lax.index_in_dim(x, 1, keepdims=False)),
        "dynamic": (2, lambda lax, x, i: lax.dynamic_index_in_dim(x, i)),
        "updated": (3, lambda lax, x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, 0)),
        "together": (2, lambda lax, x, y: lax.concatenate([x, y], 0)),
        "padded": (1, lambda lax, x: lax.pad(
            x, np.zeros((), np.result_type(x)), [(1, 0, 0)] * np.ndim(x))),
        "dot": (2, lambda lax, x, y: lax.dot(x, y)),
        "dot_general": (2, lambda lax, x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))),
        "sorted": (1, lambda lax, x: lax.sort(x)),
        "argmax": (1, lambda lax, x: lax.argmax(x, 0, np.int32)),
        "cumsum": (1, lambda lax, x: lax.cumsum(x)),
        "cummax": (1, lambda lax, x: lax.cummax(x)),
        "cumprod backwards": (1, lambda lax, x: lax.cumprod(x, reverse=True)),
        "iota": (0, lambda lax: lax.iota(np.float32, 3)),
        "full": (0, lambda lax: lax.full((2, 3), 0.5)),
        "full_like": (1, lambda lax, x: lax.full_like(lax.broadcast(x, (2,)), 1)),
    }),
]

NUMPY = [
    *functions("numpy", 1, "sin cos tanh exp log1p abs sign floor ceil square sqrt cbrt ravel sum "
               "mean max min prod any all argmax argmin sort cumsum transpose atleast_2d "
               "zeros_like ones_like isfinite isnan logical_not negative var std flip squeeze "
               "expm1 trunc sinh arctan real conj nan_to_num diag trace argsort"),
    *functions("numpy", 2, "add subtract multiply divide true_divide maximum minimum power arctan2 "
               "equal less greater_equal logical_and logical_or dot matmul outer floor_divide "
               "remainder logaddexp append vdot inner fmod not_equal copysign isclose"),
    *functions("numpy", 3, "where clip"),
    *table("numpy", {
        "x + y": (2, lambda jnp, x, y: x + y), "x - y": (2, lambda jnp, x, y: x - y),
        "x * y": (2, lambda jnp, x, y: x * y), "x / y": (2, lambda jnp, x, y: x / y),
        "x // y": (2, lambda jnp, x, y: x // y), "x % y": (2, lambda jnp, x, y: x % y),
        "x @ y": (2, lambda jnp, x, y: x @ y), "x < y": (2, lambda jnp, x, y: x < y),
        "x & y": (2, lambda jnp, x, y: x & y), "-x": (1, lambda jnp, x: -x),
        "~x": (1, lambda jnp, x: ~x), "x ** 2": (1, lambda jnp, x: x**2),
        "2 ** x": (1, lambda jnp, x: 2**x), "x * 2": (1, lambda jnp, x: x * 2),
        "1.5 - x": (1, lambda jnp, x: 1.5 - x), "x / 3": (1, lambda jnp, x: x / 3),
        "x + 1j": (1, lambda jnp, x: x + 1j), "x[0]": (1, lambda jnp, x: x[0]),
        "x[-1]": (1, lambda jnp, x: x[-1]), "x[::2]": (1, lambda jnp, x: x[::2]),
        "x[1:]": (1, lambda jnp, x: x[1:]), "x[..., ::-1]": (1, lambda jnp, x: x[..., ::-1]),
        "x[None]": (1, lambda jnp, x: x[None]), "x[:, 1]": (1, lambda jnp, x: x[:, 1]),
        "x[indices]": (1, lambda jnp, x: x[np.array([0, -1, 1])]),
        "x[y]": (2, lambda jnp, x, y: x[y]), "x.T": (1, lambda jnp, x: x.T),
        "x.at[0].set(y)": (2, lambda jnp, x, y: x.at[0].set(y)),
        "x.at[1:].add(y)": (2, lambda jnp, x, y: x.at[1:].add(y)),
        "x.at[y].max(0)": (2, lambda jnp, x, y: x.at[y].max(0)),
        "sum(axis=0)": (1, lambda jnp, x: jnp.sum(x, axis=0)),
        "mean(keepdims)": (1, lambda jnp, x: jnp.mean(x, axis=-1, keepdims=True)),
        "max(axis=1)": (1, lambda jnp, x: x.max(axis=1)),
        "sum(where)": (1, lambda jnp, x: jnp.sum(x, where=x > 0)),
        "reshape(-1)": (1, lambda jnp, x: x.reshape(-1)),
        "concatenate": (2, lambda jnp, x, y: jnp.concatenate([x, y])),
        "stack": (2, lambda jnp, x, y: jnp.stack([x, y])),
        "einsum": (2, lambda jnp, x, y: jnp.einsum("ij,kj->ik", x, y)),
        "tensordot": (2, lambda jnp, x, y: jnp.tensordot(x, y, axes=1)),
        "arange": (0, lambda jnp: jnp.arange(3)),
        "linspace": (0, lambda jnp: jnp.linspace(0, 1, 3)),
        "zeros": (0, lambda jnp: jnp.zeros((2, 3))), "eye": (0, lambda jnp: jnp.eye(3)),
        "asarray": (0, lambda jnp: jnp.asarray([1.0, 2.0, 3.0])),
        "astype int": (1, lambda jnp, x: x.astype(int)),
        "astype f16": (1, lambda jnp, x: x.astype("float16")),
        "swapaxes": (1, lambda jnp, x: jnp.swapaxes(x, 0, -1)),
        "expand_dims": (1, lambda jnp, x: jnp.expand_dims(x, 1)),
        "broadcast_to": (1, lambda jnp, x: jnp.broadcast_to(x, (2, 3))),
        "tile": (1, lambda jnp, x: jnp.tile(x, 2)), "repeat": (1, lambda jnp, x: x.repeat(2)),
        "roll": (1, lambda jnp, x: jnp.roll(x, 1)), "triu": (1, lambda jnp, x: jnp.triu(x)),
        "take": (1, lambda jnp, x: jnp.take(x, np.array([1, 0]), axis=0)),
        "split": (1, lambda jnp, x: jnp.split(x, 3)[1]), "diff": (1, lambda jnp, x: jnp.diff(x)),
        "result_type": (2, lambda jnp, x, y: jnp.zeros(2, jnp.result_type(x, y))),
        "pad": (1, lambda jnp, x: jnp.pad(x, 1)),
    }),
]

MORE = [
    *functions("numpy", 1, "sinc cumprod nancumsum nansum nanmax nanmean nanvar median ptp unique "
               "fabs sign signbit positive invert reciprocal exp2 log2 deg2rad i0 modf frexp "
               "angle imag fix spacing count_nonzero atleast_3d flipud fliplr rot90 tril rint"),
    *functions("numpy", 2, "hypot logaddexp2 heaviside nextafter float_power ldexp gcd lcm "
               "bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_xor divmod "
               "searchsorted convolve correlate kron cross vecdot array_equal allclose digitize "
               "fmax fmin polyval hstack vstack minimum isin setdiff1d tensordot"),
    *functions("lax", 1, "lgamma digamma erf_inv erfc tan acosh acos asin cosh sinh exp2 ceil "
               "conj integer_pow clz not_ stop_gradient reciprocal full_like zeros_like"),
    *functions("lax", 2, "igamma zeta shift_right_logical shift_right_arithmetic ne gt le "
               "bitwise_or"),
    *functions("lax", 3, "clamp"),
    *table("lax", {
        "cumlogsumexp": (1, lambda lax, x: lax.cumlogsumexp(x)),
        "cummin backwards": (1, lambda lax, x: lax.cummin(x, reverse=True)),
        "argmin": (1, lambda lax, x: lax.argmin(x, 0, np.int32)),
        "top_k": (1, lambda lax, x: lax.top_k(x, 1)[0]),
        "window sum": (1, lambda lax, x: lax.reduce_window(
            x, np.zeros((), np.result_type(x)), lax.add, (1,) * (np.ndim(x) - 1) + (2,),
            (1,) * np.ndim(x), "VALID")),
        "window max": (1, lambda lax, x: lax.reduce_window(
            x, np.asarray(-np.inf, np.result_type(x)), lax.max, (1,) * (np.ndim(x) - 1) + (2,),
            (1,) * np.ndim(x), "SAME")),
        "reduce_precision": (1, lambda lax, x: lax.reduce_precision(x, 8, 4)),
        "sort pairs": (2, lambda lax, x, y: lax.sort_key_val(x, y)[1]),
        "batched dot": (2, lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,))))),
        "dot in f32": (2, lambda lax, x, y: lax.dot_general(
            x, y, (((0,), (0,)), ((), ())), preferred_element_type=np.float32)),
        "conv": (2, lambda lax, x, y: lax.conv(x[None, None], y[None, None], (1,), "SAME")[0, 0]),
        "scan of sums": (1, lambda lax, x: lax.scan(lambda c, y: (c + y, c * y), x[0], x)),
        # On an array, since jax gives short NumPy arrays back as they are.
        "associative_scan": (1, lambda lax, x: lax.associative_scan(
            lambda a, b: a + b, lax.rev(x, (0,)))),
        "map": (1, lambda lax, x: lax.map(lambda y: y * y, x)),
        "fori_loop": (1, lambda lax, x: lax.fori_loop(0, 3, lambda i, c: c * i + c, x)),
        "while_loop": (1, lambda lax, x: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (c[0] * 1 + c[0], c[1] + 1), (x, 0))[0]),
        "cond": (2, lambda lax, p, x: lax.cond(p, lambda y: y * 2, lambda y: -y, x)),
        "switch": (2, lambda lax, i, x: lax.switch(i, [lambda y: y, lambda y: y + y], x)),
        "reduce by a function": (1, lambda lax, x: lax.reduce(
            x, np.ones((), np.result_type(x)), lambda a, b: a * b, (0,))),
        "expand": (1, lambda lax, x: lax.broadcast_to_rank(x, 3)),
        "collapse": (1, lambda lax, x: lax.collapse(x, 0, 2)),
        "pad by negative": (1, lambda lax, x: lax.pad(
            x, np.ones((), np.result_type(x)), [(-1, 2, 1)] * np.ndim(x))),
        "rev all": (1, lambda lax, x: lax.rev(x, tuple(range(np.ndim(x))))),
    }),
    *table("numpy", {
        "to bfloat16": (1, lambda jnp, x: x.astype("bfloat16")),
        "to complex": (1, lambda jnp, x: x.astype(complex)),
        "to uint8": (1, lambda jnp, x: x.astype("uint8")),
        "to bool": (1, lambda jnp, x: x.astype(bool)),
        "x ** -1": (1, lambda jnp, x: x**-1), "x ** 0.5": (1, lambda jnp, x: x**0.5),
        "x ** y": (2, lambda jnp, x, y: x**y), "2 - x": (1, lambda jnp, x: 2 - x),
        "True + x": (1, lambda jnp, x: True + x), "x << 1": (1, lambda jnp, x: x << 1),
        "x >> y": (2, lambda jnp, x, y: x >> y), "x | y": (2, lambda jnp, x, y: x | y),
        "x ^ 3": (1, lambda jnp, x: x ^ 3), "divmod(x, 2)": (1, lambda jnp, x: divmod(x, 2)),
        "abs(x)": (1, lambda jnp, x: abs(x)), "round(x, 1)": (1, lambda jnp, x: jnp.round(x, 1)),
        "np.float32(2) * x": (1, lambda jnp, x: np.float32(2) * x),
        "np.int8(2) * x": (1, lambda jnp, x: np.int8(2) * x),
        "np.float64(2) + x": (1, lambda jnp, x: np.float64(2) + x),
        "x[x > 0]": (1, lambda jnp, x: x[x > 0]),
        "where(x > 0, x, 0)": (1, lambda jnp, x: jnp.where(x > 0, x, 0)),
        "where(x, y, 1.5)": (2, lambda jnp, x, y: jnp.where(x, y, 1.5)),
        "clip(0, 1)": (1, lambda jnp, x: jnp.clip(x, 0, 1)),
        "x.at[...].mul(2)": (1, lambda jnp, x: x.at[..., -1].mul(2)),
        "x.at[1].min(y)": (2, lambda jnp, x, y: x.at[1].min(y)),
        "x.at[i].get": (2, lambda jnp, x, i: x.at[i].get(mode="fill")),
        "x.at[i].set drop": (2, lambda jnp, x, i: x.at[i].set(1, mode="drop")),
        "x[i, :2]": (2, lambda jnp, x, i: x[i, :2]),
        "x[..., None]": (1, lambda jnp, x: x[..., None]),
        "take_along_axis": (2, lambda jnp, x, i: jnp.take_along_axis(x, i, axis=-1)),
        "sum of float16": (1, lambda jnp, x: jnp.sum(x, dtype=np.float16)),
        "prod(axis=-1)": (1, lambda jnp, x: x.prod(axis=-1)),
        "mean(axis=0)": (1, lambda jnp, x: x.mean(axis=0)),
        "std(ddof=1)": (1, lambda jnp, x: x.std(axis=-1, ddof=1)),
        "all(axis=0)": (1, lambda jnp, x: jnp.all(x, axis=0)),
        "argmax(axis=-1)": (1, lambda jnp, x: jnp.argmax(x, axis=-1)),
        "average": (2, lambda jnp, x, w: jnp.average(x, weights=w)),
        "quantile": (1, lambda jnp, x: jnp.quantile(x, 0.3)),
        "x[:, ::-1]": (1, lambda jnp, x: x[:, ::-1]), "x[:0]": (1, lambda jnp, x: x[:0]),
        "reshape(1, -1)": (1, lambda jnp, x: x.reshape(1, -1)),
        "squeeze(0)": (1, lambda jnp, x: jnp.squeeze(x, 0)),
        "moveaxis": (1, lambda jnp, x: jnp.moveaxis(x, 0, -1)),
        "concatenate(axis=None)": (2, lambda jnp, x, y: jnp.concatenate([x, y], axis=None)),
        "stack 3": (3, lambda jnp, x, y, z: jnp.stack([x, y, z], -1)),
        "einsum ii": (1, lambda jnp, x: jnp.einsum("ij->j", x)),
        "einsum outer": (2, lambda jnp, x, y: jnp.einsum("i,j->ij", x, y)),
        "gradient": (1, lambda jnp, x: jnp.gradient(x)[0]),
        "trapezoid": (1, lambda jnp, x: jnp.trapezoid(x)),
        "interp": (3, lambda jnp, x, y, z: jnp.interp(x, y, z)),
        "histogram": (1, lambda jnp, x: jnp.histogram(x, 3)[0]),
        "bincount": (1, lambda jnp, x: jnp.bincount(x, length=4)),
        "pad edge": (1, lambda jnp, x: jnp.pad(x, 1, mode="edge")),
        "pad reflect": (1, lambda jnp, x: jnp.pad(x, 1, mode="reflect")),
        "select": (3, lambda jnp, p, x, y: jnp.select([p > 0], [x], y)),
        "piecewise": (1, lambda jnp, x: jnp.piecewise(x, [x < 0], [lambda y: -y, 1])),
        "full_like(2.5)": (1, lambda jnp, x: jnp.full_like(x, 2.5)),
        "ones(weak)": (1, lambda jnp, x: jnp.ones_like(x) * 1.0),
        "array([x, y])": (2, lambda jnp, x, y: jnp.array([x, y])),
        "nonzero": (1, lambda jnp, x: jnp.nonzero(x, size=2)[0]),
        "view int": (1, lambda jnp, x: x.view(np.int32)),
    }),
]
