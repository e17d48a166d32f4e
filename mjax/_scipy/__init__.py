"""SciPy's functions, written on the NumPy front end."""
