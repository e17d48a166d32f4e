"""Foreign functions: registering them, and calling them."""
