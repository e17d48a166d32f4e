"""The printer: text in the grammar of `jaxpr`, one equation a line.

    { lambda a:f32[3] ; b:f32[3]. let
        c:f32[3] = mul a b
      in (c,) }

Inner jaxprs are printed in their equation's params, indented. `use_color=True` colours them;
`source_info=True` appends the user's line to each equation. Jaxprs print themselves, so
`jaxpr.py` imports this file; it recognizes a literal by its `val`, and a jaxpr by its `eqns`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mjax._engine.ir.effects import OperandEffect, describe
from mjax._engine.ir.source import summarize

_BOLD, _BLUE, _DIM, _OFF = "\033[1m", "\033[34m", "\033[2m", "\033[0m"


class _Names(dict[Any, str]):
    """Invents names in order of appearance: a, b, ..., z, aa, ab, ..."""

    def __missing__(self, var: Any) -> str:
        n, name = len(self), ""
        while True:
            name = chr(97 + n % 26) + name
            n = n // 26 - 1
            if n < 0:
                break
        self[var] = name
        return name


class Printer:
    def __init__(self, source_info: bool, use_color: bool):
        self.names = _Names()
        self.used: set[Any] = set()
        self.source_info = source_info
        self.color = use_color

    def paint(self, text: str, code: str) -> str:
        return f"{code}{text}{_OFF}" if self.color else text

    def spelled(self, aval: Any) -> str:
        weak = "~" if getattr(aval, "weak_type", False) else ""
        return self.paint(f"{weak}{aval.str_short(short_dtypes=True)}", _DIM)

    def binder(self, var: Any) -> str:
        return f"{self.names[var]}:{self.spelled(var.aval)}"

    def result(self, var: Any) -> str:
        name = self.names[var] if var in self.used else "_"
        return f"{name}:{self.spelled(var.aval)}"

    def atom(self, atom: Any) -> str:
        if hasattr(atom, "val"):
            return f"{_value_text(atom.val)}:{self.spelled(atom.aval)}"
        return self.names[atom]

    def body(self, value: Any, indent: str) -> str:
        """A param that holds programs."""
        if hasattr(value, "eqns"):
            return self.jaxpr(value, indent + "  ").lstrip()
        if isinstance(value, (tuple, list)):
            inner = indent + "  "
            return "\n".join(["(", *(inner + self.body(v, inner) for v in value), indent + ")"])
        return self.param(value)

    def param(self, value: Any) -> str:
        if isinstance(value, np.dtype):
            return value.name
        if callable(value) and hasattr(value, "__name__"):
            return str(value.__name__)
        return str(value)

    def eqn(self, eqn: Any, indent: str) -> str:
        spelled = getattr(eqn.primitive, "spelled", None)
        if spelled is not None:  # in a notation of its own
            line = indent + spelled([self.result(v) for v in eqn.outvars if v in self.used],
                                    list(map(self.atom, eqn.invars)), eqn.params)
            return line + self.source(eqn)
        left = " ".join(map(self.result, eqn.outvars))
        name = self.paint(eqn.primitive.name, _BOLD)
        params = shown_params(eqn.primitive, eqn.params)
        if params:
            inner = indent + "  "
            bodies = bodies_of(eqn.primitive, params)
            items = [f"{k}={self.body(v, inner) if k in bodies else self.param(v)}"
                     for k, v in sorted(params.items())]
            # One line unless a jaxpr is among them: then one param a line.
            text = (f"\n{inner}".join(["", *items]) + f"\n{indent}" if any("\n" in i for i in items)
                    else " ".join(items))
            name += f"[{text}]"
        right = " ".join(map(self.atom, eqn.invars))
        line = f"{indent}{left} = {name} {right}" if left else f"{indent}{name} {right}"
        return (line + self.source(eqn)).rstrip()

    def source(self, eqn: Any) -> str:
        return self.paint(f"  # {summarize(eqn.source)}", _BLUE) if self.source_info else ""

    def effects(self, jaxpr: Any) -> str:
        return describe(
            e.at(self.names[jaxpr.invars[e.index]]) if isinstance(e, OperandEffect)
            and e.index is not None else e for e in jaxpr.effects)

    def reads(self, jaxpr: Any) -> None:
        """Notes which variables have readers: the others are printed as `_`."""
        self.used.update(v for eqn in jaxpr.eqns for v in eqn.invars if not hasattr(v, "val"))
        self.used.update(v for v in jaxpr.outvars if not hasattr(v, "val"))

    def head(self, jaxpr: Any) -> str:
        consts = " ".join(map(self.binder, jaxpr.constvars))
        ins = " ".join(map(self.binder, jaxpr.invars))
        return f"{{ {self.paint('lambda', _BOLD)} {consts} ; {ins}. {self.paint('let', _BOLD)}"

    def tail(self, jaxpr: Any) -> str:
        effects = f" : {{{self.effects(jaxpr)}}}" if jaxpr.effects else ""
        outs = ", ".join(map(self.atom, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
        return f"{self.paint('in', _BOLD)} ({outs}){effects} }}"

    def jaxpr(self, jaxpr: Any, indent: str = "") -> str:
        self.reads(jaxpr)
        head = indent + self.head(jaxpr)
        body = [self.eqn(eqn, indent + "    ") for eqn in jaxpr.eqns]
        tail = self.tail(jaxpr)
        if not body:
            return f"{head} {tail}"
        return "\n".join([head, *body, f"{indent}  {tail}"])


def shown_params(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The params to print."""
    rule = getattr(primitive, "pretty", None)
    if rule is None:
        return params
    try:
        return {**rule(params)}
    except Exception as error:
        error.add_note(f"Raised for the pretty rule of primitive {primitive.name!r}, which has to "
                       "return the params to print, a dict.")
        raise


def bodies_of(primitive: Any, params: dict[str, Any]) -> Iterable[str]:
    """The names of params that hold programs: by the schema, if the primitive declares one."""
    schema = getattr(primitive, "schema", None)
    if schema is not None:
        return schema.bodies
    return [name for name, value in params.items() if any(
        hasattr(v, "eqns") for v in (value if isinstance(value, (tuple, list)) else [value]))]


def _value_text(value: Any) -> str:
    return str(np.asarray(value)[()]) if hasattr(value, "shape") else str(value)


def print_jaxpr(jaxpr: Any, *, source_info: bool = False, use_color: bool | None = None) -> str:
    """The text of a jaxpr."""
    return Printer(source_info, bool(use_color)).jaxpr(jaxpr)


def print_eqn(eqn: Any, named: Iterable[Any]) -> str:
    """The text of one equation, in which these of its results have names."""
    printer = Printer(False, False)
    printer.used.update(named)
    return printer.eqn(eqn, "")
