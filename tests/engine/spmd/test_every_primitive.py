"""Every primitive in shard_map, with each of its operands varying over devices or not.

The rows are those of the tables of `tests/engine/primitives`, so that a new primitive is
covered as soon as it exists. Values and derivatives, taken outside of the map and inside, are
those of the same function called once per device; types say which of them vary.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.sharding import Mesh
from mjax.sharding import PartitionSpec as P
from tests.engine.primitives.harness import (
    UNOPTIMIZED,
    assert_close,
    assert_same,
    check,
    kind,
    naming,
    normal,
    precision,
    subsets,
)
from tests.engine.primitives.test_elementwise import CASES as ELEMENTWISE
from tests.engine.primitives.test_registry import CASES

SIZE = 2
MESH = Mesh(np.array(mjax.devices()[:SIZE]), ("i",))


#: Whose derivatives are taken in ordinary runs: one of each kind.
FEW = {"mul", "dot_general", "gather", "reduce_max", "sort", "select_n", "scatter"}
#: Whose values are not: elementwise ones, which share a rule, but for some; and iterations, which
#: take XLA seconds to compile.
RARE = {case.primitive for case in ELEMENTWISE} - {
    "abs", "add", "and", "clamp", "exp", "integer_pow", "lt", "max", "mul", "pow", "select_n"} | {
    "igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta",
    "threefry4x32", "philox4x32"}


def samples(few=None, wanted=lambda sample: True):
    """The first sample of each row; in ordinary runs of the first row of most primitives or few."""
    known = set()
    for case in CASES:
        for sample in itertools.islice((s for s in case.samples() if s.types), 1):
            slow = case.primitive in known or (
                case.primitive in RARE if few is None else case.primitive not in few)
            if wanted(sample):
                yield pytest.param(sample, id=str(sample), marks=[pytest.mark.slow] if slow else [])
        known.add(case.primitive)


def mapped(sample, way):
    """The function on each device; operands in `way` are cut, of the others there are copies."""

    def body(*shards):
        outs = sample.call(*[x[0] if i in way else x for i, x in enumerate(shards)])
        for out in outs:
            assert mjax.typeof(out).varying == ({"i"} if way else set())
        return [jnp.expand_dims(out, 0) for out in outs]

    specs = tuple(P("i") if i in way else P() for i in range(len(sample.types)))
    return mjax.shard_map(body, mesh=MESH, in_specs=specs, out_specs=P("i"))


def per_device(sample, stacks, way):
    """The operands of each device."""
    return [[x[d] if i in way else x[0] for i, x in enumerate(stacks)] for d in range(SIZE)]


def whole(stacks, way):
    """The operands of all devices together."""
    return [x if i in way else x[0] for i, x in enumerate(stacks)]


def stacked(columns):
    return [np.stack([np.asarray(x) for x in column]) for column in zip(*columns, strict=True)]


@check
def values(sample):
    stacks = sample.operands(sample.rng(), (SIZE,))
    ways = [(), *subsets(range(len(stacks)))]
    run = mjax.jit(lambda args: [mapped(sample, w)(*xs) for w, xs in zip(ways, args, strict=True)],
                   compiler_options=UNOPTIMIZED)
    results = run([whole(stacks, way) for way in ways])
    for way, outs in zip(ways, results, strict=True):
        with naming(f"operands {way} vary"):
            expected = stacked([sample.call(*xs) for xs in per_device(sample, stacks, way)])
            assert_same(outs, expected, sample.case.tolerance * precision(stacks))


@check
def derivatives(sample):
    """A copy's cotangent is the sum of those of the devices."""
    inexact = sample.inexact
    rng = sample.rng()
    stacks = sample.operands(rng, (SIZE,))
    ways = [(), *subsets(range(len(stacks)))]
    types = mjax.eval_shape(sample.restricted(inexact, per_device(sample, stacks, ())[0]),
                            *[stacks[i][0] for i in inexact])
    cts = tuple(normal(rng, (SIZE, *t.shape), np.dtype(t.dtype)) for t in types)

    def pull_back(way, xs):
        def f(*some):
            given = dict(zip(inexact, some, strict=True))
            outs = mapped(sample, way)(*[given.get(i, x) for i, x in enumerate(xs)])
            return tuple(out for out in outs if kind(out.dtype) in "fc")

        return mjax.vjp(f, *[xs[i] for i in inexact])[1](cts)

    run = mjax.jit(lambda args: [pull_back(w, xs) for w, xs in zip(ways, args, strict=True)],
                   compiler_options=UNOPTIMIZED)
    results = run([whole(stacks, way) for way in ways])
    for way, in_cts in zip(ways, results, strict=True):
        with naming(f"operands {way} vary"):
            columns = []
            for device, xs in enumerate(per_device(sample, stacks, way)):
                f = sample.restricted(inexact, xs)
                columns.append(mjax.vjp(f, *[xs[i] for i in inexact])[1](
                    tuple(ct[device] for ct in cts)))
            for i, actual, each in zip(inexact, in_cts, zip(*columns, strict=True), strict=True):
                each = [np.asarray(x) for x in each]
                expected = np.stack(each) if i in way else np.sum(each, 0, dtype=each[0].dtype)
                assert actual.dtype == expected.dtype
                # Cotangents are added up before or after they go through the operation.
                assert_close(actual, expected, 100 * sample.case.tolerance * precision(
                    [*stacks, *cts]))


@check
def derivatives_inside(sample):
    """On a device the cotangent of what varies is its own, of a copy the sum over devices."""
    inexact = sample.inexact
    rng = sample.rng()
    stacks = sample.operands(rng, (SIZE,))
    ways = [(), *subsets(range(len(stacks)))]
    types = mjax.eval_shape(sample.restricted(inexact, per_device(sample, stacks, ())[0]),
                            *[stacks[i][0] for i in inexact])
    cts = tuple(normal(rng, t.shape, np.dtype(t.dtype)) for t in types)

    def pull_back(xs):
        return mjax.vjp(sample.restricted(inexact, xs), *[xs[i] for i in inexact])[1](cts)

    def body(way):
        def f(*shards):
            in_cts = pull_back([x[0] if i in way else x for i, x in enumerate(shards)])
            for i, ct in zip(inexact, in_cts, strict=True):
                assert mjax.typeof(ct).varying == ({"i"} if i in way else set())
            return [jnp.expand_dims(ct, 0) for ct in in_cts]

        specs = tuple(P("i") if i in way else P() for i in range(len(stacks)))
        return mjax.shard_map(f, mesh=MESH, in_specs=specs, out_specs=P("i"))

    run = mjax.jit(lambda args: [body(way)(*xs) for way, xs in zip(ways, args, strict=True)],
                   compiler_options=UNOPTIMIZED)
    for way, in_cts in zip(ways, run([whole(stacks, way) for way in ways]), strict=True):
        with naming(f"operands {way} vary"):
            expected = stacked([pull_back(xs) for xs in per_device(sample, stacks, way)])
            for i, actual, each in zip(inexact, in_cts, expected, strict=True):
                if way and i not in way:
                    each = np.broadcast_to(each.sum(0, keepdims=True), each.shape)
                assert_close(actual, each, 100 * sample.case.tolerance * precision(
                    [*stacks, *cts]))


def differentiable(sample):
    return sample.case.order and sample.inexact


@pytest.mark.parametrize("sample", list(samples()))
def test_values(sample):
    values(sample)


@pytest.mark.parametrize("sample", list(samples(FEW, differentiable)))
def test_derivatives(sample):
    derivatives(sample)


@pytest.mark.parametrize("sample", list(samples(FEW, differentiable)))
def test_derivatives_inside(sample):
    derivatives_inside(sample)
