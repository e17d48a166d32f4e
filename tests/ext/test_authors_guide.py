"""The pages of the authors' guide do what they show, on each jaxlib of the matrix.

The session `docs` runs them too, with the other pages, on one jaxlib. They are for readers who have
nothing but the two packages, so they import these and the standard library alone.
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "authors"
PAGES = sorted(FOLDER.glob("*.md"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page):
    """The examples of a page, with the lines at which they stand."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        for example in doctest.DocTestParser().get_examples(block[1], page.name):
            example.lineno += line
            yield example


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_do_what_they_show(page):
    runner, wrong = doctest.DocTestRunner(verbose=False, optionflags=FLAGS), []
    runner.run(doctest.DocTest([*examples(page)], {"__name__": "__main__"}, page.name, str(page),
                               0, None), out=wrong.append)
    assert not wrong, "".join(wrong)


def test_pages_import_the_two_packages_numpy_and_the_standard_library():
    allowed = {"mjax", "mjax_ext", "numpy", *sys.stdlib_module_names}
    for page in PAGES:
        for example in examples(page):
            for node in ast.walk(ast.parse(example.source)):
                names = ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                         [node.module] if isinstance(node, ast.ImportFrom) else [])
                for name in names:
                    assert name.partition(".")[0] in allowed, f"{page.name}: imports {name}"
                    private = "._" in name.removesuffix(".__main__")
                    assert not private, f"{page.name}: imports {name}, which is private"


def test_the_index_names_every_page():
    index = (FOLDER / "README.md").read_text()
    links = re.findall(r"\]\((\w+\.md)\)", index)
    assert sorted({*links}) == [page.name for page in PAGES if page.name != "README.md"]
