"""Primitives of linear algebra: factorizations, and the solutions of systems that use them.

They stand above the control flow, since implementations loop where jaxlib does not have a kernel.
"""
