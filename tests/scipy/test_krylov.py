"""`sparse.linalg`: residuals, solutions of NumPy, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.scipy.sparse.linalg import bicgstab, cg, gmres
from mjax.test_util import check_grads

rng = np.random.default_rng(0)
N = 8
#: Well conditioned: positive definite and other ones, real and complex.
Q = rng.normal(size=(N, N)) + 0.7j * rng.normal(size=(N, N))
POSITIVE, OTHER = Q @ Q.conj().T / N + np.eye(N), Q + 6 * np.eye(N)
B = rng.normal(size=N) + 1j * rng.normal(size=N)
METHODS: dict[str, Callable[..., Any]] = {
    "cg": cg, "bicgstab": bicgstab, "gmres": gmres,
    "incremental": lambda *args, **options: gmres(*args, solve_method="incremental", **options)}


def matrix(name: str) -> np.ndarray:
    return POSITIVE if name == "cg" else OTHER


def symmetric(name: str, A: Any) -> Any:
    """Directions in which the derivative of `cg` is defined: Hermitian ones."""
    return (A + A.conj().T) / 2 if name == "cg" else A


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with mjax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", METHODS)
def test_solutions_and_derivatives(name: str) -> None:
    A, b = matrix(name).real, B.real
    solve = METHODS[name]
    run = mjax.jit(mjax.value_and_grad(lambda A, b: jnp.sum(jnp.sin(solve(
        lambda x: symmetric(name, A) @ x, b, tol=1e-12)[0])), (0, 1)))
    value, (of_A, of_b) = run(A, b)
    x = np.linalg.solve(symmetric(name, A), b)
    np.testing.assert_allclose(value, np.sum(np.sin(x)), 1e-8)
    adjoint = np.linalg.solve(symmetric(name, A).T, np.cos(x))
    np.testing.assert_allclose(of_b, adjoint, 1e-7, 1e-9)
    np.testing.assert_allclose(of_A, -symmetric(name, np.outer(adjoint, x)), 1e-7, 1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_complex_matrices_with_preconditioners(name: str) -> None:
    A = matrix(name)
    x, info = METHODS[name](A, B, tol=1e-10, M=np.diag(1 / np.diag(A)), x0=0.1 * B)
    assert x.dtype == np.complex128
    assert info is None if name in ("cg", "bicgstab") else info == 0
    np.testing.assert_allclose(A @ x, B, 1e-8, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_second_derivatives(name: str, kind: str) -> None:
    take = np.real if kind == "real" else np.asarray
    solve = METHODS[name]
    check_grads(lambda A, b: solve(symmetric(name, A), b, tol=1e-13)[0],
                (take(matrix(name)), take(B)), 2)


def test_steps_and_tolerances() -> None:
    A, b = POSITIVE.real, B.real
    # The residuals of conjugate gradients by the textbook.
    x, r = np.zeros(N), b
    p = r
    for count in range(1, 4):
        length = (r @ r) / (p @ A @ p)
        x, new = x + length * p, r - length * A @ p
        p, r = new + (new @ new) / (r @ r) * p, new
        np.testing.assert_allclose(cg(A, b, maxiter=count)[0], x, 1e-10)
    for tol, atol in ((1e-2, 0.0), (0.0, 0.5), (1e-9, 1e-3)):
        for name in ("bicgstab", "gmres"):
            x, _ = METHODS[name](OTHER.real, b, tol=tol, atol=atol)
            allowed = max(tol * np.linalg.norm(b), atol)
            assert np.linalg.norm(OTHER.real @ x - b) <= 1.01 * allowed
    np.testing.assert_array_equal(cg(A, b, b, maxiter=0)[0], b)
    for name in ("gmres", "incremental"):
        np.testing.assert_allclose(METHODS[name](OTHER.real, 0 * b, b)[0], 0 * b, 0, 1e-12)


def test_spaces_of_few_dimensions() -> None:
    A, b = OTHER.real, B.real
    one, two = [gmres(A, b, restart=3, maxiter=count, tol=1e-12)[0] for count in (1, 2)]
    # The best solution in the space of the powers of A on b.
    space = np.stack([b, A @ b, A @ A @ b], 1)
    np.testing.assert_allclose(one, space @ np.linalg.lstsq(A @ space, b, rcond=None)[0], 1e-7)
    assert np.linalg.norm(A @ two - b) < np.linalg.norm(A @ one - b)
    exact = gmres(A, b, restart=3, tol=1e-10, solve_method="incremental")[0]
    np.testing.assert_allclose(A @ exact, b, 1e-7, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_trees_batches_and_dtypes(name: str) -> None:
    A, solve = matrix(name).real, METHODS[name]
    split = lambda v: {"a": v[:3], "b": [v[3:].reshape(5, 1)]}
    join = lambda t: jnp.concatenate([t["a"], t["b"][0].ravel()])
    x, _ = solve(lambda t: split(A @ join(t)), split(B.real), tol=1e-10)
    np.testing.assert_allclose(A @ join(x), B.real, 1e-7, 1e-8)
    many = np.stack([B.real, B.imag, 0 * B.real])
    found = mjax.vmap(lambda b: solve(A, b, tol=1e-10)[0])(many)
    np.testing.assert_allclose(found @ A.T, many, 1e-7, 1e-8)
    for dtype in (np.float32, np.complex64, np.int32):
        x, _ = solve(A.astype(np.float32), (8 * B.real).astype(dtype))
        assert x.dtype == (np.float32 if dtype == np.int32 else dtype)
        np.testing.assert_allclose(A @ x, (8 * B.real).astype(dtype), 1e-2, 1e-2)


class Twice:
    """A matrix of the user's own."""

    shape = (2, 2)

    def __matmul__(self, x: Any) -> Any:
        return 2 * x


def test_other_matrices() -> None:
    np.testing.assert_allclose(cg(Twice(), np.array([2.0, 6.0]))[0], [1, 3])
    np.testing.assert_allclose(cg(lambda x: 4 * x, 2.0)[0], 0.5)
    assert cg(lambda x: x, ())[0] == ()
    np.testing.assert_array_equal(cg(np.eye(2), np.zeros(2))[0], [0, 0])
    assert gmres(np.zeros((2, 2)), np.ones(2))[1].shape == ()
    assert gmres(np.full((2, 2), np.nan), np.ones(2), x0=np.ones(2))[1] in (0, -1)


ERRORS = [
    (ValueError, r"cg: A must be a square matrix, but has shape \(2, 3\)", lambda: cg(
        np.ones((2, 3)), np.ones(2))),
    (ValueError, "bicgstab: M must be a square matrix", lambda: bicgstab(
        np.eye(2), np.ones(2), M=np.ones(2))),
    (TypeError, "gmres: A must be a square matrix or a function, got 3", lambda: gmres(
        3, np.ones(2))),
    (ValueError, "x0 must have the tree structure of b",
     lambda: cg(np.eye(2), np.ones(2), (np.ones(2),))),
    (ValueError, r"must have the shapes of those of b, \[\(2,\)\]", lambda: cg(
        np.eye(2), np.ones(2), np.ones(3))),
    (ValueError, "solve_method must be one of batched, incremental", lambda: gmres(
        np.eye(2), np.ones(2), solve_method="fast")),
    (ValueError, "gmres: restart, the dimension of the Krylov space, must be positive, got 0",
     lambda: gmres(np.eye(2), np.ones(2), restart=0)),
    (TypeError, "gmres: restart must be an integer, got 2.5", lambda: gmres(
        np.eye(2), np.ones(2), restart=2.5)),
    (TypeError, "type str is not a valid array", lambda: cg(np.eye(2), "b")),
    (ValueError, r"cg: A must return a tree of the shapes of b, float64\[2\], but <lambda> returns "
                 r"\(float64\[2\], float64\[2\]\)", lambda: cg(lambda x: (x, x), np.ones(2))),
    (ValueError, r"gmres: M must return a tree .* <lambda> returns float64\[1\]", lambda: gmres(
        np.eye(2), np.ones(2), M=lambda x: x[:1])),
    (TypeError, r"cg: A of shape \(2, 2\) takes a vector of 2 elements, but b is float64\[3\]",
     lambda: cg(np.eye(2), np.ones(3))),
    (TypeError, "takes a vector of 2 elements, but b is .*Give a function for other trees",
     lambda: cg(np.eye(2), {"a": np.ones(1), "b": np.ones(1)})),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=text):
        use()
