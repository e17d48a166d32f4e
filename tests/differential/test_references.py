"""References beside JAX: random programs that read, write and add in nested control flow."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest

import mjax

SIMPLE = ("write", "add", "update", "slice", "part", "traced")
STATEMENTS = (*SIMPLE, "fori", "scan", "halve", "cond", "operand", "jit", "call", "scratch",
              "remat", "vmap")


class Program:
    """A program made from a seed, which means the same for both libraries.

    Args:
      seed: of the choices.
    """

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.loops_open = False  # whether there is a loop of unknown length
        self.body = self.block(3)

    def block(self, depth):
        """A list of statements."""
        names = STATEMENTS if depth else SIMPLE
        found = [(self.rng.choice(names), self.rng.randrange(4), self.rng.randrange(4),
                 self.rng.uniform(-1, 1), self.block(depth - 1) if depth else [])
                 for _ in range(self.rng.randint(1, 3))]
        self.loops_open |= any(name == "halve" for name, *_ in found)
        return found

    def run(self, lib, ref, x):
        """The value of the program, which changes the reference."""
        return self.statements(lib, self.body, ref, x)

    def statements(self, lib, block, ref, x):
        for name, i, j, a, inner in block:
            x = getattr(self, name)(lib, ref, x, i, j, a, inner)
        return x

    def write(self, lib, ref, x, i, j, a, inner):
        ref[i] = lib.numpy.sin(x) + a * ref[j]
        return x

    def add(self, lib, ref, x, i, j, a, inner):
        ref[i] += a * x
        return x + ref[j]

    def update(self, lib, ref, x, i, j, a, inner):
        lib.ref.addupdate(ref, i, lib.numpy.cos(x) * a)
        return x * 0.5 + lib.ref.swap(ref, j, x * a)

    def slice(self, lib, ref, x, i, j, a, inner):
        ref[1:3] = lib.numpy.tanh(ref[0:2]) * a
        return x + ref[1:3].sum()

    def part(self, lib, ref, x, i, j, a, inner):
        if lib is jax:  # which does not differentiate parts
            ref[1 + i % 3] = x * a
            ref[1:3] += a
            return x - ref[1 + j % 3]
        part = ref.at[1:]
        part[i % 3] = x * a
        part.at[:2][...] += a
        return x - part[j % 3]

    def traced(self, lib, ref, x, i, j, a, inner):
        k = lib.numpy.where(x > a, i, j)
        ref[k] += lib.numpy.sin(x)
        return x + ref[j - k]

    def fori(self, lib, ref, x, i, j, a, inner):
        def body(k, c):
            ref[k] += lib.numpy.sin(c)
            return self.statements(lib, inner, ref, c * 0.5)

        return lib.lax.fori_loop(0, 3, body, x)

    def scan(self, lib, ref, x, i, j, a, inner):
        def step(c, y):
            c = lib.numpy.tanh(self.statements(lib, inner, ref, c + y))
            return c, ref[i] * y

        c, ys = lib.lax.scan(step, x, lib.numpy.arange(2.0))
        return c + ys.sum() * a

    def halve(self, lib, ref, x, i, j, a, inner):
        def body(c):
            n, x = c
            ref[n] = lib.numpy.tanh(self.statements(lib, inner, ref, x * 0.5))
            return n + 1, x * 0.5

        n, x = lib.lax.while_loop(lambda c: (abs(c[1]) > 0.3) & (c[0] < 3) & (ref[j] < 9.0), body,
                                  (0, x))
        return x + n

    def cond(self, lib, ref, x, i, j, a, inner):
        return lib.lax.cond(x > a, lambda x: self.statements(lib, inner, ref, x),
                            lambda x: self.add(lib, ref, x, i, j, a, None), x)

    def operand(self, lib, ref, x, i, j, a, inner):
        return lib.lax.switch(lib.numpy.int32(i % 2) + (x > a), [
            lambda ref, x: self.statements(lib, inner, ref, x),
            lambda ref, x: self.slice(lib, ref, x, i, j, a, None),
            lambda ref, x: x + ref[j]], ref, x)

    def jit(self, lib, ref, x, i, j, a, inner):
        return lib.jit(lambda x: self.statements(lib, inner, ref, x))(x)

    def call(self, lib, ref, x, i, j, a, inner):
        other = lib.new_ref(lib.numpy.ones(4) * x)

        def body(mine, ref, x):
            x = self.statements(lib, inner, ref, x)
            return self.add(lib, mine, x, i, j, a, None)

        return lib.jit(body)(other, ref, x) + lib.freeze(other)[i]

    def vmap(self, lib, ref, x, i, j, a, inner):
        def element(y):
            own = lib.new_ref(lib.numpy.full(4, a, "float32"))
            own[i] = y + ref[j]
            y = self.statements(lib, inner, own, y)
            return y + lib.freeze(own)[j]

        # JAX does not batch all control flow with references.
        return (lib.vmap(element)(x + lib.numpy.arange(2.0)).sum() if lib is mjax else
                element(x) + element(x + 1.0))

    def remat(self, lib, ref, x, i, j, a, inner):
        def body(x):
            own = lib.new_ref(lib.numpy.zeros(4) + x)
            y = self.statements(lib, inner, own, x)
            return y + lib.freeze(own)[j]

        return lib.checkpoint(body)(x)

    def scratch(self, lib, ref, x, i, j, a, inner):
        own = lib.new_ref(lib.numpy.full(4, a, "float32"))
        own[i] = x
        y = self.statements(lib, inner, own, x)
        ref[j] += own[i] * 0.5
        return y + lib.freeze(own).sum() * 0.1


X = np.float32(0.7)
START = np.linspace(-0.5, 0.5, 4, dtype="float32")
#: Along which derivatives are compared: JAX does not have reverse mode of all control flow here.
ALONG = np.array([0.3, -0.7, 0.9, 0.2], "float32"), np.float32(0.6)


def outcome(lib, program, reverse):
    """The value, the final contents, and the derivative of both in the first contents and in x."""
    def pure(start, x):
        ref = lib.new_ref(start)
        y = program.run(lib, ref, x)
        return y + (lib.freeze(ref) * 0.3).sum()

    @lib.jit
    def run(ref, start, x):
        value = program.run(lib, ref, x)
        if not reverse:
            return value, lib.jvp(pure, (start, x), ALONG)[1]
        return value, sum((a * b).sum() for a, b in zip(
            lib.grad(pure, (0, 1))(start, x), ALONG, strict=True))

    ref = lib.new_ref(lib.numpy.asarray(START))
    return *run(ref, START, X), ref[...]


#: The other programs are large.
FAST = (1, 2, 3, 4, 6, 7, 8, 9, 10, 11)


@pytest.mark.parametrize("seed", [
    seed if seed in FAST else pytest.param(seed, marks=pytest.mark.slow) for seed in range(60)])
def test_random_programs(seed):
    program = Program(seed)
    found, wanted = outcome(mjax, program, not program.loops_open), outcome(jax, program, False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-4)
