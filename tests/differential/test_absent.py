"""The tables of absent names against jax: nothing that JAX has is missing from them."""

from __future__ import annotations

import importlib.util
import pkgutil
import types
import warnings

import jax
import pytest

from mjax._engine.base.absent import tables
from tests.differential.surface import modules

ABSENT, FORMER, ELSEWHERE = (tables()[kind] for kind in ("absent", "former", "elsewhere"))
#: Modules whose `dir` shows what they import, and that do not say what they export.
UNTIDY = {"example_libraries.optimizers", "experimental.mesh_utils",
          "experimental.jet", "experimental.multihost_utils", "experimental.ode",
          "experimental.shard_map", "version"}
#: Names that a module of JAX shows by accident.
STRAY = {"ad"}


def _has(module, name):
    """Whether JAX has a name, as an attribute or as a submodule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(importlib.import_module(module), name)
        except (AttributeError, ImportError):
            try:
                return importlib.util.find_spec(f"{module}.{name}") is not None
            except ModuleNotFoundError:  # The module is not a package.
                return False
    return True


MODULES = [m for m in modules() if m[0] not in UNTIDY]


@pytest.mark.parametrize("name, ours, theirs", MODULES, ids=[m[0] or "mjax" for m in MODULES])
def test_a_name_that_jax_has_is_here_or_listed(name, ours, theirs):
    public = getattr(theirs, "__all__", None) or [n for n in dir(theirs) if n[0] != "_"]
    lacking = {n for n in public if not hasattr(ours, n) and not isinstance(
        getattr(theirs, n, None), types.ModuleType)}
    assert lacking - STRAY <= ABSENT.get(ours.__name__, {}).keys()


def test_a_module_that_jax_has_is_here_or_listed():
    for found in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None):
        parent, _, name = found.name.rpartition(".")
        try:
            ours = importlib.import_module(f"m{parent}")
        except ImportError:
            continue  # The package that has it is listed, or one above it.
        if name[0] != "_":
            assert hasattr(ours, name) or name in ABSENT[ours.__name__], found.name


@pytest.mark.parametrize("module", ABSENT)
def test_listed_names_are_those_that_jax_has(module):
    ours = importlib.import_module(module)
    for name in ABSENT[module]:
        assert not hasattr(ours, name), name
        assert _has(module[1:], name), name


@pytest.mark.parametrize("module", {**FORMER, **ELSEWHERE})
def test_former_names_are_not_there(module):
    for name in (*FORMER.get(module, ()), *ELSEWHERE.get(module, ())):
        assert not _has(module[1:], name), name
