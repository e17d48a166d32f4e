"""Linear algebra, following `scipy.linalg`."""
