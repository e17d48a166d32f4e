"""`SOCKETS` lists every place where a lower module calls what a higher one has given it."""

import ast
import importlib
import threading
from collections import defaultdict
from collections.abc import MutableMapping, MutableSequence, MutableSet
from pathlib import Path

import pytest

import mjax
from mjax._engine.base.sockets import SOCKETS, Sockets, sockets
from mjax._engine.tracing.primitive import Primitive

ROOT = Path(mjax.__file__).parents[1]
FILES = [path for package in ("mjax", "mjax_ext") for path in (ROOT / package).rglob("*.py")]
CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
MUTATIONS = {"__setitem__", "add", "append", "extend", "insert", "setdefault", "update"}
MISSING = object()


class Module:
    """The sockets that a module fills: `found` has their names.

    Args:
      tree: its syntax tree.
      objects: what it imports from mjax: name -> (name of the home, object).
    """

    def __init__(self, tree, objects):
        self.objects, self.found = objects, set()
        self.setters = {"setattr", *filter(None, map(setter, tree.body))}
        for node in statements(tree):
            for target in targets(node):
                if isinstance(target, (ast.Attribute, ast.Subscript)):
                    self.assignment(target)
            if isinstance(value := getattr(node, "value", None), ast.Call):
                self.call(value.func, value.args)
            for decorator in getattr(node, "decorator_list", ()):
                self.call(getattr(decorator, "func", decorator), [])
        for node in tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self.rules(node.value.args[:1])

    def owner(self, node):
        """The object that stands at a place in the text, if an import has brought it: its name,
        with that of its class or home, and itself."""
        path = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.objects:
            return None, MISSING
        home, name, value = self.objects[node.id]
        for attribute in reversed(path):
            home, name = name, attribute
            value = getattr(value, attribute, MISSING)
        return (f"{home}.{name}" if isinstance(value, CONTAINERS) else name), value

    def assignment(self, target):
        """`lower.name = ...`, `lower.table[key] = ...`, `table[key] = ...`"""
        name, value = self.owner(target.value)
        if name is None or isinstance(value, threading.local):  # the state of a thread
            return
        if isinstance(value, Primitive):
            self.found.add(f"rules of {name}")
        elif isinstance(target, ast.Attribute):
            self.found.add(name if isinstance(value, type) else f"{name}.{target.attr}")
        elif isinstance(value, CONTAINERS):
            self.found.add(name)

    def call(self, function, args):
        """`table.append(...)`, `setattr(lower, ...)`, `lower_p.def_rule(...)`, `register(...)`"""
        name, value = self.owner(function)
        if name is not None and callable(value) and name.startswith("register_"):
            self.found.add(name)
        elif isinstance(function, ast.Attribute):
            name, value = self.owner(function.value)
            if function.attr in MUTATIONS and isinstance(value, CONTAINERS):
                self.found.add(name)
            elif function.attr.startswith("def_"):
                self.rules([function.value])
        elif isinstance(function, ast.Name) and function.id in self.setters:
            for name, value in map(self.owner, args):
                if isinstance(value, type):
                    self.found.add(name)

    def rules(self, args):
        for name, value in map(self.owner, args):
            if isinstance(value, Primitive):
                self.found.add(f"rules of {name}")


def statements(node):
    """All statements of a tree, those in functions and classes too."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def targets(node):
    """The targets that a statement assigns to."""
    found = [*getattr(node, "targets", ()), getattr(node, "target", None)]
    for target in found:
        found += getattr(target, "elts", ())
    return found


def setter(node):
    """The name of a function that sets attributes of its argument."""
    if isinstance(node, ast.FunctionDef):
        parameters = {arg.arg for arg in node.args.args}
        for call in [getattr(inner, "value", None) for inner in statements(node)]:
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "setattr" and (
                    getattr(call.args[0], "id", "") in parameters):
                return node.name
    return None


def imported(tree):
    """The imports of a module from mjax: name there -> (last name of the home, name, object)."""
    found = {}
    for node in tree.body:  # the house has no others
        if isinstance(node, ast.ImportFrom) and node.module.startswith(("mjax.", "mjax_ext")):
            home = importlib.import_module(node.module)
            for alias in [a for a in node.names if a.name != "*"]:
                value = getattr(home, alias.name, MISSING)
                if value is MISSING:
                    value = importlib.import_module(f"{node.module}.{alias.name}")
                found[alias.asname or alias.name] = (
                    node.module.rpartition(".")[2], alias.name, value)
    return found


def filled(text):
    tree = ast.parse(text)
    return Module(tree, imported(tree)).found


def folder(module):
    """The part of the library that a module is in: several tests, since it is large."""
    return module.removeprefix("_engine.").partition(".")[0]


FILLED = defaultdict(list)
for path in FILES:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    name = name.removesuffix(".__init__").removeprefix("mjax.")
    FILLED[folder(name)].append((name, path))


@pytest.mark.parametrize("part", FILLED)
def test_the_list_is_complete(part):
    found = {(name, module) for module, path in FILLED[part] for name in filled(path.read_text())}
    assert found == {(name, module) for name, (modules, _) in SOCKETS.items()
                     for module in modules if folder(module) == part}


def test_listed_modules_exist():
    modules = {module for modules, _ in SOCKETS.values() for module in modules}
    assert modules <= {name for files in FILLED.values() for name, _ in files}


@pytest.mark.parametrize("text, name", [
    ("from mjax._engine.base.sockets import sockets\nsockets.other = print", "sockets.other"),
    ("from mjax._engine.base import config\nconfig.checks['x'] = print", "config.checks"),
    ("from mjax._engine.base.config import checks as c\nc.update(x=print)", "config.checks"),
    ("from mjax._engine.base.thread import ThreadState as T\nT.x, y = 1, 2", "ThreadState"),
    ("from mjax._engine.tracing.interpreter import Tracer\nsetattr(Tracer, 'x', 1)", "Tracer"),
    ("from mjax._engine.control.calls.jit import jit_p\n@jit_p.def_impl\ndef f(): pass",
     "rules of jit_p"),
    ("from mjax._engine.control.calls import jit\njit.jit_p.jvp = print", "rules of jit_p"),
    ("from mjax._engine.tracing.interpreter import register_tracer\nregister_tracer(int)",
     "register_tracer"),
])
def test_what_is_found(text, name):
    assert filled(text) == {name}


@pytest.mark.parametrize("text", [
    "from mjax._engine.base.thread import thread\nthread.source = None",
    "from mjax._engine.primitives import arithmetic as lax\nlax.add(1, 2)",
    "table = {}\ntable['x'] = print",
])
def test_what_is_not(text):
    assert filled(text) == set()


def test_sockets_are_filled_once_mjax_is_imported():
    names = {name.removeprefix("sockets.") for name in SOCKETS if name.startswith("sockets.")}
    assert names == set(Sockets.__slots__)
    filled = {name: getattr(sockets, name).__module__ for name in names - {"watch"}}
    assert all(f"mjax.{SOCKETS[f'sockets.{n}'][0][0]}" == home for n, home in filled.items())
    with pytest.raises(RuntimeError, match="nothing has filled the socket 'execute' yet"):
        Sockets().execute(None, (), {})
