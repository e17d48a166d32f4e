"""Each public name of mjax_ext says what it is, and shows it in an example that runs.

Generations hold the same objects as the head.
"""

from __future__ import annotations

import importlib
import pkgutil
import pydoc
import re
from types import FunctionType, ModuleType

import pytest

import mjax_ext
from mjax_ext._tables import RuleTable

MODULES = ["mjax_ext", *(
    m.name for m in pkgutil.walk_packages(mjax_ext.__path__, "mjax_ext.")
    if not any(re.match(r"_|v\d", part) for part in m.name.split(".")[1:]))]


def _home(name):
    home = importlib.import_module(name)
    # pytest calls the hooks of a plugin; readers do not.
    return home, [n for n in getattr(home, "__all__", ()) if not n.startswith("pytest_")]


def _is_ours(value):
    return isinstance(value, (type, FunctionType)) and re.match(r"mjax(_ext)?\b", value.__module__)


def test_all_modules_are_looked_at():
    assert {"mjax_ext.core", "mjax_ext.check.pytest_plugin", "mjax_ext.random", "mjax_ext.ffi",
            "mjax_ext.interpreters.ad", "mjax_ext.state.discharge"} <= {*MODULES}
    assert sum(_is_ours(getattr(*pair)) is not None for pair in (
        (home, n) for home, names in map(_home, MODULES) for n in names)) > 500


@pytest.mark.parametrize("name", MODULES)
def test_functions_and_classes_have_an_example(name):
    home, names = _home(name)
    lacking = [n for n in names if _is_ours(getattr(home, n))
               and ">>> " not in (getattr(home, n).__doc__ or "")]
    assert not lacking


@pytest.mark.parametrize("name", MODULES)
def test_functions_of_several_arguments_list_them(name):
    home, names = _home(name)
    lacking = [n for n in names if isinstance(f := getattr(home, n), FunctionType)
               and _is_ours(f) and f.__code__.co_argcount > 2 and "Args:" not in f.__doc__]
    assert not lacking


@pytest.mark.parametrize("name", MODULES)
def test_the_docstring_of_the_module_tells_tables_and_other_values(name):
    home, names = _home(name)
    told = set(re.findall(r"`([\w.]+)", home.__doc__))
    lacking = [n for n in names if not _is_ours(getattr(home, n)) and n not in told
               and not isinstance(getattr(home, n), ModuleType)]
    assert not lacking or name.endswith("core.primitives")


def test_help_of_tables_tells_how_rules_are_called():
    seen = set()
    for home, names in map(_home, MODULES):
        for table in (getattr(home, n) for n in names):
            if type(table) is RuleTable:
                told = pydoc.render_doc(table, renderer=pydoc.plaintext)
                assert re.search(r"`rule\(\w+.*\)`\.\s+It gives .*`", told), told
                seen.add(id(table))
    assert len(seen) >= 8
