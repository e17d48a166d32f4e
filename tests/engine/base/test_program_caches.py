"""Forgetting what was made by the rules of primitives."""

import gc
import importlib
import pkgutil
import subprocess
import sys
from types import FunctionType

import numpy as np
import pytest

import mjax
import mjax_ext
from mjax import lax
from mjax import numpy as jnp
from mjax._engine.base.program_caches import ProgramCache, forget_programs, generation
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.dispatch import executable, forms
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
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


def everything_that_is_kept():
    """Calls functions of mjax whose programs are kept, each in another place."""
    x, mesh = mjax.device_put(X), mjax.make_mesh((1,), ("i",))
    square, dims = (lambda y: y * y), lax.ScatterDimensionNumbers((), (0,), (0,))
    scaled = lambda y: 2 * y
    halve = lambda f, b: b / f(jnp.ones_like(b))
    smooth = mjax.custom_vjp(square)
    smooth.defvjp(lambda y: (y * y, y), lambda y, ct: (2 * y * ct,))
    known = mjax.custom_jvp(square)
    known.defjvp(lambda xs, ts: (known(*xs), 2 * xs[0] * ts[0]))
    total = lambda f: lambda y: f(y).sum()
    functions = [
        square, mjax.jit(square), mjax.checkpoint(square), smooth, known, mjax.vmap(square),
        lax.sin, jnp.sin, jnp.sum, lambda y: y[1], lambda y: y[:2], lambda y: y.at[0].set(1.0),
        lambda y: lax.scatter_apply(y, jnp.zeros((1, 1), int), square, dims,
                                    update_shape=(1,)),
        lambda y: lax.scan(lambda c, z: (c + z, c), 0.0, y), lambda y: lax.map(square, y),
        lambda y: lax.fori_loop(0, 2, lambda i, z: square(z), y),
        lambda y: lax.while_loop(lambda z: z[0] < 1, square, y + 1),
        lambda y: lax.cond(y[0] > 0, square, lambda z: z, y),
        lambda y: lax.reduce(y, np.float32(0), lambda a, b: a + b, (0,)),
        lambda y: lax.associative_scan(jnp.add, y),
        lambda y: lax.custom_linear_solve(scaled, y, halve, symmetric=True),
        lambda y: lax.custom_root(lambda r: r - y, y, lambda f, g: y, halve),
        mjax.shard_map(square, mesh=mesh, in_specs=mjax.P("i"), out_specs=mjax.P("i")),
        lambda y: mjax.pmap(square)(y[None]), lambda y: jnp.einsum("i,i", y, y),
        lax.composite(square, "my.square"), jnp.vectorize(square), jnp.linalg.norm,
        lambda y: mjax.random.normal(mjax.random.key(0), y.shape), lambda y: jnp.sort(y),
        lambda y: jnp.add.reduce(y), mjax.nn.relu, mjax.scipy.special.gammaln,
        lambda y: mjax.device_put(y, mjax.NamedSharding(mesh, mjax.P("i"))) + 1,
        lambda y: mjax.pure_callback(np.sin, y, y)]
    for f in functions:
        for _ in range(2):
            mjax.block_until_ready(f(x))
            mjax.make_jaxpr(f)(x)
    for f in (square, smooth, known, jnp.sin):
        mjax.grad(total(f))(x)
        mjax.jit(mjax.grad(total(mjax.vmap(f))))(x)
    mjax.eval_shape(square, x)


def programs():
    """The jaxprs there are, and the functions that run what was compiled of some."""
    files = (executable.__file__, f"{forms.__file__}[written]")
    return [o for o in gc.get_objects() if type(o) is Jaxpr or (
        type(o) is FunctionType and "<locals>" in o.__qualname__ and o.__name__ != "take"
        and o.__code__.co_filename in files)]


@pytest.mark.slow
def test_no_program_is_kept_where_forget_programs_does_not_reach(small_heap):
    everything_that_is_kept()
    assert len(programs()) > 50
    forget_programs()
    gc.collect()
    assert programs() == []


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
from mjax._engine.base.program_caches import generation
assert generation.number == 0, generation.number
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert importlib.import_module("mjax.random")
