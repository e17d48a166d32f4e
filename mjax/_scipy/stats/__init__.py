"""Probability distributions and statistics, following `scipy.stats`."""
