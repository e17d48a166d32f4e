"""Arrays: the places of their parts, and how they are moved, cut, assembled and shared."""
