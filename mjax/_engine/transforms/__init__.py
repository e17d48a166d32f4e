"""Transformations: each an interpreter on a screen or two, and public functions."""
