"""Convolution and correlation of vectors: against NumPy."""

from __future__ import annotations

import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.engine.primitives.harness import primitive_names
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
V = rng.normal(size=6).astype(np.float32)
C = (V + 1j * V[::-1]).astype(np.complex64)
MODES = ("full", "same", "valid")


def in_floats(name: str) -> Any:
    """NumPy's function of integers, whose result is float32."""
    return lambda a, v: getattr(np, name)(a, v).astype(np.float32)


ROWS = [
    *[call(name, a[:m], b[:n], mode) for name in ("convolve", "correlate") for mode in MODES
      for m, n in itertools.product((1, 2, 5), (1, 4, 5)) for a, b in ((V, V[::-1]),)],
    *[call(name, a, b, mode) for name in ("convolve", "correlate") for mode in MODES
      for a, b in ((C, C[:3]), (C[:3], C), (C, V), (V[:2], C))],
    *[call(name, a, b, reference=in_floats(name)) for name in ("convolve", "correlate")
      for a, b in ((np.array([3, 1, 4]), np.array([1, 5])), (np.array([True, False, True]),
                                                             np.array([True, True])),
                   (np.array([200, 100], np.uint8), np.array([3, 2, 1], np.int8)))],
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_precision_and_dtype(name: str) -> None:
    function = getattr(jnp, name)
    narrow = V.astype(ml_dtypes.bfloat16)
    out = function(narrow, narrow[:3], "same", preferred_element_type=np.float32)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, getattr(np, name)(
        narrow.astype(np.float32), narrow[:3].astype(np.float32), "same"), rtol=1e-2, atol=1e-2)
    jaxpr = mjax.make_jaxpr(lambda a: function(a, a, precision="highest"))(V)
    assert "conv_general_dilated" in primitive_names(jaxpr)
    assert "Precision.HIGHEST, Precision.HIGHEST" in str(jaxpr)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize(("args", "text"), [
    ((np.ones((2, 2)), V), "takes two vectors, got arrays of shapes (2, 2) and (6,)"),
    ((V, 2.0), "takes two vectors, got arrays of shapes (6,) and ()"),
    ((V, V[:0]), "vectors must not be empty, got shapes (6,) and (0,)."),
    ((V, V, "best"), "mode must be one of 'full', 'same', 'valid', got 'best'."),
])
def test_what_is_refused(name: str, args: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name}: " if text[0] in "vm" else name)
                       + ".*" + re.escape(text[:20])) as caught:
        getattr(jnp, name)(*args)
    assert text in str(caught.value)
