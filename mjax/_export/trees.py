"""Structures of pytrees in artifacts, and the registration of users' types for them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.ir.pytree import tree_structure
from mjax._export.schema import NODES
from mjaxlib_shim import trees

T = TypeVar("T")

_REMEDY = ("Register it with mjax.export.register_pytree_node_serialization, or a namedtuple with "
           "mjax.export.register_namedtuple_serialization.")


class _Serialization(Record):
    """Functions that write and read nodes of a type."""

    kind: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Serialization] = {}
_by_name: dict[str, _Serialization] = {}


@boundary
def register_pytree_node_serialization(
        nodetype: type[T], *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
        deserialize_auxdata: Callable[[bytes], Any],
        from_children: Callable[[Any, Sequence[Any]], Any] | None = None) -> type[T]:
    """Registers the serialization of nodes of a type in the structure of arguments and results.

    Args:
      nodetype: the type, registered by `mjax.tree_util.register_pytree_node`.
      serialized_name: its name in artifacts.
      serialize_auxdata: from the auxiliary data of a node to bytes.
      deserialize_auxdata: its inverse.
      from_children: from auxiliary data and children to a node; by default that of
        `register_pytree_node`.

    Returns:
      `nodetype`.

    Raises:
      ValueError: the type or the name is taken; or `from_children` is missing and the type is not
        registered as a node.

    Example:
      >>> class Pair:
      ...     def __init__(self, first, second):
      ...         self.children = first, second
      >>> mjax.tree_util.register_pytree_node(
      ...     Pair, lambda pair: (pair.children, None), lambda _, children: Pair(*children))
      >>> _ = mjax.export.register_pytree_node_serialization(
      ...     Pair, serialized_name="Pair", serialize_auxdata=lambda _: b"",
      ...     deserialize_auxdata=lambda _: None)
    """
    if nodetype in _by_type:
        msg = (f"{nodetype} is registered for serialization already, as "
               f"{_by_type[nodetype].name!r}.")
        raise ValueError(msg)
    if serialized_name in _by_name:
        msg = (f"the name {serialized_name!r} is taken, by {_by_name[serialized_name].kind}: "
               "give another serialized_name.")
        raise ValueError(msg)
    functions = trees.node_functions(nodetype) or (None, None)
    if from_children is None is functions[1]:
        msg = (f"{nodetype} is not a pytree node: call mjax.tree_util.register_pytree_node first, "
               "or give from_children.")
        raise ValueError(msg)
    build: Any = from_children or functions[1]
    found = _Serialization(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, build)
    _by_type[nodetype] = _by_name[serialized_name] = found
    return nodetype


@boundary
def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Registers a namedtuple type for arguments and results of exported functions.

    Args:
      nodetype: the type. The reader's type must have the same fields.
      serialized_name: its name in artifacts.

    Returns:
      `nodetype`.

    Raises:
      ValueError: it is not a namedtuple; or the type or the name is taken.

    Example:
      >>> import collections
      >>> Point = collections.namedtuple("Point", "x y")
      >>> _ = mjax.export.register_namedtuple_serialization(Point, serialized_name="Point")
    """
    fields = getattr(nodetype, "_fields", None)
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple)) or not isinstance(
            fields, tuple):
        msg = (f"{nodetype} is not a namedtuple: use "
               "mjax.export.register_pytree_node_serialization.")
        raise ValueError(msg)
    return register_pytree_node_serialization(
        nodetype, serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields).encode(),
        deserialize_auxdata=lambda data: json.loads(data.decode()),
        from_children=lambda names, children: nodetype(**dict(zip(names, children, strict=True))))


def _ordered_keys(keys: Any) -> bytes:
    if not all(isinstance(key, str) for key in keys):
        msg = f"an OrderedDict is exported with keys that are strings, not with {list(keys)}."
        raise NotImplementedError(msg)
    return json.dumps(list(keys)).encode()


register_pytree_node_serialization(
    OrderedDict, serialized_name="collections.OrderedDict", serialize_auxdata=_ordered_keys,
    deserialize_auxdata=lambda data: tuple(json.loads(data.decode())))


def write_tree(tree: Any) -> dict[str, Any]:
    """The table of a structure.

    Raises:
      TypeError: a dict has a key that is not a string.
      ValueError: a type is not registered for serialization, or its function does not return bytes.
    """
    node = tree.node_data()
    if node is None:
        return {"kind": NODES.index("leaf")}
    kind, data = node
    table: dict[str, Any] = {"children": [write_tree(child) for child in tree.children()]}
    if kind in (type(None), tuple, list):
        name = "none" if kind is type(None) else kind.__name__
        return {**table, "kind": NODES.index(name)}
    if kind is dict:
        wrong = [key for key in data if not isinstance(key, str)]
        if wrong:
            msg = (f"a dict is exported with keys that are strings, not with {wrong[0]!r} of type "
                   f"{type(wrong[0]).__name__}.")
            raise TypeError(msg)
        return {**table, "kind": NODES.index("dict"), "names": list(data)}
    known = _by_type.get(kind)
    if known is None:
        msg = f"the structure has nodes of {kind}, which artifacts cannot hold. {_REMEDY}"
        raise ValueError(msg)
    written = known.write(data)
    if not isinstance(written, (bytes, bytearray)):
        msg = (f"serialize_auxdata of {known.name!r} returned {type(written).__name__}; it must "
               "return bytes.")
        raise ValueError(msg)
    return {**table, "kind": NODES.index("custom"), "custom_name": known.name,
            "custom_data": written}


def read_tree(table: dict[str, Any] | None, leaves: Sequence[Any]) -> Any:
    """The structure of a table, with this number of leaves.

    Args:
      table: the result of `write_tree`.
      leaves: placeholders of its leaves, from which nodes are built.

    Raises:
      ValueError: a type is not registered for serialization; or the table is not one.
    """
    left = iter(leaves)
    tree = tree_structure(_node(table or {"kind": 0, "children": []}, left))
    if tree.num_leaves != len(leaves) or next(left, None) is not None:
        msg = f"the structure has {tree.num_leaves} leaves and not {len(leaves)}"
        raise ValueError(msg)
    return tree


def _node(table: dict[str, Any], leaves: Iterator[Any]) -> Any:
    children = [_node(child, leaves) for child in table["children"]]
    kind = NODES[table["kind"]] if 0 <= table["kind"] < len(NODES) else ""
    if kind == "leaf":
        return next(leaves, 0.0)
    if kind == "none":
        return None
    if kind in ("tuple", "list"):
        return tuple(children) if kind == "tuple" else children
    if kind == "dict" and len(table["names"]) == len(children):
        return dict(zip(table["names"], children, strict=True))
    if kind != "custom":
        msg = f"a node of the structure is of the unknown kind {table['kind']}"
        raise ValueError(msg)
    known = _by_name.get(table["custom_name"])
    if known is None:
        msg = (f"the structure has nodes of {table['custom_name']!r}, a type that is not "
               f"registered here. {_REMEDY}")
        raise ValueError(msg)
    return known.build(known.read(table["custom_data"] or b""), children)
