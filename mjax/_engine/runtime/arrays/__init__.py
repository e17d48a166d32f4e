"""Arrays: where their parts are, how they are moved, cut, put together and shared."""
