"""Random programs that read, write and add to references in nested control flow.

A program is made from a seed. It takes the library: `mjax`, `jax` in tests/differential, or `LOOPS`
here, in which references are NumPy arrays that Python's loops change.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.programs.python import PYTHON, slope

# ---- Python's meaning of references ----------------------------------------------------------


class Box:
    """A reference: an array that changes, or a part of one."""

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> Any:
        return np.array(self.array[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value


def _add(ref: Box, index: Any, value: Any) -> None:
    np.add.at(ref.array, index, value)


def _swap(ref: Box, index: Any, value: Any) -> Any:
    before, ref[index] = ref[index], value
    return before


def _scan(f: Any, init: Any, xs: Any, reverse: bool = False) -> Any:
    if isinstance(xs, Box):
        rows = list(map(Box, xs.array))
        return PYTHON.lax.scan(lambda c, i: f(c, rows[i]), init, np.arange(len(rows)),
                               reverse=reverse)
    return PYTHON.lax.scan(f, init, xs, reverse=reverse)


LOOPS = SimpleNamespace(**{
    **vars(PYTHON), "new_ref": lambda x: Box(np.array(x)), "freeze": lambda ref: ref[...],
    "ref": SimpleNamespace(addupdate=_add, swap=_swap),
    "lax": SimpleNamespace(**{
        **vars(PYTHON.lax), "scan": _scan,
        "switch": lambda i, branches, *args: branches[min(max(int(i), 0), len(branches) - 1)](
            *args)})})

# ---- programs --------------------------------------------------------------------------------

SIMPLE = ("write", "add", "update", "slice", "part", "traced", "column", "count")
NESTED = ("fori", "scan", "rows", "halve", "cond", "operand", "jit", "call", "scratch", "remat",
          "vmap")
SIZE = 4


class Program:
    """A program made from a seed, which means the same for all libraries.

    It works on a number, and on three references: to four numbers, to three rows of two, and to an
    integer that counts.

    Args:
      seed: of the choices.
      depth: of nested control flow.
      most: the greatest number of statements in a block.

    Attributes:
      loops_open: whether there is a loop of unknown length.
    """

    def __init__(self, seed: int, depth: int = 3, most: int = 3):
        self.rng, self.most = random.Random(seed), most
        self.loops_open = False
        self.body = self.block(depth)

    def block(self, depth: int) -> list[Any]:
        """A list of statements."""
        names = (*SIMPLE, *NESTED) if depth else SIMPLE
        found = [(self.rng.choice(names), self.rng.randrange(SIZE), self.rng.randrange(SIZE),
                  self.rng.uniform(-1, 1), self.block(depth - 1) if depth else [])
                 for _ in range(self.rng.randint(1, self.most))]
        self.loops_open |= any(name == "halve" for name, *_ in found)
        return found

    def run(self, lib: Any, refs: Any, x: Any) -> Any:
        """The value of the program, which changes the references."""
        return Run(lib, refs).statements(self.body, x)


class Run:
    """Runs statements on a library and references: to a vector, a table and a counter."""

    def __init__(self, lib: Any, refs: Any):
        self.lib, self.np, self.lax = lib, lib.numpy, lib.lax
        self.ref, self.table, self.counter = refs

    def on(self, ref: Any) -> Run:
        """The same with another vector."""
        return Run(self.lib, (ref, self.table, self.counter))

    def statements(self, block: Any, x: Any) -> Any:
        for name, i, j, a, inner in block:
            x = getattr(self, name)(x, i, j, a, inner)
        return x

    # -- single reads and writes --

    def write(self, x, i, j, a, inner):
        self.ref[i] = self.np.sin(x) + a * self.ref[j]
        return x

    def add(self, x, i, j, a, inner):
        self.ref[i] += a * x
        return x + self.ref[j]

    def update(self, x, i, j, a, inner):
        self.lib.ref.addupdate(self.ref, i, self.np.cos(x) * a)
        return x * 0.5 + self.lib.ref.swap(self.ref, j, x * a)

    def slice(self, x, i, j, a, inner):
        self.ref[1:3] = self.np.tanh(self.ref[0:2]) * a
        return x + self.ref[1:3].sum()

    def part(self, x, i, j, a, inner):
        """Of `at`, which JAX does not differentiate; elsewhere the same without."""
        if getattr(self.lib, "__name__", "") != "mjax":
            self.ref[1 + i % 3] = x * a
            self.ref[1:3] = self.ref[1:3] + a
            return x - self.ref[1 + j % 3]
        part = self.ref.at[1:]
        part[i % 3] = x * a
        part.at[:2][...] += a
        return x - part[j % 3]

    def traced(self, x, i, j, a, inner):
        k = self.np.where(x > a, i, j)
        self.ref[k] += self.np.sin(x)
        self.lib.ref.addupdate(self.ref, self.np.array([i, j, i]), self.np.array([a, a, 1.0]) * x)
        return x * 0.5 + self.ref[k] * 0.3

    def column(self, x, i, j, a, inner):
        self.table[:, i % 2] = self.table[:, j % 2] * a + x
        self.table[j % 3] += self.np.sin(self.table[i % 3])
        return x * 0.5 + self.table[1, j % 2]

    def count(self, x, i, j, a, inner):
        self.counter[...] += 1
        self.ref[self.counter[...] % SIZE] += x * a
        return x + self.ref[i] * (self.counter[...] % 3)

    # -- control flow --

    def fori(self, x, i, j, a, inner):
        def body(k, c):
            self.ref[k] += self.np.sin(c)
            return self.statements(inner, c * 0.5)

        return self.lax.fori_loop(0, 3, body, x)

    def scan(self, x, i, j, a, inner):
        def step(c, y):
            c = self.np.tanh(self.statements(inner, c + y))
            return c, self.ref[i] * y

        c, ys = self.lax.scan(step, x, self.np.arange(2.0), reverse=i % 2 == 1)
        return c + ys.sum() * a

    def rows(self, x, i, j, a, inner):
        """Over the rows of a table that is made here."""
        def step(c, row):
            row[0] = row[0] * 0.5 + c
            c = self.np.tanh(self.statements(inner, c * 0.5))
            row[i % 2] += self.np.sin(row[j % 2]) * a
            return c + row[1], row[...]

        own = self.lib.new_ref(self.table[...] * a)
        c, ys = self.lax.scan(step, x, own, reverse=j % 2 == 1)
        return c + ys.sum() * 0.1 + self.lib.freeze(own)[:, i % 2].sum() * 0.1

    def halve(self, x, i, j, a, inner):
        def body(c):
            n, x = c
            self.ref[n] = self.np.tanh(self.statements(inner, x * 0.5))
            return n + 1, x * 0.5

        n, x = self.lax.while_loop(
            lambda c: (abs(c[1]) > 0.3) & (c[0] < 3) & (self.ref[j] < 9.0), body, (0, x))
        return x + n

    def cond(self, x, i, j, a, inner):
        return self.lax.cond(x > a, lambda x: self.statements(inner, x),
                             lambda x: self.add(x, i, j, a, None), x)

    def operand(self, x, i, j, a, inner):
        return self.lax.switch(self.np.int32(i % 2) + (x > a), [
            lambda ref, x: self.on(ref).statements(inner, x),
            lambda ref, x: self.on(ref).slice(x, i, j, a, None),
            lambda ref, x: x + ref[j]], self.ref, x)

    def jit(self, x, i, j, a, inner):
        return self.lib.jit(lambda x: self.statements(inner, x))(x)

    def call(self, x, i, j, a, inner):
        other = self.lib.new_ref(self.np.ones(SIZE) * x)

        def body(mine, ref, x):
            x = self.on(ref).statements(inner, x)
            return self.on(mine).add(x, i, j, a, None)

        return self.lib.jit(body)(other, self.ref, x) + self.lib.freeze(other)[i]

    def vmap(self, x, i, j, a, inner):
        """With references of each element: all that the inner statements touch."""
        table, counter = self.table[...], self.counter[...]

        def element(y):
            own = self.lib.new_ref(self.np.full(SIZE, a))
            own[i] = y + self.ref[j]
            run = Run(self.lib, (own, self.lib.new_ref(table), self.lib.new_ref(counter)))
            y = run.statements(inner, y)
            return y + self.lib.freeze(own)[j] + run.table[...].sum() * 0.1

        # JAX does not batch all control flow with references.
        return (self.lib.vmap(element)(x + self.np.arange(2.0)).sum()
                if getattr(self.lib, "__name__", "") == "mjax" else element(x) + element(x + 1.0))

    def remat(self, x, i, j, a, inner):
        table, counter = self.table[...], self.counter[...]

        def body(x):
            own = self.lib.new_ref(self.np.zeros(SIZE) + x)
            y = Run(self.lib, (own, self.lib.new_ref(table), self.lib.new_ref(counter))
                    ).statements(inner, x)
            return y + self.lib.freeze(own)[j]

        return self.lib.checkpoint(body)(x)

    def scratch(self, x, i, j, a, inner):
        own = self.lib.new_ref(self.np.full(SIZE, a))
        own[i] = x
        y = self.on(own).statements(inner, x)
        self.ref[j] += own[i] * 0.5
        return y + self.lib.freeze(own).sum() * 0.1


# ---- outcomes --------------------------------------------------------------------------------

X, TABLE = np.float64(0.7), np.linspace(0.5, -0.5, 6).reshape(3, 2)
START = np.linspace(-0.5, 0.5, SIZE)
#: Along which derivatives are compared.
ALONG = np.array([0.3, -0.7, 0.9, 0.2]), np.cos(TABLE), np.float64(0.6)


def pure(lib: Any, program: Program) -> Any:
    """The program as a function from first contents and the number to a number."""
    def f(start: Any, table: Any, x: Any) -> Any:
        refs = lib.new_ref(start), lib.new_ref(table), lib.new_ref(lib.numpy.int32(0))
        y = program.run(lib, refs, x)
        return y + (refs[0][...] * 0.3).sum() + (lib.freeze(refs[1]) * TABLE).sum()

    return f


def outcome(lib: Any, program: Program, reverse: bool, jit: Any = None) -> list[Any]:
    """The value, the derivative along a line, and the final contents of references passed in.

    Args:
      lib: the library.
      program: the program.
      reverse: whether the derivative is that of reverse mode.
      jit: compiles a function.
    """
    @(jit or lib.jit)
    def run(vector: Any, table: Any, counter: Any, start: Any, x: Any) -> Any:
        value, f = program.run(lib, (vector, table, counter), x), pure(lib, program)
        args = start, TABLE, x
        if not reverse:
            return value, lib.jvp(f, args, ALONG)[1]
        return value, sum((g * t).sum() for g, t in zip(
            lib.grad(f, (0, 1, 2))(*args), ALONG, strict=True))

    refs = [lib.new_ref(lib.numpy.asarray(v)) for v in (START, TABLE, np.int32(0))]
    return [*run(*refs, START, X), *(ref[...] for ref in refs)]


def expected(program: Program) -> list[Any]:
    """The same of NumPy's arrays in Python's loops; the derivative is a quotient of differences."""
    refs = [LOOPS.new_ref(v) for v in (START, TABLE, np.int32(0))]
    value, f = program.run(LOOPS, refs, X), pure(LOOPS, program)
    line = lambda t: f(START + t * ALONG[0], TABLE + t * ALONG[1], X + t * ALONG[2])
    return [value, slope(line, (0.0,), (1.0,), 1e-6)[1], *(ref.array for ref in refs)]
