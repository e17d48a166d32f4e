"""Functions with rules of their users': derivatives, batching, roots, linear solves."""
