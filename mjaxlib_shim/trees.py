"""Pytrees: jaxlib's C++ registry, one of our own.

`registry` is private to mjax: jaxlib's default registry is shared with jax, and
types registered with one library must not appear in the other. None is an empty
node, as in jax.

C++ pickles a `PyTreeDef` only of jax's registry, and up to 0.7.2 aborts otherwise. To pickle
others, register a function with `copyreg`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from . import gates
from .native import ext

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "PyTreeDef",
    "PyTreeRegistry",
    "SequenceKey",
    "is_node_type",
    "make_from_node_data_and_children",
    "make_registry",
    "node_functions",
    "register_node",
    "registry",
    "treedef_tuple",
]

T = TypeVar("T")

PyTreeRegistry: Any = ext.pytree.PyTreeRegistry
if TYPE_CHECKING:
    from .native_types import DictKey, FlattenedIndexKey, GetAttrKey, PyTreeDef, SequenceKey
else:
    PyTreeDef = ext.pytree.PyTreeDef
    SequenceKey = ext.pytree.SequenceKey
    DictKey = ext.pytree.DictKey
    GetAttrKey = ext.pytree.GetAttrKey
    FlattenedIndexKey = ext.pytree.FlattenedIndexKey

_tuple = ext.pytree.treedef_tuple if gates.TREEDEF_TUPLE.open else ext.pytree.tuple


def make_registry(*, none_is_node: bool = True) -> Any:
    """A new registry that knows tuple, namedtuple, list and dict.

    `none_is_node=False` makes None a leaf.

    Args:
      none_is_node: whether None is an inner node.

    Returns:
      A registry of jaxlib.

    Raises:
      TypeError: the argument is not a bool.

    Example:
      >>> from mjaxlib_shim import trees
      >>> trees.make_registry().flatten([1, (2, 3)])[0]
      [1, 2, 3]
    """
    # On 0.4.36 a garbage collection within the constructor visits the unfinished registry, and
    # ends the process.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return PyTreeRegistry(
            enable_none=none_is_node,
            enable_tuple=True,
            enable_namedtuple=True,
            enable_list=True,
            enable_dict=True,
        )
    finally:
        if collecting:
            gc.enable()


#: mjax's registry.
registry: Any = make_registry()

_Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
_Unflatten = Callable[[Any, tuple[Any, ...]], Any]

#: (registry, node type) -> the arguments of `register_node`.
_registered: dict[tuple[Any, type], tuple[_Flatten, _Unflatten]] = {}


def is_node_type(node_type: type, registry: Any = registry) -> bool:
    """Whether instances of a type are inner nodes, by calls of `register_node`.

    Args:
      node_type: the type.
      registry: the registry; default: mjax's.

    Returns:
      A bool.

    Raises:
      TypeError: `node_type` is neither a class nor a generic alias, or an argument cannot be
        hashed.

    Example:
      >>> from mjaxlib_shim import trees
      >>> trees.is_node_type(int)
      False
    """
    return (
        (registry, node_type) in _registered
        or node_type in (tuple, list, dict, type(None))
        or (issubclass(node_type, tuple) and hasattr(node_type, "_fields"))
    )


def node_functions(
    node_type: type, registry: Any = registry
) -> tuple[_Flatten, _Unflatten] | None:
    """The functions `flatten` and `unflatten` that `register_node` was given for a type.

    None: it was not called with it.

    Args:
      node_type: the type.
      registry: the registry; default: mjax's.

    Returns:
      A pair of functions, or None.

    Raises:
      TypeError: an argument cannot be hashed.

    Example:
      >>> from mjaxlib_shim import trees
      >>> trees.node_functions(int) is None
      True
    """
    return _registered.get((registry, node_type))


def treedef_tuple(treedefs: Iterable[Any], registry: Any = registry) -> Any:
    """The treedef of a tuple whose elements have the given treedefs.

    Args:
      treedefs: the treedefs.
      registry: the registry; default: mjax's.

    Returns:
      A treedef.

    Raises:
      TypeError: an element is not a treedef, or `registry` is not a registry.
      ValueError: a treedef is of another registry.

    Example:
      >>> from mjaxlib_shim import trees
      >>> leaf = trees.registry.flatten(1)[1]
      >>> trees.treedef_tuple([leaf, leaf]).num_leaves
      2
    """
    parts = list(treedefs)
    if not {PyTreeDef}.issuperset(map(type, parts)):  # C++ would end the process on None
        raise TypeError(f"treedef_tuple takes PyTreeDefs, got {parts}.")
    return _tuple(registry, parts)


def register_node(
    node_type: type[T],
    flatten: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
    registry: Any = registry,
) -> None:
    """Makes instances of `node_type` (exactly, no subclasses) inner nodes.

    Args:
      flatten: node -> (children, auxiliary data); the data are compared with == and hashed.
      unflatten: (auxiliary data, children) -> node.
      flatten_with_keys: node -> ((key, child) pairs, auxiliary data).
      node_type: the type.
      registry: the registry; default: mjax's.

    Raises:
      ValueError: the type is registered already.

    Example:
      >>> from mjaxlib_shim import trees
      >>> class Pair:
      ...   def __init__(self, x, y):
      ...     self.x, self.y = x, y
      >>> own = trees.make_registry()
      >>> trees.register_node(Pair, lambda p: ((p.x, p.y), None), lambda aux, xs: Pair(*xs),
      ...                     registry=own)
      >>> own.flatten(Pair(1, 2))[0]
      [1, 2]
    """
    registry.register_node(node_type, flatten, unflatten, flatten_with_keys)
    _registered[registry, node_type] = flatten, unflatten


if gates.TREEDEF_FROM_CHILDREN.open:

    def make_from_node_data_and_children(
        node_data: Any, children: Iterable[Any], registry: Any = registry
    ) -> Any:
        """Inverse of `(treedef.node_data(), treedef.children())`.

        `node_data` is None for a leaf, else the pair (node type, auxiliary data).

        Args:
          node_data: the data of the root.
          children: the treedefs of its children.
          registry: the registry; default: mjax's.

        Returns:
          A treedef.

        Raises:
          TypeError: `node_data` is neither None nor a pair that begins with a class, `children` is
            not iterable, or `registry` is not a registry.
          RuntimeError: the registry does not know the node type, a leaf has children, a child is
            not a treedef, or a dict does not have as many keys as children.

        Example:
          >>> from mjaxlib_shim import trees
          >>> treedef = trees.registry.flatten((1, 2))[1]
          >>> same = trees.make_from_node_data_and_children(treedef.node_data(), treedef.children())
          >>> same == treedef
          True
        """
        return PyTreeDef.from_node_data_and_children(registry, node_data, children)

else:

    def make_from_node_data_and_children(
        node_data: Any, children: Iterable[Any], registry: Any = registry
    ) -> Any:
        """See the newer form above; this one makes the node and flattens it.

        Raises:
          TypeError: a node type that was not registered by this module's `register_node`.
        """
        leaf = object()
        nodes = [child.unflatten([leaf] * child.num_leaves) for child in children]
        return registry.flatten(leaf if node_data is None else _node(node_data, nodes, registry))[1]

    def _node(node_data: tuple[type, Any], nodes: list[Any], registry: Any) -> Any:
        kind, data = node_data
        if kind is type(None):
            return None
        if kind is dict:
            return dict(zip(data, nodes, strict=True))
        if kind in (tuple, list):
            return kind(nodes)
        functions = node_functions(kind, registry)
        if functions is not None:
            return functions[1](data, tuple(nodes))
        if issubclass(kind, tuple):
            return kind(*nodes)
        raise TypeError(
            f"{kind.__name__} was not registered by mjaxlib_shim.trees.register_node, without "
            "which this jaxlib cannot make its treedef from the parts"
        )
