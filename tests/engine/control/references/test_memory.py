"""Writes to large references happen in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

N = 25_000_000  # 100 MB


def peak(f, *args):
    """By how many MB the memory of this process grows, at most, in a call."""
    def memory(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used now
    before = memory("VmRSS")
    mjax.block_until_ready(f(*args))
    return memory("VmHWM") - before


def write(ref, x):
    def step(c, i):
        ref[i * 1000] = c
        ref[i] += 1.0
        lax.cond(i % 2 == 0, lambda: ref.__setitem__(slice(1, 5), c[None] * jnp.ones(4)),
                 lambda: None)
        return c + 1.0, ref[3]

    return lax.scan(step, x, jnp.arange(1000))[0]


def count(ref, x):
    def body(i, c):
        ref[i * 1000] = c
        return c + 1.0

    return lax.fori_loop(0, 1000, body, x)


def rows(ref, x):
    def step(c, row):
        row[3] = c
        return c + row[4] * 0 + 1.0, None

    return lax.scan(step, x, ref)[0]


@pytest.mark.parametrize("f, shape", [(write, (N,)), (count, (N,)), (rows, (1000, N // 1000))])
def test_a_loop_of_writes_copies_nothing(f, shape):
    ref = mjax.empty_ref(mjax.ShapeDtypeStruct(shape, "float32"))
    ref[0] = np.ones(shape[1:], "float32")
    address, compiled = ref.unsafe_buffer_pointer(), mjax.jit(f).lower(ref, 1.0).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 300_000  # a row, twice
    assert peak(compiled, ref, 1.0) < 20 and peak(mjax.jit(f), ref, 1.0) < 20
    assert ref.unsafe_buffer_pointer() == address
    assert float(ref[(999_000,) if f is not rows else (999, 3)]) in (1000, 1001)


def test_writes_outside_of_programs_copy_nothing():
    ref = mjax.empty_ref(mjax.ShapeDtypeStruct((N,), "float32"))

    def change():
        ref[7] = 2.0
        ref[7] += 1.0
        ref[1:3] = jnp.ones(2)
        mjax.ref.addupdate(ref, np.array([5, 5]), jnp.ones(2))
        return mjax.ref.swap(ref, 7, 5.0)

    assert peak(change) < 20
    address = ref.unsafe_buffer_pointer()
    assert peak(change) < 20 and ref.unsafe_buffer_pointer() == address
    assert ref[:8].tolist() == [0, 1, 1, 0, 0, 4, 0, 5]


def test_a_reference_made_of_a_donated_array_copies_nothing():
    def pure(array):
        inner = mjax.new_ref(array)
        count(inner, 1.0)
        return mjax.freeze(inner)

    compiled = mjax.jit(pure, donate_argnums=0).lower(jnp.zeros(N)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 10_000


def test_contents_take_the_memory_of_a_reference():
    """Results of the same type, even copies of what it held, leave the memory to the contents."""
    ref = mjax.new_ref(jnp.zeros(1000))

    @mjax.jit
    def swap(ref, x):
        before = ref[...]
        ref[0] = x
        return before, before * 2.0

    swap(ref, 1.0)
    address = ref.unsafe_buffer_pointer()
    swap(ref, 2.0)
    assert ref.unsafe_buffer_pointer() == address
