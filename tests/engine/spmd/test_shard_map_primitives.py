"""Every primitive of the tables in the body of shard_map, with operands that vary and operands that
are the same on all devices: values, types and derivatives are those of the same on one device."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
from mjax._engine.ir.mesh import Mesh
from mjax._engine.spmd.shard_map import shard_map
from tests.engine.primitives.harness import (
    UNOPTIMIZED,
    assert_close,
    assert_same,
    check,
    kind,
    precision,
)
from tests.engine.primitives.test_registry import CASES

from .mapped import P

SAMPLES = [next(case.samples()) for case in CASES]
#: Which devices' numbers come out of these is not a function of their operands.
WITHOUT = {"rng_uniform"}


@functools.cache
def mesh():
    return Mesh(np.array(mjax.devices()[:2]), ("i",))


def choices(sample):
    """No operand varies, each alone, all of them."""
    n = len(sample.types)
    return list(dict.fromkeys([(), *((i,) for i in range(n)), tuple(range(n))]))


def on_devices(body, stacks, count):
    """Calls a body with a device's own operands, and those of the first, which all have."""
    n = len(stacks)
    f = shard_map(lambda *xs: [out[None] for out in body([x[0] for x in xs[:n]], xs[n:])],
                  mesh=mesh(), in_specs=(*[P("i")] * n, *[P()] * n), out_specs=[P("i")] * count)
    return mjax.jit(f, compiler_options=UNOPTIMIZED)(*stacks, *[x[0] for x in stacks])


def given(own, whole, varying):
    return [own[i] if i in varying else whole[i] for i in range(len(own))]


@check
def values(sample):
    stacks = sample.operands(sample.rng(), (2,))
    first = sample.call(*[x[0] for x in stacks])

    def body(own, whole):
        found = []
        for varying in choices(sample):
            outs = sample.call(*given(own, whole, varying))
            for out in outs:
                assert mjax.typeof(out).varying == ({"i"} if varying else set()), varying
            found += map(mjax.numpy.asarray, outs)
        return found

    outs = iter(on_devices(body, stacks, len(first) * len(choices(sample))))
    for varying in choices(sample):
        pieces = [next(outs) for _ in first]
        for k in range(2):
            expected = sample.call(*[x[k if i in varying else 0] for i, x in enumerate(stacks)])
            assert_same([p[k] for p in pieces], list(map(np.asarray, expected)),
                        sample.case.tolerance * precision([*stacks, *expected]))


@check
def cotangents(sample):
    """Those of what varies are the device's, those of what does not are summed."""
    stacks = sample.operands(sample.rng(), (2,))
    group = sample.inexact
    outs = [o for o in sample.call(*[x[0] for x in stacks]) if kind(o.dtype) in "fc"]
    if not outs or not group or not sample.case.order:
        return
    rng = np.random.default_rng(0)
    cts = tuple(np.asarray(rng.normal(size=o.shape), o.dtype) for o in outs)

    def pulled(operands):
        f = sample.restricted(group, operands)
        return mjax.vjp(f, *[operands[i] for i in group])[1](cts)

    def body(own, whole):
        found = []
        for varying in choices(sample):
            pulls = pulled(given(own, whole, varying))
            for i, ct in zip(group, pulls, strict=True):
                assert mjax.typeof(ct).varying == ({"i"} if i in varying else set())
            found += pulls
        return found

    found = iter(on_devices(body, stacks, len(group) * len(choices(sample))))
    for varying in choices(sample):
        each = [pulled([x[k if i in varying else 0] for i, x in enumerate(stacks)])
                for k in range(2)]
        for j, i in enumerate(group):
            got = np.asarray(next(found))
            devices = np.stack([np.asarray(e[j]) for e in each])
            expected = devices if i in varying or not varying else np.stack([devices.sum(0)] * 2)
            assert_close(got, expected, 10 * sample.case.tolerance * precision([got]))


FEW = {"mul", "dot_general", "gather", "reduce_max", "sort", "select_n", "random_bits", "scatter"}


@pytest.mark.parametrize("rule", [values, cotangents], ids=["values", "cotangents"])
@pytest.mark.parametrize("sample", [
    s if s.case.primitive in FEW else pytest.param(s, marks=pytest.mark.slow) for s in SAMPLES
    if s.case.primitive not in WITHOUT], ids=str)
def test_primitive(sample, rule):
    rule(sample)
