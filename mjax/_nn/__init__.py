"""Neural network functions, built on the NumPy front end."""
