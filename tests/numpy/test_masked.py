"""NumPy's masked arrays are refused wherever arrays are taken: their masks would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

MASKED = np.ma.array([1.0, 1e6], mask=[0, 1])
PLACES = np.ma.array([0, 1], mask=[0, 1])
CALLS: dict[str, Callable[[], Any]] = {
    "reduction": lambda: jnp.sum(MASKED),
    "ufunc": lambda: jnp.sin(MASKED),
    "asarray": lambda: jnp.asarray(MASKED),
    "array": lambda: jnp.array(MASKED, "float32"),
    "list": lambda: jnp.stack([MASKED, MASKED]),
    "operator": lambda: jnp.ones(2) + MASKED,
    "reflected operator": lambda: MASKED + jnp.ones(2),
    "masked constant": lambda: jnp.asarray(np.ma.masked),
    "index": lambda: jnp.ones(3)[PLACES],
    "mask": lambda: jnp.ones(2)[np.ma.array([True, False], mask=[0, 1])],
    "mask in a tuple": lambda: jnp.ones((2, 2))[0, np.ma.array([True, False], mask=[0, 1])],
    "one place": lambda: jnp.ones(3)[np.ma.array(1)],
    "at a mask": lambda: jnp.ones(2).at[np.ma.array([True, False], mask=[0, 1])].set(0.0),
    "insert": lambda: jnp.insert(jnp.ones(3), PLACES, 1.0),
    "delete": lambda: jnp.delete(jnp.ones(3), PLACES),
    "at": lambda: jnp.ones(2).at[:].set(MASKED),
    "lax": lambda: lax.add(MASKED, MASKED),
    "stop_gradient": lambda: lax.stop_gradient(MASKED),
    "jit": lambda: mjax.jit(lambda tree: tree)({"a": MASKED}),
    "closure": lambda: mjax.jit(lambda: jnp.sum(MASKED))(),
    "grad": lambda: mjax.grad(jnp.sum)(MASKED),
    "vmap": lambda: mjax.vmap(lambda x: x)(MASKED),
    "scan": lambda: lax.scan(lambda c, x: (c, x), 0.0, MASKED),
    "device_put": lambda: mjax.device_put(MASKED),
    "typeof": lambda: mjax.typeof(MASKED),
    "make_jaxpr": lambda: mjax.make_jaxpr(lambda x: x)(MASKED),
    "make_array_from_callback": lambda: mjax.make_array_from_callback(
        (2,), mjax.sharding.SingleDeviceSharding(mjax.devices()[0]), lambda index: MASKED[index]),
}


@pytest.mark.parametrize("name", CALLS)
def test_masked_arrays_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        CALLS[name]()


def test_other_subclasses_of_arrays_are_taken() -> None:
    class Named(np.ndarray):
        """An array with nothing more."""

    assert jnp.asarray(np.eye(2).view(Named)).shape == (2, 2)
    assert jnp.sum(MASKED.filled(0)) == 1
