"""mjax_ext.interpreters.xla: primitives as programs, canonical values, transformations of HLO."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import xla
from mjaxlib_shim.foreign_gates import HLO_TRANSFORMATIONS

X = np.arange(3, dtype=np.float32)


def test_apply_primitive():
    np.testing.assert_array_equal(xla.apply_primitive(lax.neg_p, X), -X)
    values, places = xla.apply_primitive(lax.top_k_p, X, k=2, axis=0)
    np.testing.assert_array_equal(values, [2, 1])
    np.testing.assert_array_equal(places, [2, 1])


def test_canonical_values():
    for value, dtype in [(np.arange(3), "int32"), (np.float64(2), "float32"), (X, "float32"),
                         (3, "int32"), (2.5, "float32"), (True, "bool")]:
        out = xla.canonicalize_dtype(value)
        assert out.dtype == dtype and xla.abstractify(value).dtype == dtype
        np.testing.assert_array_equal(out, value)
    assert xla.canonicalize_dtype(X) is X
    array = mjax.device_put(X)
    assert xla.canonicalize_dtype(array) is array
    with pytest.raises(TypeError, match="takes an array or a number, or a value of a class in"):
        xla.canonicalize_dtype("text")


def test_canonical_values_of_ones_own():
    class Percent:
        def __init__(self, number):
            self.number = number

    xla.canonicalize_dtype_handlers[Percent] = lambda p: np.float32(p.number / 100)
    try:
        assert xla.canonicalize_dtype(Percent(50)) == 0.5
        assert xla.abstractify(Percent(50)) == core.ShapedArray((), np.float32)
    finally:
        del xla.canonicalize_dtype_handlers[Percent]


def test_backend():
    assert isinstance(mjax.devices()[0].client, xla.Backend)


@pytest.mark.parametrize("stage", xla.PipelineStage)
def test_transformations_of_modules(stage):
    seen = []

    def count(module):
        seen.append(module)

    if not HLO_TRANSFORMATIONS.open:
        with pytest.raises(NotImplementedError, match=r"need jaxlib 0\.10\.2 or newer"):
            xla.register_hlo_module_transformation(count, name="count", stage=stage)
        with pytest.raises(NotImplementedError, match=r"need jaxlib 0\.10\.2 or newer"):
            xla.clear_hlo_module_transformation("count", stage)
        return
    f = mjax.jit(lambda x: lax.sin(x))
    f(X)
    xla.register_hlo_module_transformation(count, name="count", stage=stage, platforms="cpu")
    try:
        np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)
        assert seen and isinstance(seen[0], bytes)
    finally:
        assert xla.clear_hlo_module_transformation("count", stage)
    n = len(seen)
    mjax.jit(lambda x: lax.cos(x))(X)
    assert len(seen) == n and not xla.clear_hlo_module_transformation("count", stage)


def test_transformations_that_are_refused():
    with pytest.raises(TypeError, match="stage must be a PipelineStage, got 0"):
        xla.register_hlo_module_transformation(len, name="count", stage=0)
    with pytest.raises(NotImplementedError, match=r"for the platform 'cpu', not for \['tpu'\]"):
        xla.clear_hlo_module_transformation("count", platforms=["tpu"])
