"""Generations: the chain of changes from the head to each of them, and what keeps them."""
