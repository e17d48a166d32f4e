"""`out_sharding`, and the sharding that types show."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from mjax._engine.ir.types import ShapedArray
from mjax.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from mjax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
NUMBERS = np.arange(8, dtype=np.int32)
KEY = random.key(0)
_DIMS = (((1,), (0,)), ((), ()))


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(mjax.devices()[:2]), ("x",))


CALLS = {
    "array": lambda **o: jnp.array(X, **o), "asarray": lambda **o: jnp.asarray(X, **o),
    "zeros": lambda **o: jnp.zeros((8, 2), **o), "ones": lambda **o: jnp.ones((8, 2), **o),
    "full": lambda **o: jnp.full((8,), 3, **o), "arange": lambda **o: jnp.arange(8, **o),
    "empty": lambda **o: jnp.empty((8,), **o), "zeros_like": lambda **o: jnp.zeros_like(X, **o),
    "ones_like": lambda **o: jnp.ones_like(X, **o),
    "full_like": lambda **o: jnp.full_like(X, 3, **o),
    "reshape": lambda **o: jnp.reshape(X, (16, 2), **o),
    "ravel": lambda **o: jnp.ravel(X, **o), "x.ravel": lambda **o: jnp.asarray(X).ravel(**o),
    "x.reshape": lambda **o: jnp.asarray(X).reshape(16, 2, **o),
    "x.flatten": lambda **o: jnp.asarray(X).flatten(**o),
    "x.repeat": lambda **o: jnp.asarray(X).repeat(2, **o),
    "repeat": lambda **o: jnp.repeat(X, 2, **o),
    "broadcast_to": lambda **o: jnp.broadcast_to(X, (2, 8, 4), **o),
    "bincount": lambda **o: jnp.bincount(NUMBERS, length=8, **o),
    "percentile": lambda **o: jnp.percentile(X, 50, axis=1, **o),
    "dot": lambda **o: jnp.dot(X, X.T, **o), "matmul": lambda **o: jnp.matmul(X, X.T, **o),
    "tensordot": lambda **o: jnp.tensordot(X, X.T, 1, **o),
    "linalg.tensordot": lambda **o: jnp.linalg.tensordot(X, X.T, axes=1, **o),
    "einsum": lambda **o: jnp.einsum("ij,kj->ik", X, X, **o),
    "lax.dot": lambda **o: lax.dot(X, X.T, **o),
    "lax.dot_general": lambda **o: lax.dot_general(X, X.T, _DIMS, **o),
    "lax.conv": lambda **o: lax.conv_general_dilated(
        X[:, None], np.ones((1, 1, 2), np.float32), (1,), "SAME", **o),
    "lax.reshape": lambda **o: lax.reshape(X, (32,), **o),
    "lax.broadcast": lambda **o: lax.broadcast(X, (2,), **o),
    "lax.broadcast_in_dim": lambda **o: lax.broadcast_in_dim(X, (2, 8, 4), (1, 2), **o),
    "lax.broadcasted_iota": lambda **o: lax.broadcasted_iota(np.int32, (8, 2), 0, **o),
    "lax.reduce": lambda **o: lax.reduce(X, np.float32(0), lax.add, (1,), **o),
    "lax.reduce_sum": lambda **o: lax.reduce_sum(jnp.asarray(X), (1,), **o),
    "random.normal": lambda **o: random.normal(KEY, (8,), **o),
    "random.uniform": lambda **o: random.uniform(KEY, (8,), **o),
    "random.bits": lambda **o: random.bits(KEY, (8,), **o),
    "random.permutation": lambda **o: random.permutation(KEY, 8, **o),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_cut_as_asked(name, mesh):
    call = CALLS[name]
    expected = np.asarray(call())
    sharding = NamedSharding(mesh, P("x"))
    out = call(out_sharding=sharding)
    assert out.sharding.is_equivalent_to(sharding, out.ndim)
    np.testing.assert_array_equal(np.asarray(out), expected)
    jaxpr = mjax.make_jaxpr(lambda: call(out_sharding=sharding))()
    assert "sharding" in str(jaxpr) or "device_put" in str(jaxpr)
    # The shardings that types show, and None, ask for nothing.
    shown = mjax.typeof(expected).sharding
    for nothing in (None, shown):
        free = call(out_sharding=nothing)
        assert free.sharding.is_equivalent_to(call().sharding, free.ndim)
    assert str(mjax.make_jaxpr(lambda: call(out_sharding=shown))()) == str(
        mjax.make_jaxpr(call)())


def test_in_programs_and_derivatives(mesh):
    sharding = NamedSharding(mesh, P("x"))
    f = mjax.jit(lambda x: jnp.dot(x, x.T, out_sharding=sharding))
    assert f(X).sharding.is_equivalent_to(sharding, 2)
    with mjax.set_mesh(mesh):
        assert mjax.jit(lambda: jnp.ones(8, out_sharding=P("x")))().sharding.spec == P("x")
        assert random.normal(KEY, (8,), out_sharding=P("x")).sharding.spec == P("x")
    g = mjax.grad(lambda x: jnp.einsum("ij->", jnp.matmul(x, x.T, out_sharding=sharding)))
    np.testing.assert_allclose(g(X), 2 * X.sum(0, keepdims=True).repeat(8, 0), rtol=1e-5)
    key, bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (8,), out_sharding=sharding)
    assert bits.sharding.is_equivalent_to(sharding, 1)
    assert len(key.sharding.device_set) == 1


def test_by_position(mesh):
    sharding = NamedSharding(mesh, P("x"))
    out = lax.reduce(X, np.float32(0), lax.add, (1,), sharding)
    assert out.sharding.is_equivalent_to(sharding, 1)
    dims = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    for f, *given in ((lax.reduce, X, np.float32(0), lax.add, (1,)),
                      (lax.ragged_dot, *[X] * 3, None, None, None),
                      (lax.ragged_dot_general, *[X] * 3, dims, None, None, None)):
        for again in (sharding, None):
            with pytest.raises(TypeError, match="multiple values for argument 'out_sharding'"):
                f(*given, sharding, out_sharding=again)


@pytest.mark.parametrize("name", ["zeros", "dot", "lax.dot", "random.normal", "x.reshape"])
def test_what_is_no_layout_is_refused(name, mesh):
    for wrong in ("x", mjax.devices()[0], SingleDeviceSharding(mjax.devices()[0])):
        with pytest.raises(TypeError, match="out_sharding must be"):
            CALLS[name](out_sharding=wrong)
    with pytest.raises(ValueError, match="set the mesh"):
        CALLS[name](out_sharding=P("x"))
    with pytest.raises(ValueError, match="give one of them"):
        jnp.zeros(2, device=mjax.devices()[0], out_sharding=NamedSharding(mesh, P()))


def test_signatures_and_documentation_show_it():
    for f in (jnp.dot, jnp.einsum, jnp.zeros, lax.dot_general, random.normal, jnp.ravel):
        parameter = inspect.signature(f).parameters["out_sharding"]
        assert parameter.default is None
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert "out_sharding: " in f.__doc__


def test_types_show_a_sharding_that_cuts_nothing():
    aval = mjax.typeof(X)
    assert aval.sharding is mjax.typeof(X + 1).sharding
    assert aval.sharding == NamedSharding(AbstractMesh((), ()), P(None, None))
    assert aval.sharding.spec == P(None, None)
    assert aval.sharding.mesh.empty
    assert mjax.typeof(2.0).sharding.spec == P()
    assert mjax.sharding.get_abstract_mesh().empty
    with pytest.raises(AttributeError):
        aval.sharding = None
    seen = []
    mjax.jit(lambda x: seen.append(mjax.typeof(x).sharding.spec) or x)(X)
    assert seen == [P(None, None)]


def test_types_take_a_sharding_and_drop_it(mesh):
    aval = ShapedArray((8,), np.float32, sharding=NamedSharding(mesh, P("x")))
    assert aval is ShapedArray((8,), np.float32)
    assert aval.update(shape=(8, 2), sharding=aval.sharding) is ShapedArray((8, 2), np.float32)
    assert pickle.loads(pickle.dumps(aval)) is aval
