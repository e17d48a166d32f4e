"""The page of names: a row for every name of the modules that it covers, and no other rows."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "extension_names.md"
ABSENT = "Names without a counterpart"


def sections():
    """Heading -> the names in the first column of its tables."""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        found[heading] = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    return found


SECTIONS = sections()
MODULES = [(module, names) for heading, names in SECTIONS.items()
           for module in re.findall(r"`(mjax(?:_ext)?\.[\w.]+)`", heading)]
#: Modules of which the page shows some names, and tells the others in its text.
IN_PART = {"mjax_ext.core.primitives", "mjax.api_util"}


@pytest.mark.parametrize(("module", "names"), MODULES, ids=[m for m, _ in MODULES])
def test_every_name_has_one_row(module, names):
    assert len(names) == len(set(names))
    if module in IN_PART:
        own = set(importlib.import_module(module).__all__)
        assert set(names) <= own or own <= set(names)
    else:
        assert set(names) == set(importlib.import_module(module).__all__)


def test_the_modules_of_the_surface_are_there():
    assert {"mjax_ext.core", "mjax_ext.linear_util", "mjax_ext.source_info_util",
            "mjax_ext.backend", "mjax_ext.interpreters.ad", "mjax_ext.interpreters.xla"} <= {
                module for module, _ in MODULES}


def test_absent_names_are_absent():
    for path in SECTIONS[ABSENT]:
        if "." not in path or "(" in path:
            continue
        module, _, name = path.rpartition(".")
        try:
            home = importlib.import_module(f"mjax_ext.{module}")
        except ImportError:
            continue
        assert not hasattr(home, name), path
