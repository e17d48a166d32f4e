"""Random programs with checks: the error that is returned is the one that Python raises first.

Under `disable_jit` loops and branches run in Python, and a check that fails raises.
"""

from __future__ import annotations

import random

import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental import checkify


class Program:
    """A program made from a seed, of statements that hold others."""

    PLAIN = ("check", "check", "move")
    NESTED = ("jit", "remat", "scan", "map", "fori", "loop", "cond", "switch", "jvp", "custom_jvp",
              "custom_vjp", "custom_vmap", "again", "reference")

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.body = self.block(3)

    @property
    def compiled(self):
        """Whether programs may be staged in eager code: a check in a loop there cannot raise."""
        return not mjax.config.jax_disable_jit

    def block(self, depth):
        names = self.PLAIN + self.NESTED * (depth > 0)
        return [(self.rng.choice(names), self.rng.uniform(-0.6, 0.6), self.rng.randrange(1000),
                 self.block(depth - 1) if depth else [])
                for _ in range(self.rng.randint(1, 3))]

    def __call__(self, x):
        return self.run(self.body, x)

    def run(self, block, x):
        for name, a, number, inner in block:
            x = getattr(self, name)(x, a, number, self.within(inner))
        return x

    def within(self, block):
        return lambda x: self.run(block, x)

    def check(self, x, a, number, f):
        checkify.check(x < 1.1 + a, "{n}: {} and {}", x, 2 * x, n=jnp.asarray(number))
        return x

    def move(self, x, a, number, f):
        return 1.4 * jnp.sin(x + a)

    def jit(self, x, a, number, f):
        return mjax.jit(f)(x)

    def remat(self, x, a, number, f):
        return mjax.checkpoint(f)(x) if self.compiled else f(x)

    def scan(self, x, a, number, f):
        def step(carry, e):
            carry = f(carry + e)
            return carry, jnp.tanh(carry)

        x, ys = lax.scan(step, x, jnp.arange(3.0) * a, reverse=bool(number % 2))
        return x + 0.1 * ys.sum()

    def map(self, x, a, number, f):
        return 0.5 * lax.map(f, x + jnp.arange(2.0) * a).sum()

    def fori(self, x, a, number, f):
        return lax.fori_loop(0, 2, lambda i, x: f(x - a), x)

    def loop(self, x, a, number, f):
        def goes_on(state):
            self.check(state[1], a + 0.2, number, f)
            return (state[0] < 3) & (state[1] < 1.0)

        return lax.while_loop(goes_on, lambda state: (state[0] + 1, f(state[1] + a)), (0, x))[1]

    def cond(self, x, a, number, f):
        return lax.cond(x > a, f, lambda x: x * a, x)

    def switch(self, x, a, number, f):
        return lax.switch(jnp.int32(4 * x) % 3, [f, lambda x: x + a, lambda x: f(x / 2)], x)

    def jvp(self, x, a, number, f):
        out, tangent = mjax.jvp(f, (x,), (jnp.ones_like(x),))
        return out + 0.1 * jnp.tanh(tangent)

    def custom_jvp(self, x, a, number, f):
        g = mjax.custom_jvp(f)
        g.defjvp(lambda primals, tangents: (f(*primals), a * tangents[0]))
        return g(x)

    def custom_vjp(self, x, a, number, f):
        @mjax.custom_vjp
        def g(x):
            return a * x

        g.defvjp(lambda x: (f(x), x), lambda x, ct: (f(x) * ct,))
        return x + 0.1 * jnp.tanh(mjax.vjp(g, x)[1](a)[0])

    def custom_vmap(self, x, a, number, f):
        g = mjax.custom_batching.custom_vmap(f)
        g.def_vmap(lambda size, batched, x: (mjax.vmap(f)(x), True))
        return g(x) if self.compiled else f(x)

    def again(self, x, a, number, f):
        err, out = checkify.checkify(f)(x)
        checkify.check_error(err)
        return out

    def reference(self, x, a, number, f):
        ref = mjax.new_ref(x)
        ref[...] = f(ref[...])
        ref[...] += a
        return mjax.freeze(ref)


def of_python(f, x):
    """The number of the first check that fails; None if none fails."""
    with mjax.disable_jit():
        try:
            f(x)
        except checkify.JaxRuntimeError as error:
            return str(error).split(":")[0]
    return None


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed < 3 else pytest.mark.slow) for seed in range(60)])
def test_the_first_error(seed):
    program = Program(seed)
    checked = mjax.jit(checkify.checkify(program))
    for x in map(jnp.float32, (0.3, -0.9, 2.5)):
        found = checked(x)[0].get()
        assert (found and found.split(":")[0]) == of_python(program, x)
