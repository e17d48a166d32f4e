"""The kernel that docs/ffi.md shows works as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.kernels.building import compiler

PAGE = (Path(__file__).parents[4] / "docs" / "ffi.md").read_text()


def test_the_kernel_of_the_page(tmp_path, monkeypatch):
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    (source,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
    (program,) = re.findall(r"skip: next -->\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.cc").write_text(source)
    names = {"mjax": mjax, "jnp": jnp, "np": np, "ffi": mjax.ffi,
             "ShapeDtypeStruct": mjax.ShapeDtypeStruct}
    exec(program.replace('"c++"', repr(compiler())), names)
    np.testing.assert_array_equal(names["out"], [1, 3, 5])
    batch = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(
        mjax.vmap(lambda x: names["axpy"](3, x, jnp.ones(3)))(batch), 3 * batch + 1)
