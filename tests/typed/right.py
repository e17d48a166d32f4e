"""Calls that type checkers must accept, with the types that they must find."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, assert_type

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import Array, lax, random
from mjax.experimental import checkify
from mjax.typing import ArrayLike, DTypeLike
from mjax_ext.core import JaxprEqn

x: Array = jnp.arange(3.0)

# ---- arrays
assert_type(x + x, Array)
assert_type(x + 1, Array)
assert_type(2.0 * x, Array)
assert_type(x @ x, Array)
assert_type(-x, Array)
assert_type(x == 1, Array)
assert_type(x < 2, Array)
assert_type(divmod(x, 2), tuple[Array, Array])
assert_type(x[0], Array)
assert_type(x[1:, None, ...], Array)
assert_type(x[x > 1], Array)
assert_type(x[jnp.array([0, 1])], Array)
assert_type(x.sum(axis=0, keepdims=True), Array)
assert_type(x.reshape(3, 1), Array)
assert_type(x.reshape((3, -1)), Array)
assert_type(x.astype(jnp.float16), Array)
assert_type(x.astype("int32"), Array)
assert_type(x.at[0].set(1.0), Array)
assert_type(x.at[1:].add(x[1:]), Array)
assert_type(x.T, Array)
assert_type(x.shape, tuple[int, ...])
assert_type(x.ndim, int)
assert_type(x.dtype.itemsize, int)
assert_type(x.dtype == jnp.float32, bool)
jnp.zeros(3, dtype=x.dtype)
assert_type([element for element in x], list[Array])
assert_type(float(x[0]), float)
assert_type(x.item(), Any)
assert_type(x[np.int32(0)], Array)
assert_type(x[x.argmax()], Array)
assert_type(x[: x.size - 1], Array)
assert_type(x[x[0] : x[1]], Array)
assert_type(x[(slice(1, None), [0, 1])], Array)
assert_type(x.at[0].get(), Array)
assert_type(x + np.ones(3), Array)
assert_type(np.float32(1) * x, Array)
assert_type(2**x, Array)
assert_type(~(x > 1) & (x < 2), Array)
assert_type(abs(x), Array)
assert_type(len(x), int)
assert_type(int(x[0]), int)
assert_type(bool(x[0] > 0), bool)
assert_type(complex(x[0]), complex)
assert_type(x.addressable_shards[0].index, tuple[slice, ...])

# ---- functions
assert_type(jnp.sum(x), Array)
assert_type(jnp.sum(x, axis=(0,), dtype=jnp.float32), Array)
assert_type(jnp.sin(1.0), Array)
assert_type(jnp.add(x, 1), Array)
assert_type(jnp.maximum(x, 0), Array)
assert_type(jnp.zeros((3, 2), dtype=np.float32), Array)
assert_type(jnp.zeros(3), Array)
assert_type(jnp.concatenate([x, x]), Array)
assert_type(jnp.stack((x, x), axis=1), Array)
assert_type(jnp.einsum("i,i->", x, x), Array)
assert_type(jnp.float32(1), Array)
assert_type(jnp.linalg.norm(x), Array)
assert_type(jnp.fft.fft(x), Array)
assert_type(jnp.divmod(x, 2), tuple[Array, Array])
assert_type(jnp.where(x > 1, x, 0), Array)
assert_type(jnp.where(x > 1), tuple[Array, ...])
assert_type(jnp.unique(x), Array)
assert_type(jnp.linspace(0, 1), Array)
assert_type(jnp.linspace(0, 1, retstep=True), tuple[Array, Array])
assert_type(jnp.average(x, returned=True), tuple[Array, Array])
assert_type(jnp.split(x, 3), list[Array])
assert_type(jnp.linalg.svd(x).S, Array)
assert_type(jnp.linalg.svd(x, compute_uv=False), Array)
assert_type(jnp.linalg.qr(x, "r"), Array)
eigenvalues, eigenvectors = jnp.linalg.eigh(x)
assert_type(eigenvectors, Array)
assert_type(jnp.linalg.slogdet(x).logabsdet, Array)
assert_type(jnp.linalg.norm(x[:, None], ord="fro"), Array)
assert_type(jnp.linalg.vector_norm(x, ord=np.inf), Array)
assert_type(jnp.linalg.svd(x, False, False), Array)
assert_type(jnp.linspace(0, 1, 3, True, True), tuple[Array, Array])
assert_type(jnp.tensordot(x, x, axes=([0], [0])), Array)
assert_type(jnp.einsum("i,i->", x, x, optimize=True), Array)
assert_type(jnp.einsum_path(x, [0], x, [0])[0], list[tuple[int, ...]])
assert_type(jnp.delete(x, slice(0, 1)), Array)
assert_type(jnp.insert(x, slice(0, 1), 2.0), Array)
assert_type(jnp.nonzero(x, size=4, fill_value=(0,)), tuple[Array, ...])
assert_type(jnp.where(x > 1, size=4, fill_value=(0,)), tuple[Array, ...])
assert_type(jnp.histogram_bin_edges(x, bins=x), Array)
assert_type(jnp.trace(x[:, None], offset=x[0]), Array)
assert_type(jnp.eye(3, k=np.int64(1)), Array)
assert_type(jnp.mgrid[0:3, 0:2], Array)
assert_type(jnp.ogrid[0:3, 0:2], list[Array])
assert_type(jnp.r_[1, 2, x], Array)
assert_type(jnp.s_[0], int)
assert_type(jnp.index_exp[0], tuple[Any, ...])
assert_type(jnp.add.reduce(x), Array)
assert_type(jnp.multiply.outer(x, x), Array)
assert_type(jnp.maximum.accumulate(x), Array)
assert_type(jnp.add.at(x, 0, 1, inplace=False), Array)
assert_type(jnp.finfo(x.dtype).bits, int)
assert_type(jnp.finfo(jnp.float32).eps, np.floating[Any])
assert_type(jnp.iinfo(jnp.int32).max, int)
assert_type(jnp.result_type(x, 1), np.dtype[Any])
assert_type(jnp.result_type(x, return_weak_type_flag=True), tuple[np.dtype[Any], bool])
assert_type(jnp.promote_types(int, jnp.float32), np.dtype[Any])
assert_type(mjax.dtypes.canonicalize_dtype(float), np.dtype[Any])
assert_type(mjax.scipy.special.logsumexp(x, return_sign=True), tuple[Array, Array])
assert_type(mjax.scipy.linalg.qr(x), tuple[Array, Array])
assert_type(mjax.scipy.linalg.qr(x, mode="r"), tuple[Array])
assert_type(mjax.scipy.linalg.qr(x, pivoting=True), tuple[Array, Array, Array])
assert_type(mjax.scipy.linalg.qr_multiply(x, x, pivoting=True), tuple[Array, Array, Array])
assert_type(mjax.scipy.signal.csd(x, None), tuple[Array, Array])
assert_type(mjax.scipy.stats.mode(x).count, Array)
assert_type(mjax.scipy.optimize.minimize(jnp.sum, x, method="BFGS").x, Array)
assert_type(lax.conv_dimension_numbers((1,), (1,), None), lax.ConvDimensionNumbers)
assert_type(lax.reduce_window(x, 0.0, lax.add, (2,), (1,), [(0, 1)]), Array)
assert_type(lax.concatenate(x[None], 0), Array)
assert_type(lax.transpose(x, np.array([0])), Array)
assert_type(lax.sort(x), Array)
assert_type(lax.sort((x, x)), tuple[Array, ...])
assert_type(mjax.nn.relu(x), Array)
assert_type(mjax.nn.softmax(x, axis=-1), Array)
assert_type(mjax.nn.softmax(x, axis=None), Array)
assert_type(mjax.nn.one_hot(x, 3, axis="i"), Array)
assert_type(mjax.nn.dot_product_attention(x, x, x), Array)
assert_type(mjax.nn.dot_product_attention(x, x, x, return_residual=True), tuple[Array, Array])
assert_type(mjax.scipy.special.erf(x), Array)
assert_type(mjax.scipy.stats.norm.logpdf(x, 0.0, 1.0), Array)
assert_type(lax.add(x, x), Array)
assert_type(lax.stop_gradient(x), Array)
assert_type(lax.top_k(x, 2), list[Array])
key = random.key(0)
assert_type(random.normal(key, (3,)), Array)
first, second = random.split(key)
assert_type(first, Array)
assert_type(mjax.nn.initializers.glorot_normal()(key, (2, 2), jnp.float32), Any)


# ---- transformations
def counted(total: int, y: Array) -> int:
    return total + y.size


def decay(y: Array) -> Array:
    return y / 2


def loss(p: dict[str, Array], y: Array, scale: float = 1.0) -> Array:
    return jnp.sum(p["w"] * y) * scale


def with_aux(p: dict[str, Array], y: Array) -> tuple[Array, int]:
    return loss(p, y), 3


params = {"w": x}
assert_type(mjax.jit(loss)(params, x, scale=2.0), Array)
assert_type(mjax.grad(loss)(params, x), dict[str, Array])
assert_type(mjax.grad(loss)(params, x, scale=2.0), dict[str, Array])
assert_type(mjax.grad(with_aux, has_aux=True)(params, x), tuple[dict[str, Array], int])
assert_type(mjax.value_and_grad(loss)(params, x), tuple[Array, dict[str, Array]])
assert_type(mjax.value_and_grad(with_aux, has_aux=True)(params, x),
            tuple[tuple[Array, int], dict[str, Array]])
assert_type(mjax.grad(loss, argnums=(0, 1))(params, x), Any)
assert_type(mjax.vmap(loss, in_axes=(None, 0))(params, x), Array)
assert_type(mjax.jit(mjax.grad(loss))(params, x), dict[str, Array])
mjax.jit(mjax.grad(lambda a: jnp.sum(a ** 2)))(x)
mjax.jit(mjax.vmap(mjax.grad(lambda a, b: jnp.tanh(a) * b)))(x, x)
mjax.vmap(mjax.value_and_grad(lambda a: jnp.tanh(a) * 2))(x)
mjax.grad(mjax.grad(lambda a: a ** 3))(1.0)
assert_type(mjax.checkpoint(loss)(params, x), Array)
assert_type(mjax.named_call(loss, name="loss")(params, x), Array)
mjax.jit(loss).lower(params, x).compile()
mjax.jit(lambda x: x + 1)(x)
mjax.grad(lambda x: x**2)(3.0)
mjax.vmap(lambda x, y: x + y)(x, x)
value, pullback = mjax.vjp(jnp.sin, x)
assert_type(value, Array)
assert_type(mjax.jvp(jnp.sin, (x,), (x,)), tuple[Array, Array])
assert_type(mjax.vmap(mjax.grad(loss), in_axes=(None, 0))(params, x), dict[str, Array])
assert_type(mjax.vmap(lambda p, y: p["w"] * y, in_axes=(None, 0))(params, x), Any)
assert_type(mjax.value_and_grad(loss, argnums=(0, 1))(params, x), tuple[Array, Any])
assert_type(mjax.make_jaxpr(loss)(params, x).eqns, list[JaxprEqn])
assert_type(mjax.linearize(jnp.sin, x)[0], Array)
assert_type(mjax.device_put(1.0), Array)
assert_type(mjax.block_until_ready(params), dict[str, Array])
mjax.pmap(loss, in_axes=(None, 0))(params, x).sum()
assert_type(mjax.smap(decay, in_axes=0, out_axes=0, axis_name="i")(x), Array)
assert_type(mjax.smap(in_axes=0, out_axes=0, axis_name="i")(decay)(x), Array)
assert_type(checkify.checkify(decay)(x), tuple[checkify.Error, Array])
assert_type(mjax.flatten_util.ravel_pytree(params)[0], Array)
mjax.export.export(mjax.jit(lambda a: a))(x).call(x)
assert_type(mjax.jit(decay).__name__, str)
assert_type(mjax.jit(decay).__wrapped__(x), Array)


@mjax.jit
def decorated(x: Array, *, flag: bool = False) -> Array:
    return x if flag else -x


@mjax.jit(static_argnames="flag")
def with_options(x: Array, *, flag: bool = False) -> Array:
    return x if flag else -x


@functools.partial(mjax.jit, static_argnames="flag")
def with_partial(x: Array, *, flag: bool = False) -> Array:
    return x if flag else -x


assert_type(decorated(x, flag=True), Array)
assert_type(with_options(x, flag=True), Array)
assert_type(with_partial(x, flag=True), Array)
with_partial.lower(x)


@mjax.jit
def of_any(x: Array) -> Any:
    return x


assert_type(of_any(x), Any)
assert_type(mjax.grad(of_any)(x), Array)


class Model:
    scale: float = 2.0

    @mjax.jit
    def apply(self, x: Array) -> Array:
        return x * self.scale


assert_type(Model().apply(x), Array)


class Methods:
    @functools.partial(mjax.jit, static_argnums=0)
    def by_partial(self, x: Array) -> Array:
        return x

    @mjax.jit(static_argnums=0)
    def by_options(self, x: Array) -> Array:
        return x

    @functools.partial(mjax.vmap, in_axes=(None, 0))
    def batched(self, x: Array) -> Array:
        return x

    @mjax.checkpoint
    def recomputed(self, x: Array) -> Array:
        return x

    @staticmethod
    @mjax.jit
    def static(x: Array) -> Array:
        return x


assert_type(Methods().by_partial(x), Array)
assert_type(Methods().by_options(x), Array)
assert_type(Methods.by_options(Methods(), x), Array)
assert_type(Methods().batched(x), Array)
assert_type(Methods().recomputed(x), Array)
assert_type(Methods.static(x), Array)


@mjax.custom_jvp
def clipped(x: Array, bound: float) -> Array:
    return jnp.clip(x, -bound, bound)


@clipped.defjvp
def clipped_jvp(primals: Any, tangents: Any) -> Any:
    return clipped(*primals), tangents[0]


@mjax.custom_vjp
def identity(x: Array) -> Array:
    return x


identity.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
assert_type(clipped(x, 1.0), Array)
assert_type(identity(x), Array)


@functools.partial(mjax.custom_vjp, nondiff_argnums=(1,))
def scaled_gradient(x: Array, scale: float) -> Array:
    return x


def scaled_gradient_fwd(x: Array, scale: float) -> tuple[Array, None]:
    return x, None


def scaled_gradient_bwd(scale: float, residuals: None, ct: Array) -> tuple[Array]:
    return (scale * ct,)


scaled_gradient.defvjp(scaled_gradient_fwd, scaled_gradient_bwd)
scaled_gradient(x, 2.0)


# ---- control flow
class State(NamedTuple):
    total: Array
    steps: Array


def step(state: State, value: Array) -> tuple[State, Array]:
    return State(state.total + value, state.steps + 1), state.total


start = State(x[0], x[1])
assert_type(lax.scan(step, start, x), tuple[State, Array])
lax.scan(lambda c, y: (c + y, None), 0.0, x)
assert_type(lax.while_loop(lambda s: s.steps < 3, lambda s: State(s.total, s.steps + 1), start),
            State)
assert_type(lax.fori_loop(0, 3, lambda i, s: State(s.total + i, s.steps), start), State)
assert_type(lax.cond(True, jnp.sin, jnp.cos, x), Array)
assert_type(lax.cond(x[0] > 0, lambda: x, lambda: -x), Array)
assert_type(mjax.tree.map(jnp.sin, params), dict[str, Array])
assert_type(mjax.tree.map(lambda a, b: a + b, params, params), dict[str, Array])
assert_type(lax.switch(0, [jnp.sin, jnp.cos], x), Array)
assert_type(lax.map(jnp.sin, x), Array)
assert_type(lax.associative_scan(jnp.add, x), Array)
assert_type(mjax.tree.reduce(counted, params, 0), int)
assert_type(mjax.tree.reduce(lambda a, b: a + jnp.sum(b), params), Any)
mjax.tree.reduce(lambda a, b: a + jnp.sum(b), params, 0.0)
mjax.debug.print("{}", x)
mjax.debug.print(ordered=True)("{ordered}", ordered=x)
leaves, treedef = mjax.tree.flatten(params)
assert_type(treedef.num_leaves, int)
assert_type(treedef.unflatten(leaves), Any)
assert_type(mjax.tree_util.Partial(loss, params)(x), Array)
mesh = mjax.make_mesh((1,), ("i",))
mapped = mjax.shard_map(decorated, mesh=mesh, in_specs=mjax.P("i"), out_specs=mjax.P("i"))
assert_type(mapped(x), Array)


@functools.partial(mjax.shard_map, mesh=mesh, in_specs=mjax.P("i"), out_specs=mjax.P("i"))
def mapped_by_partial(x: Array) -> Array:
    return x


@mjax.shard_map(mesh=mesh, in_specs=mjax.P("i"), out_specs=mjax.P("i"))
def mapped_by_options(x: Array) -> Array:
    return x


assert_type(mapped_by_partial(x), Array)
assert_type(mapped_by_options(x), Array)
assert_type(mjax.vmap(mapped_by_options)(x), Array)
assert_type(mesh.axis_names, tuple[Hashable, ...])
assert_type(mesh.shape["i"], int)
assert_type(mesh.size, int)
device = mjax.devices()[0]
assert_type(device, mjax.Device)
assert_type(device.platform, str)
assert_type(x.devices(), set[mjax.Device])
assert_type(x.sharding.device_set, set[mjax.Device])
mjax.sharding.Mesh(np.array(mjax.devices()).reshape(-1, 1), ("i", "j"))
assert_type(mesh.axis_types[0], mjax.sharding.AxisType)


# ---- classes that are registered
@mjax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Array
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@functools.partial(mjax.tree_util.register_dataclass, data_fields=["w"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Array


@mjax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, first: Array, second: Array) -> None:
        self.first = first
        self.second = second

    def tree_flatten(self) -> tuple[tuple[Array, Array], None]:
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[Array, Array]) -> Pair:
        return cls(*children)


@mjax.tree_util.register_static
class Mode:
    name: str = "train"


assert_type(Layer(x).w, Array)
assert_type(Frozen(x).w, Array)
assert_type(Pair(x, x).first, Array)
assert_type(Mode().name, str)


# ---- references
def accumulate(ref: mjax.Ref, y: Array) -> Array:
    ref[...] += y
    ref[0] = 1.0
    ref.at[1:][0] = y[0]
    assert_type(ref.at[1:][...], Array)
    assert_type(ref.dtype, np.dtype[Any])
    assert_type(ref.shape, tuple[int, ...])
    return ref[...]


assert_type(mjax.new_ref(x), mjax.Ref)
assert_type(mjax.freeze(mjax.new_ref(x)), Array)
assert_type(mjax.ref.get(mjax.new_ref(x)), Array)


# ---- settings
@mjax.disable_jit()
def slowly(x: Array) -> Array:
    with mjax.enable_x64(True), mjax.debug_nans(), mjax.default_matmul_precision("float32"):
        return x


assert_type(slowly(x), Array)
mjax.config.update("jax_enable_x64", False)
mjax.config.update("platforms", "cpu")
mjax.config.jax_debug_nans = False
setattr(mjax.config, "".join(("enable", "_x64")), False)
assert_type(mjax.config.enable_x64, bool)
assert_type(mjax.config.jax_numpy_rank_promotion, str)
assert_type(mjax.config.default_matmul_precision, str | None)
assert_type(mjax.config.values["enable_x64"], Any)


# ---- annotations
def scaled(x: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    return jnp.asarray(x, dtype) * 2


scaled(3), scaled(1j), scaled(np.ones(3)), scaled(x, jnp.float32), scaled(True, "float32")
function: Callable[[Array], Array] = mjax.jit(jnp.sin)
