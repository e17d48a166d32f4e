"""Forgetting what was made by the rules of primitives."""

import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import mjax
import mjax_ext
from mjax import lax
from mjax._engine.base.programs import ProgramCache, forget_programs, generation
from mjax._engine.ir.types import ShapedArray
from mjax._engine.tracing.primitive import Primitive, traced
from mjax._engine.tracing.stage import eval_jaxpr

X = np.arange(3, dtype=np.float32)


def scaling(factor):
    """A primitive that multiplies by a constant, by all its rules."""
    p = Primitive("scale")
    p.def_abstract_eval(lambda x: x)
    define(p, factor)
    return p


def define(p, factor):
    p.def_lowering(traced(lambda x: lax.mul(x, np.float32(factor))))
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), lax.mul(tangents[0],
                                                                   np.float32(factor))))
    p.def_batch(lambda args, dims: (lax.mul(args[0], np.float32(factor)), dims[0]))


def uses(p):
    """Ways to apply the primitive through caches of all sorts, with their values for factor 1."""
    f = mjax.jit(lambda x: p.bind(x))
    inner = mjax.make_jaxpr(lambda x: f(x))(X)
    total = lambda x: lax.reduce_sum(f(x), (0,))
    outer = mjax.jit(mjax.grad(total))
    batched = mjax.jit(mjax.vmap(f))
    compiled_twice = mjax.jit(lambda x: f(f(x)))
    body = lambda i, x: p.bind(x)
    x = mjax.device_put(X)
    return {
        "eager": (lambda: p.bind(x), X),
        "jit": (lambda: f(x), X),
        "jit of arrays": (lambda: f(X), X),
        "nested": (lambda: compiled_twice(x), X),
        "eager grad": (lambda: mjax.grad(total)(x), np.ones(3)),
        "jitted grad": (lambda: outer(x), np.ones(3)),
        "eager vmap": (lambda: mjax.vmap(f)(x[None])[0], X),
        "jitted vmap": (lambda: batched(x[None])[0], X),
        "jaxpr": (lambda: eval_jaxpr(inner, inner.consts, x)[0], X),
        "jvp": (lambda: mjax.jvp(f, (x,), (x,))[1], X),
        "loop": (lambda: lax.fori_loop(0, 1, body, x), X),
        "derivative of a loop": (lambda: mjax.grad(lambda x: lax.fori_loop(
            0, 1, body, x).sum())(x), np.ones(3)),
    }


def test_rules_written_anew_are_used_everywhere():
    p = scaling(2.0)
    for factor in (2.0, 3.0, 5.0):
        define(p, factor)
        if factor == 2.0:
            table = uses(p)
        for _ in range(2):
            for name, (use, value) in table.items():
                expected = value * (factor**2 if name == "nested" else factor)
                np.testing.assert_array_equal(use(), expected, err_msg=name)


def test_types_written_anew():
    p = scaling(1.0)
    f = mjax.jit(lambda x: p.bind(x))
    assert f(X).dtype == np.float32
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, np.int32))
    p.def_lowering(traced(lambda x: lax.convert_element_type(x, np.int32)))
    assert f(X).dtype == p.bind(X).dtype == np.int32


def test_a_rule_of_an_unused_primitive_costs_nothing():
    f = mjax.jit(lambda x: lax.sin(x))
    f(X)
    before, programs = generation.number, f._cache_size()
    scaling(1.0)
    assert generation.number == before and f._cache_size() == programs > 0
    p = scaling(1.0)
    p.bind(X)
    define(p, 2.0)
    assert generation.number == before + 1 and f._cache_size() == 0


def test_caches_are_registered_while_they_live():
    cache = ProgramCache(2)
    for key in range(3):
        cache.put(key, key)
    assert list(cache) == [1, 2]
    forget_programs()
    assert not cache


@pytest.mark.slow
def test_nothing_that_mjax_imports_late_makes_it_forget():
    modules = [m.name for package in (mjax, mjax_ext)
               for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    assert "mjax.random" in modules
    code = f"""
import importlib, numpy as np, mjax
from mjax import lax
x = mjax.device_put(np.ones((2, 2), np.float32))
f = mjax.jit(mjax.grad(lambda x: lax.reduce_sum(lax.sin(x) @ x + x[0], (0, 1))))
f(x), mjax.vmap(f)(x[None]), x.at[0].set(1.0), x.sum(), x * 2
for name in {modules!r}:
    importlib.import_module(name)
from mjax._engine.base.programs import generation
assert generation.number == 0, generation.number
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert importlib.import_module("mjax.random")
