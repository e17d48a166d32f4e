"""Params of equations have jax's names, but for the table in docs/primitives.md."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np

import mjax

PAGE = Path(mjax.__file__).parents[1] / "docs" / "primitives.md"

#: Functions of `x` (4 floats), `a` (a 4 by 4 matrix), `i` (integers), `b` (booleans), `k` (a key).
PROGRAMS = """
    [getattr(lax, name)(x) for name in UNARY.split()]
    [getattr(lax, name)(x, x) for name in BINARY.split()]
    [getattr(lax, name)(i, i) for name in BITWISE.split()]
    [lax.bitwise_not(i), lax.clz(i), lax.population_count(i), lax.mulhi(i, i)]
    [lax.complex(x, x), lax.conj(x + 0j), lax.real(x + 0j), lax.imag(x + 0j)]
    lax.betainc(x, x, x)
    [lax.integer_pow(x, 3), lax.clamp(0.0, x, 1.0), lax.reduce_precision(x, 5, 10)]
    [lax.convert_element_type(x, 'int32'), lax.bitcast_convert_type(x, 'int32')]
    [lax.broadcast_in_dim(x, (2, 4), (1,)), lax.concatenate([x, x], 0), lax.iota('int32', 4)]
    lax.conv_general_dilated(a[None, None], a[None, None], (1, 1), 'SAME')
    [f(x) for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)]
    jnp.dot(a, a)
    [lax.dynamic_slice(x, (i[0],), (2,)), lax.dynamic_update_slice(x, x[:2], (i[0],))]
    [lax.linalg.cholesky(a), lax.linalg.eigh(a), lax.linalg.lu(a), lax.linalg.qr(a)]
    [lax.linalg.svd(a), lax.linalg.schur(a), lax.linalg.hessenberg(a), lax.linalg.tridiagonal(a)]
    [lax.linalg.eig(a), lax.linalg.cholesky_update(a, x), lax.linalg.symmetric_product(a, a)]
    [lax.linalg.triangular_solve(a, a), lax.linalg.tridiagonal_solve(x, x, x, a)]
    lax.linalg.householder_product(a, x)
    lax.fft(x + 0j, 'fft', (4,))
    [x[i], x.at[i].set(1.0), x.at[i].add(1.0), x.at[i].mul(1.0), x.at[i].max(1.0), x.at[i].min(1.0)]
    x.at[i].subtract(1.0)
    [lax.optimization_barrier(x), lax.pad(x, 0.0, ((1, 1, 0),)), lax.rev(x, (0,)), lax.sort(x)]
    [f(x, (0,)) for f in (lax.reduce_sum, lax.reduce_prod, lax.reduce_max, lax.reduce_min)]
    [lax.reduce_and(b, (0,)), lax.reduce_or(b, (0,)), lax.reduce_xor(i, (0,))]
    [lax.argmax(x, 0, 'int32'), lax.argmin(x, 0, 'int32')]
    lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), 'SAME')
    lax.reduce_window(x, np.inf, lax.min, (2,), (1,), 'SAME')
    lax.reduce_window(x, 0.0, lax.add, (2,), (1,), 'SAME')
    lax.reduce_window(x, 1.0, lambda a, b: a * b + a, (2,), (1,), 'SAME')
    lax.reduce(x, np.float32(1), lambda a, b: a * b + a, (0,))
    m.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), 'SAME').sum())(x)
    m.jvp(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), 'SAME'), (x,), (x,))
    [lax.reshape(x, (2, 2)), lax.squeeze(a[:1], (0,)), lax.transpose(a, (1, 0)), lax.tile(x, (2,))]
    [lax.rng_bit_generator(jnp.ones(4, 'uint32'), (4,)), lax.rng_uniform(1.0, 2.0, (3,))]
    [lax.select(b, x, x), lax.slice(x, (1,), (2,)), lax.split(x, (2, 2)), lax.top_k(x, 2)]
    [lax.approx_max_k(x, 2), lax.ragged_dot(a, a[None], i[:1])]
    [random.key(1), random.split(k), random.fold_in(k, 1), random.bits(k, (3,)), random.clone(k)]
    [random.key_data(k), random.wrap_key_data(jnp.zeros(2, 'uint32')), random.gamma(k, x)]
    module('ad_checkpoint').checkpoint_name(x, 'a')
    m.jit(jnp.sin)(x)
    lax.scan(lambda c, y: (c, y), x, a)
    lax.while_loop(lambda c: c.sum() < 1, lambda c: c + 1, x)
    lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)
    lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)
    with_jvp()(x)
    with_vjp()(x)
    with_vmap()(x)
    module('custom_derivatives').linear_call(lambda r, x: x, lambda r, x: x, x, x)
    lax.custom_linear_solve(lambda x: x, x, lambda f, b: b, lambda f, b: b)
    m.checkpoint(jnp.sin)(x)
    lax.composite(jnp.sin, 'a.b')(x)
    m.pure_callback(lambda x: x, x, x)
    module('experimental').io_callback(lambda x: x, x, x)
    m.debug.print('{}', x)
    m.debug.inspect_array_sharding(x, callback=print)
    lax.with_sharding_constraint(x, sharding.NamedSharding(mesh, sharding.PartitionSpec()))
    m.device_put(x, m.devices()[0])
    [mapped(f, 'i', None) for f in map(collective, ('psum', 'pmax', 'pmin'))]
    [mapped(f, 'i', 'i') for f in map(collective, ('all_gather', 'axis_index'))]
    mapped(lambda x: lax.psum_scatter(x, 'i', tiled=True), 'i', 'i')
    mapped(lambda x: lax.all_to_all(x, 'i', 0, 0, tiled=True), 'i', 'i')
    mapped(lambda x: lax.ppermute(x, 'i', [(0, 0)]), 'i', 'i')
    mapped(lambda x: lax.pbroadcast(x, 'i', 0), 'i', 'i')
    mapped(lambda x: lax.pcast(x, 'i', to='varying'), None, 'i')
    mapped(lambda x: lax.ragged_all_to_all(x, x, *[i[:1]] * 4, axis_name='i'), 'i', 'i')
    [mapped(f, 'i', 'i', False) for f in map(collective, ('psum', 'pmax', 'pmin'))]
    written(m.new_ref(x), x)
    lax.after_all(lax.create_token())
    [lax.stop_gradient(x), lax.dce_sink(x)]
"""
UNARY = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf
 erf_inv erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign sin sinh
 sqrt square tan tanh"""
BINARY = """add atan2 div eq ge gt igamma igammac igamma_grad_a le lt max min mul ne nextafter
 polygamma pow rem sub zeta random_gamma_grad"""
BITWISE = """bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic
 shift_right_logical"""


def names_for(m: Any) -> dict[str, Any]:
    """Values that the programs refer to."""
    lax, jnp = m.lax, m.numpy
    module = lambda name: importlib.import_module(f"{m.__name__}.{name}")
    auto = {"axis_types": (module("sharding").AxisType.Auto,)}
    mesh = m.make_mesh((1,), ("i",), **auto)

    def with_jvp() -> Any:
        f = m.custom_jvp(jnp.sin)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        return f

    def with_vjp() -> Any:
        f = m.custom_vjp(jnp.sin)
        f.defvjp(lambda x: (x, None), lambda r, ct: (ct,))
        return f

    def with_vmap() -> Any:
        f = module("custom_batching").custom_vmap(jnp.sin)
        f.def_vmap(lambda size, batched, x: (jnp.sin(x), True))
        return f

    def collective(name: str) -> Any:
        if name == "axis_index":
            return lambda x: x + lax.axis_index("i")
        return lambda x: getattr(lax, name)(x, "i")

    def mapped(f: Any, ins: Any, outs: Any, check: bool = True) -> Any:
        P = module("sharding").PartitionSpec
        return m.shard_map(f, mesh=mesh, in_specs=P(ins), out_specs=P(outs), check_vma=check)(
            jnp.ones(4))

    def written(ref: Any, x: Any) -> Any:
        ref[...] = ref[...] + x
        module("ref").addupdate(ref, ..., x)
        return m.freeze(ref)

    return {"m": m, "np": np, "lax": lax, "jnp": jnp, "random": m.random, "module": module,
            "sharding": module("sharding"), "mesh": mesh, "with_jvp": with_jvp,
            "with_vjp": with_vjp, "with_vmap": with_vmap, "collective": collective,
            "mapped": mapped, "written": written, "UNARY": UNARY, "BINARY": BINARY,
            "BITWISE": BITWISE}


def params_of(jaxpr: Any, found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Primitive -> names of its params, in a jaxpr and those within."""
    for eqn in jaxpr.eqns:
        found.setdefault(eqn.primitive.name, set()).update(eqn.params)
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else [value]:
                item = getattr(item, "jaxpr", item)
                if hasattr(item, "eqns"):
                    params_of(item, found)
    return found


def built(m: Any) -> dict[str, set[str]]:
    """The params of all primitives that the programs apply."""
    names, found = names_for(m), dict[str, set[str]]()
    x = np.ones(4, np.float32)
    for program in map(str.strip, PROGRAMS.strip().splitlines()):
        text = f"lambda x, a, i, b, k: ({program}, ())[1]"
        params_of(m.make_jaxpr(eval(text, names))(
            x, np.ones((4, 4), np.float32), np.arange(4, dtype=np.int32), np.ones(4, bool),
            m.random.key(0)).jaxpr, found)
    return found


def differences() -> dict[str, tuple[set[str], set[str]]]:
    """Primitive -> names in jax alone, and in mjax alone, as the page says."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:4]]
        if len(cells) == 3 and cells[0]:
            found |= {name: (set(cells[1]), set(cells[2])) for name in cells[0]}
    return found


def test_names_of_params() -> None:
    ours, theirs, told = built(mjax), built(jax), differences()
    from mjax._engine.tracing.primitive import registry

    schemas = {p.name: set(p.schema.params) for p in registry if p.schema is not None}
    both = ours.keys() & theirs.keys()
    assert len(both) > 150
    for name in sorted(both):
        more, fewer = told.pop(name, (set(), set()))
        assert schemas[name] == theirs[name] - more | fewer, name
        assert not more & schemas[name] and not fewer & theirs[name], name
    assert not told.keys() & theirs.keys(), "rows of the page that are not tested"
