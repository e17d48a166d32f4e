"""Shardings as texts: what artifacts have in place of Shardy's attributes, before jaxlib 0.7.0."""

from __future__ import annotations

from typing import Any

from .mlir import ir, sdy

__all__ = ["TEXTS", "declared_meshes", "names_of_attributes", "shardy_from_texts"]

#: The attribute in which older releases keep shardings as texts.
TEXTS = "mhlo.frontend_attributes"
_MESHES, _SHARDING, _OLD = "xla.sdy.meshes", "xla.sdy.sharding", "mhlo.sharding"
#: The custom call behind a call of a program per device, and texts there, at the call, or in front.
_LEAVE = "xla.sdy.LocalToGlobalShape"
_ENTERING, _LEAVING, _MANUAL = (
    "xla.sdy.in_shardings", "xla.sdy.out_shardings", "xla.sdy.manual_axes")
_PER_VALUE = "#sdy.sharding_per_value<[", "]>"


def names_of_attributes(attributes: Any) -> list[str]:
    """The names in a dict of attributes, which older releases give as named attributes.

    Args:
      attributes: the dict.

    Returns:
      A list of strings.

    Raises:
      TypeError: `attributes` is not iterable.
      AttributeError: an entry is neither a name nor a named attribute.

    Example:
      >>> from mjaxlib_shim import sharding_texts
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> "sym_name" in sharding_texts.names_of_attributes(module.operation.attributes)
      True
    """
    return [a if isinstance(a, str) else a.name for a in attributes]


def _text(attributes: Any, name: str) -> str | None:
    """One of the texts among the attributes of an operation or a value."""
    if TEXTS not in names_of_attributes(attributes):
        return None
    texts = ir.DictAttr(attributes[TEXTS])
    if name not in names_of_attributes(texts):
        return None
    return str(ir.StringAttr(texts[name]).value).replace('\\"', '"')  # escaped up to 0.5.3


def declared_meshes(module: Any) -> dict[str, Any]:
    """The meshes that a module declares in a text: name -> attribute.

    Args:
      module: the module.

    Returns:
      Name -> attribute.

    Raises:
      AttributeError: `module` is not a module.
      RuntimeError: it declares meshes, and no `ir.Context` is current.
      MLIRError: the text is not an attribute.
      ValueError: the text is another kind of attribute than a dict.

    Example:
      >>> from mjaxlib_shim import mlir, sharding_texts
      >>> with mlir.full_context(), mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.create()
      ...   text = mlir.ir.StringAttr.get('{mesh = #sdy.mesh<["x"=2]>}')
      ...   module.operation.attributes[sharding_texts.TEXTS] = mlir.ir.DictAttr.get(
      ...     {"xla.sdy.meshes": text})
      ...   sharding_texts.declared_meshes(module)
      {'mesh': Attribute(#sdy.mesh<["x"=2]>)}
    """
    text = _text(module.operation.attributes, _MESHES)
    if text is None:
        return {}
    meshes = ir.DictAttr(ir.Attribute.parse(text))
    return {name: meshes[name] for name in names_of_attributes(meshes)}


def shardy_from_texts(module: Any) -> None:
    """Replaces the texts of a module by attributes and operations of Shardy, in place.

    Args:
      module: the module.

    Raises:
      AttributeError: `module` is not a module.
      RuntimeError: it declares meshes, and no `ir.Context` is current.
      MLIRError: a text is not an attribute.
      ValueError: a text is another kind of attribute than it has to be.

    Example:
      >>> from mjaxlib_shim import mlir, sharding_texts
      >>> with mlir.full_context(), mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.create()
      ...   text = mlir.ir.StringAttr.get('{mesh = #sdy.mesh<["x"=2]>}')
      ...   module.operation.attributes[sharding_texts.TEXTS] = mlir.ir.DictAttr.get(
      ...     {"xla.sdy.meshes": text})
      ...   sharding_texts.shardy_from_texts(module)
      >>> 'sdy.mesh @mesh = <["x"=2]>' in str(module)
      True
    """
    meshes = declared_meshes(module)
    if not meshes:
        return
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        for name, mesh in meshes.items():
            sdy.MeshOp(name, sdy.MeshAttr(mesh))
    del module.operation.attributes[TEXTS]
    bodies: set[str] = set()
    table = ir.SymbolTable(module.operation)
    for function in module.body:
        attributes = function.operation.attributes
        for name in {"arg_attrs", "res_attrs"}.intersection(names_of_attributes(attributes)):
            attributes[name] = ir.ArrayAttr.get([
                _of_value(ir.DictAttr(value)) for value in attributes[name]])
        _of_operations(function, table, bodies)
    for name in bodies:
        table.erase(table[name])


def _of_value(attributes: Any) -> Any:
    found = {name: attributes[name] for name in names_of_attributes(attributes)
             if name not in (TEXTS, _OLD)}
    text = _text(attributes, _SHARDING)
    if text is not None:
        found["sdy.sharding"] = ir.Attribute.parse(text)
    return ir.DictAttr.get(found)


def _of_operations(operation: Any, table: Any, bodies: set[str]) -> None:
    """Replaces the texts of the operations in an operation.

    Args:
      operation: a function, or an operation in it.
      table: the functions of the module, by name.
      bodies: gets the names of those that became the bodies of regions.
    """
    for region in operation.operation.regions:
        for block in region:
            for inner in list(block):
                _of_operations(inner, table, bodies)
                attributes = inner.operation.attributes
                target = (attributes["call_target_name"].value
                          if inner.operation.name == "stablehlo.custom_call" else "")
                if target == _LEAVE:
                    body = _as_region(inner, table, bodies)
                    _of_operations(body, table, bodies)
                    continue
                text = _text(attributes, _SHARDING)
                if text is not None and target in ("Sharding", "xla.sdy.FuncResultSharding"):
                    _as_constraint(inner, text)
                elif text is not None:
                    attributes["sdy.sharding"] = ir.Attribute.parse(text)
                    del attributes[TEXTS]
                    if _OLD in names_of_attributes(attributes):
                        del attributes[_OLD]


def _as_region(leave: Any, table: Any, bodies: set[str]) -> Any:
    """Replaces the call of a program per device by a `sdy.manual_computation`; gives this.

    Args:
      leave: the custom call that takes its results. If it has arguments, they are the results of
        another custom call.
      table, bodies: as `_of_operations` takes them.
    """
    call = leave.operation.operands[0].owner
    enter = call.operands[0].owner if len(call.operands) else None
    steps = [leave.operation, call, *([enter] if enter is not None else [])]

    def parsed(name: str, default: str) -> Any:
        texts = (_text(step.attributes, name) for step in steps)
        return ir.Attribute.parse(next((text for text in texts if text is not None), default))

    name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    body = table[name].operation.clone()
    with ir.InsertionPoint(leave), leave.operation.location:
        region = ir.Operation.create(
            "sdy.manual_computation", results=[r.type for r in leave.operation.results],
            operands=list(enter.operands) if enter is not None else [], regions=1, attributes={
                "in_shardings": parsed(_ENTERING, "".join(_PER_VALUE)),
                "out_shardings": parsed(_LEAVING, "".join(_PER_VALUE)),
                "manual_axes": parsed(_MANUAL, "")})
    block = body.regions[0].blocks[0]
    block.append_to(region.regions[0])
    last = list(block)[-1]
    with ir.InsertionPoint(last), last.operation.location:
        sdy.ReturnOp(list(last.operation.operands))
    last.operation.erase()
    body.erase()
    for old, new in zip(leave.operation.results, region.results, strict=True):
        old.replace_all_uses_with(new)
    for step in steps:
        step.erase()
    bodies.add(name)
    return region


def _as_constraint(call: Any, text: str) -> None:
    sharding = "#sdy.sharding" + text.removeprefix(_PER_VALUE[0]).removesuffix(_PER_VALUE[1])
    with ir.InsertionPoint(call), call.operation.location:
        constrained = sdy.ShardingConstraintOp(
            call.operation.operands[0], ir.Attribute.parse(sharding)).result
    call.operation.results[0].replace_all_uses_with(constrained)
    call.operation.erase()
