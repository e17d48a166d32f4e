"""The policy: each sentence of a list names a test that exists; and some of those tests."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import mjax_ext
from mjax._engine.base import pages
from mjax._engine.base.pages import page
from mjax_ext import _manifest, core, v1
from mjax_ext.__main__ import COMMANDS
from mjax_ext._generations import surface
from mjax_ext._generations.breaking import breaks
from mjax_ext._generations.chain import CHAIN, why_absent
from mjax_ext._generations.change import Renamed
from mjax_ext.interpreters import ad, batching, mlir, partial_eval
from mjaxlib_shim import FLOOR, NEWEST

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text()
#: The items of the lists, each in one line.
SENTENCES = [re.sub(r"\s+", " ", item) for item in re.findall(
    r"^- (.*?)(?=\n\n|\n- |\n#|\Z)", PAGE, re.MULTILINE | re.DOTALL)]
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda s: s[:50])
def test_each_sentence_names_tests_that_exist(sentence):
    named = TEST.findall(sentence)
    assert named
    for file, name in named:
        functions = {node.name for node in ast.parse((ROOT / file).read_text()).body
                     if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file} does not have {name}"


def test_there_are_sentences():
    assert len(SENTENCES) > 20 and "candidate" in PAGE


def test_a_candidate_is_called_one():
    for generation, status in _manifest.GENERATIONS.items():
        if status == "candidate":
            module = (ROOT / "mjax_ext" / generation / "__init__.py").read_text()
            assert f"Generation {generation} (candidate)" in module
            assert f"`mjax_ext.{generation}` is a **candidate**" in PAGE


def test_changes_are_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert not [c.changelog() for c in CHAIN.all_changes() if c.changelog() not in text]
    assert not [c.name for c in CHAIN.all_changes() if c.paragraph() not in PAGE]


def test_pages_that_texts_point_to_exist():
    """In the checkout; a wheel has them in `mjax/docs`, where `page` looks first."""
    pointers = [(path, name) for folder in ("mjax", "mjax_ext", "mjaxlib_shim")
                for path in (ROOT / folder).rglob("*.py") for name in re.findall(
                    r"""(?:docs/|page\(["'])([\w/-]+\.md)""", path.read_text())]
    assert {name for _, name in pointers} > {"policy.md", "extension_names.md", "alias.md"}
    for path, name in pointers:
        assert Path(page(name)).is_file(), f"{path} points to {name}"


def test_wheels_have_the_pages_that_texts_point_to(tmp_path, monkeypatch):
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"]["wheel"]
    assert "docs" in wheel["only-include"] and wheel["sources"] == {"docs": "mjax/docs"}
    assert wheel["exclude"] == ["/docs/*.py", "/docs/site"]
    installed = tmp_path / "mjax" / "docs" / "policy.md"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(pages, "_FOLDERS", (installed.parent, *pages._FOLDERS))
    assert page("policy.md") == str(installed) and Path(page("audit.md")).exists()
    assert page("nothing.md") == "docs/nothing.md"


def test_warnings_point_to_the_policy():
    change = Renamed("old", "new", since="v2", why="")
    for text in (change.warning("head"), why_absent("mjax_ext.v1", "gone")):
        file, = re.findall(r"(\S+\.md)\.$", text)
        assert Path(file).is_file() and file.endswith("policy.md")


def test_commands_that_texts_name_exist():
    for path in (*(ROOT / "mjax_ext").rglob("*.py"), ROOT / "docs" / "policy.md"):
        for command in re.findall(r"python -m mjax_ext (\w+)", path.read_text()):
            assert command in COMMANDS or command == "COMMAND", f"{path}: {command}"


def test_generations_list_the_jaxlibs_they_are_tested_on():
    assert v1.jaxlibs[0] == FLOOR and v1.jaxlibs[-1] == NEWEST
    assert {"0.5.3", "0.6.2", "0.8.3"} < set(v1.jaxlibs)


def test_the_door_stays():
    """What libraries call before they have a generation."""
    taken = "(generation, *, jaxlib=None)"
    assert not breaks(("function", {"signature": taken}), surface.shape_of(mjax_ext.require))
    assert issubclass(mjax_ext.GenerationError, ImportError)
    assert issubclass(mjax_ext.MixedGenerationsWarning, UserWarning)
    with pytest.raises(mjax_ext.GenerationError) as caught:
        mjax_ext.require("v0")
    assert caught.value.generation == "v0"


def test_rules_of_v1_are_rules_of_the_head():
    assert v1.interpreters.ad.primitive_jvps is ad.primitive_jvps
    assert v1.interpreters.ad.primitive_transposes is ad.primitive_transposes
    assert v1.interpreters.batching.primitive_batchers is batching.primitive_batchers
    assert v1.interpreters.partial_eval.dce_rules is partial_eval.dce_rules
    assert v1.interpreters.mlir.register_lowering is mlir.register_lowering
    rule = lambda primals, tangents: None
    p = v1.core.Primitive("rule_of_v1")
    v1.interpreters.ad.primitive_jvps[p] = rule
    assert p.jvp is rule and type(p) is core.Primitive
