"""Special functions, as `scipy.special` has them."""
