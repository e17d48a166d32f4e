"""Every function of mjax.lax has an example; those of the tables, which are composed, run."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import mjax.numpy as jnp
from mjax import lax

FUNCTIONS = [name for name in lax.__all__ if inspect.isroutine(getattr(lax, name))]
#: The functions whose docstrings no file holds as a whole.
COMPOSED = [name for name in FUNCTIONS
            if inspect.getsourcefile(inspect.unwrap(getattr(lax, name))) in (None, "<string>")
            or inspect.unwrap(getattr(lax, name)).__code__.co_name in (
                "unary", "binary", "unary_to_an_accuracy", "<lambda>")]


def test_every_function_has_an_example():
    without = [name for name in FUNCTIONS if "Example" not in inspect.getdoc(getattr(lax, name))]
    assert not without
    assert {"sin", "add", "eq", "zeta", "betainc", "mulhi"} <= {*COMPOSED}


@pytest.mark.parametrize("name", COMPOSED)
def test_examples_of_rows(name):
    doc = inspect.getdoc(getattr(lax, name))
    example = doctest.DocTestParser().get_doctest(
        doc, {"lax": lax, "jnp": jnp, "np": np}, name, None, None)
    assert example.examples
    lines: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=lines.append)
    assert not lines, "".join(lines)
