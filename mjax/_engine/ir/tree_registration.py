"""Registration of classes as nodes of pytrees: register_pytree_node, register_dataclass, static."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Class
from mjaxlib_shim import trees
from mjaxlib_shim.trees import GetAttrKey


@boundary
def register_pytree_node(nodetype: type, flatten_func: Callable[[Any], tuple[Any, Any]],
                         unflatten_func: Callable[[Any, Any], Any],
                         flatten_with_keys_func: Callable[[Any], tuple[Any, Any]] | None = None
                         ) -> None:
    """Makes a class a container.

    Args:
      nodetype: the class.
      flatten_func: gives the children and hashable auxiliary data.
      unflatten_func: makes an instance from auxiliary data and children.
      flatten_with_keys_func: as `flatten_func`, with `(key, child)` pairs.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> class Pair:
      ...   def __init__(self, x, y):
      ...     self.x, self.y = x, y
      >>> mjax.tree_util.register_pytree_node(
      ...   Pair, lambda pair: ((pair.x, pair.y), None), lambda _, children: Pair(*children))
      >>> mjax.tree.leaves(Pair(1, 2))
      [1, 2]
    """
    trees.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


@boundary
def register_pytree_with_keys(nodetype: type,
                              flatten_with_keys: Callable[[Any], tuple[Iterable[Any], Any]],
                              unflatten_func: Callable[[Any, Any], Any],
                              flatten_func: Callable[[Any], tuple[Any, Any]] | None = None
                              ) -> None:
    """`register_pytree_node` from a function that gives `(key, child)` pairs.

    Args:
      nodetype: the class.
      flatten_with_keys: from an instance to pairs `(key, child)`, and hashable auxiliary data.
      unflatten_func: `(auxiliary data, children) -> instance`.
      flatten_func: like `flatten_with_keys` without keys, if that is faster.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> class Pair(list):
      ...   pass
      >>> mjax.tree_util.register_pytree_with_keys(
      ...     Pair, lambda pair: (zip("ab", pair), None), lambda aux, children: Pair(children))
      >>> mjax.tree_util.tree_leaves_with_path(Pair([1, 2]))
      [(('a',), 1), (('b',), 2)]
    """

    def flatten(tree: Any) -> tuple[Any, Any]:
        pairs, aux = flatten_with_keys(tree)
        return [child for _, child in pairs], aux

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


@boundary
def register_pytree_node_class(cls: Class) -> Class:
    """Class decorator: a container with methods `tree_flatten` and `tree_unflatten`.

    Args:
      cls: a class whose `tree_flatten(self)` gives `(children, auxiliary data)` and whose class
        method `tree_unflatten(aux, children)` gives an instance.

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> @mjax.tree_util.register_pytree_node_class
      ... class Pair:
      ...   def __init__(self, x, y):
      ...     self.x, self.y = x, y
      ...   def tree_flatten(self):
      ...     return (self.x, self.y), None
      ...   @classmethod
      ...   def tree_unflatten(cls, aux, children):
      ...     return cls(*children)
      >>> mjax.tree.leaves(Pair(1, 2))
      [1, 2]
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


@boundary
def register_pytree_with_keys_class(cls: Class) -> Class:
    """Class decorator: `register_pytree_node_class` with `tree_flatten_with_keys`.

    Args:
      cls: a class whose `tree_flatten_with_keys(self)` gives pairs `(key, child)` and auxiliary
        data, and whose class method `tree_unflatten(aux, children)` gives an instance.

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> @mjax.tree_util.register_pytree_with_keys_class
      ... class Box:
      ...   def __init__(self, x):
      ...     self.x = x
      ...   def tree_flatten_with_keys(self):
      ...     return (("x", self.x),), None
      ...   @classmethod
      ...   def tree_unflatten(cls, aux, children):
      ...     return cls(*children)
      >>> mjax.tree.map(lambda x: 2 * x, Box(3)).x
      6
    """
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, operator.methodcaller("tree_flatten_with_keys"),
                              cls.tree_unflatten, flatten)
    return cls


@boundary
def register_dataclass(nodetype: Class, data_fields: Iterable[str] | None = None,
                       meta_fields: Iterable[str] | None = None,
                       drop_fields: Iterable[str] = ()) -> Class:
    """Makes a dataclass a container; usable as a decorator.

    Args:
      nodetype: the class.
      data_fields: names of the fields that are children; by default all fields but those
        with `metadata=dict(static=True)`.
      meta_fields: names of the fields that are part of the structure (hashable values).
      drop_fields: fields left to their defaults.

    Returns:
      The class.

    Raises:
      TypeError: one list is given without the other, or neither for another class.
      ValueError: the lists do not cover the fields of `__init__`, or have a name in common.

    Example:
      >>> import dataclasses
      >>> @mjax.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Point:
      ...   x: float
      ...   name: str = dataclasses.field(metadata={"static": True})
      >>> mjax.tree.leaves(Point(1.0, "origin"))
      [1.0]
    """
    if data_fields is None and meta_fields is None:
        data, meta = _declared_fields(nodetype)
    elif data_fields is None or meta_fields is None:
        msg = "register_dataclass: give data_fields and meta_fields, or neither."
        raise TypeError(msg)
    else:
        data, meta = tuple(data_fields), tuple(meta_fields)
    _check_fields(nodetype, data, meta, drop_fields)

    def flatten_with_keys(node: Any) -> tuple[Any, Any]:
        children = tuple((GetAttrKey(name), getattr(node, name)) for name in data)
        return children, tuple(getattr(node, name) for name in meta)

    def flatten(node: Any) -> tuple[Any, Any]:
        return (tuple(getattr(node, name) for name in data),
                tuple(getattr(node, name) for name in meta))

    def unflatten(aux: Any, children: Any) -> Any:
        return nodetype(**dict(zip(meta, aux, strict=True)),
                        **dict(zip(data, children, strict=True)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def _declared_fields(nodetype: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a dataclass that are data, and those with `metadata=dict(static=True)`."""
    if not dataclasses.is_dataclass(nodetype):
        msg = (f"register_dataclass: {nodetype} is not a dataclass; name its fields in "
               "data_fields and meta_fields.")
        raise TypeError(msg)
    fields = [f for f in dataclasses.fields(nodetype) if f.init]
    static = {f.name for f in fields if f.metadata.get("static", False)}
    return (tuple(f.name for f in fields if f.name not in static),
            tuple(f.name for f in fields if f.name in static))


def _check_fields(nodetype: Any, data: tuple[str, ...], meta: tuple[str, ...],
                  dropped: Iterable[str]) -> None:
    """Refuses fields that are given twice, and those of a dataclass that are not given."""
    if set(data) & set(meta):
        msg = (f"register_dataclass: {sorted(set(data) & set(meta))} cannot be in data_fields and "
               "meta_fields at once.")
        raise ValueError(msg)
    if dataclasses.is_dataclass(nodetype):
        init = {f.name for f in dataclasses.fields(nodetype) if f.init}
        given = {*data, *meta, *dropped}
        if init != given:
            name = getattr(nodetype, "__name__", nodetype)
            msg = (f"register_dataclass: fields of {name} and the fields given "
                   f"differ; missing: {sorted(init - given)}, unexpected: {sorted(given - init)}.")
            raise ValueError(msg)


def static(**kwargs: Any) -> Any:
    """A field of a dataclass that is part of the structure, for `register_dataclass`.

    Args:
      kwargs: those of `dataclasses.field`.

    Returns:
      A field, as `dataclasses.field` gives it.

    Raises:
      TypeError: `dataclasses.field` does not take an argument, or `metadata` is not a mapping.
      ValueError: both `default` and `default_factory` are given.

    Example:
      >>> @mjax.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...   weights: Any
      ...   name: str = static(default="dense")
      >>> mjax.tree.leaves(Layer(3.0))
      [3.0]
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


@boundary
def register_static(cls: Class) -> Class:
    """Class decorator: instances are structure, without leaves; they must be hashable.

    Args:
      cls: the class.

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> @mjax.tree_util.register_static
      ... class Mode:
      ...   pass
      >>> mjax.tree.leaves(Mode())
      []
    """
    register_pytree_node(cls, lambda node: ((), node), lambda aux, children: aux)
    return cls


__all__ = [
    "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static", "static",
]
