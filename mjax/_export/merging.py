"""Modules made of modules: one for several platforms, and one in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjaxlib_shim.mlir import bytecode, func, hlo, ir

#: Attributes of arguments that are about the memory of a program's own arguments.
_DONATION = ("tf.aliasing_output", "jax.buffer_donor")


def joined(modules: Sequence[Any], context: Any) -> Any:
    """One module for several platforms, whose `main` takes the platform's number first.

    Args:
      modules: per platform the module; their `main` take and give the same.
      context: the `ir.Context` that it is made in.
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
    known = dict(_attributes_of(first))
    with ir.InsertionPoint(whole.body):
        main = func.FuncOp("main", ir.FunctionType.get([number, *inputs], outputs))
    main.attributes["sym_visibility"] = ir.StringAttr.get("public")
    main.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get({}), *known["arg_attrs"]])
    main.res_attrs = ir.ArrayAttr.get(known["res_attrs"])
    names = Names(whole)
    functions = [merge(whole, part, "main", names.fresh) for part in parts]
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


class Names:
    """The names of a module's symbols, and new ones."""

    def __init__(self, module: Any):
        self.taken = {symbol_of(op) for op in module.body}

    def fresh(self, name: str) -> str:
        """A name that is not taken yet."""
        candidate, n = name, 0
        while candidate in self.taken:
            n += 1
            candidate = f"{name}_{n}"
        self.taken.add(candidate)
        return candidate


def symbol_of(op: Any) -> str:
    """The name of a function or a mesh."""
    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)


def names_of_attributes(attributes: Any) -> list[str]:
    """The names in a dict of attributes, which older releases give as named attributes."""
    return [a if isinstance(a, str) else a.name for a in attributes]


def main_of(module: Any) -> Any:
    """The function that a module is called by.

    Raises:
      ValueError: it has none.
    """
    for op in module.body:
        if op.operation.name == "func.func" and symbol_of(op) == "main":
            return op
    msg = "its module does not have a function main"
    raise ValueError(msg)


def _attributes_of(function: Any) -> list[tuple[str, list[Any]]]:
    """Per kind the attributes of a function's arguments or results, without those on donation."""
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
      name: what its `main` is called there, if no other function is.
      fresh: gives a name that is not taken in `target`.

    Returns:
      The name of its `main`.
    """
    main = main_of(module)
    for kind, attributes in _attributes_of(main):
        main.attributes[kind] = ir.ArrayAttr.get(attributes)
    operations, called = list(module.body), ""
    table = ir.SymbolTable(module.operation)
    # In two steps, as a new name could be the old one of another function.
    for step in (lambda old: f"{old}$", fresh):
        for op in operations:
            old = symbol_of(op)
            given = name if op.operation == main.operation and step is fresh else old
            new = step(given.removesuffix("$"))
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
