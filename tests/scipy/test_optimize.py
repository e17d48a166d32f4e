"""`optimize`: minima that are known, and SciPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import mjax
import mjax.numpy as jnp
from mjax.scipy.optimize import OptimizeResults, minimize

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with mjax.enable_x64(True):
        yield


def rosenbrock(xp: Any) -> Any:
    return lambda x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(xp: Any) -> Any:
    return lambda x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(xp: Any) -> Any:
    return lambda x: 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


@pytest.mark.parametrize(("f", "start"), [
    (rosenbrock, [-1.2, 1.0]),
    *[pytest.param(f, start, marks=pytest.mark.slow) for f, start in (
        (himmelblau, [1.0, 1.0]), (rosenbrock, [0.0, 0.0, 2.0, -1.0]), (himmelblau, [-3.0, 4.0]),
        (matyas, [3.0, -2.0]))]],
    ids=lambda x: getattr(x, "__name__", str(x)))
def test_against_scipy(f: Any, start: list[float]) -> None:
    expected = scipy.optimize.minimize(f(np), start, method="BFGS", options={"gtol": 1e-8})
    for method in ("BFGS", LBFGS):
        found = minimize(f(jnp), np.array(start), method=method, options={
            "gtol": 1e-6, **({"ftol": 0.0} if method == LBFGS else {})})
        assert type(found) is OptimizeResults
        assert found.success and found.status == 0
        np.testing.assert_allclose(found.x, expected.x, 1e-5, 1e-5)
        np.testing.assert_allclose(found.fun, f(np)(np.asarray(found.x)), 1e-9, 1e-15)
        np.testing.assert_allclose(found.jac, mjax.grad(f(jnp))(found.x), 1e-6, 1e-9)
        assert found.nfev == found.njev >= found.nit > 0


def valley(x: Any, centre: Any, scales: Any) -> Any:
    return jnp.sum(scales * (x - centre["at"]) ** 2)


def test_quadratic_functions() -> None:
    scales, centre = np.array([1.0, 3.0, 0.5]), np.array([2.0, -1.0, 0.3])
    run = mjax.jit(lambda centre: minimize(valley, jnp.zeros(3), ({"at": centre}, scales),
                                           method="bfgs", tol=1e-10))
    found = run(centre)
    np.testing.assert_allclose(found.x, centre, 1e-8)
    np.testing.assert_allclose(found.hess_inv, np.diag(1 / (2 * scales)), 1e-4, 1e-4)


@pytest.mark.slow
def test_batches_and_derivatives() -> None:
    scales, centre = np.array([1.0, 3.0, 0.5]), np.array([2.0, -1.0, 0.3])
    run = lambda centre: minimize(valley, jnp.zeros(3), ({"at": centre}, scales), method="bfgs",
                                  tol=1e-10)
    np.testing.assert_allclose(mjax.vmap(lambda c: run(c).x)(np.stack([centre, 2 * centre])),
                               [centre, 2 * centre], 1e-8)
    np.testing.assert_allclose(mjax.jacfwd(lambda c: run(c).x)(centre), np.eye(3), 1e-5, 1e-5)


@pytest.mark.slow
def test_ends() -> None:
    f, start = rosenbrock(jnp), np.array([-1.2, 1.0])
    run = lambda **options: minimize(f, start, method=LBFGS, options=options)
    assert minimize(f, start, method="BFGS", options={"maxiter": 2}).status == 1
    for options, status in (({"maxiter": 2}, 1), ({"maxfun": 4}, 2), ({"maxgrad": 4}, 3),
                            ({"ftol": 1.0}, 4)):
        found = run(**options)
        assert found.status == status and not found.success
    # No step makes it smaller.
    stuck = minimize(lambda x: jnp.sum(x) * 0 + jnp.sum(mjax.lax.stop_gradient(x) ** 2 + x),
                     start, method="BFGS")
    assert stuck.status in (3, 5) and not stuck.success
    sums = minimize(lambda x: jnp.sum(x ** 2), start, method="BFGS",
                    options={"norm": 2, "gtol": 10.0})
    assert sums.nit == 0 and sums.success
    np.testing.assert_array_equal(sums.x, start)


@pytest.mark.slow
def test_complex_vectors() -> None:
    centre = np.array([1 + 2j, -0.5j])
    found = minimize(lambda z: jnp.sum(jnp.abs(z - centre) ** 4), np.zeros(2, complex),
                     method=LBFGS, options={"ftol": 0.0})
    np.testing.assert_allclose(found.x, centre, 1e-1, 1e-1)
    assert found.success


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype: Any) -> None:
    found = minimize(himmelblau(jnp), np.ones(2, dtype), method="BFGS", options={"gtol": 1e-3})
    assert [getattr(found, n).dtype for n in ("x", "fun", "jac", "hess_inv")] == [dtype] * 4
    np.testing.assert_allclose(found.x, [3, 2], 1e-3)


ERRORS = [
    (TypeError, "args must be a tuple", {"args": 3}),
    (ValueError, 'method must be "BFGS", got \'CG\'', {"method": "CG"}),
    (TypeError, "unknown option 'steps'; this method has maxiter", {"options": {"steps": 1}}),
    (TypeError, r"x0 must be a vector of an inexact dtype, got ~float64", {"x0": 1.0}),
    (TypeError, "got int64", {"x0": np.arange(2)}),
    (TypeError, "minimize requires ndarray or scalar", {"x0": [1.0, 2.0]}),
    (TypeError, "fun must return a real scalar, but <lambda> returned", {"fun": lambda x: x}),
    (TypeError, "minimize", {"fun": 3}),
]


@pytest.mark.parametrize(("error", "text", "wrong"), ERRORS, ids=[t[:25] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, wrong: dict[str, Any]) -> None:
    given = {"fun": jnp.sum, "x0": np.ones(2), "method": "BFGS", **wrong}
    with pytest.raises(error, match=text):
        minimize(given.pop("fun"), given.pop("x0"), **given)


def test_minimize_in_bfloat16() -> None:
    x = mjax.numpy.ones(2, "bfloat16")
    found = mjax.scipy.optimize.minimize(lambda x: (x * x).sum(), x, method="BFGS").x
    assert found.dtype == x.dtype and not found.any()


@pytest.mark.slow
def test_bfloat16_where_lapack_is_needed() -> None:
    a = mjax.numpy.eye(2, dtype="bfloat16")
    for f in (jnp.linalg.pinv, jnp.linalg.matrix_rank, lambda a: jnp.linalg.lstsq(a, a[0]),
              lambda a: jnp.polyfit(a[0], a[0], 1)):
        with pytest.raises(NotImplementedError, match="bfloat16"):
            f(a)
    x, _ = mjax.scipy.sparse.linalg.gmres(2 * a, a[0], solve_method="incremental")
    assert x.dtype == a.dtype and x.tolist() == [0.5, 0]
