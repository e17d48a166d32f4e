"""Functions with users' rules: derivatives, batching, roots, linear solves."""
