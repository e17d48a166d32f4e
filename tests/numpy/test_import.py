"""What `import mjax.numpy` loads, and what its first uses load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mjax.numpy as jnp
from mjax.numpy import _rare

FIRST = """
import sys
import mjax.numpy as jnp

def loaded():
    return {name for name in sys.modules if name.startswith(("mjax._numpy.", "mjax.numpy."))}

assert loaded() == {"mjax._numpy.methods", "mjax._numpy.metadata"}
assert "unique" in dir(jnp) and not hasattr(jnp, "nothing")
jnp.sin = mine = lambda x: x
assert jnp.ones(3).sum() == 3 and jnp.bool is jnp.bool_ and jnp.int8(3).dtype == "int8"
assert jnp.sin is mine  # what a user has set stays
assert not {"mjax.numpy._rare", "mjax._numpy.sets", "mjax.numpy.linalg"} & loaded()
assert jnp.unique is sys.modules["mjax.numpy._rare"].unique
assert vars(jnp)["diff"] is jnp.diff  # no detour the second time
assert jnp.linalg.norm(jnp.ones(4)) == 2
from mjax.numpy import linalg, pad
"""


OPERATORS = """
import sys
from collections.abc import Iterable

import numpy as np
import mjax

x = mjax.device_put(np.arange(3, dtype=np.float32))
assert "mjax._numpy.operators" not in sys.modules
assert isinstance(x, Iterable) and hasattr(mjax.Array, "__matmul__") and x.ndim == 1
assert "mjax._numpy.arithmetic" not in sys.modules
np.testing.assert_array_equal(x + 1, [1, 2, 3])
np.testing.assert_array_equal(np.float32(1) - x, [1, 0, -1])
assert not {"mjax._numpy.reductions", "mjax._numpy.references"} & sys.modules.keys()
assert type(vars(mjax.Array)["__add__"]).__name__ == "function"  # found once
assert float(mjax.Array.sum(x)) == 3 and isinstance(mjax.Array.T, property)
assert float(mjax.jit(lambda x: (-x).at[1].set(2.0)[1:].sum() + len(list(x)))(x)) == 3
assert "mean" in dir(x) and not hasattr(x, "nothing")
"""


def test_methods_load_when_they_are_first_used():
    subprocess.run([sys.executable, "-c", OPERATORS], check=True)


THREADS = """
import threading
import numpy as np
import mjax

x, barrier, found = mjax.device_put(np.float32(2)), threading.Barrier(8), []

def add():
    barrier.wait()
    found.append(float(x + x * 3 - 1 / x))

threads = [threading.Thread(target=add) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [7.5] * 8, found
"""


def test_threads_may_use_the_first_operator_together():
    subprocess.run([sys.executable, "-c", THREADS], check=True)


def test_rare_functions_load_with_the_first_of_them():
    subprocess.run([sys.executable, "-c", FIRST], check=True)


def test_every_name_is_exported():
    rare = {name for name in vars(_rare) if not name.startswith("_")}
    assert rare < set(jnp.__all__)
    for name in rare:
        assert getattr(jnp, name) is getattr(_rare, name)
    assert jnp.linalg is sys.modules["mjax.numpy.linalg"]
    assert len(jnp.__all__) == len(set(jnp.__all__))


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match=r"module 'mjax.numpy' has no attribute 'uniqe'"):
        jnp.uniqe  # noqa: B018
