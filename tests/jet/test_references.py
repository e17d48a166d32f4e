"""`jet` of functions that make, read and write references."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental.jet import jet


def made(x):
    ref = mjax.new_ref(x)
    ref[...] = ref[...] * x
    return mjax.freeze(ref)


def accumulated(x):
    ref = mjax.new_ref(jnp.zeros(2))
    ref[0] += x * x
    ref[1] += 1.0
    ref[1] = ref[0] * jnp.sin(x)
    return ref[...].sum()


def counted(x):
    """Writes numbers that do not move."""
    ref, n = mjax.new_ref(x), mjax.new_ref(0)
    ref[...] = 3.0 * x
    n[...] += 2
    ref[...] *= n[...]
    return ref[...] * x


def looped(x):
    ref = mjax.new_ref(x)

    def body(i, total):
        ref[...] = ref[...] * jnp.cos(x)
        return total + ref[...]

    return lax.fori_loop(0, 3, body, 0.0)


def branched(x):
    ref = mjax.new_ref(1.0)
    write = lambda: ref.__setitem__(..., jnp.exp(x) * ref[...])
    lax.cond(x > 0, write, lambda: None)
    return ref[...] * x


def reset(x):
    """A write of a constant in a loop ends the derivatives."""
    ref = mjax.new_ref(x)
    lax.scan(lambda c, _: (c, ref.__setitem__(..., 2.0)), 0, None, length=2)
    return ref[...] * x


@mjax.custom_jvp
def ruled(x):
    return jnp.sin(x)


@ruled.defjvp
def _(primals, tangents):
    ref = mjax.new_ref(tangents[0])
    ref[...] *= jnp.cos(primals[0])
    ref[...] *= 2.0
    return ruled(*primals), mjax.freeze(ref)


PROGRAMS = {
    "made": (made, lambda x: x * x), "jit": (mjax.jit(made), lambda x: x * x),
    "accumulated": (accumulated, lambda x: x**2 * (1 + jnp.sin(x))),
    "counted": (counted, lambda x: 6 * x**2),
    "looped": (looped, lambda x: x * sum(jnp.cos(x)**k for k in (1, 2, 3))),
    "branched": (branched, lambda x: x * jnp.exp(x)), "reset": (reset, lambda x: 2 * x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, pure = PROGRAMS[name]
    out, found = jet(f, (jnp.float32(0.7),), ([1.0, 0.5, 0.2],))
    wanted, series = jet(pure, (jnp.float32(0.7),), ([1.0, 0.5, 0.2],))
    np.testing.assert_allclose(out, wanted, 1e-5)
    np.testing.assert_allclose(found, series, 1e-5, 1e-5)


def test_rules_of_users():
    _, (first, second) = jet(ruled, (jnp.float32(0.7),), ([1.0, 0.0],))
    np.testing.assert_allclose(first, 2 * np.cos(0.7), 1e-5)
    np.testing.assert_allclose(second, -2 * np.sin(0.7), 1e-5)


def test_references_from_outside():
    """They are read, and written with values that do not move."""
    ref = mjax.new_ref(2.0)

    def f(x):
        ref[...] = ref[...] + 1.0
        return x * ref[...]

    assert [float(t) for t in jet(f, (1.0,), ([1.0, 0.0],))[1]] == [3.0, 0.0]
    assert float(ref[...]) == 3.0
    for write in (lambda x: ref.__setitem__(..., x), lambda x: mjax.ref.addupdate(ref, ..., x),
                  mjax.jit(lambda x: ref.__setitem__(..., x))):
        with pytest.raises(ValueError, match="is differentiated is written"):
            jet(write, (1.0,), ([1.0],))
    with pytest.raises(ValueError, match="position 0 is a reference"):
        jet(lambda r: r[...], (ref,), ([1.0],))
