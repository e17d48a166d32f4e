"""What `mjax.custom_derivatives` and `mjax.custom_batching` export, and their examples."""

from __future__ import annotations

import doctest
import inspect

import pytest

import mjax
from mjax import lax

FUNCTIONS = {n: getattr(face, n) for face in (mjax.custom_derivatives, mjax.custom_batching)
             for n in face.__all__ if callable(getattr(face, n)) and not n.endswith("_p")}


def test_names_are_exported_once():
    for face in (mjax.custom_derivatives, mjax.custom_batching):
        assert len(set(face.__all__)) == len(face.__all__)
        assert all(hasattr(face, name) for name in face.__all__)
    for name in ("custom_jvp", "custom_vjp", "custom_gradient", "closure_convert"):
        assert getattr(mjax, name) is getattr(mjax.custom_derivatives, name)
        assert name in mjax.__all__
    assert {"custom_batching", "custom_derivatives"} <= set(mjax.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstring_and_example(name):
    doc = inspect.getdoc(FUNCTIONS[name])
    assert doc and doc.splitlines()[0].endswith(".")
    if inspect.isclass(FUNCTIONS[name]) and not name.startswith("custom"):
        return
    names = {"mjax": mjax, "lax": lax}
    examples = doctest.DocTestParser().get_doctest(doc, names, name, None, None)
    assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)
