"""`audit` and `migrate`: what a library uses of the surface, and how it moves to a generation."""
