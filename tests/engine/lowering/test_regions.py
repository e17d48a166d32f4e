"""Regions of partitioned programs, and what the first device does for all."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax._engine.ir.types import ShapedArray
from mjax._engine.lowering import regions
from mjax._engine.primitives.emit import hlo
from mjax._engine.tracing.primitive import Primitive
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
MESH = mjax.make_mesh((4, 2), ("x", "y"))

first_p = Primitive("by_first", multiple_results=True)
first_p.def_abstract_eval(lambda x, i: [x, ShapedArray((), np.dtype(bool)), i])


@first_p.def_lowering
def _by_first(ctx, x, i):
    """Sums, on a device whose branch is taken; zeros on the others."""

    def body(x, i):
        greater = hlo.compare(i, hlo.add(i, i), hlo.ComparisonDirectionAttr.get("LT"))
        return [hlo.add(x, x), greater, hlo.add(i, i)]

    mctx = ctx.module_context
    values = mctx.gathered([x, i], ctx.avals_in)
    return (mctx.by_one_device(values, ctx.avals_out, body) if mctx.partitioned
            else body(*values))


per_device_p = Primitive("per_device")
per_device_p.def_abstract_eval(lambda x: x)


@per_device_p.def_lowering
def _per_device(ctx, x):
    """Each piece plus the number of its device, in a region."""
    mctx, spec = ctx.module_context, P(("x", "y"))
    piece = mctx.type_of(ctx.avals_in[0].update(shape=(1, 4)))

    def body(x):
        number = hlo.convert(mctx.type_of(ShapedArray((), np.dtype(np.float32))),
                             hlo.partition_id())
        return [hlo.add(x, hlo.broadcast_in_dim(piece, number, []))]

    whole = x.type
    return regions.manual_computation(
        mctx, mctx.mesh, mctx.mesh.axis_names,
        [regions.Port(x, piece, spec, 2)], [regions.Port(None, whole, spec, 2)], body)


@pytest.mark.parametrize("spec", [P(), P("x", "y"), P(("y", "x"))])
def test_the_first_device_computes_for_all(spec):
    x = mjax.device_put(X, NamedSharding(MESH, spec))

    def f(x, i):
        doubled, flag, twice = first_p.bind(x, i)
        return doubled + 1, flag, twice

    doubled, flag, twice = mjax.jit(f)(x, np.int32(3))
    for shard in doubled.addressable_shards:
        np.testing.assert_array_equal(shard.data, 2 * X[shard.index] + 1)
    assert bool(flag) and int(twice) == 6
    assert float(mjax.jit(f)(X, np.int32(3))[0].sum()) == 2 * X.sum() + 32


def test_in_a_loop():
    x = mjax.device_put(X, NamedSharding(MESH, P("x")))
    f = mjax.jit(lambda x: mjax.lax.fori_loop(
        0, 3, lambda i, x: first_p.bind(x, i)[0], x))
    np.testing.assert_array_equal(f(x), 8 * X)


def test_each_device_computes_its_piece():
    x = mjax.device_put(X, NamedSharding(MESH, P("x")))
    np.testing.assert_array_equal(mjax.jit(per_device_p.bind)(x), X + np.arange(8)[:, None])
