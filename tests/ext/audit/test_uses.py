"""How uses are found: each way to write one, with its line and its path."""

from __future__ import annotations

import textwrap

import pytest

from mjax_ext._audit.uses import uses

P = "jax.core.Primitive"
#: Source -> the uses: line and path.
FORMS = {
    "import jax\njax.core.Primitive": [(1, "jax"), (2, P)],
    "import jax.core\njax.core.Primitive": [(1, "jax.core"), (2, P)],
    "import jax.core as c\nc.Primitive": [(1, "jax.core"), (2, P)],
    "from jax import core as c\nc.Primitive": [(1, "jax.core"), (2, P)],
    "from jax.core import (\n  Primitive as A)\nA('x')": [(2, P), (3, P)],
    "import jax\nc = jax.core\nc.Primitive": [(1, "jax"), (2, "jax.core"), (3, P)],
    "import jax\nc, n = jax.core, 3\nc.Primitive; n.x": [(1, "jax"), (2, "jax.core"), (3, P)],
    "import jax\nc: object = jax.core\nc.Primitive": [(1, "jax"), (2, "jax.core"), (3, P)],
    "import jax\n(c := jax.core)\nc.Primitive": [(1, "jax"), (2, "jax.core"), (3, P)],
    "import jax\n(c := jax.core).Var\nc.Primitive": [
        (1, "jax"), (2, "jax.core.Var"), (3, P)],
    "import jax\ngetattr(jax.core, 'Primitive')": [(1, "jax"), (2, P)],
    "import jax\ngetattr(jax.core, 'Primitive').bind": [(1, "jax"), (2, f"{P}.bind")],
    "import jax\nhasattr(jax.core, 'Primitive')": [(1, "jax"), (2, P)],
    "import jax\ngetattr(jax.core, name)": [(1, "jax"), (2, "jax.core.*")],
    "import jax\njax.core.Primitive = 3": [(1, "jax"), (2, P)],
    "import jax\nsetattr(jax.core, 'Primitive', 3)": [(1, "jax"), (2, P)],
    "import importlib\nimportlib.import_module('jax.core').Primitive": [(2, P)],
    "from importlib import import_module as im\nc = im('jax.core')\nc.Primitive": [
        (2, "jax.core"), (3, P)],
    "__import__('jax.core').core.Primitive": [(1, P)],
    "__import__('jax.core', fromlist=['x']).Primitive": [(1, P)],
    "import sys\nsys.modules['jax.core'].Primitive": [(2, P)],
    "from jax.core import *\nPrimitive, mine": [(1, "jax.core.*"), (2, P)],
    "import jax\nx: 'jax.core.Primitive'": [(1, "jax"), (2, P)],
    "import jax\ndef f(x: 'list[jax.core.Primitive]'): pass": [(1, "jax"), (2, P)],
    "import mjax_ext\nv = mjax_ext.require('v1', jaxlib='>=0.6')\nv.core.Primitive": [
        (1, "mjax_ext"), (2, "mjax_ext.v1"), (3, "mjax_ext.v1.core.Primitive")],
    "from mjax_ext import require\nrequire('v1').core.Primitive": [
        (1, "mjax_ext.require"), (2, "mjax_ext.v1.core.Primitive")],
    "from jax import core\nclass A(core.Primitive):\n core = 1\n def f(s): core.Primitive": [
        (1, "jax.core"), (2, P), (4, P)],
    "from jax import core\nf = lambda x: core.Primitive": [(1, "jax.core"), (2, P)],
    "def f(): core.Primitive\nfrom jax import core": [(1, P), (2, "jax.core")],
    "def f():\n global core\n from jax import core\ndef g(): core.Primitive": [
        (3, "jax.core"), (4, P)],
    "def f():\n core = None\n def g():\n  nonlocal core\n  import jax.core as core\n"
    " def h(): core.Primitive": [(5, "jax.core"), (6, P)],
    "if a:\n from jax import core\nelse:\n core = None\ncore.Primitive": [
        (2, "jax.core"), (5, P)],
    "from jax import core\nfor i in y:\n core.Primitive": [(1, "jax.core"), (3, P)],
    "from jax import core\nwith a as b, core.Primitive: pass": [(1, "jax.core"), (2, P)],
    "from jax import core\nmatch core.Primitive:\n case x: x": [(1, "jax.core"), (2, P)],
    "from jax import core\nf'{core.Primitive}'": [(1, "jax.core"), (2, P)],
    "async def f():\n from jax import core\n await core.Primitive": [(2, "jax.core"), (3, P)],
}
#: Names that stand for something else.
OTHERS = [
    "from . import core\ncore.Primitive", "from mine import jax\njax.core.Primitive",
    "import numpy as jax\njax.core.Primitive", "'jax.core.Primitive'  # jax.core.Primitive",
]
#: Bindings that shadow `core`: only the import is a use.
SHADOWS = [
    "def f(core): core.Primitive", "lambda core: core.Primitive", "[core.Primitive for core in y]",
    "{core.Primitive: 1 for core in y}", "for core in y: pass\ndel core\ndef f(): core.Primitive",
    "core = 3\ncore.Primitive", "def f():\n core = 3\n core.Primitive",
    "with a as core: core.Primitive", "def core(): pass\ncore.Primitive",
    "def f(*core): core.Primitive", "match a:\n case core: core.Primitive",
    "def f():\n import core\n core.Primitive", "del core\ncore.Primitive",
]


def exports(module):
    return {"Primitive"} if module == "jax.core" else ()


def found(source):
    return [(use.line, use.path) for use in uses(source.encode(), exports)]


@pytest.mark.parametrize("source", FORMS)
def test_forms(source):
    assert found(source) == FORMS[source]


@pytest.mark.parametrize("source", OTHERS)
def test_other_names(source):
    assert found(source) == []


@pytest.mark.parametrize("source", SHADOWS)
def test_shadows(source):
    assert found(f"from jax import core\n{source}") == [(1, "jax.core")]


#: Source -> the note of the use on its last line.
NOTES = {
    "try:\n from jax.core import Primitive\nexcept ImportError:\n Primitive = None\nPrimitive":
        "under the `try` of line 1",
    "try:\n pass\nexcept (ValueError, AttributeError):\n from jax.core import Primitive":
        "under the `try` of line 1",
    "try:\n from jax.core import Primitive\nexcept ValueError:\n pass\nPrimitive": "",
    "import jax\nif jax.__version_info__ < (0, 5):\n jax.core.Primitive":
        "under the `if` of line 2",
    "import jax\nNEW = jax.__version_info__ > (0, 5)\nif NEW:\n jax.core.Primitive":
        "under the `if` of line 3",
    "import jax\nif hasattr(jax.core, 'x'):\n jax.core.Primitive": "under the `if` of line 2",
    "import jax\nif hasattr(leaf, 'x'):\n jax.core.Primitive": "",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from jax.core import Primitive":
        "for type checkers alone",
    "import contextlib\nwith contextlib.suppress(ImportError):\n from jax.core import Primitive":
        "under the `suppress` of line 2",
    "import jax\ngetattr(jax.core, 'Primitive', None)": "`getattr` with a default at line 2",
    "import jax\ndel jax.core.Primitive": "the library sets it",
}


@pytest.mark.parametrize("source", NOTES)
def test_notes(source):
    assert [use.note for use in uses(source.encode(), exports)][-1] == NOTES[source]


def test_branches_give_all_that_a_name_may_be():
    source = """\
        try:
            from jax.extend.core import Primitive
        except ImportError:
            from jax.core import Primitive
        Primitive
        """
    assert found(textwrap.dedent(source)) == [
        (2, "jax.extend.core.Primitive"), (4, P), (5, P), (5, "jax.extend.core.Primitive")]


@pytest.mark.parametrize("source", [b"jax = (", b"jax = '\x00'", b"# coding: utf-9\njax",
                                    b"# caf\xe9\nimport jax",
                                    b"jax = " + b"(" * 300 + b")" * 300])
def test_what_does_not_parse(source):
    with pytest.raises(SyntaxError):
        uses(source, exports)


def test_encodings_and_escapes():
    assert [use.line for use in uses(
        "# coding: latin-1\nä = '\\d'\nimport jax.core".encode("latin-1"), exports)] == [3]
