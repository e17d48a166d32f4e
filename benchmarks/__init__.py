"""Benchmarks of mjax beside jax: `python -m benchmarks`."""
