"""Programs as graphs of equations, whose scopes are folded where there are too many."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.util import counted
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr, Literal, jaxprs_in_params
from mjax._engine.ir.source import plain, source_info_of, summarize, user_frame

#: The number of different types on the label of an edge, up to which all are shown.
_TYPES = 2


class Node(Record):
    """One node.

    Attributes:
      kind: "input", "constant", "output", "equation" or "scope".
      label: lines of text.
      title: the line of source, or the scope.
    """

    kind: str
    label: tuple[str, ...]
    title: str


class Graph(Record):
    """Nodes in the order of the program, and `(source, target) -> label` of edges between them."""

    name: str
    nodes: list[Node]
    edges: dict[tuple[int, int], str]


class _Step(Record):
    """An equation: the scopes around it, its operands as (origin, type), its node."""

    path: tuple[str, ...]
    operands: list[tuple[Any, str]]
    node: Node


class _Group(Record):
    """Steps whose paths begin with the same names."""

    prefix: tuple[str, ...]
    steps: list[int]


def graph_of(jaxpr: Jaxpr, max_nodes: int) -> Graph:
    """The graph of a program, with that many equations and folded scopes at most, if possible."""
    flat = _Flat()
    env: dict[Any, Any] = {}
    for kind, variables in (("constant", jaxpr.constvars), ("input", jaxpr.invars)):
        for i, v in enumerate(variables):
            env[v] = (kind, i)
    flat.program(jaxpr, env, ())
    groups = _folded(flat.steps, max_nodes)
    ends = [(env.get(v), _type(v.aval)) if type(v) is not Literal else (None, _value(v))
            for v in jaxpr.outvars]
    nodes: list[Node] = []
    places: dict[Any, int] = {}
    for kind, variables in (("constant", jaxpr.constvars), ("input", jaxpr.invars)):
        for i, v in enumerate(variables):
            places[kind, i] = len(nodes)
            name = jaxpr.debug_info.arg_name(i) if kind == "input" else kind
            nodes.append(Node(kind, (name, _type(v.aval)), name))
    for group in groups:
        places.update(dict.fromkeys(group.steps, len(nodes)))
        nodes.append(_node(group, flat.steps))
    types: dict[tuple[int, int], list[str]] = {}
    for number, step in enumerate(flat.steps):
        for origin, text in step.operands:
            _join(types, places[origin], places[number], text)
    for i, (origin, text) in enumerate(ends):
        label = (f"result {i}" if len(ends) > 1 else "result", text)
        if origin is not None and not _is_literal(origin):
            _join(types, places[origin], len(nodes), text)
        nodes.append(Node("output", label, label[0]))
    return Graph(jaxpr.debug_info.func_name, nodes,
                 {edge: _label(found) for edge, found in types.items()})


def printable(text: str) -> str:
    """A text without control characters and halves of surrogates, which files cannot hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class _Flat:
    """The equations of a program in a row, those of jitted functions in their places."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def program(self, jaxpr: Jaxpr, env: dict[Any, Any], path: tuple[str, ...]) -> None:
        for eqn in jaxpr.eqns:
            names = (*path, *plain(source_info_of(eqn.source).name_stack))
            if eqn.primitive is jit_p:
                self.call(eqn, env, names)
                continue
            frame = user_frame(eqn.source)
            line = f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame else "no source"
            operands = [(env[v], _type(v.aval)) for v in eqn.invars
                        if type(v) is not Literal and not _is_literal(env[v])]
            node = Node("equation", _label_of(eqn), summarize(eqn.source))
            env.update(dict.fromkeys(eqn.outvars, len(self.steps)))
            self.steps.append(_Step((*names, line), operands, node))

    def call(self, eqn: Any, env: dict[Any, Any], names: tuple[str, ...]) -> None:
        """The equations of a jitted function."""
        (body,) = jaxprs_in_params(eqn.params)
        inner: dict[Any, Any] = {
            v: ("literal", _value(a)) if type(a) is Literal else env[a]
            for v, a in zip(body.invars, eqn.invars)}
        inner |= dict.fromkeys(body.constvars, ("literal", "constant"))
        self.program(body, inner, (*names, f"jit({eqn.params['name']})"))
        for outer, v in zip(eqn.outvars, body.outvars):
            env[outer] = ("literal", _value(v)) if type(v) is Literal else inner[v]


def _is_literal(origin: Any) -> bool:
    return isinstance(origin, tuple) and origin[0] == "literal"


def _folded(steps: Sequence[_Step], limit: int) -> list[_Group]:
    """Groups of steps, at most `limit` if scopes and lines allow it; the smallest are unfolded."""
    if len(steps) <= limit:
        return [_Group(step.path, [i]) for i, step in enumerate(steps)]
    tie = count()
    top = _split(_Group((), [*range(len(steps))]), steps)
    waiting = [(len(group.steps), next(tie), group) for group in top]
    heapq.heapify(waiting)
    done: list[_Group] = []
    if len(waiting) > limit:  # nothing but lines: runs of them
        size = -(-len(steps) // limit)
        return [_Group(("",), [*range(i, min(i + size, len(steps)))])
                for i in range(0, len(steps), size)]
    while waiting:
        _, _, group = heapq.heappop(waiting)
        parts = _split(group, steps)
        if len(group.steps) == 1 or len(done) + len(waiting) + len(parts) > limit:
            done.append(group)
        else:
            for part in parts:
                heapq.heappush(waiting, (len(part.steps), next(tie), part))
    return sorted(done, key=lambda g: g.steps[0])


def _split(group: _Group, steps: Sequence[_Step]) -> list[_Group]:
    """The groups one level down."""
    depth = len(group.prefix)
    parts: dict[tuple[str, ...], list[int]] = {}
    for i in group.steps:
        path = steps[i].path
        key = path[: depth + 1] if len(path) > depth else (*path, str(i))
        parts.setdefault(key, []).append(i)
    return [_Group(prefix, members) for prefix, members in parts.items()]


def _node(group: _Group, steps: Sequence[_Step]) -> Node:
    if len(group.steps) == 1:
        return steps[group.steps[0]].node
    names = [name for name in group.prefix[-2:] if name]
    return Node("scope", (*names, counted(len(group.steps), "equation")), "/".join(group.prefix))


def _join(types: dict[tuple[int, int], list[str]], source: int, target: int, text: str) -> None:
    if source != target:
        found = types.setdefault((source, target), [])
        if text not in found:
            found.append(text)


def _label(types: Sequence[str]) -> str:
    more = len(types) - _TYPES
    return ", ".join(types[:_TYPES]) + (f", {more} more" if more > 0 else "")


def _label_of(eqn: Any) -> tuple[str, ...]:
    """The primitive, its literals, and the sizes of the programs that it holds."""
    literals = " ".join(_value(a) for a in eqn.invars if type(a) is Literal)
    inner = [len(p.eqns) for p in jaxprs_in_params(eqn.params)]
    name = eqn.params.get("name")
    lines = [eqn.primitive.name if not inner or not isinstance(name, str)
             else f"{eqn.primitive.name} {name}"]
    if literals:
        lines[0] += f" {literals}"
    if inner:
        before = "".join(f"{n} and " for n in inner[:-1])
        lines.append(f"of {before}{counted(inner[-1], 'equation')}")
    return tuple(lines)


def _type(aval: Any) -> str:
    return str(aval.str_short(short_dtypes=True))


def _value(atom: Literal) -> str:
    return str(np.asarray(atom.val)[()]) if hasattr(atom.val, "shape") else str(atom.val)
