"""The public modules: they show what they promise, and nothing else."""

from __future__ import annotations

import ast
import importlib
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import mjax
import mjax_ext


def _faces():
    for root in (mjax, mjax_ext):
        yield root.__name__
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if "._" not in module.name:
                yield module.name


FACES = sorted(_faces())


def _submodules(name):
    return {face.removeprefix(f"{name}.") for face in FACES
            if face.startswith(f"{name}.") and "." not in face.removeprefix(f"{name}.")}


@pytest.mark.parametrize("name", FACES)
def test_a_face_shows_what_it_exports(name):
    face = importlib.import_module(name)
    exported = set(getattr(face, "__all__", ()))
    shown = {n for n in dir(face) if not n.startswith("_")}
    assert exported <= set(dir(face)), f"not shown: {exported - set(dir(face))}"
    assert shown <= exported | _submodules(name), f"leaked: {shown - exported - _submodules(name)}"
    for n in exported:
        getattr(face, n)


def _bound(module):
    """The names that the source of a module binds, each as often as it does."""
    found = []
    for node in ast.walk(ast.parse(pathlib.Path(module.__file__).read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found += (_bound(importlib.import_module(node.module)) if alias.name == "*"
                          else [alias.asname or alias.name])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
    return found


@pytest.mark.parametrize("name", FACES)
def test_a_face_lists_and_binds_each_name_once(name):
    """No name is made at run time: all but those that load later stand in the source."""
    face = importlib.import_module(name)
    exported, bound = list(getattr(face, "__all__", ())), _bound(face)
    assert len(exported) == len(set(exported)), "listed twice"
    later = {*_submodules(name), *getattr(face, "_LATER", ())}
    assert set(exported) <= {*bound, *later}, set(exported) - later - set(bound)
    assert not [n for n in exported if bound.count(n) > 1], "bound twice"


@pytest.mark.parametrize("name", [n for n in FACES if n.partition(".")[0] == "mjax"])
def test_submodules_load_as_attributes(name):
    face = importlib.import_module(name)
    assert {s for s in _submodules(name) if "." not in s} <= set(face.__all__)


LATER = """
import sys
import mjax, mjax.numpy

used_later = {f"mjax.{name}" for name in ("_rare", "_engine.control.custom.custom_vjp",
              "_engine.control.remat.remat", "_engine.runtime.effects.callbacks")}
assert not used_later & set(sys.modules)
assert mjax.custom_vjp is sys.modules["mjax._rare"].custom_vjp
assert vars(mjax)["checkpoint"].__module__ == "mjax" and used_later < set(sys.modules)
import mjax_ext
assert mjax_ext.interpreters.pxla.__name__ == "mjax_ext.interpreters.pxla"
"""


def test_functions_that_many_programs_do_without_load_with_the_first_of_them():
    subprocess.run([sys.executable, "-c", LATER], check=True)


def test_there_are_faces():
    assert {"mjax", "mjax.numpy", "mjax.numpy.linalg", "mjax_ext.interpreters.ad"} <= set(FACES)


@pytest.mark.parametrize("name", FACES)
def test_an_absent_name_is_an_attribute_error_that_says_more(name):
    with pytest.raises(AttributeError, match="has no attribute 'a_name_of_nobody'") as caught:
        importlib.import_module(name).a_name_of_nobody  # noqa: B018
    if name.partition(".")[0] == "mjax":
        assert "jax 0.10.2 does not have" in str(caught.value)
