"""Linear equations whose matrix is known by its products alone, as `scipy.sparse.linalg` has them.

A vector is a pytree of arrays, a matrix a function of such trees.
"""
