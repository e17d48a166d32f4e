"""Transposes of programs with collectives communicate no more than JEP 17111 derives."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
from mjax import P, lax
from mjax._engine.spmd.axes import in_manual
from mjax._engine.transforms.transpose import transpose_jaxpr
from tests.engine.spmd.on_devices import BOTH, body, mesh, program, shard
from tests.engine.spmd.simulation import on_mesh, psum

RNG = np.random.default_rng(0)
COLLECTIVES = {"psum", "psum_invariant", "pvary", "all_gather", "reduce_scatter",
               "all_gather_invariant", "pscatter", "all_to_all", "ppermute", "pbroadcast"}
SILENT = {"pvary", "pscatter"}


def collectives(jaxpr):
    """What communicates, and casts: not the sum of what does not vary, which is a product."""
    return [eqn.primitive.name for eqn in jaxpr.eqns if eqn.primitive.name in COLLECTIVES
            and (eqn.primitive.name != "psum_invariant"
                 or not eqn.invars[0].aval.varying.isdisjoint(eqn.params["axes"]))]


def transposed(jaxpr, linear=1, mode="checked"):
    """The transpose of a program in its last inputs; the others come first."""
    undefined = [i >= len(jaxpr.invars) - linear for i in range(len(jaxpr.invars))]
    with in_manual(mesh(), BOTH, mode):
        return transpose_jaxpr(jaxpr, undefined, [True] * len(jaxpr.outvars))[0]


def canonical(jaxpr):
    """Its equations, each operand of a sum or a product in one order."""
    numbers = {v: i for i, v in enumerate(jaxpr.invars)}
    found = []
    for eqn in jaxpr.eqns:
        operands = [str(numbers.get(v, v)) if not hasattr(v, "val") else str(v.val)
                    for v in eqn.invars]
        if eqn.primitive.name in {"mul", "add", "add_any"}:
            operands.sort()
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        found.append((eqn.primitive.name, operands, sorted(map(str, eqn.params.items())),
                      [str(v.aval) for v in eqn.outvars]))
    return found, [numbers.get(v, v) for v in jaxpr.outvars]


# Name -> (function, type of its operand, what its transpose communicates or casts by).
TABLE = {
    "psum": (lambda x: lax.psum(x, "i"), shard((3,)), ["pvary"]),
    "psum over both": (lambda x: lax.psum(x, BOTH), shard((3,)), ["pvary"]),
    "psum over one that varies": (lambda x: lax.psum(x, BOTH), shard((3,), varying="j"),
                                  ["pvary"]),
    "psum of what does not vary": (lambda x: lax.psum(x, "i"), shard((3,), varying="j"), []),
    "pvary": (lambda x: lax.pvary(x, "i"), shard((3,), varying="j"), ["psum_invariant"]),
    "psum in groups": (lambda x: lax.psum(x, "j", axis_index_groups=[[0, 1], [2, 3]]),
                       shard((3,)), ["psum"]),
    "all_gather": (lambda x: lax.all_gather(x, "j"), shard((3,)), ["reduce_scatter"]),
    "all_gather of what does not vary": (
        lambda x: lax.all_gather(x, "j"), shard((3,), varying="i"),
        ["reduce_scatter", "psum_invariant"]),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "j", tiled=True), shard((8,)), ["all_gather"]),
    "all_gather_invariant": (lambda x: lax.all_gather_invariant(x, "j", tiled=True), shard((3,)),
                             ["pscatter"]),
    "pscatter": (lambda x: lax.pscatter(x, "j"), shard((4, 3), varying="i"),
                 ["all_gather_invariant"]),
    "all_to_all": (lambda x: lax.all_to_all(x, "j", 0, 1, tiled=True), shard((8, 3)),
                   ["all_to_all"]),
    "ppermute": (lambda x: lax.ppermute(x, "j", [(0, 1), (3, 0)]), shard((3,)), ["ppermute"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name):
    f, aval, expected = TABLE[name]
    jaxpr = body(f, [aval])
    there = transposed(jaxpr)
    assert collectives(there) == expected
    assert [a.varying for a in there.out_avals] == [aval.varying]
    again = transposed(there)
    assert canonical(again) == canonical(jaxpr)
    assert canonical(transposed(again)) == canonical(there)


@pytest.mark.parametrize("name", [n for n in TABLE if "vary" not in n and "varies" not in n
                                  and "invariant" not in n and n != "pscatter"])
def test_where_nothing_is_checked(name):
    """psum is its own transpose; exchanges are as elsewhere."""
    f, aval, expected = TABLE[name]
    jaxpr = body(f, [shard(aval.shape, varying=())], "unchecked")
    there = transposed(jaxpr, mode="unchecked")
    assert collectives(there) == (["psum"] if name.startswith("psum") and "scatter" not in name
                                  else expected)
    assert canonical(transposed(there, mode="unchecked")) == canonical(jaxpr)


def test_all_to_all_swaps_its_axes_and_permutations_are_inverted():
    there = transposed(body(TABLE["all_to_all"][0], [shard((8, 3))]))
    assert (there.eqns[0].params["split_axis"], there.eqns[0].params["concat_axis"]) == (1, 0)
    there = transposed(body(TABLE["ppermute"][0], [shard((3,))]))
    assert there.eqns[0].params["perm"] == ((1, 0), (0, 3))


# The programs of the paper. Operands that it is not linear in come first.
PROGRAMS = {
    "a loss of all devices": (
        lambda a, x: lax.psum((a * x).sum(), BOTH), [shard((3,)), shard((3,))], []),
    "a sum used with varying operands": (
        lambda a, x: lax.psum(x, "i") * a, [shard((3,)), shard((3,))], ["psum_invariant"]),
    "the same twice": (
        lambda a, x: lax.psum(lax.psum(x, "i") * a, "i"), [shard((3,)), shard((3,))],
        ["psum_invariant"]),
    "the identity": (lambda a, x: x * 1.0, [shard((3,)), shard((3,), varying=())], []),
    "a replicated operand, used twice": (
        lambda a, x: x * a + lax.neg(a) * x, [shard((3,)), shard((3,), varying=())],
        ["psum_invariant"]),
    "a gather to an unmapped result": (
        lambda a, x: lax.all_gather_invariant(x * a, BOTH, tiled=True), [shard((3,))] * 2, []),
    "a gather to a mapped result": (
        lambda a, x: lax.all_gather(x, "j", tiled=True) * a, [shard((12,)), shard((3,))],
        ["reduce_scatter"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_paper(name):
    f, avals, expected = PROGRAMS[name]
    jaxpr = body(f, avals)
    there = transposed(jaxpr)
    assert [c for c in collectives(there) if c not in SILENT] == expected
    assert there.out_avals == [avals[1]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_ten_transpositions_do_not_grow(name):
    f, avals, _ = PROGRAMS[name]
    jaxprs = [body(f, avals)]
    for _ in range(10):
        jaxprs.append(transposed(jaxprs[-1]))
    assert collectives(jaxprs[2]) == collectives(jaxprs[0])
    assert canonical(jaxprs[10])[0] == canonical(jaxprs[2])[0]
    assert canonical(jaxprs[9])[0] == canonical(jaxprs[3])[0] == canonical(jaxprs[1])[0]


# The same as whole maps, of a value in which they are linear: (body, in_spec, out_spec, what the
# transpose's body communicates or casts by, what the compiled one communicates by).
MAPS = {
    "a loss of all devices": (lambda x: lax.psum((x * 2.0).sum(), "i"), P("i"), P(), ["pvary"],
                              []),
    "a sum used with varying operands": (
        lambda x: lax.psum(x, "i") * (lax.axis_index("i") + 1.0), P("i"), P("i"),
        ["psum_invariant", "pvary"], ["all-reduce"]),
    "the identity": (lambda x: x, P("i"), P("i"), [], []),
    "the identity on copies": (lambda x: x, P(), P(), [], []),
    "a gather to an unmapped result": (
        lambda x: lax.all_gather_invariant(x, "i", tiled=True), P("i"), P(), ["pscatter"], []),
    "a gather to a mapped result": (lambda x: lax.all_gather(x, "i", tiled=True), P("i"), P("i"),
                                    ["reduce_scatter"], ["reduce-scatter"]),
}


@pytest.mark.parametrize("name", MAPS)
def test_whole_maps(name):
    """The transpose has exactly the collectives of the paper, compiled too; its transpose is the
    map again, and ten transpositions in a row do not grow."""
    body, in_spec, out_spec, expected, compiled = MAPS[name]
    f = mjax.shard_map(body, mesh=mesh(), in_specs=in_spec, out_specs=out_spec)
    value = RNG.normal(size=(8, 3)).astype("float32")
    maps, args = [f], [value, np.ones_like(f(value))]
    for n in range(10):
        maps.append(functools.partial(
            lambda pull_back, ct: pull_back(ct)[0], mjax.linear_transpose(maps[-1], args[n % 2])))
    eqns = [mjax.make_jaxpr(g)(args[n % 2]).eqns for n, g in enumerate(maps)]
    assert [[e.primitive.name for e in same] for same in eqns] == [["shard_map"]] * 11
    bodies = [canonical(same[0].params["jaxpr"]) for same in eqns]
    assert collectives(eqns[1][0].params["jaxpr"]) == expected
    assert sorted(eqn[0] for eqn in bodies[2][0]) == sorted(eqn[0] for eqn in bodies[0][0])
    assert [c[0] for c in bodies[3:]] == [bodies[2 - n % 2][0] for n in range(3, 11)]
    assert eqns[2][0].params["in_specs"] == eqns[0][0].params["in_specs"]
    text = mjax.jit(maps[1]).lower(args[1]).compile().as_text()
    found = [name for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                               "collective-permute") if f" {name}(" in text
             or f" {name}-start(" in text]
    assert found == compiled
    np.testing.assert_allclose(maps[2](value), f(value), 1e-5)


def test_a_plain_gather_to_an_unmapped_result_is_refused():
    """Its type varies, though its values do not."""
    with pytest.raises(ValueError, match=r"result of all_gather at [^$]*lax\.all_gather_invariant"):
        mjax.shard_map(lambda x: lax.all_gather(x, "i"), mesh=mesh(), in_specs=P("i"),
                       out_specs=P())(np.ones(8, "float32"))


def test_a_weight_used_often_is_summed_once():
    """However many uses: a cast per value, so a sum per gradient."""
    def loss(w, x):
        for _ in range(10):
            x = lax.tanh(w * x) + w
        return lax.psum(x.sum(), BOTH)

    jaxpr = body(mjax.grad(loss), [shard((3,), varying=()), shard((3,))])
    assert [c for c in collectives(jaxpr) if c not in SILENT] == [
        "psum_invariant", "psum_invariant"]  # of the loss itself, and of the gradient
    assert jaxpr.out_avals[0].varying == set()
    w, x = RNG.normal(size=(3,)).astype("float32"), RNG.normal(size=(2, 4, 3)).astype("float32")
    out, = program(jaxpr)(np.broadcast_to(w, (2, 4, 3)), x)

    def whole(w):
        y = x
        for _ in range(10):
            y = lax.tanh(w * y) + w
        return y.sum()

    np.testing.assert_allclose(out, np.broadcast_to(mjax.grad(whole)(w), (2, 4, 3)), 1e-3, 1e-4)


def test_compiled_programs_have_as_many_all_reduces():
    def count(f, avals, name):
        jaxpr = body(f, avals)
        args = [np.ones((2, 4, *a.shape), "float32") for a in avals]
        text = program(jaxpr).lower(*args).compile().as_text()
        return sum(f" {name}(" in line or f" {name}-start(" in line for line in text.splitlines())

    def pulled(name):
        f, avals, _ = PROGRAMS[name]
        out = body(f, avals).out_avals[0]
        return lambda a, x, ct: mjax.vjp(lambda x: f(a, x), x)[1](ct)[0], [*avals, out]

    for name, expected in {"a loss of all devices": {}, "the identity": {},
                           "a sum used with varying operands": {"all-reduce": 1},
                           "a replicated operand, used twice": {"all-reduce": 1},
                           "a gather to an unmapped result": {},
                           "a gather to a mapped result": {"reduce-scatter": 1}}.items():
        for operation in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                          "collective-permute"):
            assert count(*pulled(name), operation) == expected.get(operation, 0), name


def test_gradients_inside_where_nothing_is_checked():
    """The convention of old: psum transposes to psum, so that each device counts."""
    x = RNG.normal(size=(2, 4, 3)).astype("float32")
    f = mjax.grad(lambda x: lax.psum((x * x).sum(), "j"))
    out, = program(body(f, [shard((3,), varying=())], "unchecked"), "unchecked")(x)
    np.testing.assert_allclose(out, 2 * x * 4, 1e-5)
    out, = program(body(f, [shard((3,))]))(x)
    np.testing.assert_allclose(out, 2 * x, 1e-5)
    value, = program(body(lambda x: lax.psum(x, "j"), [shard((3,))]))(x)
    np.testing.assert_allclose(value, on_mesh(psum, "j", x), 1e-5)
