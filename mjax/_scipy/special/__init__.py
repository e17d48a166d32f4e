"""Special functions, following `scipy.special`."""
