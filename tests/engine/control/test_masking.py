"""Masks of effects in branches, with a primitive that reports its operand."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.control.masking import mask_rules, maskable, masked, reads_mask
from mjax.sharding import PartitionSpec as P
from mjax_ext import core


class Report(core.Effect):
    policy = core.EffectPolicy(masked=False)


def reporting(name):
    p = core.Primitive(name, multiple_results=True)
    p.seen = []
    p.def_effectful_abstract_eval(lambda mask, x: ([], frozenset([Report()])))

    @p.def_impl
    def _(mask, x):
        mask, x = np.broadcast_arrays(mask, x)
        p.seen.extend(x[mask].tolist())
        return []

    @p.def_batch
    def _(args, dims):
        return p.bind(*(x if d is None else jnp.moveaxis(x, d, 0)
                        for x, d in zip(args, dims, strict=True))), []

    return p


report_p, unmasked_p = reporting("report"), reporting("report_all")
mask_rules[report_p] = lambda mask, args, params: report_p.bind(args[0] & mask, args[1])


def branch(p):
    return lambda x: lax.cond(x > 0, lambda x: (p.bind(True, x), -x)[1], lambda x: x, x)


def test_effects_happen_for_elements_that_take_the_branch():
    np.testing.assert_array_equal(
        mjax.vmap(branch(report_p))(jnp.array([1.0, -2.0, 3.0])), [-1, -2, -3])
    assert report_p.seen == [1, 3]


def test_effects_without_a_mask_are_refused():
    with pytest.raises(NotImplementedError, match="'report_all' has Report"):
        mjax.vmap(branch(unmasked_p))(jnp.array([1.0, -2.0]))
    mesh = mjax.make_mesh((1,), ("i",))
    f = mjax.shard_map(lambda x: (report_p.bind(True, x), x)[1], mesh=mesh, in_specs=P(),
                       out_specs=P())
    with pytest.raises(NotImplementedError, match="'report' has Report"):
        mjax.vmap(lambda x: lax.cond(x > 0, f, lambda x: x, x))(jnp.array([1.0, -2.0]))


def test_programs_take_a_mask_if_they_read_one():
    pure, reads, needs = (mjax.make_jaxpr(mjax.jit(f))(1.0) for f in (
        jnp.sin, lambda x: lax.scan(lambda c, _: (c, report_p.bind(True, c)), x, None, length=2),
        lambda x: (report_p.bind(True, x), unmasked_p.bind(True, x))))
    assert [reads_mask(jaxpr) for jaxpr in (pure, reads, needs)] == [False, True, True]
    assert [maskable(jaxpr) for jaxpr in (pure, reads, needs)] == [True, True, False]
    more = masked(reads)
    assert list(map(str, more.in_avals)) == ["~float32[]", "bool[]"]
    assert more.out_avals[-1].dtype == bool and masked(reads) is more
