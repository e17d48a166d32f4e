"""Primitives of users in shard_map: the engine keeps track of device variance for them."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.experimental import shard_map
from mjax.sharding import Mesh
from mjax.sharding import PartitionSpec as P
from mjax_ext.core import Frame, Primitive, ShapedArray, eval_jaxpr
from mjax_ext.interpreters import ad, batching, mlir

MESH = Mesh(np.array(mjax.devices()[:4]), ("i",))
W = np.array([2.0, -1.0, 0.5], np.float32)
X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def scaled_add():
    """`x * y + y`, with rules whose author has never heard of devices."""
    p = Primitive("scaled_add")
    p.def_abstract_eval(lambda x, y: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: lax.add(lax.mul(x, y), y),
                                             multiple_results=False))

    def jvp(primals, tangents):
        (x, y), (dx, dy) = primals, map(ad.instantiate_zeros, tangents)
        return p.bind(x, y), lax.add(lax.mul(dx, y), lax.mul(lax.add(x, lax.full_like(x, 1)), dy))

    ad.primitive_jvps[p] = jvp

    def batch(args, dims):
        x, y = (lax.broadcast(a, (4,)) if d is batching.not_mapped else batching.moveaxis(a, d, 0)
                for a, d in zip(args, dims, strict=True))
        return p.bind(x, y), 0

    batching.primitive_batchers[p] = batch
    return p


def loss(p):
    def shard(w, x):
        return lax.psum(lax.reduce_sum(p.bind(lax.reshape(x, (3,)), w), (0,)), "i")

    return mjax.shard_map(shard, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())


@pytest.mark.parametrize("jit", [lambda f: f, mjax.jit])
def test_operands_that_vary_differently_are_joined(jit):
    f = jit(loss(scaled_add()))
    np.testing.assert_allclose(f(W, X), np.sum(X * W + W), rtol=1e-5)
    dw, dx = jit(mjax.grad(f, (0, 1)))(W, X)
    np.testing.assert_allclose(dw, np.sum(X + 1, 0), rtol=1e-5)
    np.testing.assert_allclose(dx, np.tile(W, (4, 1)), rtol=1e-5)


def test_the_result_varies_as_the_operands_do():
    p = scaled_add()
    seen = []

    def shard(w, x):
        seen.extend([mjax.typeof(p.bind(w, w)).varying, mjax.typeof(p.bind(x[0], w)).varying])
        return p.bind(x[0], w)[None]

    out = mjax.shard_map(shard, mesh=MESH, in_specs=(P(), P("i")), out_specs=P("i"))(W, X)
    assert seen == [frozenset(), frozenset("i")]
    np.testing.assert_allclose(out, X * W + W, rtol=1e-6)


def test_batches_in_shard_map_and_of_it():
    p = scaled_add()
    batch = np.stack([X, 2 * X, -X, X + 1])
    expected = batch * W + W
    inside = mjax.shard_map(
        lambda w, xs: mjax.vmap(lambda x: p.bind(x[0], w))(xs)[:, None], mesh=MESH,
        in_specs=(P(), P(None, "i")), out_specs=P(None, "i"))
    np.testing.assert_allclose(inside(W, batch), expected, rtol=1e-6)
    outside = mjax.vmap(mjax.shard_map(lambda w, x: p.bind(x[0], w)[None], mesh=MESH,
                                       in_specs=(P(), P("i")), out_specs=P("i")), (None, 0))
    np.testing.assert_allclose(outside(W, batch), expected, rtol=1e-6)


def test_a_result_that_varies_is_not_called_the_same():
    p = scaled_add()
    f = mjax.shard_map(lambda w, x: p.bind(x[0], w), mesh=MESH, in_specs=(P(), P("i")),
                       out_specs=P())
    with pytest.raises(ValueError, match=r"result of scaled_add at .*test_devices\.py"):
        f(W, X)


def test_a_primitive_may_say_itself_how_it_varies():
    p = Primitive("whoami", own_varying=True)
    p.def_abstract_eval(lambda x: x.update(varying=frozenset("i")))
    mlir.register_lowering(p, mlir.lower_fun(
        lambda x: lax.add(x, lax.axis_index("i").astype(x.dtype)), multiple_results=False))
    out = mjax.shard_map(lambda: p.bind(lax.full((1,), 10)), mesh=MESH, in_specs=(),
                         out_specs=P("i"))()
    np.testing.assert_array_equal(out, [10, 11, 12, 13])


def test_standard_rules_of_variance_replace_own_ones():
    """By the names of JAX to 0.7: results vary as operands do, and these are cast alike."""
    p = Primitive("added", own_varying=True)
    p.def_abstract_eval(lambda x, y: x.update(varying=frozenset()))
    p.def_cast_varying(lambda varying, **params: (varying, params))
    mlir.register_lowering(p, mlir.lower_fun(lax.add, multiple_results=False))

    def f(w, x):
        out = p.bind(w, x)
        seen.append(mjax.typeof(out).varying)
        return out

    seen = []
    x = np.arange(4.0, dtype="float32")
    g = mjax.shard_map(f, mesh=MESH, in_specs=(P(), P("i")), out_specs=P("i"))
    mjax.make_jaxpr(g)(x[:1], x)
    shard_map.register_standard_check(p)
    shard_map.register_standard_rewrite(p)
    np.testing.assert_array_equal(g(x[1:2], x), x + 1)
    assert seen[0] == frozenset() and seen[-1] == {"i"} and p.cast_varying is None
    for register in (shard_map.register_standard_check, shard_map.register_standard_rewrite):
        with pytest.raises(TypeError, match="takes a Primitive, got 'added'"):
            register("added")


def calling():
    """A primitive that holds the program it calls, and says so by a frame."""
    p = Primitive("called", multiple_results=True)
    Frame(p)

    def run(*args, jaxpr):
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)

    mlir.register_lowering(p, mlir.lower_fun(run, multiple_results=True))
    return lambda f, *args: p.bind(*args, jaxpr=mjax.make_jaxpr(f)(*args))[0]


def test_a_program_among_the_params_is_staged_for_how_operands_vary():
    """They come to vary alike, or as a carry does, after it was made."""
    call = calling()

    def product(call, w, x):
        return call(lambda w, x: lax.mul(lax.sin(x), w), w, x[0])

    def loop(call, w, x):
        return lax.scan(lambda c, row: (lax.add(call(lambda c: lax.mul(lax.sin(c), c), c), row), c),
                        w, lax.concatenate([x, x, x], 0))[0]

    def plain(f, *args):
        return f(*args)

    for f in (product, loop):
        mapped = mjax.shard_map(lambda w, x, f=f: lax.expand_dims(f(call, w, x), [0]), mesh=MESH,
                                in_specs=(P(), P("i")), out_specs=P("i"))
        one = mjax.vmap(lambda w, x, f=f: f(plain, w, x[None]), (None, 0))
        np.testing.assert_allclose(mapped(W, X), one(W, X), 1e-4, 1e-5)
        for actual, expected in zip(*[mjax.grad(
                lambda w, x, g=g: lax.reduce_sum(lax.sin(g(w, x)), (0, 1)), (0, 1))(W, X)
                for g in (mapped, one)], strict=True):
            np.testing.assert_allclose(actual, expected, 1e-3, 1e-4)


def test_a_program_among_the_params_may_communicate():
    call = calling()
    total = mjax.shard_map(lambda w, x: call(lambda w, x: lax.psum(lax.mul(w, x), "i"), w, x[0]),
                           mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    np.testing.assert_allclose(total(W, X), (W * X).sum(0), 1e-5)
    with pytest.raises(ValueError, match="devices may hold different values"):
        mjax.shard_map(lambda w, x: lax.scan(
            lambda c, row: ((call(lax.sin, c[1]), lax.add(c[1], row)), None), (w, w), x)[0][0],
            mesh=MESH, in_specs=(P(), P("i")), out_specs=P())(W, X)
