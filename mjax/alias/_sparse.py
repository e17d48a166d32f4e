"""`BCOO`: arrays of few non-zeros, as far as libraries multiply by them, and `sparsify`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mjax.numpy as jnp
from mjax.tree_util import register_pytree_node_class, tree_map


@register_pytree_node_class
class BCOO:
    """An array of elements at places; elements at one place add. Matrices multiply by arrays.

    Args:
      args: the elements, `(nse,)`, and their places, `(nse, ndim)` integers.
      shape: the array's.

    Raises:
      ValueError: the shapes do not fit.

    Source: JAX, `jax.experimental.sparse.BCOO`, without batches and dense dimensions.
    """

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class

    def __init__(self, args: tuple[Any, Any], *, shape: Sequence[int]):
        self.data, self.indices = jnp.asarray(args[0]), jnp.asarray(args[1])
        self.shape = tuple(shape)
        if self.data.ndim != 1 or self.indices.shape != (*self.data.shape, len(self.shape)):
            raise ValueError(
                "mjax.alias has BCOO without batches: elements of shape (nse,) at places of shape "
                f"(nse, ndim). Here the shapes are {self.data.shape} and {self.indices.shape}, and "
                f"that of the array is {self.shape}.")

    @classmethod
    def fromdense(cls, mat: Any) -> BCOO:
        """The non-zeros of a known array."""
        known = np.asarray(mat)
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
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nse(self) -> int:
        """The number of elements that are kept."""
        return int(self.data.size)

    @property
    def T(self) -> BCOO:
        """The transposed array."""
        return BCOO((self.data, self.indices[:, ::-1]), shape=self.shape[::-1])

    def todense(self) -> Any:
        """The array with its zeros."""
        return jnp.zeros(self.shape, self.dtype).at[tuple(self.indices.T)].add(self.data)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            raise TypeError("mjax.alias multiplies a BCOO by arrays; use `other.todense()`")
        if self.ndim != 2:
            raise TypeError(f"mjax.alias multiplies a BCOO that is a matrix; this one has shape "
                            f"{self.shape}. Use `todense()`.")
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


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """The function, for `BCOO`s too: it computes with their arrays, zeros included.

    Args:
      f: takes arrays.
      use_tracer: for JAX, which has two ways.

    Returns:
      A function whose results are arrays.

    Source: JAX, `jax.experimental.sparse.sparsify`.
    """
    def is_sparse(x: Any) -> bool:
        return isinstance(x, BCOO)

    @functools.wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(lambda x: x.todense() if is_sparse(x) else x, (args, kwargs),
                                is_leaf=is_sparse)
        return f(*args, **kwargs)

    return dense
