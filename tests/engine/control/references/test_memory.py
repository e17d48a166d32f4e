"""Writes to large references happen in place."""

from __future__ import annotations

import mjax
import mjax.numpy as jnp
from mjax import lax


def test_a_loop_of_writes_copies_nothing():
    """A program of 1,000 writes needs little memory besides its arguments."""
    n = 25_000_000
    ref = mjax.empty_ref(mjax.ShapeDtypeStruct((n,), "float32"))
    before = ref.unsafe_buffer_pointer()

    @mjax.jit
    def write(ref, x):
        def step(i, c):
            ref[i * 1000] = c
            return c + 1.0
        return lax.fori_loop(0, 1000, step, x)

    assert float(write(ref, 1.0)) == 1001
    assert ref.unsafe_buffer_pointer() == before and float(ref[999_000]) == 1000

    def pure(array):
        inner = mjax.new_ref(array)
        write(inner, 1.0)
        return mjax.freeze(inner)

    compiled = mjax.jit(pure, donate_argnums=0).lower(jnp.zeros(n)).compile()
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
