"""How samples are held against a distribution: fixed keys, tests of scipy, small thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

#: The tests are deterministic; a fair sample would fail one key in a thousand.
THRESHOLD = 1e-3


def check_continuous(sample: Any, cdf: Any) -> None:
    """Kolmogorov and Smirnov: the sample comes from the distribution."""
    values = np.asarray(sample).ravel().astype(np.float64)
    assert stats.kstest(values, cdf).pvalue > THRESHOLD


def check_discrete(sample: Any, probabilities: Any) -> None:
    """Pearson: the values 0, 1, ... come with these probabilities."""
    values = np.asarray(sample).ravel()
    probabilities = np.asarray(probabilities, np.float64)
    probabilities = probabilities / probabilities.sum()
    counts = np.bincount(values, minlength=len(probabilities))
    assert len(counts) == len(probabilities)
    assert not counts[probabilities == 0].any()
    kept = probabilities > 0
    assert stats.chisquare(counts[kept], probabilities[kept] * values.size).pvalue > THRESHOLD
