"""Minima of functions, as `scipy.optimize` has them."""
