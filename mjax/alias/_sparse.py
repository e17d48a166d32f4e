"""`BCOO`: matrices of few non-zeros, as far as libraries multiply by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import mjax.numpy as jnp
from mjax.tree_util import register_pytree_node_class


@register_pytree_node_class
class BCOO:
    """A matrix of elements at places; elements at one place add.

    Args:
      args: the elements, `(nse,)`, and their places, `(nse, 2)` integers.
      shape: the matrix's.

    Raises:
      ValueError: the shapes do not fit.

    Source: JAX, `jax.experimental.sparse.BCOO`, without batches and further dimensions.
    """

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class

    def __init__(self, args: tuple[Any, Any], *, shape: Sequence[int]):
        self.data, self.indices = jnp.asarray(args[0]), jnp.asarray(args[1])
        self.shape = tuple(shape)
        if (len(self.shape), self.data.ndim) != (2, 1) or (
                self.indices.shape != (*self.data.shape, 2)):
            raise ValueError(
                "mjax.alias has BCOO for matrices: elements of shape (nse,) at places of shape "
                f"(nse, 2). Here the shapes are {self.data.shape} and {self.indices.shape}, and "
                f"that of the matrix is {self.shape}.")

    @classmethod
    def fromdense(cls, matrix: Any) -> BCOO:
        """The matrix with the non-zeros of a known array."""
        known = np.asarray(matrix)
        places = np.argwhere(known)
        return cls((known[tuple(places.T)], places.astype(np.int32)), shape=known.shape)

    @classmethod
    def from_scipy_sparse(cls, matrix: Any) -> BCOO:
        """The matrix of SciPy's."""
        found = matrix.tocoo()
        places = np.stack([found.row, found.col], axis=-1).astype(np.int32)
        return cls((found.data, places), shape=found.shape)

    @property
    def dtype(self) -> Any:
        """That of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """2."""
        return len(self.shape)

    @property
    def nse(self) -> int:
        """The number of elements that are kept."""
        return int(self.data.size)

    @property
    def T(self) -> BCOO:
        """The transposed matrix."""
        return BCOO((self.data, self.indices[:, ::-1]), shape=self.shape[::-1])

    def todense(self) -> Any:
        """The matrix as an array."""
        row, column = self.indices.T
        return jnp.zeros(self.shape, self.dtype).at[row, column].add(self.data)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            raise TypeError("mjax.alias multiplies a BCOO by arrays; use `other.todense()`")
        dense = jnp.asarray(other)
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        if dense.ndim == 0 or dense.shape[-2] != self.shape[1]:
            raise TypeError(f"shapes {self.shape} and {dense.shape} do not match")
        row, column = self.indices.T
        terms = self.data[:, None] * dense[..., column, :]
        shape = (*dense.shape[:-2], self.shape[0], dense.shape[-1])
        return jnp.zeros(shape, terms.dtype).at[..., row, :].add(terms)

    def __rmatmul__(self, other: Any) -> Any:
        dense = jnp.asarray(other)
        return self.T @ dense if dense.ndim == 1 else jnp.swapaxes(
            self.T @ jnp.swapaxes(dense, -1, -2), -1, -2)

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        """The elements and the places, and the shape."""
        return (self.data, self.indices), self.shape

    @classmethod
    def tree_unflatten(cls, shape: Any, children: tuple[Any, Any]) -> BCOO:
        """The matrix of parts, which may be anything while a tree is rebuilt."""
        made = object.__new__(cls)
        made.data, made.indices = children
        made.shape = shape
        return made
