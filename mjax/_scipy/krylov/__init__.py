"""Matrix-free solvers of linear equations, following `scipy.sparse.linalg`.

A vector is a pytree of arrays; a matrix is a function of such trees.
"""
