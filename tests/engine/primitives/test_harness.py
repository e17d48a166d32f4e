"""The checker finds what is wrong: a correct primitive passes, each broken rule fails its check."""

from __future__ import annotations

import numpy as np
import pytest

from mjax import lax
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.shapes import moveaxis
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from tests.engine.primitives import harness
from tests.engine.primitives.harness import Case


def scaled_sums(**broken):
    """A primitive, `3 * x` summed over the last axis, with some rules replaced by wrong ones."""
    p = Primitive("scaled_sums")
    rules = {
        "abstract_eval": lambda x: ShapedArray(x.shape[:-1], x.dtype, x.weak_type),
        "lowering": traced(lambda x: lax.mul(lax.reduce_sum(x, (x.ndim - 1,)), np.float32(3))
                           if x.dtype == np.float32 else
                           lax.mul(lax.reduce_sum(x, (x.ndim - 1,)), np.float64(3))),
        "jvp": lambda primals, tangents: (p.bind(*primals), p.bind(*tangents)),
        "transpose": lambda ct, x: [lax.mul(x.aval.dtype.type(3), lax.broadcast_in_dim(
            ct, x.aval.shape, tuple(range(ct.ndim))))],
        "batch": lambda args, dims: (p.bind(moveaxis(args[0], dims[0], 0)), 0),
    } | broken
    for name, rule in rules.items():
        getattr(p, f"def_{name}")(rule)
    return p


def failing(primitive):
    """The names of the checks that fail, with the notes of their errors."""
    case = Case("scaled_sums", primitive.bind, lambda x: 3 * x.sum(-1), "T[2,3]; T[3]",
                linear=[(0,)])
    failures = {}
    for check, sample, _ in harness.plan(case):
        try:
            check(sample)
        except Exception as error:
            failures[check.__name__] = "\n".join(error.__notes__)
    return failures


def test_a_correct_primitive_passes():
    assert failing(scaled_sums()) == {}


WRONG = {
    "a value": ("lowering", traced(lambda x: lax.reduce_sum(x, (x.ndim - 1,))),
                {"evaluation"}),
    "a shape": ("abstract_eval", lambda x: ShapedArray((*x.shape[:-1], 1), x.dtype),
                {"evaluation", "staging"}),
    "a derivative": ("jvp", lambda primals, tangents: (
        lax.reduce_sum(primals[0], (primals[0].ndim - 1,)),
        lax.reduce_sum(tangents[0], (tangents[0].ndim - 1,))), {"differentiation"}),
    "a transpose": ("transpose", lambda ct, x: [lax.broadcast_in_dim(
        ct, x.aval.shape, tuple(range(ct.ndim)))], {"differentiation", "transposition"}),
    "a batch axis": ("batch", lambda args, dims: (lax.mul(
        lax.reduce_sum(args[0], (args[0].ndim - 1,)), np.float32(3)), 0),
        {"batching", "nested_batching"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(what):
    rule, replacement, checks = WRONG[what]
    found = failing(scaled_sums(**{rule: replacement}))
    assert checks <= set(found), found
    assert all("scaled_sums-f" in note for note in found.values())
    if "batching" in checks:
        assert "vmap with in_axes=(1,)" in found["batching"]
