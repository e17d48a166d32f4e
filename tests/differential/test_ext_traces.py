"""Traces of libraries: the same source runs on mjax and on jax, and gives the same.

The libraries are those of `tests/ext/canary`.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from pathlib import Path

import jax
import jax.api_util
import jax.extend.core.primitives
import jax.extend.linear_util
import numpy as np
import pytest
from jax._src import core as jax_core

import mjax
import mjax_ext.core
from tests.ext import canary

CANARY = Path(next(iter(canary.__path__)))
X = np.array([0.3, -0.7, 1.1], np.float32)


def _stand_in(name, **names):
    module = types.ModuleType(name)
    vars(module).update(names)
    return module


@functools.cache
def library(name, on_jax):
    """A library of the canaries; on jax, which then answers to the names that it imports."""
    core = _stand_in("core", **{n: v for n, v in vars(jax_core).items() if n[0] != "_"})
    core.primitives = jax.extend.core.primitives
    core.unsafe_get_axis_names_DO_NOT_USE = jax_core.unsafe_get_axis_names
    theirs = {
        "mjax": jax, "mjax.numpy": jax.numpy,
        "mjax_ext": _stand_in("mjax_ext", core=core, linear_util=jax.extend.linear_util),
        "mjax_ext.core": core, "mjax_ext.linear_util": jax.extend.linear_util,
    } if on_jax else {}
    module = _stand_in(f"{name}_{'jax' if on_jax else 'mjax'}")
    before = {n: sys.modules.get(n) for n in theirs}
    sys.modules.update(theirs)
    try:
        sys.modules[module.__name__] = module  # for dataclasses
        exec(compile((CANARY / f"{name}.py").read_text(), f"{name}.py", "exec"), vars(module))
    finally:
        sys.modules.update(before)
    return module


BOTH = pytest.mark.parametrize("on_jax", [False, True], ids=["mjax", "jax"])


class Pair:
    """A library, mjax or jax, with values that are known twice."""

    def __init__(self, on_jax):
        self.jax = jax if on_jax else mjax
        self.np = self.jax.numpy
        self.lib = library("arraylike", on_jax)
        prims = self.prims = (jax.extend.core if on_jax else mjax_ext.core).primitives
        twice = self

        class Both(self.lib.Value):
            def __init__(self, low, high):
                self.low, self.high = low, high

            def aval(self):
                return twice.jax.typeof(self.low)

        self.jax.tree_util.register_pytree_node(
            Both, lambda v: ((v.low, v.high), None), lambda _, xs: Both(*xs))
        self.Both = Both
        for name in ("sin", "cos", "mul", "add", "add_jaxvals", "reduce_sum", "broadcast_in_dim",
                     "neg", "convert_element_type", "sub", "copy"):
            self.define(getattr(prims, f"{name}_p"))

    def define(self, primitive):
        Both, half = self.Both, lambda x, side: getattr(x, side) if isinstance(x, self.Both) else x

        def rule(*xs, **params):
            return Both(*(primitive.bind(*(half(x, side) for x in xs), **params)
                          for side in ("low", "high")))

        for classes in ((Both,), (Both, object), (object, Both)):
            self.lib.register(primitive, *classes)(rule)


pairs = functools.cache(Pair)


def results(run):
    """The leaves of a result of both libraries."""
    found = []
    for on_jax in (False, True):
        pair = pairs(on_jax)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append([np.asarray(x) for x in pair.jax.tree_util.tree_leaves(run(pair))])
    return found


def steep(p):
    @p.jax.custom_jvp
    def f(x):
        return p.np.sin(x) * 3.0

    f.defjvp(lambda primals, tangents: (f(*primals), 100.0 * p.np.cos(*primals) * tangents[0]))
    return lambda x: p.np.sum(f(x))


def clipped(p):
    @p.jax.custom_vjp
    def f(x):
        return x * 2.0

    f.defvjp(lambda x: (x * 2.0, x), lambda x, ct: (10.0 * ct * x,))
    return lambda x: p.np.sum(f(p.np.sin(x)))


PLAIN = lambda p: lambda x: p.np.sum(p.np.sin(x) * x - 2.0 * x)
TOTAL = lambda p, g: lambda v: sum(p.np.sum(x) for x in p.jax.tree_util.tree_leaves(g(v)))
WAYS = {
    "dispatch": lambda p, f, v: p.lib.dispatching(f)(v),
    "dispatch(jit)": lambda p, f, v: p.lib.dispatching(p.jax.jit(f))(v),
    "jit(dispatch(jit))": lambda p, f, v: p.jax.jit(p.lib.dispatching(p.jax.jit(f)))(v),
    "dispatch(grad)": lambda p, f, v: p.lib.dispatching(p.jax.grad(f))(v),
    "grad(dispatch)": lambda p, f, v: p.jax.grad(TOTAL(p, p.lib.dispatching(f)))(v),
    "grad(jit(dispatch))": lambda p, f, v: p.jax.grad(p.jax.jit(
        TOTAL(p, p.lib.dispatching(f))))(v),
    "dispatch(vmap)": lambda p, f, v: p.lib.dispatching(
        p.jax.vmap(lambda e: f(e[None])))(v),
    "vmap(grad(dispatch))": lambda p, f, v: p.jax.vmap(p.jax.grad(TOTAL(
        p, p.lib.dispatching(f))))(p.Both(v.low[:, None], v.high[:, None])),
    "dispatch(dispatch)": lambda p, f, v: p.lib.dispatching(p.lib.dispatching(f))(v),
}


@pytest.mark.parametrize("function", [PLAIN, steep, clipped], ids=["plain", "jvp", "vjp"])
@pytest.mark.parametrize("way", WAYS)
def test_dispatch_on_objects_in_the_place_of_arrays(way, function):
    ours, theirs = results(lambda p: WAYS[way](p, function(p), p.Both(X, X + 1)))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ---- a library that sets and takes the current trace -------------------------------------


def outcomes(jax_like, lib):
    """Uses of the library of functions with state."""
    jnp, lax = jax_like.numpy, jax_like.lax

    def layer(x):
        w = lib.parameter("w", lambda: jnp.asarray(X))
        return w * x / lib.hoisted("norm", lambda: lax.sqrt(jnp.sum(w * w)))

    net = lib.transform(lambda x: jax_like.vmap(layer)(x) + lib.hoisted("norm", None))
    params = net.init(X)
    yield params["w"]
    yield jax_like.jit(net.apply)(params, X)
    yield jax_like.grad(lambda p: jnp.sum(net.apply(p, X)))(params)["w"]
    stale = lib.Variable(X)

    def step(x):
        own = lib.Variable(x)
        own.set(x)
        stale.set(x)

    for wrap in (jax_like.jit, jax_like.grad, lambda f: lambda x: jax_like.vmap(f)(X)):
        try:
            wrap(step)(1.0)
        except lib.StaleTraceError as error:
            yield str(error)
    f = lambda x: lax.sin(lib.scope("inner", lambda x: lax.mul(lax.cos(x), x))(x))
    yield str(lib.operations(f)(1.0))
    yield jax_like.jvp(f, (1.0,), (1.0,))[1]
    (call, _) = jax_like.make_jaxpr(f)(1.0).eqns
    yield f"{call.primitive} {call.params['name']} {len(call.params['call_jaxpr'].eqns)}"


def test_a_library_that_sets_and_takes_the_current_trace():
    found = [list(outcomes(m, library("stateful", m is jax))) for m in (mjax, jax)]
    for ours, theirs in zip(*found, strict=True):
        if isinstance(ours, str):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
