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

before = set(sys.modules)
assert not {"mjax.numpy._rare", "mjax._numpy.sets", "mjax.numpy.linalg"} & before
assert "unique" in dir(jnp) and not hasattr(jnp, "nothing")
assert jnp.unique is sys.modules["mjax.numpy._rare"].unique
assert vars(jnp)["diff"] is jnp.diff  # no detour the second time
assert jnp.linalg.norm(jnp.ones(4)) == 2
from mjax.numpy import linalg, pad
"""


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
