"""shard_map beside jax's: values, derivatives, the order of primitives, what is refused."""

from __future__ import annotations

import jax
import jax.numpy
import numpy as np
import pytest

import mjax
import mjax.numpy

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 4)).astype("float32")
X = RNG.normal(size=(8, 4)).astype("float32")


def mesh(lib):
    devices = np.array(lib.devices("cpu")[:8]).reshape(4, 2)
    return lib.sharding.Mesh(devices, ("i", "j"))


def mapped(lib, body, in_specs, out_specs, **options):
    p = lib.sharding.PartitionSpec
    return lib.shard_map(lambda *a: body(lib, *a), mesh=mesh(lib), out_specs=out_specs(p),
                         in_specs=in_specs(p), **options)


def data_parallel(lib, w, x):
    h = lib.numpy.tanh(x @ w)
    return lib.lax.pmean((h * h).mean(), "i"), h


def columns_then_rows(lib, w, x):
    return lib.lax.psum(lib.numpy.sin(x @ w) @ w.T, "i")


def gathered(lib, w, x):
    full = lib.lax.all_gather(x, "i", tiled=True)
    return lib.lax.psum_scatter(full @ w, "i", tiled=True)


def ring(lib, w, x):
    n = lib.lax.axis_size("i")
    right = lib.lax.ppermute(x, "i", [(k, (k + 1) % n) for k in range(n)])
    return right @ w + lib.lax.axis_index("i")


def exchanged(lib, w, x):
    return lib.lax.all_to_all(x @ w, "i", 1, 0, tiled=True)


def looped(lib, w, x):
    start = lib.lax.pcast(w[0], "i", to="varying")
    return lib.lax.scan(lambda c, row: (lib.numpy.sin(c) + row, c.sum()), start, x)


def branching(lib, w, x):
    return lib.lax.cond(w[0, 0] > 0, lambda x: lib.lax.psum(x, "i"),
                        lambda x: lib.lax.psum(2 * x, "i"), x)


PROGRAMS = {
    "data parallel": (data_parallel, lambda p: (p(), p("i")), lambda p: (p(), p("i"))),
    "columns then rows": (columns_then_rows, lambda p: (p(None, "i"), p()), lambda p: p()),
    "gathered": (gathered, lambda p: (p(), p("i")), lambda p: p("i")),
    "ring": (ring, lambda p: (p(), p("i")), lambda p: p("i")),
    "exchanged": (exchanged, lambda p: (p(), p("i")), lambda p: p("i")),
    "looped": (looped, lambda p: (p(), p("i")), lambda p: p("i")),
    "branching": (branching, lambda p: (p(), p("i")), lambda p: p()),
}


def loss(lib, f):
    def total(*args):
        return sum((lib.numpy.sin(o) * (1 + lib.numpy.arange(o.size).reshape(o.shape))).sum()
                   for o in lib.tree_util.tree_leaves(f(*args)))

    return total


def agree(ours, theirs):
    for a, b in zip(mjax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs),
                    strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-3, 1e-3)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients(program, check_vma):
    def both(way):
        return [way(lib, mapped(lib, *PROGRAMS[program], check_vma=check_vma))
                for lib in (mjax, jax)]

    agree(*both(lambda lib, f: lib.jit(f)(W, X)))
    agree(*both(lambda lib, f: lib.jit(lib.grad(loss(lib, f), (0, 1)))(W, X)))


def names_inside(jaxpr):
    (eqn,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "shard_map"]
    return [inner.primitive.name for inner in eqn.params["jaxpr"].eqns]


COLLECTIVES = {"psum", "psum_invariant", "all_gather", "reduce_scatter", "ppermute",
               "all_to_all", "axis_index"}


@pytest.mark.parametrize("program", ["data parallel", "columns then rows", "gathered", "ring",
                                     "exchanged"])
def test_the_same_collectives_in_the_same_order(program):
    found = [[n for n in names_inside(lib.make_jaxpr(
        mapped(lib, *PROGRAMS[program]))(W, X).jaxpr) if n in COLLECTIVES] for lib in (mjax, jax)]
    assert found[0] == found[1]


def test_gradients_inside_of_what_is_not_checked():
    def body(lib, w, x):
        return lib.grad(lambda x: lib.lax.psum(x * x, "i").sum())(x)

    specs = (lambda p: (p(), p("i")), lambda p: p("i"))
    agree(*[mapped(lib, body, *specs, check_vma=False)(W, X) for lib in (mjax, jax)])
    agree(*[mapped(lib, body, *specs)(W, X) for lib in (mjax, jax)])


@pytest.mark.parametrize(("body", "specs"), [
    (lambda lib, w, x: x, (lambda p: (p(), p("i")), lambda p: p())),
    (lambda lib, w, x: x[0, 0], (lambda p: (p(), p("i")), lambda p: p("i"))),
    (lambda lib, w, x: x, (lambda p: (p(), p("i", None, "j")), lambda p: p("i"))),
    (lambda lib, w, x: x, (lambda p: (p(), p("k")), lambda p: p("i"))),
    (lambda lib, w, x: x, (lambda p: (p(), "i"), lambda p: p("i"))),
    (lambda lib, w, x: x, (lambda p: (p(),), lambda p: p("i"))),
    (lambda lib, w, x: x, (lambda p: (p(), p("i")), lambda p: (p("i"), p("i")))),
])
def test_both_refuse(body, specs):
    kinds = []
    for lib in (mjax, jax):
        with pytest.raises((ValueError, TypeError, NameError)) as error:
            mapped(lib, body, *specs)(W, X)
        kinds.append(next(k for k in (ValueError, TypeError, NameError)
                          if isinstance(error.value, k)))
    assert kinds[0] is kinds[1]


def test_pmap():
    def f(lib):
        return lib.pmap(lambda x, y: (lib.lax.psum(x, "i") + y, lib.lax.axis_index("i")), "i",
                        in_axes=(0, None), out_axes=(1, 0))(X, W[0])

    agree(f(mjax), f(jax))
