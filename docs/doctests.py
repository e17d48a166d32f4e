"""The pytest plugin of `nox -s docs`: runs what the documentation shows.

Every Python block of a Markdown file, in order, and every example in a docstring. Output is
compared with that shown. `<!--- skip: next -->` in front of a Markdown block leaves
it out. In docstrings `mjax`, `jnp`, `lax`, `random` and `np` are there already.
"""

import importlib
import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

# Eight devices to show; XLA reads it at the first client.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
ROOT = str(Path(__file__).parent.parent)
FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE
NAMES = {
    "mjax": "mjax",
    "jnp": "mjax.numpy",
    "lax": "mjax.lax",
    "random": "mjax.random",
    "np": "numpy",
}


def _import_names(namespace):
    namespace.update((name, importlib.import_module(module)) for name, module in NAMES.items())


pages = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=FLAGS), SkipParser()],
    path=ROOT,
    patterns=["*.md"],
)
docstrings = Sybil(
    parsers=[DocTestParser(FLAGS)],
    path=ROOT,
    patterns=["*.py"],
    excludes=["docs/doctests.py"],
    document_types={".py": PythonDocStringDocument},
    setup=_import_names,
)
pytest_collect_file = (pages + docstrings).pytest()


def pytest_configure(config):
    """A module named on the command line is the one that mjax imports, not a copy."""
    config.option.importmode = "prepend"
