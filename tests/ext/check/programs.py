"""Programs that apply the primitives which no table of `tests/engine/primitives` has.

`applications` finds the equations of a program, with the values of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.jaxpr import Literal, jaxprs_in_params
from mjax.sharding import Mesh
from mjax.sharding import PartitionSpec as P
from mjax_ext.core.primitives import call_p, closed_call_p, pmax_p, pmin_p, psum_p

X = np.array([0.7, -1.2, 0.4], np.float32)
A = np.array([[2.0, 0.3, -0.1], [0.4, 1.5, 0.2], [0.1, -0.2, 1.8]], np.float32)

Application = tuple[Any, list[Any], dict[str, Any]]


def applications(f: Callable[..., Any], *args: Any) -> Iterator[Application]:
    """The equations of a function: primitive, values of the operands, params.

    Those in the bodies of other equations get operands of their types.
    """
    yield from _evaluated(mjax.make_jaxpr(f)(*args), args)


def _evaluated(jaxpr: Any, args: Any) -> Iterator[Application]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.consts, *args], strict=True))
    for eqn in jaxpr.eqns:
        operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
        yield eqn.primitive, operands, eqn.params
        for body in jaxprs_in_params(eqn.params):
            yield from _inside(body)
        out = eqn.primitive.bind(*operands, **eqn.params)
        values.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out],
                          strict=True))


def _inside(jaxpr: Any) -> Iterator[Application]:
    rng = np.random.default_rng(0)
    for eqn in jaxpr.eqns:
        if all(hasattr(a.aval, "dtype") for a in eqn.invars):
            yield eqn.primitive, [_drawn(rng, a.aval) for a in eqn.invars], eqn.params
        for body in jaxprs_in_params(eqn.params):
            yield from _inside(body)


def _drawn(rng: Any, aval: Any) -> Any:
    if not isinstance(aval.dtype, np.dtype):
        return mjax.random.split(mjax.random.key(0), aval.shape)
    if np.issubdtype(aval.dtype, np.floating):
        return np.asarray(rng.normal(size=aval.shape), aval.dtype)
    return np.asarray(rng.integers(0, 2, aval.shape)).astype(aval.dtype)


# ---- programs --------------------------------------------------------------------------------


def references(x):
    ref = mjax.new_ref(x)
    ref[0] = 2.0
    mjax.ref.addupdate(ref, slice(1, None), x[1:])
    return ref[...] * mjax.freeze(ref)


def freed(x):
    ref = mjax.new_ref(x)
    out = ref[1]
    mjax.free_ref(ref)
    return out


@mjax.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), jnp.cos(primals[0]) * tangents[0]))


@mjax.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.cos(x) * ct,))


@mjax.custom_batching.custom_vmap
def with_vmap(x):
    return jnp.sin(x)


with_vmap.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))


def linear(x, y):
    return mjax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, ct: ct * r, y, x)


def solved(a, b):
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda matvec, b: jnp.linalg.solve(a, b),
        lambda matvec, b: jnp.linalg.solve(a.T, b))


CUT = P("i")


def devices(f, spec=CUT, out=CUT):
    mesh = Mesh(np.array(mjax.devices()[:2]), ("i",))
    return mjax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out)


XX = np.stack([X, 2 * X, X - 1, -X])

#: name of a primitive -> a program that applies it, and its arguments.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **dict.fromkeys(("new_ref", "get", "swap", "addupdate", "freeze"), (references, (X,))),
    "free_ref": (freed, (X,)),
    "cond": (lambda i, x: lax.cond(i > 0, jnp.sin, jnp.cos, x), (np.int32(1), X)),
    "while": (lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1], (X,)),
    "scan": (lambda x: lax.scan(lambda c, x: (c * x, c + x), jnp.float32(1), x), (X,)),
    "jit": (lambda x: mjax.jit(lambda x: jnp.sin(x) * 2)(x), (X,)),
    "closed_call": (lambda x: closed_call_p.bind(
        x, call_jaxpr=mjax.make_jaxpr(jnp.sin)(x)), (X,)),
    "call": (lambda x: call_p.bind(x, call_jaxpr=mjax.make_jaxpr(jnp.sin)(x)), (X,)),
    "composite": (lax.composite(lambda x: jnp.sin(x), "mine.sin"), (X,)),
    "remat2": (mjax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (X,)),
    "custom_jvp_call": (with_jvp, (X,)),
    "custom_vjp_call": (with_vjp, (X,)),
    "custom_vmap_call": (with_vmap, (X,)),
    "linear_call": (linear, (X, 2 * X)),
    "custom_linear_solve": (solved, (A, X)),
    "reduce": (lambda x: lax.reduce(
        x, jnp.float32(1), lambda a, b: a + b + a * b, (0,)), (X,)),
    "reduce_window": (lambda x: lax.reduce_window(
        x, jnp.float32(1), lambda a, b: a + b + a * b, (2,), (1,), "VALID"), (X,)),
    "scatter-apply": (lambda x: x.at[np.array([0, 2])].apply(jnp.sin), (X,)),
    "pure_callback": (lambda x: mjax.pure_callback(
        lambda x: np.sin(x), mjax.ShapeDtypeStruct((3,), "float32"), x,
        vmap_method="sequential"), (X,)),
    "io_callback": (lambda x: mjax.experimental.io_callback(
        lambda x: np.sin(x), mjax.ShapeDtypeStruct((3,), "float32"), x), (X,)),
    "debug_callback": (lambda x: [mjax.debug.callback(lambda x: None, x), x][1], (X,)),
    "device_put": (lambda x: mjax.device_put(x, mjax.devices()[0]), (X,)),
    "sharding_constraint": (lambda x: lax.with_sharding_constraint(
        x, mjax.sharding.SingleDeviceSharding(mjax.devices()[0])), (X,)),
    "random_gamma": (lambda a: mjax.random.gamma(mjax.random.key(0), a), (np.abs(X),)),
    "shard_map": (devices(lambda x: jnp.sin(x)), (XX,)),
    "pscatter": (devices(lambda x: lax.pscatter(x, "i", tiled=True), P()), (XX,)),
    "all_gather_invariant": (devices(lambda x: lax.all_gather_invariant(x, "i"), out=P()), (XX,)),
    "psum_invariant": (devices(lambda x: lax.psum(x, "i"), out=P()), (XX,)),
    "pmax_invariant": (devices(lambda x: lax.pmax(x, "i"), out=P()), (XX,)),
    "pmin_invariant": (devices(lambda x: lax.pmin(x, "i"), out=P()), (XX,)),
    "pvary": (devices(lambda x: lax.pcast(x, "i", to="varying"), P()), (XX,)),
    "ppermute": (devices(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)])), (XX,)),
    "pbroadcast": (devices(lambda x: lax.pbroadcast(x, "i", 0)), (XX,)),
    "all_gather": (devices(lambda x: lax.all_gather(x, "i")), (XX,)),
    "reduce_scatter": (devices(lambda x: lax.psum_scatter(x, "i", tiled=True)), (XX,)),
    "all_to_all": (devices(lambda x: lax.all_to_all(x, "i", 0, 0)), (XX,)),
    "axis_index": (devices(lambda x: x + lax.axis_index("i")), (XX,)),
}

#: Applications that no program has, as tuples of the primitive, its operands and its params.
DIRECT: dict[str, Application] = {
    p.name: (p, [X], {"axes": ("i",), "axis_index_groups": None}) for p in (psum_p, pmax_p, pmin_p)}
