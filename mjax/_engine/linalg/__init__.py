"""Primitives of linear algebra: factorizations, and solvers of linear systems.

They are above control flow, since implementations without a kernel in jaxlib use loops.
"""
