"""Operands for tests of linear algebra, and what they are compared by."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engine.primitives.harness import kind, normal

REAL, COMPLEX = "f32 f64", "c64 c128"
ALL = f"{REAL} {COMPLEX}"


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def square(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Matrices with a strong diagonal: well conditioned."""
    x = normal(rng, shape, dtype)
    return x + (3 * np.eye(*shape[-2:])).astype(dtype)


def positive(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Positive definite matrices."""
    x = normal(rng, shape, dtype)
    return (x @ adjoint(x) + np.eye(shape[-1])).astype(dtype)


def hermitian(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Hermitian matrices whose eigenvalues are 1, 2, 3, ..."""
    q = np.linalg.qr(normal(rng, shape, np.dtype("c16" if kind(dtype) == "c" else "f8")))[0]
    return ((q * np.arange(1.0, shape[-1] + 1)) @ adjoint(q)).astype(dtype)


def tall(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Matrices whose singular values are 1, 2, 3, ..."""
    wide = np.dtype("c16" if kind(dtype) == "c" else "f8")
    u, _, vh = np.linalg.svd(normal(rng, shape, wide), full_matrices=False)
    return ((u * np.arange(u.shape[-1], 0.0, -1)) @ vh).astype(dtype)


def upper(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Upper triangles with a strong diagonal."""
    return np.triu(square(rng, shape, dtype))
