"""The programs of tests/programs on both libraries: values and gradients, in float32."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from benchmarks.programs import PROGRAMS
from tests.differential.compare import assert_close
from tests.programs.ordinary import NAMES, differentiated, loaded


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


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_programs(name):
    """Values and gradients in float32."""
    found = []
    for m in (mjax, jax):
        module = loaded(name, m.__name__)
        args = m.tree_util.tree_map(lambda x: x.astype("f") if x.dtype.kind == "f" else x,
                                    module.arguments(np.random.default_rng(0)))
        places = differentiated(args)
        found.append(m.tree_util.tree_leaves(m.value_and_grad(module.program, places)(*args)))
    for i, (a, b) in enumerate(zip(*found, strict=True)):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        assert_close(a, b, 5e-4, f"{name}: leaf {i}")
