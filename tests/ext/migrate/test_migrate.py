"""`python -m mjax_ext migrate`: each form, what is left, and the fixture library."""

from __future__ import annotations

import builtins
import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest

from mjax_ext.__main__ import main
from mjax_ext._audit.command import audit
from mjax_ext._audit.surface import SURFACE, Surface
from mjax_ext._migrate import command
from mjax_ext._migrate.command import migrate
from mjax_ext._migrate.plan import Problem
from tests.ext.migrate.halves import copied, run_its_tests
from tests.generations.fixture.generations import CHANGES, installed, table

#: Before -> after, with `--to v1`.
FORMS = {
    "from jax.core import Primitive": "from mjax_ext.v1.core import Primitive",
    "from jax.core import (\n    Primitive as P,  # a\n    Tracer,\n)":
        "from mjax_ext.v1.core import (\n    Primitive as P,  # a\n    Tracer,\n)",
    "from jax.core import call_p, Tracer  # a":
        "from mjax_ext.v1.core.primitives import call_p\nfrom mjax_ext.v1.core import Tracer  # a",
    "from jax._src.core import JaxprEqnContext\nJaxprEqnContext()":
        "from mjax_ext.v1.core import JaxprEqnContext\nJaxprEqnContext()",
    "from jax.core import JaxprDebugInfo": (
        "from mjax_ext.v1.core import DebugInfo as JaxprDebugInfo"),
    "from jax.lib.xla_extension import XlaRuntimeError":
        "from mjax.errors import JaxRuntimeError as XlaRuntimeError",
    "from jax import core, numpy as jnp\ncore.Var":
        "from mjax_ext.v1 import core\nfrom jax import numpy as jnp\ncore.Var",
    "from jax.interpreters import ad, mlir as m\nm.ir": (
        "from mjax_ext.v1.interpreters import ad, mlir as m\nm.ir"),
    "import jax.interpreters.ad as ad, numpy as np":
        "import mjax_ext.v1.interpreters.ad as ad\nimport numpy as np",
    "import jax.extend as jex\njex.core.Primitive": "import mjax_ext.v1 as jex\njex.core.Primitive",
    "# a\n\nimport jax.core  # b\n\n# c\nx = jax.core.Var":
        "# a\n\nfrom mjax_ext import v1\n# b\n\n# c\nx = v1.core.Var",
    "import os\n\n# a\nimport jax.core  # noqa: F401\n\n# b\ndef f(): jax.core.Var":
        "from mjax_ext import v1\nimport os\n# a\n\n# b\ndef f(): v1.core.Var",
    "from jax import (\n    core,  # a\n    jit,\n)\ncore.Var":
        "# a\nfrom mjax_ext.v1 import core\nfrom jax import jit\ncore.Var",
    "try:\n    # a\n    import jax.core  # b\n\n    x = 1\nexcept ImportError:\n    x = 0\n"
    "if x: jax.core.Var":
        "try:\n    # a\n    from mjax_ext import v1  # b\n\n    x = 1\n"
        "except ImportError:\n    x = 0\nif x: v1.core.Var",
    "def f():\n    import jax\n    return jax.core.Var":
        "def f():\n    from mjax_ext import v1\n    return v1.core.Var",
    "def f():\n    import jax.core  # a\n\n    # b\n    return 1":
        "def f():\n    # a\n\n    # b\n    return 1",
    "def f():\n    global jax\n    import jax\ndef g(): jax.core.Var":
        "from mjax_ext import v1\ndef f():\n    global jax\ndef g(): v1.core.Var",
    "if x: import jax.core; y = jax.core.Var": "if x: from mjax_ext import v1; y = v1.core.Var",
    "if x: import jax.core": "if x: pass",
    "x = 1\nimport jax.core  # a": "x = 1\n# a",
    "import jax.core\njax.core.Primitive": "from mjax_ext import v1\nv1.core.Primitive",
    "import jax\nimport jax.core\njax.core.Var, jax.jit":
        "from mjax_ext import v1\nimport jax\nv1.core.Var, jax.jit",
    "import jax.core\njax.core.Var, jax.jit":
        "from mjax_ext import v1\nimport jax\nv1.core.Var, jax.jit",
    "import jax\njax.core.Var": "from mjax_ext import v1\nv1.core.Var",
    "import jax\ndef f(x: 'jax.Array'): jax.core.Var":
        "from mjax_ext import v1\nimport jax\ndef f(x: 'jax.Array'): v1.core.Var",
    "import jax.core\nx: list['jax.Array', 'a b'] = jax.core.Var":
        "from mjax_ext import v1\nimport jax\nx: list['jax.Array', 'a b'] = v1.core.Var",
    "import jax\n__all__ = ['jax']\njax.core.Var":
        "from mjax_ext import v1\nimport jax\n__all__ = ['jax']\nv1.core.Var",
    "import jax\ntry: f()\nexcept E as v1: jax.core.Var":
        "import mjax_ext.v1\ntry: f()\nexcept E as v1: mjax_ext.v1.core.Var",
    "import jax\nasync def v1(): jax.core.Var":
        "import mjax_ext.v1\nasync def v1(): mjax_ext.v1.core.Var",
    "import jax\nmatch x:\n    case [*v1] | {**v1}: jax.core.Var":
        "import mjax_ext.v1\nmatch x:\n    case [*v1] | {**v1}: mjax_ext.v1.core.Var",
    "import jax\nv1 = 3\njax.core.Var": "import mjax_ext.v1\nv1 = 3\nmjax_ext.v1.core.Var",
    "import jax\ncore = jax.core\ncore.Var": (
        "from mjax_ext import v1\ncore = v1.core\ncore.Var"),
    "from jax import core\ncore.call_p, core.Var":
        "from mjax_ext import v1\nfrom mjax_ext.v1 import core\n"
        "v1.core.primitives.call_p, core.Var",
    "from jax import core\ncore.call_p":
        "from mjax_ext import v1\nv1.core.primitives.call_p",
    "import jax\njax.lib.xla_extension.XlaRuntimeError":
        "import mjax\nmjax.errors.JaxRuntimeError",
    "from jax import core\ngetattr(core, 'call_p', None)": (
        "from mjax_ext import v1\ngetattr(v1.core.primitives, 'call_p', None)"),
    "import jax\nhasattr(jax.core, 'JaxprDebugInfo')":
        "from mjax_ext import v1\nhasattr(v1.core, 'DebugInfo')",
    "import jax\ndef f(é='é', x: 'jax.core.Var' = jax.core.Var): pass":
        "from mjax_ext import v1\ndef f(é='é', x: 'v1.core.Var' = v1.core.Var): pass",
    "def f():\n    import jax.core as c; import os\n    return c.Var":
        "def f():\n    import mjax_ext.v1.core as c\n    import os\n    return c.Var",
    "try:\n    from jax.extend.core import DropVar\nexcept ImportError:\n"
    "    from jax.core import DropVar\nDropVar": "from mjax_ext.v1.core import DropVar\nDropVar",
    "import jax\nif jax.__version_info__ < (0, 5):\n    import jax.linear_util as lu\nelse:\n"
    "    import jax.extend.linear_util as lu\nlu.cache":
        "import mjax_ext.v1.linear_util as lu\nlu.cache",
    "try:\n    from jax.interpreters.batching import not_mapped\nexcept ImportError:\n"
    "    not_mapped = None":
        "try:\n    from mjax_ext.v1.interpreters.batching import not_mapped\n"
        "except ImportError:\n    not_mapped = None",
    "'''Doc.'''\nfrom __future__ import annotations\n\nimport jax\n\njax.core.Var":
        "'''Doc.'''\nfrom __future__ import annotations\n\nfrom mjax_ext import v1\n\nv1.core.Var",
    "from mjax_ext.core import Primitive": "from mjax_ext.v1.core import Primitive",
    "from mjax_ext import core\ncore.Var": "from mjax_ext.v1 import core\ncore.Var",
    "import mjax_ext.core\nmjax_ext.core.Var": "import mjax_ext.v1.core\nmjax_ext.v1.core.Var",
    "import jax\nx = [  jax . core . Var ,]  # a": (
        "from mjax_ext import v1\nx = [  v1.core.Var ,]  # a"),
}
#: Sources with nothing to rewrite.
SAME = ["import jax\njax.jit", "from mjax_ext.v1.core import Var", "import numpy", "",
        "# jax.core.Var\n'jax.core.Var'"]
#: Sources that are left as they are -> line and a part of the reason.
LEFT = {
    "from jax.core import Primitive\nfrom jax.core import thread_local_state": (
        2, "v1 does not have jax.core.thread_local_state: of jax before 0.4.36"),
    "from jax.core import *": (1, "imports all names of jax.core"),
    "import jax\ngetattr(jax.core, name)": (2, "computes a name of jax.core"),
    "import jax\n\njax.core.Var = 3": (3, "sets a name of jax.core.Var"),
    "import importlib\nimportlib.import_module('jax.core').Var": (2, "jax.core"),
    "import importlib\nc = importlib.import_module('jax.core')": (2, "imports jax.core by a text"),
    "from mjax_ext.interpreters.ad import standard_jvp": (1, "v1 does not have"),
    "import mjax\nfrom mjax._tools import nothing": (2, "v1 does not have mjax._tools.nothing"),
    "import jax\n(c := jax.core).Var": (2, "from an expression that is not a name"),
    "import jax\nx = (jax.core  # a\n    .Var)": (2, "this form"),
    "def f(:": (1, "does not parse"),
}


def written(tmp_path, source, to="v1", **options):
    """The file after the migration, and its results."""
    path = tmp_path / "a.py"
    path.write_text(source)
    results = [*migrate(str(path), to, **options)]
    return path.read_text(), results


@pytest.mark.parametrize("source", FORMS)
def test_forms(tmp_path, source):
    after, results = written(tmp_path, source)
    assert after == FORMS[source]
    assert [r.written for r in results] == [True]
    assert written(tmp_path, after) == (after, [])


@pytest.mark.parametrize("source", SAME)
def test_nothing_to_rewrite(tmp_path, source):
    assert written(tmp_path, source) == (source, [])


@pytest.mark.parametrize("source", LEFT)
def test_what_is_left(tmp_path, source):
    after, (result,) = written(tmp_path, source)
    assert after == source and not result.written
    line, why = LEFT[source]
    assert any(p.line == line and why in p.why for p in result.problems), result.problems


def test_encodings_and_line_ends_stay(tmp_path):
    path = tmp_path / "a.py"
    text = "# coding: latin-1\r\nfrom jax.core import Var\r\nx = 'ä'\r\n"
    path.write_bytes(text.encode("latin-1"))
    list(migrate(str(path), "v1"))
    assert path.read_bytes() == text.replace("jax.core", "mjax_ext.v1.core").encode("latin-1")


def test_the_code_between_is_valid_in_both():
    """Imports of jax stand beside those of v1, and only imports are of jax."""
    targets, = command._steps("v1", SURFACE, None)
    source = (b"from jax import core\nfrom jax.core import Var\nimport jax\n"
              b"Var, core.call_p, jax.core.Var")
    both, problems = command._written(source, targets.both(), targets.keeps_imports)
    assert not problems and both.decode().splitlines() == [
        "from mjax_ext import v1", "from jax import core", "from jax.core import Var",
        "from mjax_ext.v1.core import Var", "import jax",
        "Var, v1.core.primitives.call_p, v1.core.Var"]


# ---- the fixture library, and the command ----------------------------------------------


def test_the_fixture_library_passes_its_own_tests(tmp_path):
    target = copied(tmp_path)
    assert audit(str(target)).status == 1
    results = [*migrate(str(target), "v1")]
    assert {r.file.name for r in results if r.written} == {
        "_compat.py", "interpreter.py", "primitive.py"} and len(results) == 3
    done = audit(str(target))
    assert done.status == 0 and {f.kind for f in done.findings} == {"generation"}
    assert not any(re.search(r"^\s*(import|from) jax\b", path.read_text(), re.MULTILINE)
                   for path in target.glob("*.py"))
    assert len(run_its_tests(tmp_path, "mjax")) == 4
    assert [*migrate(str(target), "v1")] == []


def test_files_are_decided_one_by_one(tmp_path, capsys):
    (tmp_path / "a.py").write_text("from jax.core import Var\n")
    (tmp_path / "b.py").write_text("from jax.core import Var\n\nimport jax\njax.core.nothing\n")
    (tmp_path / "c.py").write_text("def f(:\n")
    (tmp_path / "d.py").write_text("import jax\n")
    assert main(["migrate", str(tmp_path), "--to", "v1"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/a.py: rewritten", f"{tmp_path}/b.py:4: v1 does not have jax.core.nothing",
        f"{tmp_path}/c.py:1: does not parse: invalid syntax",
        "Rewritten for v1: 1 of 3 files. As they were: 2."]
    assert (tmp_path / "b.py").read_text().startswith("from jax.core import Var")
    for name in "bc":
        (tmp_path / f"{name}.py").unlink()
    assert main(["migrate", str(tmp_path), "--to", "v1"]) == 0
    assert capsys.readouterr().out == "Nothing has to be rewritten for v1.\n"


@pytest.mark.parametrize("text, left", [
    ("import jax.numpy as jnp\nfrom jax.core import Var\n", True),
    ("from jax import core, jit\ncore.Var\n", True),
    ("import jax\njax.core.Var\n", False),
    ("import jaxtyping\nfrom . import jax\nfrom jax.core import Var\n", False),
])
def test_other_uses_of_jax_are_left_to_the_user(tmp_path, capsys, text, left):
    (tmp_path / "a.py").write_text(text)
    assert main(["migrate", str(tmp_path), "--to", "v1"]) == 0
    said = "Rewritten files that import jax for other names: 1. Change `jax` to `mjax`"
    assert (said in capsys.readouterr().out) == left


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig"])
def test_encodings(tmp_path, encoding):
    file = tmp_path / "a.py"
    file.write_bytes("# coding: {}\nx = 'é'; import jax; y = 'é', jax.core.Var, 'é'\n".format(
        encoding.removesuffix("-sig")).encode(encoding))
    assert all(result.written for result in migrate(str(file), "v1"))
    assert file.read_bytes().decode(encoding).splitlines()[-1] == "y = 'é', v1.core.Var, 'é'"


def test_a_file_that_cannot_be_written(tmp_path, monkeypatch):
    def refused(self, data):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.py").write_text("from jax.core import Var\n")
    monkeypatch.setattr(Path, "write_bytes", refused)
    (result,) = migrate(str(tmp_path), "v1")
    assert not result.written
    assert result.problems == [Problem(1, "cannot be written: Permission denied")]


def test_bad_arguments(tmp_path, capsys):
    assert main(["migrate", str(tmp_path / "nowhere"), "--to", "v1"]) == 2
    assert "there is no" in capsys.readouterr().err
    assert main(["migrate", "", "--to", "v1"]) == 2  # not the current folder
    (tmp_path / "a.ipynb").write_text("{}")
    assert main(["migrate", str(tmp_path / "a.ipynb"), "--to", "v1"]) == 2
    for arguments in ([str(tmp_path)], [str(tmp_path), "--to", "v9"], ["--to", "v1"]):
        with pytest.raises(SystemExit) as raised:
            main(["migrate", *arguments])
        assert raised.value.code == 2


def test_without_libcst(tmp_path, monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "libcst":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    for name in ("mjax_ext._migrate.rewrite", "mjax_ext._migrate.command"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    module = importlib.import_module("mjax_ext._migrate.command")
    assert module.main([str(tmp_path), "--to", "v1"]) == 2
    assert "pip install 'mjax[migrate]'" in capsys.readouterr().err


# ---- from one generation to the next ---------------------------------------------------

TWO = Surface(("v1", "v2"), lambda generation: (
    SURFACE.rows(None) if generation is None else {row.name: row for row in table(generation)}))
RULES = [change.codemod() for change in CHANGES]
#: Before -> after, with `--to v2`.
NEXT = {
    "from mjax_ext.v1.core import Var, jaxpr_as_fun":
        "from mjax_ext.v2.core import Var, function_of_jaxpr as jaxpr_as_fun",
    "from mjax_ext.v1 import core\ncore.jaxpr_as_fun, core.Var":
        "from mjax_ext import v2\nfrom mjax_ext.v2 import core\n"
        "v2.core.function_of_jaxpr, core.Var",
    "import mjax_ext.v1.core\nmjax_ext.v1.core.jaxpr_as_fun":
        "import mjax_ext.v2.core\nmjax_ext.v2.core.function_of_jaxpr",
    "import mjax_ext\nv = mjax_ext.require('v1')\nv.core.Var":
        "import mjax_ext\nv = mjax_ext.require('v2')\nv.core.Var",
    "from mjax_ext import require\nrequire('v1').core.Var":
        "from mjax_ext import require\nrequire('v2').core.Var",
    "from mjax_ext.v1.core import new_jaxpr_eqn as n\nn(n(1, 2, 3, {}, 5), b(), c, d, ctx=4)":
        "from mjax_ext.v2.core import new_jaxpr_eqn as n\n"
        "n(c, n(3, 1, 2, params={}, effects=5), b(), params=d, ctx=4)",
}
NEXT_LEFT = {
    "from mjax_ext.v1.util import split_list\nsplit_list": "slices do it",
    "from mjax_ext.v1 import util\nutil.split_list": "slices do it",
    "from mjax_ext.v1.core.primitives import window_p\nwindow_p": "sizes",
    "from mjax_ext.v1.interpreters.batching import primitive_batchers as p\np": "the axis first",
    "from mjax_ext.v1 import core\nf(core.new_jaxpr_eqn)": "does not show them all",
    "from mjax_ext.v1 import core\ncore.new_jaxpr_eqn(*a)": "does not show them all",
    "from mjax_ext.v1 import core\ncore.new_jaxpr_eqn(1, 2, 3, 4, 5, 6)": "does not show them all",
}


@pytest.mark.parametrize("source", NEXT)
def test_to_the_next_generation(tmp_path, source):
    after, results = written(tmp_path, source, "v2", surface=TWO, rules=RULES)
    assert after == NEXT[source], results
    assert written(tmp_path, after, "v2", surface=TWO, rules=RULES) == (after, [])


@pytest.mark.parametrize("source", NEXT_LEFT)
def test_what_the_rules_leave(tmp_path, source):
    after, (result,) = written(tmp_path, source, "v2", surface=TWO, rules=RULES)
    assert after == source and NEXT_LEFT[source] in result.problems[-1].why


def test_code_between_generations_takes_from_v2_what_changed():
    targets, = command._steps("v2", TWO, RULES)
    source = b"from mjax_ext.v1.core import Var, jaxpr_as_fun"
    both, _ = command._written(source, targets.both(), targets.keeps_imports)
    assert both.decode().splitlines() == [
        "from mjax_ext.v1.core import Var",
        "from mjax_ext.v2.core import function_of_jaxpr as jaxpr_as_fun"]


def test_a_library_of_v1_does_the_same_on_v2(tmp_path):
    source = textwrap.dedent("""\
        import mjax
        import mjax_ext
        ext = mjax_ext.require("v1")
        from mjax_ext.v1 import core

        def again(f, *args):
            jaxpr = ext.program(mjax.make_jaxpr(f)(*args))
            eqns = [core.new_jaxpr_eqn(e.invars, e.outvars, e.primitive, e.params, e.effects)
                    for e in jaxpr.eqns]
            made = core.Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)
            made = core.ClosedJaxpr(made, jaxpr.consts)
            return core.jaxpr_as_fun(made)(*args)[0]
        """)
    after, _ = written(tmp_path, source, "v2", surface=TWO, rules=RULES)
    assert "v1" not in after
    with installed():
        for code, generation in ((source, "v1"), (after, "v2")):
            space = {"__name__": "library"}
            exec(code, space)
            assert space["ext"].__name__ == f"mjax_ext.{generation}"
            assert space["again"](lambda x: x * x + 1.0, 3.0) == 10.0


def test_a_library_that_people_have_to_finish(tmp_path):
    source = (Path(__file__).parents[2] / "generations/fixture/library_v1/__init__.py").read_text()
    after, (result,) = written(tmp_path, source, "v2", surface=TWO, rules=RULES)
    lines = source.splitlines()
    assert after == source
    left = " ".join(lines[p.line - 1] for p in result.problems)
    assert all(part in left for part in (
        "import window_p", "batching.primitive_batchers[double_p] =", "util.split_list("))
    assert not any("new_jaxpr_eqn" in lines[p.line - 1] for p in result.problems)
