"""Minimization of functions, following `scipy.optimize`."""
