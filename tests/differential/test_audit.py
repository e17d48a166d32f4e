"""The audit's table has the names of the installed jax; the codemod's library works on it."""

from __future__ import annotations

import importlib
import re
import types
import warnings

import jax
import pytest

from mjax_ext._audit.jax_names import TABLE, table
from tests.ext.migrate.halves import copied, run_its_tests

HERE = table().releases.index(jax.__version__) if jax.__version__ in table().releases else None
PUBLIC = re.findall(r"^\[(jax\.(?!_src)[\w.]*)\]", TABLE.read_text(), re.MULTILINE)


def is_here(spans):
    place = table().releases.index
    return any(place(first) <= HERE and (not last or place(last) >= HERE) for first, last in spans)


@pytest.mark.skipif(HERE is None, reason=f"the table does not have jax {jax.__version__}")
@pytest.mark.parametrize("path", PUBLIC)
def test_names_of_a_module(path):
    known = table().module(path)
    if not is_here(known.spans):
        with pytest.raises(ImportError):
            importlib.import_module(path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(path)
        names = {name for name, spans in known.names.items() if is_here(spans)}
        assert not [name for name in names if name != "*" and not hasattr(module, name)]
        others = {name for name in vars(module) if not name.startswith("_")} - names
        assert "*" in names or not [
            name for name in others if not isinstance(vars(module)[name], types.ModuleType)
            and str(getattr(vars(module)[name], "__module__", "")).startswith("jax")]


def test_the_library_that_is_migrated_works_on_jax(tmp_path):
    copied(tmp_path)
    assert len(run_its_tests(tmp_path, "jax")) == 4
