"""Types and primitives of authors, with JAX's protocol for them."""
