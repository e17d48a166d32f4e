"""Public modules whose names load when they are first used."""

from __future__ import annotations

import importlib
import re
import sys
import types

import pytest

from mjax._engine.base.absent import tables
from mjax._engine.base.faces import face

ABSENT, FORMER, ELSEWHERE = (tables()[kind] for kind in ("absent", "former", "elsewhere"))


@pytest.fixture
def module():
    """A module that is named like a package of the standard library, and has its path."""
    made = types.ModuleType("json.made")
    made.__path__ = __import__("json").__path__
    made.__all__ = ["decoder", "later", "fft", "ifft"]
    sys.modules["json.made"] = made
    yield made
    del sys.modules["json.made"]


def test_submodules_and_later_names(module):
    face("json.made", later={"loads": "json"})
    assert module.decoder.__name__ == "json.made.decoder"
    assert module.loads is __import__("json").loads
    with pytest.raises(AttributeError, match="module 'json.made' has no attribute 'foo'"):
        module.foo  # noqa: B018


def test_the_rest_loads_together(module):
    face("json.made", rest=("numpy.fft",))
    assert module.fft is __import__("numpy").fft.fft
    assert module.ifft is __import__("numpy").fft.ifft
    assert dir(module) == ["decoder", "fft", "ifft", "later"]
    with pytest.raises(AttributeError):
        module.ifftn_of_nobody  # noqa: B018


@pytest.mark.parametrize("module, name, text", [
    ("mjax.numpy", "sinn", "jax 0.10.2 does not have jax.numpy.sinn either"),
    ("mjax", "reshard", r"jax 0.10.2 has jax.reshard\. mjax does not have types with shardings"),
    ("mjax.numpy", "random", r"does not have jax.numpy.random either\. Use mjax.random"),
    ("mjax.scipy.stats.norm", "rvs", r"Use mjax.random.normal"),
    ("mjax.ops", "index_update", r"Use x.at\[...\].set\(y\)"),
    ("mjax", "tree_map", "JAX removed jax.tree_map before 0.10.2. Use mjax.tree.map"),
])
def test_an_absent_name_says_whether_jax_has_it(module, name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(importlib.import_module(module), name)


def test_private_names_and_modules_of_others_get_a_plain_error():
    for module, name in (("mjax", "__path_of_nobody__"), ("mjax_ext.core", "foo")):
        with pytest.raises(AttributeError) as caught:
            getattr(importlib.import_module(module), name)
        assert caught.value.args == (f"module {module!r} has no attribute {name!r}",)


def test_what_is_advised_is_there():
    names = {instead for tables in (FORMER, ELSEWHERE) for table in tables.values()
             for instead in table.values()}
    for instead in sorted(names):
        for path in re.findall(r"\bmjax[\w.]*", instead):
            package, *parts = path.split(".")
            thing = importlib.import_module(package)
            for part in parts:
                thing = getattr(thing, part, None) or importlib.import_module(
                    f"{thing.__name__}.{part}")


@pytest.mark.parametrize("table", [ABSENT, FORMER, ELSEWHERE])
def test_what_is_listed_as_absent_is_not_there(table):
    for module, names in table.items():
        face = importlib.import_module(module)
        assert [name for name in names if hasattr(face, name)] == []
