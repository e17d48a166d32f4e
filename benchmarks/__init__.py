"""Numbers of mjax side by side with jax: `python -m benchmarks`."""
