"""compute_on and set_xla_metadata beside jax: the same operations have the same attributes."""

from __future__ import annotations

import re

import jax
import pytest
from jax.experimental.compute_on import compute_on as jax_compute_on
from jax.experimental.xla_metadata import set_xla_metadata as jax_metadata

import mjax
from mjax.experimental.compute_on import compute_on
from mjax.experimental.xla_metadata import set_xla_metadata


def nested(lib, on, meta):
    def f(x):
        with meta(a=1, b=2):
            x = lib.lax.sin(x)
            with meta(a=None, b="z"), on("device"):
                x = lib.lax.cos(x)
                with on("gpu_stream:3"):
                    x = lib.lax.log(x)
            return lib.lax.exp(x)
    return f


def calls(lib, on, meta):
    inner = lib.jit(lambda x: lib.lax.sin(x))

    def f(x):
        with meta(a=1), on("device_host"):
            return lib.lax.cos(inner(x))
    return f


def loops(lib, on, meta):
    def f(x):
        with meta(a=1):
            return lib.lax.cond(x > 0, lib.lax.sin, lib.lax.cos, x)
    return f


def again(lib, on, meta):
    def f(x):
        with on("device_host"), meta(a=1):
            return lib.lax.sin(x)

    jaxpr = lib.make_jaxpr(f)(1.0)

    def g(x):
        with meta(b=2), on("device"):
            (eqn,) = jaxpr.jaxpr.eqns
            with eqn.ctx.manager:
                return lib.lax.cos(eqn.primitive.bind(x, **eqn.params))
    return g


def values(lib, on, meta):
    return lambda x: lib.lax.cos(meta(meta(lib.lax.sin(x), a=1, b=True), a=2, c=None))


def backward(lib, on, meta):
    """The backward rule of a function that was called in the body."""

    @lib.custom_vjp
    def f(x):
        return lib.lax.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (lib.lax.mul(ct, lib.lax.exp(x)),))

    def g(x):
        with on("device_host"):
            return f(x)

    return lib.grad(g)


def cut(lib, on, meta):
    def f(x):
        with meta(a=1):
            return lib.lax.sin(lib.lax.exp(x))

    return lib.grad(lib.checkpoint(f))


PROGRAMS = {
    "nested": nested, "calls": calls, "loops": loops, "again": again, "values": values,
    "backward": backward, "cut": cut,
    "vmap": lambda *n: n[0].vmap(nested(*n)),
    "jvp": lambda *n: lambda x: n[0].jvp(nested(*n), (x,), (x,)),
    "decorated": lambda lib, on, meta: meta(a=1)(on("device")(lib.lax.sin)),
    "empty": lambda lib, on, meta: meta()(lib.lax.sin),
}


def attributes(lib, make, args):
    """The sets of attributes in a module, with the operations that have them."""
    text = lib.jit(make).lower(*args).as_text()
    found = re.findall(r'= "?(?:\w+\.)?(\w+).*frontend_attributes = \{(.*?)\}', text)
    return sorted({(op, *sorted(a.split(", "))) for op, a in found})


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_operations_are_annotated(name):
    args = ([1.0, 2.0],) if name == "vmap" else (1.0,)
    args = tuple(map(jax.numpy.asarray, args)), tuple(map(mjax.numpy.asarray, args))
    theirs = attributes(jax, PROGRAMS[name](jax, jax_compute_on, jax_metadata), args[0])
    ours = attributes(mjax, PROGRAMS[name](mjax, compute_on, set_xla_metadata), args[1])
    assert ours == theirs and (ours or name == "empty")
