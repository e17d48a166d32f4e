"""Probability distributions and statistics, as `scipy.stats` has them."""
