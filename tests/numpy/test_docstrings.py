"""Every public function of mjax.numpy says what it does, and its example runs."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp

FUNCTIONS = [n for n in jnp.__all__ if inspect.isroutine(getattr(jnp, n))
             or isinstance(getattr(jnp, n), jnp.ufunc)]
#: Aliases share the docstring of what they are another name of; some functions are NumPy's.
OWN = [n for n in FUNCTIONS if getattr(jnp, n).__name__ in (n, f"_{n}")
       and getattr(jnp, n) is not getattr(np, n, None)]


def test_all_names_are_exported_once() -> None:
    assert len(jnp.__all__) == len(set(jnp.__all__))
    assert all(hasattr(jnp, name) for name in jnp.__all__)


def test_at_least_as_many_functions_as_the_issue_asks_for() -> None:
    assert len(FUNCTIONS) >= 150


@pytest.mark.parametrize("name", OWN)
def test_docstring(name: str) -> None:
    doc = inspect.getdoc(getattr(jnp, name))
    assert doc, f"{name} has no docstring"
    assert doc.splitlines()[0].endswith((".", ":", "?")), doc.splitlines()[0]
    assert "Example:" in doc, f"{name} has no example"


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_example(name: str) -> None:
    doc = inspect.getdoc(getattr(jnp, name))
    names = {"jnp": jnp, "np": np, "mjax": mjax, "lax": mjax.lax}
    example = doctest.DocTestParser().get_doctest(doc, names, name, None, None)
    lines: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE).run(
        example, out=lines.append)
    assert not lines, "".join(lines)
