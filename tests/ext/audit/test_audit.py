"""`python -m mjax_ext audit`: what each kind of use is, and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mjax
from mjax_ext.__main__ import main
from mjax_ext._audit.command import audit, audit_source, text
from mjax_ext._audit.jax_names import table


def one(source):
    """The last finding of a source."""
    return audit_source(source.encode(), "f.py")[-1]._asdict()


def row(source):
    found = one(source)
    return tuple(found[field] for field in (
        "name", "kind", "generation", "tier", "replacement", "breaks_in"))


V1 = "mjax_ext.v1"
FIRST = table().releases[0]
#: Source -> the fields of its last finding.
KINDS = {
    "import mjax_ext.v1.core": (f"{V1}.core", "generation", "v1", None, None, None),
    "from mjax_ext.v1.core import Primitive": (
        f"{V1}.core.Primitive", "generation", "v1", "frozen", None, None),
    "from mjax_ext.v1 import core\ncore.Primitive.bind": (
        f"{V1}.core.Primitive", "generation", "v1", "frozen", None, None),
    "from mjax_ext.v1 import core\ncore.Nothing": (
        f"{V1}.core.Nothing", "generation", "v1", None, None, mjax.__version__),
    "import mjax_ext\nmjax_ext.require('v9').core": (
        "mjax_ext.v9.core", "generation", "v9", None, None, mjax.__version__),
    "from mjax_ext.core import Primitive": (
        "mjax_ext.core.Primitive", "head", None, "head", f"{V1}.core.Primitive", None),
    "import mjax_ext\nmjax_ext.explain": (
        "mjax_ext.explain", "head", None, "head", f"{V1}.explain", None),
    "from mjax_ext import core": ("mjax_ext.core", "head", None, "head", f"{V1}.core", None),
    "from mjax_ext.interpreters.ad import standard_jvp": (
        "mjax_ext.interpreters.ad.standard_jvp", "head", None, "head", None, None),
    "from mjax_ext.core import Nothing": (
        "mjax_ext.core.Nothing", "head", None, "head", None, mjax.__version__),
    "from mjax._engine.ir.types import ShapedArray": (
        "mjax._engine.ir.types.ShapedArray", "private", None, None, f"{V1}.core.ShapedArray", None),
    "from mjax_ext._tables import RuleTable": (
        "mjax_ext._tables.RuleTable", "private", None, None, None, None),
    "import mjaxlib_shim.arrays": ("mjaxlib_shim.arrays", "private", None, None, None, None),
    "import jax\njax.core.Tracer": ("jax.core.Tracer", "jax", None, None, f"{V1}.core.Tracer",
                                    None),
    "from jax.core import Primitive": (
        "jax.core.Primitive", "jax", None, None, f"{V1}.core.Primitive", "0.6.0"),
    "from jax.core import safe_map": (
        "jax.core.safe_map", "jax", None, None, f"{V1}.core.safe_map", FIRST),
    "from jax.core import thread_local_state": (
        "jax.core.thread_local_state", "jax", None, None, None, FIRST),
    "from jax.core import call_p": (
        "jax.core.call_p", "jax", None, None, f"{V1}.core.primitives.call_p", "0.7.0"),
    "from jax.interpreters import ad\nad.Zero": (
        "jax.interpreters.ad.Zero", "jax", None, None, f"{V1}.interpreters.ad.Zero", None),
    "import jax.linear_util as lu\nlu.wrap_init": (
        "jax.linear_util.wrap_init", "jax", None, None, f"{V1}.linear_util.wrap_init", FIRST),
    "from jax.lib import xla_bridge": (
        "jax.lib.xla_bridge", "jax", None, None, f"{V1}.backend", "0.9.0"),
    "from jax.lib.xla_extension import XlaRuntimeError": (
        "jax.lib.xla_extension.XlaRuntimeError", "jax", None, None, "mjax.errors.JaxRuntimeError",
        "0.6.0"),
    "from jax.extend.ffi import ffi_call": (
        "jax.extend.ffi.ffi_call", "jax", None, None, f"{V1}.ffi.ffi_call", "0.7.0"),
    "from jax.experimental.shard_map import shard_map": (
        "jax.experimental.shard_map.shard_map", "jax", None, None, "mjax.shard_map", None),
    "from jax.extend.mlir.dialects import stablehlo\nstablehlo.AddOp": (
        "jax.extend.mlir.dialects.stablehlo.AddOp", "jax", None, None,
        f"{V1}.interpreters.mlir.hlo.AddOp", None),
    "from jax.interpreters.mlir import _call_lowering": (
        "jax.interpreters.mlir._call_lowering", "jax-private", None, None, None, FIRST),
    "from jax._src import core": ("jax._src.core", "jax-private", None, None, f"{V1}.core", None),
    "from jax._src.core import Tracer": (
        "jax._src.core.Tracer", "jax-private", None, None, f"{V1}.core.Tracer", None),
    "from jax._src.pjit import pjit_p": (
        "jax._src.pjit.pjit_p", "jax-private", None, None, f"{V1}.core.primitives.jit_p", "0.7.0"),
    "from jax._src.lax.lax import sin_p": (
        "jax._src.lax.lax.sin_p", "jax-private", None, None, f"{V1}.core.primitives.sin_p", None),
    "import jax._src.nowhere": (
        "jax._src.nowhere", "jax-private", None, None, None, FIRST),
    "import jax._src": ("jax._src", "jax-private", None, None, None, None),
}
#: Names outside of the surface.
PUBLIC = ["import jax\njax.jit", "import jax.numpy as jnp\njnp.sin", "from jax import lax\nlax.add",
          "import mjax\nmjax.jit", "import mjax_ext", "from mjax_ext import require",
          "from mjax import errors\nerrors.MissingRuleError", "import jax\njax.Array.__mro__",
          "import numpy"]


@pytest.mark.parametrize("source", KINDS)
def test_kinds(source):
    assert row(source) == KINDS[source]


@pytest.mark.parametrize("source", PUBLIC)
def test_what_is_not_of_the_surface(source):
    assert audit_source(source.encode(), "f.py") == []


def test_fields_and_lines():
    assert one("import jax\n\njax.core.Primitive('x')") == {
        "name": "jax.core.Primitive", "file": "f.py", "line": 3, "kind": "jax", "generation": None,
        "tier": None, "replacement": "mjax_ext.v1.core.Primitive", "breaks_in": "0.6.0",
        "note": "in jax 0.4.36 to 0.5.3, deprecated since 0.4.38"}


def test_notes():
    said = lambda source: one(source)["note"]
    assert "from 0.11.1 on" in said("from jax.interpreters.batching import batch_subtrace")
    assert "in jax from 0.7.0 on" in said("from jax.extend.core.primitives import jit_p")
    assert "the head has mjax_ext.interpreters.ad.standard_jvp" in said(
        "from jax.interpreters.ad import standard_jvp")
    assert said("from jax.core import DShapedArray").endswith(
        "v1 does not have it: jax removed shapes that depend on values; symbolic shapes are those "
        "of mjax.export")
    assert "its names are not in the table" in said("from jax._src.profiler import a")
    assert "no release of jax from 0.4.36 on has it" in said("from jax._src.nowhere import a")
    assert "it has v1" in said("import mjax_ext.v9").lower()
    assert "all names are imported" in said("from jax.core import *")


#: Source -> the attributes that v1 does not promise, with their lines.
ATTRIBUTES = {
    "p = core.Primitive('p')\np.bind, p.frame": [(3, "core.Primitive.frame")],
    "core.Primitive('p').frame.x": [(2, "core.Primitive.frame")],
    "core.Primitive.frame": [(2, "core.Primitive.frame")],
    "def f(p: core.Primitive, *q: core.Jaxpr, r: int):\n  p.frame, q.recall, r.frame": [
        (3, "core.Primitive.frame")],
    "def f(j: core.Jaxpr): j.keep(j.eqns)": [(2, "core.Jaxpr.keep")],
    "p: object = core.Primitive('p')\np.frame = 3": [(3, "core.Primitive.frame")],
    "p = core.Primitive('p')\nq = p\nq.nothing, q._frame, q.__doc__, q.name": [],
    "p = core.Primitive('p')\np = 3\np.frame": [],
    "v = core.take_current_trace()\nv.frame": [],
}


@pytest.mark.parametrize("source", ATTRIBUTES)
def test_attributes_that_v1_does_not_promise(source):
    found = audit_source(f"from mjax_ext.v1 import core\n{source}".encode(), "f.py")
    heads = [f for f in found if f.kind == "head"]
    assert [(f.line, f.name.removeprefix("mjax_ext.")) for f in heads] == ATTRIBUTES[source]
    assert all("v1 does not promise" in f.note and not f.fails for f in heads)
    if "core.Primitive(" in source:
        assert any(f.name == f"{V1}.core.Primitive" for f in found)


# ---- libraries and the command ---------------------------------------------------------


def library(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    return str(folder)


def run(capsys, *arguments):
    status = main(["audit", *arguments])
    return (status, *capsys.readouterr())


def test_status(tmp_path, capsys):
    sound = library(tmp_path / "sound", a="from mjax_ext.v1.core import Primitive",
                    b="import jax\njax.core.Tracer", c="from mjax_ext import core")
    assert run(capsys, sound)[0] == 0
    for name, source in {"private": "import mjax._engine", "jax": "import jax._src.core",
                         "old": "from jax.core import Primitive", "broken": "x = ("}.items():
        assert run(capsys, library(tmp_path / name, a=source))[0] == 1, name
    assert run(capsys, str(tmp_path / "nowhere"))[0] == 2
    assert "no distribution" in run(capsys, str(tmp_path / "nowhere"))[2]
    assert run(capsys, "")[0] == 2  # not the current folder
    (tmp_path / "a.ipynb").write_text('{"cells": []}')
    status, out, err = run(capsys, str(tmp_path / "a.ipynb"))
    assert status == 2 and not out and "a.ipynb is a notebook" in err and "nbconvert" in err
    for arguments in ([], ["--js", sound]):
        with pytest.raises(SystemExit) as raised:
            main(["audit", *arguments])
        assert raised.value.code == 2


def test_json_and_files_that_do_not_parse(tmp_path, capsys):
    path = library(tmp_path / "lib", a="import jax\njax.core.Tracer", b="def f(:\n")
    status, out, err = run(capsys, path, "--json")
    assert status == 1 and err == f"{path}/b.py:1: invalid syntax\n"
    assert [(f["file"], f["line"]) for f in json.loads(out)["findings"]] == [(f"{path}/a.py", 2)]
    assert [*json.loads(out)] == ["findings"]
    status, out, _ = run(capsys, path)
    assert "Files that do not parse, or" in out and "b.py:1: invalid syntax" in out


def test_files_that_cannot_be_read(tmp_path, capsys):
    path = library(tmp_path / "lib", a="from jax.core import Tracer")
    (tmp_path / "lib" / "b.py").symlink_to(tmp_path / "nowhere.py")
    status, out, _ = run(capsys, path)
    assert status == 1 and "b.py:1: No such file" in out and "a.py\n  1  jax.core.Tracer" in out
    assert main(["migrate", path, "--to", "v1"]) == 1
    assert "b.py:1: cannot be read: No such file" in capsys.readouterr().out


def test_stub_files(tmp_path, capsys):
    path = tmp_path / "lib"
    path.mkdir()
    (path / "a.pyi").write_text("from jax._src.core import Trace")
    assert run(capsys, str(path))[0] == 1
    assert main(["migrate", str(path), "--to", "v1"]) == 0
    assert (path / "a.pyi").read_text() == "from mjax_ext.v1.core import Trace"


def test_the_text(tmp_path, capsys):
    path = library(tmp_path / "lib", a="from jax.core import Primitive\nPrimitive('x')",
                   b="from mjax_ext.v1 import core\ncore.Primitive", c="import jax")
    out = run(capsys, path)[1]
    assert f"{path}/a.py\n  1  jax.core.Primitive  breaks in jax 0.6.0  mjax_ext.v1.core" in out
    assert "v1, frozen" in out
    assert f"4 uses in 2 of 3 files. Releases of jax: {FIRST} to {table().releases[-1]}." in out
    assert "2 of jax's extension modules" in out and "2 of the 2 uses of jax's names have" in out


def test_libraries_that_mix_the_head_with_a_generation(tmp_path):
    path = library(tmp_path / "lib", a="from mjax_ext.v1 import core",
                   b="import mjax_ext.core\nmjax_ext.core.Primitive")
    notes = {f.kind: f.note for f in audit(path).findings}
    assert notes == {"generation": "", "head": (
        "the library uses v1 too: it mixes them with the head")}
    assert "The library mixes a generation with the head" in text(audit(path))
    assert "mixes" not in text(audit(f"{path}/a.py"))


def test_pointers_to_pages(tmp_path, capsys):
    path = library(tmp_path / "lib", a="from jax.core import Tracer, thread_local_state")
    told = run(capsys, path)[1]
    page, = re.findall("1 of the 2 uses of jax's names have a replacement; ([^ ]+) says why", told)
    assert page.endswith("docs/extension_names.md") and Path(page).exists()


def test_distributions(capsys):
    done = audit("pytest")
    assert done.files > 20 and done.findings == [] and done.status == 0
    assert "0 uses in 0 of" in text(done)


def test_editable_distributions(tmp_path, monkeypatch):
    info = tmp_path / "edited-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edited\nVersion: 1.0\n")
    (info / "RECORD").write_text("edited-1.0.dist-info/METADATA,,\n")
    home = tmp_path / "the home"
    library(home, a="from jax.core import Tracer")
    (info / "direct_url.json").write_text(json.dumps(
        {"url": home.as_uri(), "dir_info": {"editable": True}}))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [f.file for f in audit("edited").findings] == [str(home / "a.py")]


def test_nothing_is_imported(tmp_path):
    library(tmp_path / "lib", a="raise SystemExit(7)\nfrom jax.core import Tracer")
    code = ("import sys; from mjax_ext.__main__ import main; status = main(['audit', sys.argv[1]]);"
            "assert 'jax' not in sys.modules and 'a' not in sys.modules; sys.exit(status)")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "lib")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "jax.core.Tracer" in done.stdout, done.stderr
