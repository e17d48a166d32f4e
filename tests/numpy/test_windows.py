"""Window functions: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.marks import some

NAMES = ("hanning", "hamming", "blackman", "bartlett")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [-1, 0, 1, 2, 7, 8])
def test_windows(name: str, size: int) -> None:
    expected = getattr(np, name)(size)
    for f in (getattr(jnp, name), mjax.jit(getattr(jnp, name), static_argnums=0)):
        out = f(size)
        assert (out.shape, out.dtype, out.weak_type) == (expected.shape, np.float32, False)
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-6, atol=1e-7)
    with mjax.enable_x64(True):
        assert getattr(jnp, name)(size).dtype == np.float64


@pytest.mark.parametrize("beta", [0.0, 5.0, np.float32(8.6), -2, np.int32(14), 200.0], ids=repr)
@pytest.mark.parametrize("size", some([7, -1, 0, 1, 2, 8], 6))
def test_kaiser(size: int, beta: Any) -> None:
    for f in (jnp.kaiser, mjax.jit(jnp.kaiser, static_argnums=0)):
        out = f(size, beta)
        assert (out.dtype, out.weak_type) == (np.float32, False)
        np.testing.assert_allclose(np.asarray(out), np.kaiser(size, beta), rtol=2e-5, atol=1e-6)


def test_derivative_of_kaiser() -> None:
    with mjax.enable_x64(True):
        slope = mjax.jacfwd(lambda beta: jnp.kaiser(7, beta))(4.0)
        numeric = (np.kaiser(7, 4 + 1e-5) - np.kaiser(7, 4 - 1e-5)) / 2e-5
        np.testing.assert_allclose(np.asarray(slope), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("error", "text", "use"), [
    (TypeError, "hanning: M must be an integer, got 'a'", lambda: jnp.hanning("a")),
    (TypeError, "kaiser: M must be an integer", lambda: jnp.kaiser(None, 1.0)),
    (ValueError, "kaiser: beta must be a real scalar, got float32[2]",
     lambda: jnp.kaiser(3, np.ones(2, np.float32))),
    (ValueError, "kaiser: beta must be a real scalar", lambda: jnp.kaiser(3, 1j)),
    (TypeError, "kaiser requires ndarray or scalar", lambda: jnp.kaiser(3, [1.0])),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
