"""Signatures for the reference: types from stubs where they are, else from the functions."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from docs.site.surface import Name

#: More forms of a call than this are left to the stub: the function's own signature is shown.
FORMS = 2


@cache
def _stub(module: str) -> dict[str, list[ast.FunctionDef]]:
    """Name -> its definitions in the stub of a public module; callable objects by their class."""
    file = importlib.import_module(module).__file__ or ""
    stub = Path(file).with_suffix(".pyi")
    found: dict[str, list[ast.FunctionDef]] = {}
    if not stub.exists():
        return found
    body = ast.parse(stub.read_text()).body
    calls = {node.name: [part for part in node.body if isinstance(part, ast.FunctionDef)
                         and part.name == "__call__"]
             for node in body if isinstance(node, ast.ClassDef)}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name):
            if isinstance(node.target, ast.Name) and calls.get(node.annotation.id):
                found[node.target.id] = calls[node.annotation.id]
    return found


def signatures(name: Name) -> list[str]:
    """Parameters and result of a function or class, a text for each form of the call."""
    stub = _stub(name.module).get(name.name, [])
    real = signature(name.value)
    if stub and len(stub) <= FORMS:
        return [_of_stub(node, name.value) for node in stub]
    return [real]


def _of_stub(node: ast.FunctionDef, value: Any) -> str:
    """A signature of a stub, with the defaults of the function."""
    try:
        defaults = {p.name: _default(p.default) for p in inspect.signature(
            value).parameters.values() if p.default is not p.empty}
    except (TypeError, ValueError):
        defaults = {}
    args = node.args
    args.posonlyargs = [arg for arg in args.posonlyargs if arg.arg != "self"]
    args.args = [arg for arg in args.args if arg.arg != "self"]
    positional = [*args.posonlyargs, *args.args]
    for arg, place in zip(reversed(positional), range(len(args.defaults) - 1, -1, -1)):
        args.defaults[place] = _constant(defaults.get(arg.arg, "..."))
    for place, arg in enumerate(args.kwonlyargs):
        if args.kw_defaults[place] is not None:
            args.kw_defaults[place] = _constant(defaults.get(arg.arg, "..."))
    _hide_private(args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(args)}){result}"


def _hide_private(args: ast.arguments) -> None:
    kept = [(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults)
            if not arg.arg.startswith("_")]
    args.kwonlyargs, args.kw_defaults = [arg for arg, _ in kept], [d for _, d in kept]
    while args.args and args.args[-1].arg.startswith("_") and args.defaults:
        args.args.pop()
        args.defaults.pop()


def _constant(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _default(value: Any) -> str:
    """A default as an expression; objects that have none are shown as `...`."""
    if inspect.isroutine(value) or isinstance(value, type):
        return str(getattr(value, "__name__", "..."))
    text = repr(value)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return "..."
    return text if len(text) < 60 and " at 0x" not in text else "..."


def signature(value: Any) -> str:
    """The signature of a callable object, without types that say nothing."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "()" if not isinstance(value, type) else ""
    parameters = []
    star = slash = False
    for p in found.parameters.values():
        if p.name.startswith("_") or p.name == "self":
            continue
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parameters.append("/")
        slash = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and not star:
            parameters.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = _annotation(p.annotation)
        default = "" if p.default is p.empty else f"={_default(p.default)}"
        parameters.append(f"{mark}{p.name}{kind and f': {kind}'}{default}")
    if slash:
        parameters.append("/")
    result = "" if isinstance(value, type) else _annotation(found.return_annotation)
    return f"({', '.join(parameters)}){result and f' -> {result}'}"


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:mjax|mjax_ext|mjaxlib_shim|typing|collections\.abc)\.(?:\w+\.)*", "", text)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return ""
    return "" if text == "Any" else text
