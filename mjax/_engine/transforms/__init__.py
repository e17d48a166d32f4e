"""Transformations: each an interpreter on a screen or two, and the functions users call."""
