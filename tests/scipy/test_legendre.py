"""Associated Legendre functions against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import mjax
from mjax.scipy.special import lpmn, lpmn_values

Z = np.array([-1, -0.99, -0.3, 0, 0.2, 0.9, 1])


def expected(m, n, normalized):
    """SciPy's, one by one, of all orders and degrees."""
    return np.array([[
        scipy.special.sph_harm_y(degree, order, np.arccos(Z), 0.0).real if normalized else
        scipy.special.assoc_legendre_p(degree, order, Z)[0] for degree in range(n + 1)]
        for order in range(m + 1)])


@pytest.mark.parametrize(("m", "n"), [(0, 0), (4, 4), (2, 6), (3, 1)])
@pytest.mark.parametrize("normalized", [False, True])
def test_values(m, n, normalized):
    wanted = expected(m, n, normalized)
    for dtype in (np.float32, np.float64):
        with mjax.enable_x64(dtype is np.float64):
            values = lpmn_values(m, n, Z.astype(dtype), normalized)
        assert values.dtype == dtype
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(values, wanted, rtol=40 * eps,
                                   atol=40 * eps * np.abs(wanted).max())


def test_derivatives():
    wanted = np.array([[scipy.special.assoc_legendre_p(degree, order, Z, diff_n=1)[1]
                        for degree in range(5)] for order in range(5)])
    with mjax.enable_x64(True):
        values, slopes = lpmn(4, 4, Z)
    np.testing.assert_allclose(values, expected(4, 4, False), rtol=1e-13, atol=1e-12)
    inside = slice(1, -1)
    np.testing.assert_allclose(slopes[..., inside], wanted[..., inside], rtol=1e-12, atol=1e-12)
    assert np.isinf(slopes[1, 1:, 0]).all() and np.isfinite(np.delete(slopes, 1, axis=0)).all()


@pytest.mark.slow
def test_normalized_functions_of_high_degree_are_finite():
    values = np.asarray(lpmn_values(100, 100, np.linspace(-1, 1, 9, dtype=np.float32), True))
    assert np.isfinite(values).all() and np.abs(values).max() < 10


def test_the_derivative_is_the_one_of_the_values():
    with mjax.enable_x64(True):
        point = np.array([0.3])
        slope = mjax.jacfwd(lambda z: lpmn_values(3, 3, z, False))(point)[..., 0]
        np.testing.assert_allclose(slope, lpmn(3, 3, point)[1], rtol=1e-12, atol=1e-12)


def test_what_is_refused():
    with pytest.raises(TypeError, match="lpmn: z must be float32 or float64, got int32"):
        lpmn(1, 1, np.array([1], np.int32))
    with pytest.raises(ValueError, match="lpmn_values: z must have one axis"):
        lpmn_values(1, 1, np.float32(0.5), True)
