"""Linear algebra, as `scipy.linalg` has it."""
