"""SciPy functions, built on the NumPy front end."""
