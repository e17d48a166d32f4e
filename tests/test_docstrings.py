"""Public docstrings have all their sections, but for those of a list that only gets shorter."""

from __future__ import annotations

import doctest

import pytest

import mjax
from docs.site.docstring import parse
from docs.site.surface import Name, surface
from mjax import lax
from mjax import numpy as jnp
from mjaxlib_shim import jaxlib_version
from mjaxlib_shim.versions import installable
from tests import docstrings

#: The shim defines some functions for each form of jaxlib: the list is that of one release.
LISTED_ON = installable((3, 11)).version


@pytest.mark.skipif(jaxlib_version != LISTED_ON, reason=f"listed on jaxlib {LISTED_ON}")
def test_no_more_docstrings_lack_a_section():
    listed, found = set(docstrings.FILE.read_text().splitlines()), set(docstrings.missing())
    assert not found - listed, f"sections are missing: {sorted(found - listed)}"
    assert not listed - found, "they are there now; run: python -m tests.docstrings"


@pytest.mark.skipif(jaxlib_version != LISTED_ON, reason=f"listed on jaxlib {LISTED_ON}")
def test_functions_that_cannot_raise_do_not_say_otherwise():
    named = {name.full: name.value for names in surface().values() for name in names}
    assert named.keys() >= docstrings.CANNOT_RAISE
    assert not [name for name in docstrings.CANNOT_RAISE
                if "Raises" in parse(named[name]).sections]


def test_missing_sections_are_found():
    def f(x, y) -> int:
        """Adds.

        Args:
          x: a number.
        """

    def g(x, *rest) -> None:
        """Prints.

        Args:
          x, *rest: numbers.

        Raises:
          TypeError: others.

        Example:
          >>> g(1)
        """

    for function in (f, g):
        function.__module__ = "mjax"
    lacks = [[*docstrings.lacks(Name("mjax", "f", value, "mjax", "f"))]
             for value in (f, g, mjax.jit)]
    assert lacks == [["Example", "Args", "Returns", "Raises"], [], []]


def test_the_examples_of_flags_run():
    """Their docstrings are made, so that nobody finds them in files."""
    flags = [name for name in surface()["mjax"]
             if "A context manager that sets the flag" in (name.value.__doc__ or "")]
    assert len(flags) > 20
    for flag in flags:
        test = doctest.DocTestParser().get_doctest(
            flag.value.__doc__, {"mjax": mjax, "jnp": jnp, "lax": lax}, flag.name, None, None)
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0, flag.name
