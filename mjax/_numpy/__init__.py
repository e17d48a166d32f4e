"""The NumPy-like front end, written on primitives only."""
