"""`scipy.sparse.linalg` and `scipy.optimize`, on both libraries."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.differential.compare import assert_agree

rng = np.random.default_rng(0)
N = 6
Q = (rng.normal(size=(N, N)) + 0.7j * rng.normal(size=(N, N))).astype("F")
POSITIVE, OTHER = Q @ Q.conj().T / N + np.eye(N, dtype="F"), Q + 6 * np.eye(N, dtype="F")
B = (rng.normal(size=N) + 1j * rng.normal(size=N)).astype("F")


def module(m: Any, name: str) -> Any:
    return importlib.import_module(f"{m.__name__}.scipy.{name}")


# ---- linear equations ------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"maxiter": 2}, {"M": True}, {"solve_method":
                                                                        "incremental"}], ids=str)
@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
@pytest.mark.parametrize("take", [pytest.param(np.real, id="real"), pytest.param(
    np.asarray, id="complex", marks=pytest.mark.slow)])
def test_solutions(name: str, options: dict[str, Any], take: Any) -> None:
    if "solve_method" in options and name != "gmres":
        pytest.skip("a method of gmres")
    A, b = take(POSITIVE if name == "cg" else OTHER), take(B)

    def solve(m: Any, A: Any, b: Any) -> Any:
        more = {**options, "M": take(np.diag(1 / np.diag(POSITIVE)))} if "M" in options else options
        return getattr(module(m, "sparse.linalg"), name)(A, b, **more)

    assert_agree(lambda m, A, b: m.jit(lambda A, b: solve(m, A, b))(A, b), A, b, tolerance=5e-4)
    if not options:
        assert_agree(lambda m, A, b: m.jit(m.grad(lambda A, b: m.numpy.sum(m.numpy.abs(
            solve(m, A, b)[0]) ** 2), (0, 1)))(A, b), A, b, tolerance=1e-3)


def test_trees() -> None:
    def run(m: Any, A: Any, b: Any) -> Any:
        join = lambda t: m.numpy.concatenate([t["a"], t["b"]])
        matvec = lambda t: {"a": (A @ join(t))[:2], "b": (A @ join(t))[2:]}
        return [getattr(module(m, "sparse.linalg"), name)(
            matvec, {"a": b[:2], "b": b[2:]}, {"a": b[1:3], "b": b[:4]})
            for name in ("cg", "bicgstab", "gmres")]

    assert_agree(run, POSITIVE.real, B.real, tolerance=1e-4)


# ---- minima ----------------------------------------------------------------------------


def valley(m: Any) -> Any:
    """No step goes past its minimum, where JAX's search gives up."""
    return lambda x, a: m.numpy.sum(a * m.numpy.diff(x) ** 2 + (1 - x[:-1]) ** 4)


@pytest.mark.parametrize("start", [[-1.2, 1.0], pytest.param(
    [3.0, -2.0, 0.5], marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
def test_minima(method: str, start: list[float]) -> None:
    """The same steps, so that counts and states are the same."""
    for options in ({}, {"norm": 2, "maxiter": 3}):
        def run(m: Any, options: Any = options) -> Any:
            with m.enable_x64(True):
                return tuple(module(m, "optimize").minimize(
                    valley(m), m.numpy.array(start), (100.0,), method=method,
                    options=options))

        assert_agree(run, tolerance=1e-5)
