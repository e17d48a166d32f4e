"""The types that checkers see are those of the functions: names and parameters."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import pathlib
import types
import typing

import numpy as np
import pytest

import mjax
import mjax_ext
from docs.site.surface import surface
from mjax._numpy import references
from mjax._numpy.methods import METHODS, PROPERTIES, found

ROOT = pathlib.Path(mjax.__file__).parent
STUBS = sorted(path for root in (ROOT, pathlib.Path(mjax_ext.__file__).parent)
               for path in root.rglob("*.pyi") if "_engine" not in path.parts)
METHODS_STUB = ROOT / "_engine" / "runtime" / "arrays" / "array_methods.pyi"
REFS_STUB = ROOT / "_engine" / "tracing" / "ref_methods.pyi"


def _module(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(tree):
    """The names that a stub binds for others."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.asname)


def _parameters(function):
    """(name, kind, whether it has a default) of each parameter of a function in a stub."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    first = len(positional) - len(args.defaults)
    for i, arg in enumerate(positional):
        kind = "positional" if i < len(args.posonlyargs) else "either"
        yield arg.arg, kind, i >= first
    if args.vararg:
        yield args.vararg.arg, "star", False
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield arg.arg, "keyword", default is not None
    if args.kwarg:
        yield args.kwarg.arg, "stars", False


_KINDS = {"POSITIONAL_ONLY": "positional", "POSITIONAL_OR_KEYWORD": "either",
          "VAR_POSITIONAL": "star", "KEYWORD_ONLY": "keyword", "VAR_KEYWORD": "stars"}


def _real(function):
    return [(p.name, _KINDS[p.kind.name], p.default is not p.empty)
            for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("path", STUBS, ids=_module)
def test_a_stub_has_the_names_and_parameters_of_its_module(path):
    module, tree = importlib.import_module(_module(path)), ast.parse(path.read_text())
    public = {n for n in _names(tree) if not n.startswith("_")}
    late = set(getattr(module, "_LATER", ()))  # those that some releases of ml_dtypes lack
    assert public | late == set(module.__all__) | late
    functions = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(list(_parameters(node)))
    for name, (*narrower, widest) in functions.items():
        real = _real(getattr(module, name))
        if not narrower:
            assert widest == real, name
            continue
        assert [p[:2] for p in widest] == [p[:2] for p in real], name
        named = {parameter for given in narrower for parameter, kind, _ in given
                 if kind != "positional"}
        assert named <= {parameter for parameter, *_ in real}, name


def _holds(value, hint):
    """Whether a value is of a type, as far as this can be told."""
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any or isinstance(hint, typing.TypeVar):
        return True
    if kind in (typing.Union, types.UnionType):
        return any(_holds(value, part) for part in parts)
    if kind is tuple and isinstance(value, tuple):
        parts = parts[:1] * len(value) if parts[-1] is ... else parts
        return len(value) == len(parts) and all(map(_holds, value, parts))
    if kind is list and isinstance(value, list):
        return all(_holds(element, parts[0]) for element in value)
    return isinstance(value, type(None) if hint is None else kind or hint)


def _results(tree):
    """Function of a stub -> the types of results of its overloads."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    namespace = {}
    exec(compile(ast.Module(imports, []), "<stub>", "exec"), namespace)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            hint = eval(ast.unparse(node.returns), namespace)
            found.setdefault(node.name, []).append(hint)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", STUBS, ids=_module)
def test_examples_give_what_a_stub_says(path, monkeypatch):
    module, wrong = importlib.import_module(_module(path)), []
    for name, hints in _results(ast.parse(path.read_text())).items():
        function = getattr(module, name)

        @functools.wraps(function)
        def checked(*args, function=function, name=name, hints=hints, **kwargs):
            result = function(*args, **kwargs)
            if not any(_holds(result, hint) for hint in hints):
                wrong.append(f"{name} gave a {type(result).__name__}")
            return result

        monkeypatch.setattr(module, name, checked)
        names = {"mjax": mjax, "jnp": mjax.numpy, "lax": mjax.lax, "random": mjax.random, "np": np}
        example = doctest.DocTestParser().get_doctest(
            inspect.getdoc(function) or "", names, name, None, None)
        doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None)
    assert not wrong


def test_annotations_of_functions_name_what_is_there():
    """`typing.get_type_hints`, which beartype and others call, finds all names."""
    functions = {name.full: name.value for names in surface().values() for name in names
                 if inspect.isfunction(inspect.unwrap(name.value) if callable(name.value) else 0)
                 and not isinstance(name.value, type)}
    assert len(functions) > 1000
    assert [typing.get_type_hints(function) for function in functions.values()]


def test_annotations_of_classes_name_what_is_there():
    classes = {name.value for names in surface().values() for name in names
               if isinstance(name.value, type) and name.value.__module__.startswith("mjax")}
    assert len(classes) > 100
    assert [typing.get_type_hints(cls) for cls in classes]


def test_arrays_have_the_methods_that_checkers_see():
    (methods,) = (node for node in ast.parse(METHODS_STUB.read_text()).body
                  if isinstance(node, ast.ClassDef) and node.name == "ArrayMethods")
    seen = {}
    for node in methods.body:
        if isinstance(node, ast.FunctionDef):
            seen.setdefault(node.name, []).append(node)
    missing = [name for name in seen if not hasattr(mjax.Array, name)]
    assert not missing
    assert METHODS.keys() | PROPERTIES.keys() <= seen.keys()
    operators = {n for n in vars(mjax.Array) if n.startswith("__") and callable(
        getattr(mjax.Array, n)) and n not in vars(object)}
    own = {name for name in operators if mjax.Array.__dict__[name].__module__.startswith(
        "mjax._numpy")} - {"__setitem__"}
    assert own <= seen.keys()
    for name in METHODS:
        if len(seen[name]) == 1:
            _, *expected = _real(found(f"{METHODS[name]}.{name}"))
            _, *given = _parameters(seen[name][0])
            assert [p[0::2] for p in given] == [p[0::2] for p in expected], name


def test_references_have_the_methods_that_checkers_see():
    classes = {node.name: node for node in ast.parse(REFS_STUB.read_text()).body
               if isinstance(node, ast.ClassDef)}
    seen = set()
    ref = mjax.new_ref(np.zeros(3, "float32"))
    for value, name in ((ref, "_Access"), (ref.at[1:], "_Access"), (ref.at[1:], "_Part")):
        for node in classes[name].body:
            if isinstance(node, ast.FunctionDef):
                assert hasattr(value, node.name), (name, node.name)
    for node in classes["_Access"].body:
        if isinstance(node, ast.FunctionDef) and node.name in references.METHODS:
            _, *given = _parameters(node)
            assert [p[0::2] for p in given] == [p[0::2] for p in _real(getattr(ref, node.name))]
            seen.add(node.name)
    assert seen == references.METHODS.keys()
