"""Differences between two shapes of a name, and which of them break its users.

Additions do not: an argument with a default, an attribute, a method. All else does. Params of a
primitive are what rules take by name and jaxprs are read by, so a param more breaks users too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

#: Kind of a name, and what users rely on.
Shape = tuple[str, Mapping[str, Any]]

REMEDY = """\
A generation never removes a name, renames it or changes its meaning. Keep the name as it was; or
write a change, a module of mjax_ext/_generations/changes with an adapter, and put the line that it
gives into CHANGELOG.md: docs/design/0017-generations.md. A provisional name may change if
CHANGELOG.md says how, with the name below the namespace in backticks. A candidate may be corrected
by hand: edit its row in manifest.toml, and tell it in CHANGELOG.md."""

#: Details that must not change at all, and how messages call them.
_FIXED = {
    "applied": "it is applied", "convention": "its rules are called as",
    "called": "its rules receive", "identity": "it is", "operands": "the number of its operands is",
    "multiple_results": "its multiple_results is", "type": "its type is"}


def breaks(before: Shape, after: Shape | None) -> list[str]:
    """Changes that break users of a name, one sentence each.

    Args:
      before: its shape.
      after: its shape by now; None: it is gone.
    """
    if after is None:
        return ["it is gone"]
    if before[0] != after[0]:
        return [f"it was a {before[0]}, and is a {after[0]}"]
    return [*_breaks(before[1], after[1])]


def _breaks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for field, words in _FIXED.items():
        if field in before and before[field] != after.get(field):
            verb = "were" if field == "called" else "was"
            yield f"{words} {after.get(field)}, and {verb} {before.get(field)}"
    yield from breaks_of_signature(before.get("signature", ""), after.get("signature", ""))
    for name in before.get("attributes", ()):
        if name not in after.get("attributes", ()):
            yield f"its attribute {name} is gone"
    methods = after.get("methods", {})
    for name, signature in before.get("methods", {}).items():
        if name not in methods:
            yield f"its method {name} is gone"
        else:
            yield from (f"{name}: {what}" for what in breaks_of_signature(
                signature, methods[name]))
    yield from _breaks_of_params(before.get("params", {}), after.get("params", {}))


def _breaks_of_params(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in before:
        if name not in after:
            yield f"its param {name} is gone"
        elif before[name] != after[name]:
            yield f"its param {name} is of type {after[name]}, and was of type {before[name]}"
    yield from (f"its param {name} is new: rules do not take it" for name in after
                if name not in before)


class _Argument:
    """An argument of a signature: how it may be given, and its default as text, or None."""

    __slots__ = ("by_name", "default", "place")

    def __init__(self, place: int | None, by_name: bool, default: str | None):
        self.place, self.by_name, self.default = place, by_name, default


def _arguments(signature: str) -> tuple[dict[str, _Argument], set[str]]:
    """The arguments by name, and which of `*` and `**` it takes."""
    function, = ast.parse(f"def f{signature}: pass").body
    assert isinstance(function, ast.FunctionDef)
    a = function.args
    found = {}
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + [*map(ast.unparse, a.defaults)]
    for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        found[arg.arg] = _Argument(i, i >= len(a.posonlyargs), default)
    for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found[arg.arg] = _Argument(None, True, None if value is None else ast.unparse(value))
    stars = {"*": a.vararg, "**": a.kwarg}
    return found, {star for star, arg in stars.items() if arg is not None}


def breaks_of_signature(before: str, after: str) -> list[str]:
    """Changes that break callers of a function, one sentence each."""
    if before == after:
        return []
    if not before or not after:
        return [f"its arguments are {after or 'not known'}, and were {before or 'not known'}"]
    (old, any_old), (new, any_new) = _arguments(before), _arguments(after)
    found = [f"it does not take any number of arguments ({star}) any more"
             for star in sorted(any_old - any_new)]
    for name, a in old.items():
        b = new.get(name)
        if b is None:
            found.append(f"its argument {name} is gone")
        elif a.place is not None and b.place != a.place:
            found.append(f"its argument {name} is in another place")
        elif a.by_name and not b.by_name:
            found.append(f"its argument {name} cannot be given by name")
        elif a.default is not None and b.default is None:
            found.append(f"its argument {name} does not have a default")
        elif a.default is not None and a.default != b.default:
            found.append(f"the default of its argument {name} is {b.default}, and was {a.default}")
    found += [f"its argument {name} is new and has to be given" for name, b in new.items()
              if name not in old and b.default is None]
    return found
