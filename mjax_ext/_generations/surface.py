"""The surface as the code has it: what each exported name is."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Collection, Mapping
from enum import EnumType
from types import FunctionType, ModuleType
from typing import Any, get_origin

import numpy as np

from mjax._engine.ir.schema import type_text
from mjax._engine.ir.types import ShapedArray
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import CALLS, Call, is_traceable, operands_of, written
from mjax_ext._generations.breaking import Shape, breaks_of_signature
from mjax_ext._generations.facades import PARAMS, PROMISED, SIGNATURES, Facade
from mjax_ext._generations.probes import called, called_by, received
from mjax_ext._generations.tables import AdaptedTable
from mjax_ext._manifest import GENERATIONS, MODULES, PACKAGES
from mjax_ext._tables import RuleTable
from mjax_ext.interpreters.partial_eval import partial_eval_jaxpr_custom_rules

#: Names by which rules are registered that have no table -> the rules.
_REGISTRARS = {"core.Primitive": ("impl", "abstract_eval"),
               "interpreters.mlir.register_lowering": ("lowering",)}
_DTYPES = ("float32", "complex64", "int32", "bool")
#: Names of modules, which do not have rows.
_MODULES = {*MODULES, *PACKAGES, *GENERATIONS}


def home_of(generation: str | None, module: str) -> str:
    """The module of the head (None) or of a generation that has the names of a module."""
    return MODULES[module] if generation is None else ".".join(
        filter(None, ["mjax_ext", generation, module]))


def observe_all() -> dict[str | None, dict[str, Shape]]:
    """The shapes of all names: of the head (None), and of each generation."""
    return {g: observe(g) for g in (None, *GENERATIONS)}


def observe(generation: str | None = None) -> dict[str, Shape]:
    """The shapes of all names of the head (None) or of a generation."""
    found = {}
    for module in MODULES:
        home = importlib.import_module(home_of(generation, module))
        for name in home.__all__:
            dotted = f"{module}.{name}" if module else name
            if dotted not in _MODULES:
                found[dotted] = shape_of(getattr(home, name), dotted, generation is not None)
    return found


def shape_of(value: Any, name: str = "", promised: bool = False) -> Shape:
    """Describes an exported value: its kind, and what users rely on.

    Args:
      value: it.
      name: the dotted name.
      promised: whether to leave out what generations do not promise.
    """
    kind, shape = _shape_of(value, PROMISED.get(name) if promised else None)
    if promised:
        shape = _promised(name, value, shape)
    if name in _REGISTRARS:
        rules = _REGISTRARS[name]
        shape = {**shape, "convention": "; ".join(f"{r}({CALLS[r]})" for r in rules),
                 "called": "; ".join(f"{r}({called()[r]})" for r in rules)}
    if name not in received():
        return kind, shape
    is_it = value is received()[name]
    return kind, {**shape, "identity": "the engine's" if is_it else "another object"}


def _promised(name: str, value: Any, shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a shape that generations promise, where the code has more."""
    if name in SIGNATURES:
        least = SIGNATURES[name]
        if not least or not breaks_of_signature(least, shape["signature"]):
            shape = {"signature": least, **{k: v for k, v in shape.items() if k != "signature"}}
    if name in PARAMS:
        params = {k: v for k, v in shape["params"].items() if k in PARAMS[name]}
        shape = {**shape, "params": params, "applied": "by mjax alone"}
    if name in PROMISED and "type" in shape:
        shape = {"attributes": sorted(n for n in PROMISED[name] if hasattr(value, n))}
    return {field: what for field, what in shape.items() if what != ""}


def _shape_of(value: Any, promised: Collection[str] | None) -> Shape:
    if isinstance(value, ModuleType):
        return "module", {}
    if isinstance(value, Primitive):
        return "primitive", _of_primitive(value)
    if isinstance(value, RuleTable):
        field = value._field
        return "rules", {"convention": f"rule({CALLS[field]})", "called": called()[field]}
    if isinstance(value, AdaptedTable):
        return "rules", {"convention": f"rule({value.call})",
                         "called": called_by(value.field, value)}
    if value is partial_eval_jaxpr_custom_rules:
        return "rules", {"convention": "rule(saveable, unks_in, inst_in, eqn)",
                         "called": called()["recompute"]}
    home = str(getattr(value, "__module__", ""))
    if home.startswith(("jaxlib", "mjaxlib_shim")) or type(value).__module__ == "nanobind":
        return "foreign", {}
    if get_origin(value) is not None or home == "typing":
        return "type", {}
    if isinstance(value, Facade):
        return "facade", _of_class(value._target, signature_of(value), dir(value))
    if isinstance(value, type):
        if not home.startswith("mjax"):
            return "type", {}
        return "class", _of_class(value, signature_of(value), promised)
    if isinstance(value, FunctionType):
        return "function", {"signature": signature_of(value)}  # ours always tell
    return "value", {"type": type(value).__name__}


def _of_primitive(p: Primitive) -> dict[str, Any]:
    shape: dict[str, Any] = {"operands": _operands(p), "multiple_results": p.multiple_results}
    if p.schema is not None:
        shape["params"] = {
            name: type_text(kind) + ("" if name in p.schema.required else " (may be absent)")
            for name, kind in p.schema.params.items()}
    return shape


def _operands(p: Primitive) -> str:
    """How many operands a primitive has: as its rules say, or as its type rule takes scalars."""
    rules = {field: getattr(p, field) for field in ("abstract_eval", "impl", "transpose")
             if field not in p.derived}
    rules["lowering"] = p.lowerings.get(None)
    ranges = [operands_of(written(rule), Call((), True) if is_traceable(rule) else CALLS[field],
                          p.schema) for field, rule in rules.items() if rule is not None]
    least, most = max(low for low, _ in ranges), min(high for _, high in ranges)
    if most == float("inf") and (number := _taken(p)):
        least = most = number
    return f"{least} or more" if most == float("inf") else (
        f"{least}" if least == most else f"{least} to {most:.0f}")


def _taken(p: Primitive) -> int | None:
    """How many operands of one type a primitive takes, if the number is the same for all types.

    The types are those of scalars and vectors; or of matrices, if it takes neither.
    """
    if p.schema and p.schema.bodies:
        return None
    examples = p.schema.applications() if p.schema else []
    params = examples[0][1] if examples else {}
    scalars, vectors, matrices = (
        {n for n in range(1, 6) for dtype in _DTYPES
         if _takes(p, [ShapedArray(shape, np.dtype(dtype))] * n, params)}
        for shape in ((), (3,), (3, 3)))
    taken = (scalars if scalars == vectors else set()) if scalars or vectors else matrices
    return taken.pop() if len(taken) == 1 else None


def _takes(p: Primitive, avals: list[ShapedArray], params: Mapping[str, Any]) -> bool:
    try:
        p.infer(avals, dict(params))
    except Exception:  # whatever a type rule raises, it does not take them
        return False
    return True


def _of_class(cls: type, signature: str, promised: Collection[str] | None) -> dict[str, Any]:
    attributes, methods = [], {}
    for name in sorted(_members(cls).intersection(_members(cls) if promised is None else promised)):
        getattr(cls, name, None)  # replaces what stands for a member until it is first used
        member = getattr(cls, name, None)  # some are put into the class when they are first used
        if isinstance(getattr(member, "__func__", member), FunctionType):
            methods[name] = signature_of(member)
        else:
            attributes.append(name)
    shape = {"signature": signature, "attributes": attributes, "methods": methods}
    return {field: value for field, value in shape.items() if value}


def _members(cls: type) -> set[str]:
    """Names of public attributes and methods: those of our classes, not of Python's."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith("mjax"):
            found.update(vars(base), vars(base).get("__annotations__", ()))
    return {name for name in found if not name.startswith("_")}


def signature_of(function: Any) -> str:
    """The arguments of a function, without their types; empty if it does not tell."""
    if isinstance(function, EnumType) or (
            isinstance(function, Facade) and not function._listed.signature):
        return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    return str(signature.replace(return_annotation=signature.empty, parameters=[
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty
                  else _Default(p.default)) for p in signature.parameters.values()]))


class _Default:
    """A default as signatures show it: as it is, if that is a literal of Python."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        text = "()" if isinstance(self.value, (tuple, Mapping)) and not self.value else (
            repr(self.value))
        try:
            ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return "..."
        return text
