"""Both libraries work whichever is imported first: the tests of this folder, the other way."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.skipif("MJAX_FIRST" in os.environ, reason="this is the other way")
def test_mjax_first():
    environment = {**os.environ, "MJAX_FIRST": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE),
               "-k", "test_transformations or test_import_order"]
    run = subprocess.run(command, cwd=HERE.parents[1], env=environment, check=False,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_which_was_first():
    names = [name for name in sys.modules if name in ("jax", "mjax")]
    assert names == (["mjax", "jax"] if "MJAX_FIRST" in os.environ else ["jax", "mjax"])


def test_neither_touches_the_other():
    import jax
    import numpy as np

    import mjax

    ours, theirs = mjax.numpy.ones(3), jax.numpy.ones(3)
    assert isinstance(ours, mjax.Array) and not isinstance(ours, jax.Array)
    assert isinstance(theirs, jax.Array) and not isinstance(theirs, mjax.Array)
    assert not mjax.config.enable_x64
    with jax.enable_x64(True):
        assert jax.numpy.ones(2).dtype == np.float64 and mjax.numpy.ones(2).dtype == np.float32
    with mjax.enable_x64(True):
        assert jax.numpy.ones(2).dtype == np.float32 and mjax.numpy.ones(2).dtype == np.float64
    # Each takes the other's arrays for what they are to NumPy.
    np.testing.assert_array_equal(mjax.numpy.asarray(theirs) + 1, [2, 2, 2])
    np.testing.assert_array_equal(jax.numpy.asarray(np.asarray(ours)) + 1, [2, 2, 2])
