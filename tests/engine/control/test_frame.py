"""The number of hand-written rules of primitives that hold programs."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.rules import count


def test_few_rules_are_written_by_hand():
    """The number only falls: what a transformation needs goes into the kit."""
    rules = dict(count())
    assert sum(map(len, rules.values())) <= 35
    assert not rules["jit"] and not rules["closed_call"]


def test_primitives_bring_their_rules():
    """Whoever imports the list of primitives needs nothing else for the rules to be there."""
    code = ("import mjax_ext.core.primitives as e\n"
            "print([p for p in (e.scan_p, e.cond_p, e.shard_map_p, e.jit_p, e.remat_p)\n"
            "       if p.jvp is None or p.abstract_eval is None])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=120, check=True)
    assert done.stdout.strip() == "[]"
