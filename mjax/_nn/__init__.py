"""Functions of neural networks, written on the NumPy front end."""
