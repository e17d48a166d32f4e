"""Programs exported for several devices."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import NamedSharding, P, export
from mjaxlib_shim import artifact_gates

X = np.arange(16, dtype="float32").reshape(4, 4)
WANTED = np.sin(X) @ X.T


def mesh(shape=(2, 2), names=("a", "b"), backwards=False):
    devices = np.array(mjax.devices()[:int(np.prod(shape))])
    return mjax.sharding.Mesh((devices[::-1] if backwards else devices).reshape(shape), names)


def an_export(**options):
    ins, outs = NamedSharding(mesh(), P("a", "b")), NamedSharding(mesh(), P(None, "b"))
    f = mjax.jit(lambda x: jnp.sin(x) @ x.T, in_shardings=ins, out_shardings=outs)
    exported = export.export(f, **options)(X)
    return exported, export.deserialize(exported.serialize(vjp_order=1))


@pytest.mark.parametrize("platforms", [None, ("tpu", "cpu")])
def test_calls_over_a_mesh(platforms):
    for exported in an_export(platforms=platforms):
        assert exported.nr_devices == 4
        for over in mesh(), mesh(backwards=True):
            sharding, = exported.in_shardings_jax(over)
            assert sharding == NamedSharding(over, P("a", "b"))
            out = exported.call(mjax.device_put(X, sharding))
            np.testing.assert_allclose(out, WANTED, rtol=1e-4, atol=1e-4)
            assert out.sharding.spec == P(None, "b")
        placed = mjax.jit(exported.call, in_shardings=exported.in_shardings_jax(mesh()))(X)
        np.testing.assert_allclose(placed, WANTED, rtol=1e-4, atol=1e-4)


def test_derivatives_are_cut_alike():
    for exported in an_export():
        vjp = exported.vjp()
        assert vjp.nr_devices == 4
        assert [s.spec for s in vjp._in_named_shardings] == [P("a", "b"), P(None, "b")]
        assert [s.spec for s in vjp._out_named_shardings] == [P("a", "b")]
        x = mjax.device_put(X, NamedSharding(mesh(), P("a", "b")))
        got = mjax.grad(lambda x, exported=exported: exported.call(x).sum())(x)
        wanted = mjax.grad(lambda x: (jnp.sin(x) @ x.T).sum())(X)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_mesh_of_other_axes():
    exported = an_export()[1]
    x = mjax.device_put(X, NamedSharding(mesh((4,), ("z",)), P("z")))
    if artifact_gates.ARTIFACT_SHARDY.open:
        np.testing.assert_allclose(exported.call(x), WANTED, rtol=1e-4, atol=1e-4)
    else:
        with pytest.raises(ValueError, match="called over Mesh"):
            exported.call(x)


def test_what_does_not_fit_is_refused():
    exported = an_export()[1]
    with pytest.raises(ValueError, match="exported for 4 devices, and is called in a program on 1"):
        exported.call(X)
    with pytest.raises(ValueError, match="is called in a program on 2"):
        exported.call(mjax.device_put(X, NamedSharding(mesh((2,), ("z",)), P("z"))))
    with pytest.raises(ValueError, match="differs from the one of the export"):
        exported.in_shardings_jax(mesh(names=("c", "d")))


def test_two_programs_over_different_meshes():
    rows = NamedSharding(mesh((4,), ("a",)), P("a"))
    second = export.export(mjax.jit(lambda x: x.sum(0), in_shardings=rows))(X)
    first, second = an_export()[1], export.deserialize(second.serialize())
    x = mjax.device_put(X, NamedSharding(mesh(), P("a", "b")))
    if artifact_gates.ARTIFACT_SHARDY.open:
        np.testing.assert_allclose(mjax.jit(lambda x: first.call(x) + second.call(x))(x),
                                   WANTED + X.sum(0), rtol=1e-4, atol=1e-4)


def test_a_program_for_one_device_runs_over_a_mesh():
    exported = export.export(mjax.jit(jnp.sin))(X)
    x = mjax.device_put(X, NamedSharding(mesh(), P("a", "b")))
    np.testing.assert_allclose(exported.call(x), np.sin(X), rtol=1e-5, atol=1e-6)


def test_outer_programs_can_be_exported():
    exported = an_export()[1]
    ins = exported.in_shardings_jax(mesh())
    outer = export.export(mjax.jit(exported.call, in_shardings=ins))(X)
    assert outer.nr_devices == 4
    x = mjax.device_put(X, outer.in_shardings_jax(mesh())[0])
    np.testing.assert_allclose(export.deserialize(outer.serialize()).call(x), WANTED, rtol=1e-4,
                               atol=1e-4)


def test_symbolic_sizes_over_a_mesh():
    rows, = export.symbolic_shape("b")
    sharding = NamedSharding(mesh(), P("a"))
    exported = export.export(mjax.jit(lambda x: x * x.shape[0], in_shardings=sharding))(
        mjax.ShapeDtypeStruct((4 * rows, 4), "float32"))
    x = mjax.device_put(np.ones((8, 4), "float32"), sharding)
    if artifact_gates.REFINE_SHARDY.open:
        np.testing.assert_allclose(export.deserialize(exported.serialize()).call(x), 8)
    else:
        with pytest.raises(NotImplementedError, match=r"from jaxlib 0\.5\.3 on"):
            exported.call(x)
