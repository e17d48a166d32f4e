"""Merging of modules: one module for several platforms, and one module into another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.util import unused_name
from mjaxlib_shim.mlir import bytecode, func, hlo, ir, sdy
from mjaxlib_shim.sharding_texts import TEXTS, declared_meshes, names_of_attributes

#: Attributes about the memory of a program's own arguments.
_DONATION = ("tf.aliasing_output", "jax.buffer_donor")


def joined(modules: Sequence[Any], context: Any) -> Any:
    """One module for several platforms, whose `main` takes the platform's number first.

    Args:
      modules: the module of each platform; the types of their `main` agree.
      context: the `ir.Context` of the result.
    """
    alike = len({str(module) for module in modules}) == 1
    parts = [ir.Module.parse(bytecode(m), context) for m in (modules[:1] if alike else modules)]
    whole = ir.Module.create()
    attributes = parts[0].operation.attributes
    for name in names_of_attributes(attributes):
        whole.operation.attributes[name] = attributes[name]
    number = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    first = main_of(parts[0])
    inputs, outputs = first.type.inputs, first.type.results
    with ir.InsertionPoint(whole.body):
        main = func.FuncOp("main", ir.FunctionType.get([number, *inputs], outputs))
    main.attributes["sym_visibility"] = ir.StringAttr.get("public")
    taken = {"main"}
    functions = [merge(whole, part, "main", lambda name: unused_name(name, taken))
                 for part in parts]
    # Read now, since meshes have been renamed.
    known = dict(_attributes_of(next(op for op in whole.body if symbol_of(op) == functions[0])))
    main.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get({}), *known["arg_attrs"]])
    main.res_attrs = ir.ArrayAttr.get(known["res_attrs"])
    index, *arguments = main.add_entry_block().arguments
    with ir.InsertionPoint(main.entry_block):
        if alike:
            func.ReturnOp(_call(functions[0], outputs, arguments))
            return whole
        case = hlo.CaseOp(outputs, index, len(parts))
        for region, function in zip(case.regions, functions, strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                hlo.return_(_call(function, outputs, arguments))
        func.ReturnOp(list(case.results))
    return whole


def _call(function: str, outputs: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    return list(func.CallOp(list(outputs), ir.FlatSymbolRefAttr.get(function),
                            list(arguments)).results)


def symbol_of(op: Any) -> str:
    """The name of a function or a mesh."""
    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)


def main_of(module: Any) -> Any:
    """The main function of a module.

    Raises:
      ValueError: it does not have one.
    """
    for op in module.body:
        if op.operation.name == "func.func" and symbol_of(op) == "main":
            return op
    msg = "its module does not have a function main"
    raise ValueError(msg)


def _attributes_of(function: Any) -> list[tuple[str, list[Any]]]:
    """A function's attributes of arguments and of results, without those on donation."""
    found, sizes = [], {"arg_attrs": len(function.type.inputs),
                        "res_attrs": len(function.type.results)}
    for name, size in sizes.items():
        given = (list(function.attributes[name]) if name in names_of_attributes(
            function.attributes) else [ir.DictAttr.get({})] * size)
        found.append((name, [ir.DictAttr.get({
            key: ir.DictAttr(attribute)[key] for key in names_of_attributes(ir.DictAttr(attribute))
            if key not in _DONATION}) for attribute in given]))
    return found


def merge(target: Any, module: Any, name: str, fresh: Callable[[str], str]) -> str:
    """Moves the functions and meshes of a module into another one.

    Args:
      target: the module that gets them.
      module: one of the same context; it is empty afterwards.
      name: the name of its `main` there, if it is free.
      fresh: returns a name that is free in `target`.

    Returns:
      The name of its `main`.
    """
    main = main_of(module)
    for kind, attributes in _attributes_of(main):
        main.attributes[kind] = ir.ArrayAttr.get(attributes)
    _rename_in_texts(module, _declare(target, declared_meshes(module), name, fresh))
    operations, called = list(module.body), ""
    table = ir.SymbolTable(module.operation)
    # In two steps, since a new name may be the old one of another function.
    for step in (lambda old: f"{old}$", fresh):
        for op in operations:
            old = symbol_of(op)
            new = step(old) if step is not fresh else fresh(
                name if op.operation == main.operation else
                # Names differ from those of the other module's meshes.
                f"{name}_{old[:-1]}" if op.operation.name == "sdy.mesh" else old[:-1])
            ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
            table.set_symbol_name(op, new)
    for op in operations:
        if op.operation == main.operation:
            called = symbol_of(op)
        if op.operation.name == "func.func":
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        op.operation.detach_from_parent()
        target.body.append(op)
    return called


# ---- shardings as texts: what artifacts hold in place of Shardy's attributes -----------

_MESH = re.compile(r"<@([\w.$-]+)")


def _declare(target: Any, meshes: Mapping[str, Any], name: str, fresh: Callable[[str], str]
             ) -> dict[str, str]:
    """Adds missing meshes to a module; returns old name -> name there.

    A mesh that the module has keeps its name there: jaxlib requires one name per mesh.
    """
    known = {op.operation.attributes["mesh"]: symbol_of(op)
             for op in target.body if op.operation.name == "sdy.mesh"}
    renamed = {}
    with ir.InsertionPoint.at_block_begin(target.body):
        for old, mesh in meshes.items():
            renamed[old] = known.get(mesh) or fresh(f"{name}_{old}")
            if mesh not in known:
                sdy.MeshOp(renamed[old], sdy.MeshAttr(mesh))
    return renamed


def _rename_in_texts(operation: Any, meshes: Mapping[str, str]) -> None:
    """Renames meshes in shardings in text form, in an operation and those inside it."""

    def renamed(attribute: Any) -> Any:
        found = ir.DictAttr(attribute)
        texts = {name: found[name] for name in names_of_attributes(found)}
        if TEXTS in texts:
            inner = ir.DictAttr(texts[TEXTS])
            texts[TEXTS] = ir.DictAttr.get({key: ir.StringAttr.get(_MESH.sub(
                lambda m: f"<@{meshes.get(m[1], m[1])}", ir.StringAttr(inner[key]).value))
                for key in names_of_attributes(inner)})
        return ir.DictAttr.get(texts)

    for region in operation.operation.regions if meshes else ():
        for block in region:
            for inner in block:
                attributes = inner.operation.attributes
                known = names_of_attributes(attributes)
                if TEXTS in known:
                    own = renamed(ir.DictAttr.get({TEXTS: attributes[TEXTS]}))
                    attributes[TEXTS] = own[TEXTS]
                for name in {"arg_attrs", "res_attrs"}.intersection(known):
                    attributes[name] = ir.ArrayAttr.get(list(map(renamed, attributes[name])))
                _rename_in_texts(inner, meshes)
