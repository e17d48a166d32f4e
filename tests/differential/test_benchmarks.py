"""The rows of the benchmarks compute the same in both libraries."""

from __future__ import annotations

import jax
import pytest

import mjax
from benchmarks.rows import ROWS
from tests.differential.compare import assert_equal_results


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_both_sides_agree(row):
    ours, theirs = row.make(mjax), row.make(jax)
    assert_equal_results(mjax.tree_util.tree_leaves(ours.values()),
                         jax.tree_util.tree_leaves(theirs.values()), tolerance=1e-4)
