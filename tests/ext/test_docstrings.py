"""Each public name of the interpreters says what it is, and shows it in an example that runs."""

from __future__ import annotations

import importlib
import re
from types import FunctionType

import pytest

MODULES = ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")


def _home(name):
    return importlib.import_module(f"mjax_ext.interpreters.{name}")


def _is_ours(value):
    return isinstance(value, (type, FunctionType)) and value.__module__.startswith("mjax")


@pytest.mark.parametrize("name", MODULES)
def test_functions_and_classes_have_an_example(name):
    home = _home(name)
    lacking = [n for n in home.__all__ if _is_ours(getattr(home, n))
               and ">>> " not in (getattr(home, n).__doc__ or "")]
    assert not lacking


@pytest.mark.parametrize("name", MODULES)
def test_functions_of_several_arguments_list_them(name):
    home = _home(name)
    lacking = [n for n in home.__all__ if isinstance(f := getattr(home, n), FunctionType)
               and f.__module__.startswith("mjax") and f.__code__.co_argcount > 2
               and "Args:" not in f.__doc__]
    assert not lacking


@pytest.mark.parametrize("name", MODULES)
def test_the_docstring_of_the_module_tells_tables_and_other_values(name):
    home = _home(name)
    told = set(re.findall(r"`([\w.]+)", home.__doc__))
    lacking = [n for n in home.__all__ if not _is_ours(getattr(home, n)) and n not in told]
    assert not lacking
