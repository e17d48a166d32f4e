"""Which rules of primitives that hold programs are written by hand."""

from __future__ import annotations

from benchmarks.rules import holding, written


def test_few_rules_are_written_by_hand():
    """The number only falls: what a transformation needs goes into the kit."""
    rules = {p.name: set(written(p)) for p in holding()}
    assert sum(map(len, rules.values())) <= 71
    assert not rules["jit"] and not rules["closed_call"]
