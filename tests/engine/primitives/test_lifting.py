"""stage: the identity, whose result belongs to the trace."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext.core import Tracer
from tests.engine.primitives.harness import Case, table

CASES = [Case("stage", lax.stage_p.bind, np.copy, "T[3]; T[]; T[0,2]",
              T="f32 bf16 c64 i32 u8 bool", linear=[(0,)])]


@table(CASES)
def test_rules(check, sample):
    check(sample)


def test_values_and_types_outside_of_traces():
    for x in (2.0, True, 3, np.float64(2), np.arange(3), np.ones((0, 2))):
        out, expected = lax.stage(x), jnp.asarray(x)
        np.testing.assert_array_equal(out, expected)
        assert (out.dtype, out.weak_type) == (expected.dtype, isinstance(x, float | int)
                                              and not isinstance(x, bool | np.generic))
    x = jnp.arange(3)
    assert lax.stage(x) is x


def test_a_value_becomes_a_tracer_of_the_program():
    def f(x):
        staged = lax.stage(np.arange(3.0, dtype=np.float32))
        assert isinstance(staged, Tracer)
        assert lax.stage(x) is x
        return staged * x

    np.testing.assert_array_equal(mjax.jit(f)(2.0), [0, 2, 4])


@pytest.mark.parametrize("value", ["a", [1, 2], None], ids=["text", "list", "None"])
def test_refusals(value):
    with pytest.raises(TypeError):
        lax.stage(value)
