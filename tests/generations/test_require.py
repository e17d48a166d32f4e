"""`mjax_ext.require`: the generation, or an error that names all that one needs to know."""

from __future__ import annotations

import importlib
import re
import sys
import types
import warnings
from pathlib import Path

import pytest

import mjax
import mjax_ext
import mjaxlib_shim
from mjax_ext import _manifest

INSTALLED = mjaxlib_shim.jaxlib_version


def refused(*args, **kwargs):
    with pytest.raises(mjax_ext.GenerationError) as caught:
        mjax_ext.require(*args, **kwargs)
    assert isinstance(caught.value, ImportError) and caught.value.generation == args[0]
    text = str(caught.value)
    # The argument, the generations that exist, the installed jaxlib, the command, the page.
    assert repr(args[0]) in text and "v1" in text and INSTALLED in text
    assert re.search(r"pip install \S+", text)
    page, = re.findall(r"See (\S+)\.(?: |$)", text)
    assert page.endswith("docs/policy.md") and Path(page).exists()
    return text


def test_it_gives_the_namespace():
    with pytest.warns(mjax_ext.MixedGenerationsWarning):  # these tests use the head
        v1 = mjax_ext.require("v1", jaxlib=">=0.4.36")
    assert v1 is importlib.import_module("mjax_ext.v1")
    assert v1.interpreters.ad.Zero is mjax_ext.interpreters.ad.Zero


@pytest.mark.parametrize("generation", ["v2", "v0", "V1", "", 1, None, ["v1"]])
def test_unknown_generations_are_refused(generation):
    text = refused(generation)
    assert "there is no such generation" in text and "--upgrade mjax" in text
    assert ("did you mean 'v1'" in text) == (generation == "V1")


def test_the_head_is_not_a_generation():
    assert f"mjax=={mjax.__version__}" in refused("head")


def test_retired_generations_name_the_last_release_that_has_them(monkeypatch):
    monkeypatch.setitem(_manifest.RETIRED, "v0", "0.9.2")
    text = refused("v0")
    assert "retired" in text and "pip install 'mjax==0.9.2'" in text


def test_other_jaxlibs_are_refused():
    text = refused("v1", jaxlib=">=99")
    assert f"jaxlib {INSTALLED} is installed, which is not >=99" in text
    assert "pip install 'jaxlib>=99'" in text
    assert "is not a set of releases" in refused("v1", jaxlib="new ones")
    assert "jaxlib=5" in refused("v1", jaxlib=5)


def library(tmp_path, monkeypatch, **files):
    """Runs the modules of a package `lib_of_test`, in their order."""
    package = types.ModuleType("lib_of_test")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "lib_of_test", package)
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"lib_of_test.{name}", raising=False)
        importlib.import_module(f"lib_of_test.{name}")
        monkeypatch.setitem(sys.modules, f"lib_of_test.{name}",
                            sys.modules[f"lib_of_test.{name}"])


@pytest.mark.parametrize("line", [
    "from mjax_ext import core", "import mjax_ext.interpreters.ad",
    "from mjax_ext.interpreters import (\n  ad)", "from mjax_ext.core import Primitive as P",
    "import mjax_ext as ext; p = ext.core.Primitive('mixed')",
    "import mjax_ext.v1.core; ad = mjax_ext.interpreters"])
def test_a_library_that_mixes_the_head_with_a_generation_is_warned(tmp_path, monkeypatch, line):
    with pytest.warns(mjax_ext.MixedGenerationsWarning) as caught:
        library(tmp_path, monkeypatch, first=f"import numpy\n{line}\n", second=(
            "import mjax_ext\next = mjax_ext.require('v1')\n"))
    warning, = caught
    assert warning.filename == str(tmp_path / "second.py") and warning.lineno == 2
    assert f"{tmp_path / 'first.py'}:2: mjax_ext." in str(warning.message)


def test_a_library_of_one_generation_is_not_warned(tmp_path, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library(tmp_path, monkeypatch, first=(
            "from mjax_ext import require, GenerationError\nimport mjax_ext.v1.core\n"
            "from mjax_ext.v1.interpreters import ad\nfrom mjax_ext import v1\n"
            "# from mjax_ext import core\n'from mjax_ext import core'\nimport mjax_ext as m\n"
            "core = m.v1.core, m.__name__\n"), second="import mjax_ext\nmjax_ext.require('v1')\n")


def test_files_that_cannot_be_read_are_passed_over(tmp_path, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library(tmp_path, monkeypatch, first="__file__ = 'not_there.py'",
                second="import mjax_ext\nmjax_ext.require('v1')\n")


def test_it_finds_both_generations_of_a_library(tmp_path, monkeypatch):
    monkeypatch.setitem(_manifest.GENERATIONS, "v9", "candidate")
    monkeypatch.setitem(sys.modules, "mjax_ext.v9", types.ModuleType("mjax_ext.v9"))
    with pytest.warns(mjax_ext.MixedGenerationsWarning, match="first.py:1: mjax_ext.v1"):
        library(tmp_path, monkeypatch, first="from mjax_ext.v1 import core\n",
                second="import mjax_ext\nmjax_ext.require('v9')\n")
