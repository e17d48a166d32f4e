"""Operands, and programs, in which the engine's primitives are applied: one for each of them.

`mjax_ext.core._examples` gives them to schemas; nothing else imports this. Programs of several
devices use one or two, as many as there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.types import AbstractValue, ShapedArray
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax.experimental import checkify, hijax, io_callback
from mjax.experimental.custom_partitioning import custom_partitioning
from mjax.experimental.layout import Layout, with_layout_constraint
from mjax.sharding import Mesh, SingleDeviceSharding
from mjax.sharding import PartitionSpec as P
from mjax_ext._operands import Operands
from mjax_ext.core import primitives as p

#: Types of arrays with values.
X = np.array([0.7, -1.2, 0.4], np.float32)
M = np.array([[0.7, -1.2, 0.4], [1.3, 0.6, -0.9]], np.float32)
N = np.array([[-0.5, 1.1, 0.8], [0.3, -1.6, 2.1]], np.float32)
A = np.array([[2.0, 0.3, -0.1], [0.4, 1.5, 0.2], [0.1, -0.2, 1.8]], np.float32)
SIX = np.array([0.7, -1.2, 0.4, 1.9, -0.3, 0.8], np.float32)
TABLE = np.array([[1.4, -0.8, 0.3, 2.2], [0.6, 1.7, -1.9, 0.2], [-0.4, 0.9, 1.1, -2.3]],
                 np.float32)
WITHIN = np.array([0.3, -0.6, 0.5], np.float32)
POSITIVE = np.array([0.7, 1.8, 2.4], np.float32)
ABOVE = np.array([1.5, 2.25, 4.0], np.float32)
MATRIX = np.array([[1.9, 0.4, -0.7], [-0.3, 1.2, 0.8], [0.6, -1.1, 2.3]], np.float32)
FOUR = np.array([[1.9, 0.4, -0.7, 0.2], [-0.3, 1.2, 0.8, -1.4], [0.6, -1.1, 2.3, 0.5],
                 [0.9, 0.1, -0.6, 1.6]], np.float32)
COMPLEX = np.array([1 + 2j, -0.5 + 1j, 0.25 - 2j], np.complex64)
INTS = np.array([[5, -3, 12], [7, 2, -9]], np.int32)
OTHER_INTS = np.array([[6, 7, -2], [1, -8, 4]], np.int32)
SHIFTS = np.array([[1, 3, 0], [2, 5, 4]], np.int32)
WORDS = np.array([7, 0x12345678, 0x9abcdef0], np.uint32)
OTHER_WORDS = np.array([3, 0x0badcafe, 0x7fffffff], np.uint32)
ROWS = np.stack([X, 2 * X, X - 1, -X])
ZERO, ONE = np.int32(0), np.int32(1)

#: Operands, and the names of primitives that take them and need no params.
_OPERANDS: list[tuple[tuple[Any, ...], str]] = [
    ((X,), "abs asinh atan bessel_i0e bessel_i1e cbrt ceil copy cos cosh erf erfc exp exp2 expm1 "
           "floor is_finite logistic neg new_ref sign sin sinh square stage stop_gradient tanh"),
    ((WITHIN,), "acos asin atanh erf_inv tan"),
    ((POSITIVE,), "digamma lgamma log log1p rsqrt sqrt"),
    ((ABOVE,), "acosh"),
    ((COMPLEX,), "imag real"),
    ((INTS[0],), "clz population_count"),
    ((M > 0,), "not"),
    ((M, N), "add add_any complex eq eq_to ge gt le le_to lt lt_to max min mul ne nextafter sub"),
    ((X, MATRIX), "optimization_barrier"),
    ((POSITIVE, ABOVE), "atan2 div pow"),
    ((np.array([2.3, -1.8, 0.7], np.float32), POSITIVE), "rem"),
    ((POSITIVE, ABOVE), "igamma igammac igamma_grad_a random_gamma_grad"),
    ((ABOVE, POSITIVE), "zeta"),
    ((np.float32(2), POSITIVE), "polygamma"),
    ((ABOVE, POSITIVE, np.array([0.2, 0.5, 0.8], np.float32)), "regularized_incomplete_beta"),
    ((INTS, OTHER_INTS), "and mulhi or xor"),
    ((INTS, SHIFTS), "shift_left shift_right_arithmetic shift_right_logical"),
    ((M - 1, N, M + 1), "clamp"),
    ((M > 0, M, N), "select_n"),
    ((TABLE, M[:, :2], ZERO, ONE), "dynamic_update_slice"),
    ((MATRIX @ MATRIX.T,), "cholesky"),
    ((np.triu(MATRIX + 2 * np.eye(3, dtype=np.float32)), X), "cholesky_update"),
    ((MATRIX,), "geqp3 geqrf lu"),
    ((FOUR,), "hessenberg"),
    ((FOUR[:, :2], POSITIVE[:2] / 3), "householder_product"),
    ((np.uint32(3), np.uint32(5), WORDS, OTHER_WORDS), "threefry2x32"),
    ((np.uint32(3), WORDS, OTHER_WORDS), "philox2x32"),
    ((np.uint32(3), np.uint32(5), np.uint32(7), np.uint32(9), np.uint32(1), np.uint32(2), WORDS,
      OTHER_WORDS), "threefry4x32"),
    ((np.uint32(3), np.uint32(5), np.uint32(1), np.uint32(2), WORDS, OTHER_WORDS), "philox4x32"),
]

#: name -> operands and params.
_APPLIED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **dict.fromkeys(("psum", "pmax", "pmin"), ((X,), {"axes": ("i",), "axis_index_groups": None})),
    "create_token": ((), {}),
    "dce_sink": ((X,), {"prevent_mlir_dce": False}),
    "axis_index": ((), {"axis_name": "i"}),
    "iota": ((), {"dtype": np.dtype("float32"), "shape": (2, 3), "dimension": 1}),
    "iota_2x32_shape": ((), {"shape": (2, 3)}),
    "linear_recurrence": ((M, N), {"axis": 1, "reverse": False}),
    "xla_metadata_value": ((X,), {"xla_metadata_kvs": (("level", 1),)}),
    "cumulative_loop": ((M,), {"combine": mjax.make_jaxpr(lax.add)(X, X), "reverse": False}),
    "lapack": ((MATRIX @ MATRIX.T,), {
        "target": "lapack_spotrf_ffi", "stack": 0, "attributes": (("uplo", "L"),), "aliases": (),
        "results": (((3, 3), np.dtype(np.float32)), ((), np.dtype(np.int32)))}),
    "xla_kernel": ((MATRIX,), {"target": "LuDecomposition", "config": "", "results": (
        ((3, 3), np.dtype(np.float32)), ((3,), np.dtype(np.int32)), ((3,), np.dtype(np.int32)))}),
    "symmetric_product": ((M, MATRIX[:2, :2]), {"alpha": 2.0, "beta": -0.5}),
}


# ---- programs ----------------------------------------------------------------------------------


def _key(seed: int = 0) -> Any:
    return mjax.random.key(seed)


def _written(x: Any) -> Any:
    ref = mjax.new_ref(x)
    ref[0] = 2.0
    mjax.ref.addupdate(ref, slice(1, None), x[1:])
    return ref[...] * mjax.freeze(ref)


def _freed(x: Any) -> Any:
    ref = mjax.new_ref(x)
    out = ref[1]
    mjax.free_ref(ref)
    return out


def _with_jvp(x: Any) -> Any:
    f = mjax.custom_jvp(lambda x: jnp.sin(x))
    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(x)


def _with_vjp(x: Any) -> Any:
    f = mjax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.cos(x) * ct,))
    return f(x)


def _backward() -> tuple[Operands, dict[str, Any]]:
    """What `_with_vjp` leaves in linear programs: its residual is the sine's operand."""
    linear = linearize_jaxpr(mjax.make_jaxpr(_with_vjp)(X), [True]).unknown
    (params,) = (eqn.params for eqn in linear.eqns if eqn.primitive is p.custom_lin_p)
    forward = lambda x, dx: [mjax.jvp(jnp.sin, (x,), (dx,))[1]]
    return Operands((X, SIX[:3] + 1), forward=forward, linear=(1,)), params


def _with_vmap(x: Any) -> Any:
    f = mjax.custom_batching.custom_vmap(lambda x: jnp.sin(x))
    f.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))
    return f(x)


def _linear(x: Any, y: Any) -> Any:
    return mjax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, ct: ct * r, y, x)


def _solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda matvec, b: jnp.linalg.solve(a, b),
        lambda matvec, b: jnp.linalg.solve(a.T, b))


def _of_one_matrix(a: Any, *others: Any) -> tuple[Any, ...]:
    """The operands of `_solved`: each of its four programs has the matrix."""
    return a, a, a, a, others[-1]


def _ragged(x: Any, y: Any) -> Any:
    return lax.ragged_dot(x, y, jnp.array([2, 0, 3], "int32"))


def _gathered(x: Any, indices: Any) -> Any:
    return lax.gather(x, indices, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4))


def _scattered(name: str, **options: Any) -> Any:
    def f(x: Any, indices: Any, updates: Any) -> Any:
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        return getattr(lax, name)(x, indices, updates, numbers, **options)

    return f, (SIX, np.array([[4], [0], [2]], np.int32), X)


def _windows(x: Any, **params: Any) -> dict[str, Any]:
    return {"window_dimensions": (3,), "window_strides": (1,), "padding": ((0, 0),), **params}


_DILATED = {"base_dilation": (1,), "window_dilation": (1,)}


def _selected(x: Any, source: Any) -> Any:
    scalar = mjax.ShapeDtypeStruct((), x.dtype)
    return p.select_and_scatter_p.bind(
        x, source, np.zeros((), x.dtype), select_jaxpr=mjax.make_jaxpr(lax.ge)(scalar, scalar),
        scatter_jaxpr=mjax.make_jaxpr(lax.add)(scalar, scalar), **_windows(x))


def _in_parts(x: Any) -> Any:
    f = custom_partitioning(lambda x: 2 * x)
    f.def_partition(lambda mesh, args, result: (
        mesh, lambda x: 2 * x, args[0].sharding, (args[0].sharding,)), sharding_rule="i -> i")
    return f(x)


def _foreign(x: Any) -> Any:
    types = mjax.ShapeDtypeStruct(x.shape, x.dtype), mjax.ShapeDtypeStruct((), np.int32)
    call = mjax.ffi.ffi_call("lapack_spotrf_ffi", types, vmap_method="sequential")
    return call(x, uplo=np.uint8(ord("U")))[0]


def _exported(x: Any) -> Any:
    return mjax.export.export(mjax.jit(lax.sin))(x).call(x)


def _checked(x: Any) -> Any:
    checkify.check(x[0] > 0, "the first is positive")
    return x


def _sent(x: Any) -> Any:
    """Each device sends a row, or none, to each."""
    ones = jnp.ones(lax.axis_size("i"), "int32")
    return lax.ragged_all_to_all(*_of_one_exchange(x, x, ones, ones, ones, ones), axis_name="i")


def _of_one_exchange(x: Any, out: Any, starts: Any, send: Any, *others: Any) -> tuple[Any, ...]:
    """Operands of `ragged_all_to_all` that say the same: each device has a row for each sender."""
    vary = 0 * lax.axis_index("i")
    send = send % 2 + vary
    return (x, out, starts % x.shape[0] + vary, send, 0 * send + lax.axis_index("i"),
            lax.all_to_all(send, "i", 0, 0, tiled=True))


class _Doubled(hijax.VJPHiPrimitive):
    """A linear operation that is an object."""

    def __init__(self, aval: Any):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return x + x

    def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
        return self(x), None

    def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
        return (self(ct),)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), self(*map(hijax.instantiate_zeros, tangents))

    def transpose(self, ct: Any, accum: Any) -> None:
        accum.accum(self(ct))

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return _Doubled(mjax.typeof(args[0]))(*args), dims[0]


class _Two(AbstractValue):
    """A type as users make them: two vectors."""

    def __repr__(self) -> str:
        return "Two(float32[3])"

    def physical(self) -> tuple[ShapedArray, ...]:
        return (ShapedArray((3,), np.dtype(np.float32)),) * 2


_TWO = _Two()


def _rematted(x: Any) -> Any:
    f = mjax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda c, ct: (c * ct,), optimize_remat=True)
    return mjax.vjp(f, x)[0]


_CUT = P("i")


def _along_devices(f: Any, spec: Any = _CUT, out: Any = _CUT) -> Any:
    def program(x: Any) -> Any:
        mesh = Mesh(np.array(mjax.devices()[:2]), ("i",))
        return mjax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out)(x)

    return program, (ROWS,)


def _turned(x: Any) -> Any:
    size = lax.axis_size("i")
    return lax.ppermute(x, "i", [(k, (k + 1) % size) for k in range(size)])


#: name -> what makes its operands belong together.
_FITS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "custom_linear_solve": _of_one_matrix, "ragged_all_to_all": _of_one_exchange}

#: name -> a further application, in which what the first one deviates in does not matter.
_FURTHER: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "check": ((ZERO,), {"slots": (), "debug": True}),
    "rng_uniform": (Operands((X[0], X[0]), lambda a, b: (a, a)), {"shape": (3,)}),
}

#: name -> a program that applies it, and its arguments.
_PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # types and shapes
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, np.int32), (X,)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)), (X,)),
    "concatenate": (lambda *xs: lax.concatenate(xs, 0), (M, N[:1])),
    "conj": (lax.conj, (COMPLEX,)),
    "convert_element_type": (lambda x: lax.convert_element_type(x, np.float16), (X,)),
    "dynamic_slice": (lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), (TABLE, ZERO, ONE)),
    "gather": (_gathered, (TABLE, np.array([[2], [0]], np.int32))),
    "name": (lambda x: mjax.ad_checkpoint.checkpoint_name(x, "x"), (X,)),
    "pad": (lambda x, v: lax.pad(x, v, ((1, 0, 1), (0, -1, 0))), (M, np.float32(0.5))),
    # It keeps all bits of these dtypes: with fewer, differences would see each step.
    "reduce_precision": (lambda x: lax.reduce_precision(x, 11, 52), (X,)),
    "reshape": (lambda x: lax.reshape(x, (3, 2)), (M,)),
    "rev": (lambda x: lax.rev(x, (1,)), (M,)),
    "round": (lax.round, (np.array([0.7, -1.2, 1.4], np.float32),)),
    "slice": (lambda x: lax.slice(x, (0, 1), (3, 4), (2, 1)), (TABLE,)),
    "split": (lambda x: lax.split(x, (1, 0, 2), 0), (TABLE,)),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), (M[:1],)),
    "stack": (lambda *xs: lax.stack(xs, 0), (M, N)),
    "tile": (lambda x: lax.tile(x, (2, 3)), (M,)),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), (M,)),
    "unstack": (lambda x: lax.unstack(x, axis=1), (M,)),
    # scatters
    "scatter": _scattered("scatter", unique_indices=True),
    "scatter-add": _scattered("scatter_add"),
    "scatter-max": _scattered("scatter_max"),
    "scatter-min": _scattered("scatter_min"),
    "scatter-mul": _scattered("scatter_mul"),
    "scatter-sub": _scattered("scatter_sub"),
    "scatter-apply": (lambda x: x.at[np.array([0, 2])].apply(jnp.sin), (X,)),
    # reductions and products
    "argmax": (lambda x: lax.argmax(x, 1, np.int32), (M,)),
    "argmin": (lambda x: lax.argmin(x, 1, np.int32), (M,)),
    "approx_top_k": (lambda x: lax.approx_max_k(x, 2), (TABLE,)),
    "conv_general_dilated": (lambda x, y: lax.conv_general_dilated(x, y, (1,), "VALID"),
                             (TABLE.reshape(2, 3, 2), SIX.reshape(2, 3, 1))),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), (M, TABLE)),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), (X,)),
    "ragged_dot_general": (_ragged, (np.concatenate([TABLE, -M[:, :1] + TABLE[:2]]),
                                     np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 4, 2))),
    "reduce": (lambda x: lax.reduce(
        x, jnp.float32(1), lambda a, b: a + b + a * b, (0,)), (X,)),
    "reduce_and": (lambda x: lax.reduce_and(x, (1,)), (INTS,)),
    "reduce_max": (lambda x: lax.reduce_max(x, (1,)), (M,)),
    "reduce_min": (lambda x: lax.reduce_min(x, (1,)), (M,)),
    "reduce_or": (lambda x: lax.reduce_or(x, (1,)), (INTS,)),
    "reduce_prod": (lambda x: lax.reduce_prod(x, (1,)), (M,)),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (1,)), (M,)),
    "reduce_xor": (lambda x: lax.reduce_xor(x, (1,)), (INTS,)),
    "sort": (lambda x: lax.sort(x, 1), (M,)),
    "top_k": (lambda x: lax.top_k(x, 2), (TABLE,)),
    # windows and cumulative operations
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), (M,)),
    "cummax": (lambda x: lax.cummax(x, 1), (M,)),
    "cummin": (lambda x: lax.cummin(x, 1), (M,)),
    "cumprod": (lambda x: lax.cumprod(x, 1), (M,)),
    "cumsum": (lambda x: lax.cumsum(x, 1), (M,)),
    "fft": (lambda x: lax.fft(x, "FFT", (3,)), (COMPLEX,)),
    "reduce_window": (lambda x: lax.reduce_window(
        x, jnp.float32(1), lambda a, b: a + b + a * b, (2,), (1,), "VALID"), (X,)),
    "reduce_window_max": (lambda x: p.reduce_window_max_p.bind(x, **_windows(x, **_DILATED)),
                          (SIX,)),
    "reduce_window_min": (lambda x: p.reduce_window_min_p.bind(x, **_windows(x, **_DILATED)),
                          (SIX,)),
    "reduce_window_sum": (lambda x: p.reduce_window_sum_p.bind(x, **_windows(x, **_DILATED)),
                          (SIX,)),
    "select_and_gather_add": (lambda t, x: p.select_and_gather_add_p.bind(
        t, x, select_prim=p.ge_p, **_windows(x, **_DILATED)), (SIX[::-1].copy(), SIX)),
    "select_and_scatter": (_selected, (SIX, TABLE[0])),
    "select_and_scatter_add": (lambda s, x: p.select_and_scatter_add_p.bind(
        s, x, select_prim=p.ge_p, **_windows(x)), (TABLE[0], SIX)),
    # decompositions, and calls of other code
    "call_exported": (_exported, (X,)),
    "ffi_call": (_foreign, (MATRIX @ MATRIX.T,)),
    "eig": (lambda x: lax.linalg.eig(
        x, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
        (0.3 * MATRIX + np.diag(np.array([0, 2, 4], np.float32)),)),
    "eigh": (lambda x: lax.linalg.eigh(x, symmetrize_input=False), (MATRIX + MATRIX.T,)),
    "lu_pivots_to_permutation": (lambda x: lax.linalg.lu_pivots_to_permutation(x, 4),
                                 (np.array([1, 3, 2], np.int32),)),
    "ormqr": (lambda a, taus, c: lax.linalg.ormqr(a, taus, c),
              (FOUR[:3, :2], POSITIVE[:2] / 3, MATRIX)),
    "qr": (lambda x: lax.linalg.qr(x, full_matrices=False), (TABLE.T,)),
    "schur": (lambda x: lax.linalg.schur(x), (MATRIX,)),
    "svd": (lambda x: lax.linalg.svd(x, full_matrices=False), (TABLE.T,)),
    "triangular_solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
                         (np.triu(MATRIX), M.T)),
    "tridiagonal": (lambda x: lax.linalg.tridiagonal(x), (FOUR + FOUR.T,)),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, (
        TABLE[0], TABLE[1] + 4, TABLE[2], FOUR[:, :2])),
    # random numbers
    "random_bits": (lambda: mjax.random.bits(_key(), (3,)), ()),
    "random_clone": (lambda: mjax.random.clone(_key()), ()),
    "random_fold_in": (lambda n: mjax.random.fold_in(_key(), n), (np.uint32(7),)),
    "random_gamma": (lambda a: mjax.random.gamma(_key(), a), (np.abs(X),)),
    "random_seed": (lambda n: mjax.random.key(n), (np.int32(7),)),
    "random_split": (lambda: mjax.random.split(_key(), (2, 3)), ()),
    "random_unwrap": (lambda: mjax.random.key_data(_key()), ()),
    "random_wrap": (lambda x: mjax.random.wrap_key_data(x, impl="threefry2x32"), (WORDS[:2],)),
    "rng_uniform": (lambda a, b: lax.rng_uniform(a, b, (3,)), (X[2], X[0])),
    "rng_bit_generator": (lambda x: lax.rng_bit_generator(x, (3,)),
                          (np.arange(4, dtype=np.uint32),)),
    # programs in programs
    "call": (lambda x: p.call_p.bind(x, call_jaxpr=mjax.make_jaxpr(jnp.sin)(x)), (X,)),
    "closed_call": (lambda x: p.closed_call_p.bind(
        x, call_jaxpr=mjax.make_jaxpr(jnp.sin)(x)), (X,)),
    "composite": (lambda x: lax.composite(lambda x: jnp.sin(x), "mine.sin")(x), (X,)),
    "cond": (lambda i, x: lax.cond(i > 0, jnp.sin, jnp.cos, x), (ONE, X)),
    "custom_jvp_call": (_with_jvp, (X,)),
    "custom_linear_solve": (_solved, (A, X)),
    "custom_vjp_call": (_with_vjp, (X,)),
    "custom_vmap_call": (_with_vmap, (X,)),
    "jit": (lambda x: mjax.jit(lambda x: jnp.sin(x) * 2)(x), (X,)),
    "linear_call": (_linear, (X, 2 * X)),
    "remat_opt": (_rematted, (X,)),
    "remat2": (lambda x: mjax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x), (X,)),
    "scan": (lambda x: lax.scan(lambda c, x: (c * x, c + x), jnp.float32(1), x), (X,)),
    "while": (lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1], (X,)),
    "platform_index": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (X,)),
    # effects
    "after_all": (lambda: lax.after_all(lax.create_token()), ()),
    "check": (_checked, (X,)),
    **dict.fromkeys(("get", "swap", "addupdate", "freeze"), (_written, (X,))),
    "free_ref": (_freed, (X,)),
    "debug_callback": (lambda x: [mjax.debug.callback(lambda x: None, x), x][1], (X,)),
    "io_callback": (lambda x: io_callback(
        lambda x: np.sin(x), mjax.ShapeDtypeStruct((3,), "float32"), x), (X,)),
    "pure_callback": (lambda x: mjax.pure_callback(
        lambda x: np.sin(x), mjax.ShapeDtypeStruct((3,), "float32"), x,
        vmap_method="sequential"), (X,)),
    "call_hi_primitive": (lambda x: _Doubled(mjax.typeof(x))(x), (X,)),
    "call_hi_primitive_linearized": (
        lambda x: mjax.linearize(_Doubled(mjax.typeof(x)), x)[1](x), (X,)),
    # users' types
    "pack": (lambda x: p.pack_p.bind(x, 2 * x, aval=_TWO), (X,)),
    "unpack": (lambda x: p.unpack_p.bind(p.pack_p.bind(x, 2 * x, aval=_TWO)), (X,)),
    # devices
    "custom_partitioning": (_in_parts, (X,)),
    "inspect_sharding": (lambda x: mjax.debug.inspect_array_sharding(
        x, callback=lambda sharding: None), (X,)),
    "layout_constraint": (lambda x: with_layout_constraint(x, Layout((1, 0))), (M,)),
    "ragged_all_to_all": _along_devices(_sent),
    "device_put": (lambda x: mjax.device_put(x, mjax.devices()[0]), (X,)),
    "sharding_constraint": (lambda x: lax.with_sharding_constraint(
        x, SingleDeviceSharding(mjax.devices()[0])), (X,)),
    "shard_map": _along_devices(lambda x: jnp.sin(x)),
    "all_gather": _along_devices(lambda x: lax.all_gather(x, "i")),
    "all_gather_invariant": _along_devices(lambda x: lax.all_gather_invariant(x, "i"), out=P()),
    "all_to_all": _along_devices(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True)),
    "pbroadcast": _along_devices(lambda x: lax.pbroadcast(x, "i", 0)),
    "pmax_invariant": _along_devices(lambda x: lax.pmax(x, "i"), out=P()),
    "pmin_invariant": _along_devices(lambda x: lax.pmin(x, "i"), out=P()),
    "ppermute": _along_devices(_turned),
    "pscatter": _along_devices(lambda x: lax.pscatter(x, "i", tiled=True), P()),
    "psum_invariant": _along_devices(lambda x: lax.psum(x, "i"), out=P()),
    "pvary": _along_devices(lambda x: lax.pcast(x, "i", to="varying"), P()),
    "reduce_scatter": _along_devices(lambda x: lax.psum_scatter(x, "i", tiled=True)),
}

_NAMED = {getattr(p, name).name: getattr(p, name) for name in p.__all__}
#: Primitive -> operands and params.
APPLIED = {_NAMED[name]: application for name, application in [
    *((name, (operands, {})) for operands, names in _OPERANDS for name in names.split()),
    *_APPLIED.items()]}
#: Primitive -> a program that applies it, and its arguments.
PROGRAMS = {_NAMED[name]: program for name, program in _PROGRAMS.items()}
#: Primitive -> a function that makes operands and params, of what programs do not evaluate.
MADE = {p.custom_lin_p: _backward}
#: Primitive -> operands and params of a further application, for the few that have one.
FURTHER = {_NAMED[name]: application for name, application in _FURTHER.items()}
#: Primitive -> what makes its operands belong together, for the few that need it.
FITS = {_NAMED[name]: fit for name, fit in _FITS.items()}
