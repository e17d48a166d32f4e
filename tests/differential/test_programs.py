"""The programs of tests/programs on both libraries: values and gradients, in float32."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from benchmarks.programs import PROGRAMS
from tests.differential.compare import assert_close


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_values_and_gradients(program):
    args = jax.tree_util.tree_map(np.float32, program.args(np.random.default_rng(0), 1))
    found = [m.jit(m.value_and_grad(lambda *args, m=m: program.run(m, *args),
                                    program.differentiated))(*args) for m in (mjax, jax)]
    ours, theirs = mjax.tree_util.tree_leaves(found[0]), jax.tree_util.tree_leaves(found[1])
    assert len(ours) == len(theirs)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        assert_close(a, b, 5e-4, f"leaf {i}")
