"""Pytrees: nested containers of leaves, on jaxlib's C++ registry (one of our own).

`None` is an empty tree; tuples, lists, dicts, namedtuples, OrderedDict and defaultdict are
known; everything else is a leaf until it is registered.
"""

from __future__ import annotations

import collections
import copyreg
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Self, TypeVar

from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.jitted import is_partial
from mjax._engine.base.signatures import R, T
from mjax._engine.base.util import pickled_as
from mjax._engine.ir.tree_registration import register_pytree_with_keys
from mjaxlib_shim import trees
from mjaxlib_shim.trees import DictKey, FlattenedIndexKey, GetAttrKey, PyTreeDef, SequenceKey

#: Any key of a key path: hashable, shown by `str`.
KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[Any, ...]
#: The classes that are containers.
registry = trees.registry
_flatten = registry.flatten


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None
                 ) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, and its structure.

    Args:
      tree: any pytree.
      is_leaf: called on each subtree; where it returns true the subtree is a leaf.

    Returns:
      A list, and a `PyTreeDef`.

    Raises:
      TypeError: `is_leaf` is not a function.
      ValueError: `is_leaf` gives neither a bool nor None, or the keys of a dict cannot be sorted.

    Example:
      >>> leaves, treedef = tree_flatten({"b": 2, "a": (1, None)})
      >>> leaves
      [1, 2]
    """
    try:
        return _flatten(tree, is_leaf)
    except Exception as error:
        fold(error)
        raise


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves.

    Args:
      treedef: a structure.
      leaves: as many values as it has leaves.

    Returns:
      A pytree.

    Raises:
      ValueError: there are more leaves, or fewer.

    Example:
      >>> mjax.tree.unflatten(mjax.tree.structure((0, [0])), [1, 2])
      (1, [2])
    """
    try:
        return treedef.unflatten(leaves)
    except Exception as error:
        fold(error)
        raise


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order.

    Args:
      tree: a pytree.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.

    Returns:
      A list.

    Raises:
      TypeError: `is_leaf` is not a function.
      ValueError: `is_leaf` gives neither a bool nor None, or the keys of a dict cannot be sorted.

    Example:
      >>> mjax.tree.leaves({"b": 1, "a": (2, None)})
      [2, 1]
    """
    try:
        return _flatten(tree, is_leaf)[0]
    except Exception as error:
        fold(error)
        raise


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """The structure of a tree.

    Args:
      tree: a pytree.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.

    Returns:
      A `PyTreeDef`.

    Raises:
      TypeError: `is_leaf` is not a function.
      ValueError: `is_leaf` gives neither a bool nor None, or the keys of a dict cannot be sorted.

    Example:
      >>> mjax.tree.structure({"b": 1, "a": (2, None)})
      PyTreeDef({'a': (*, None), 'b': *})
    """
    try:
        return _flatten(tree, is_leaf)[1]
    except Exception as error:
        fold(error)
        raise


def tree_map(f: Callable[..., Any], tree: T, *rest: Any,
             is_leaf: Callable[[Any], bool] | None = None) -> T:
    """Applies `f` to the leaves of a tree, with those of further trees beside them.

    Args:
      f: takes one leaf of each tree.
      tree: gives the structure of the result.
      rest: trees with `tree` as a prefix of their structure.
      is_leaf: as in `tree_flatten`.

    Returns:
      A tree of the structure of `tree`.

    Raises:
      ValueError: a tree of `rest` does not have the structure of `tree`.

    Example:
      >>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
      [11, (22,)]
    """
    try:
        leaves, treedef = _flatten(tree, is_leaf)
        if not rest:
            return treedef.unflatten(map(f, leaves))
        return treedef.unflatten(map(f, leaves, *[up_to(treedef, r) for r in rest]))
    except Exception as error:
        fold(error)
        raise


def up_to(treedef: PyTreeDef, full: Any) -> Any:
    """The subtrees of `full` in the places of the leaves of a structure.

    Raises:
      ValueError: names the place where the trees differ, and how.
    """
    try:
        return treedef.flatten_up_to(full)
    except ValueError:
        leaf = object()
        prefix = treedef.unflatten([leaf] * treedef.num_leaves)
        difference = _difference((), prefix, full, leaf)
        if difference is None:
            raise
        msg = f"pytrees of different structure: {difference}."
        raise ValueError(msg) from None


def _difference(path: KeyPath, prefix: Any, full: Any, leaf: Any) -> str | None:
    """The first place where `prefix`, whose leaves are all `leaf`, is not a prefix of `full`."""
    here = f"at {keystr(path)}" if path else "at the root"
    level, other = None if prefix is leaf else _one_level(prefix), _one_level(full)
    if level is None:
        return None
    if type(prefix) is not type(full) or other is None:
        what = "a leaf of type " if other is None else "a "
        return (f"{here} a {type(prefix).__name__} was expected, got {what}"
                f"{type(full).__name__}")
    (keys, values, _), (other_keys, other_values, _) = level, other
    if isinstance(prefix, dict) and keys != other_keys:
        return f"{here} the keys {list(prefix)} were expected, got {list(full)}"
    if len(values) != len(other_values):
        return (f"{here} a {type(prefix).__name__} of {len(values)} elements was expected, got "
                f"one of {len(other_values)}")
    (_, data), (_, other_data) = _node_data(prefix), _node_data(full)
    if data != other_data:
        return (f"{here} a {type(prefix).__name__} with the metadata {data!r} was expected, got "
                f"{other_data!r}")
    found = (_difference((*path, key), a, b, leaf)
             for key, a, b in zip(keys, values, other_values))
    return next(filter(None, found), None)


def _node_data(node: Any) -> Any:
    """Type and auxiliary data of a node."""
    return tree_structure(node, lambda x: x is not node).node_data()


def broadcast_prefix(prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None
                     ) -> list[Any]:
    """A leaf of `prefix` for each leaf of `full`, of which `prefix` is a tree prefix.

    Raises:
      ValueError: it is not a prefix.
    """
    return [leaf for leaf, subtree in prefix_pairs(prefix, full, is_leaf)
            for _ in range(tree_structure(subtree).num_leaves)]


def prefix_pairs(prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None
                 ) -> list[tuple[Any, Any]]:
    """Pairs of a leaf of a tree prefix and the subtree of `full` in its place.

    Raises:
      ValueError: it is not a prefix.
    """
    leaves, treedef = _flatten(prefix, is_leaf)
    return list(zip(leaves, up_to(treedef, full), strict=True))


def broadcast_prefix_to(prefix: Any, treedef: PyTreeDef,
                        is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """`broadcast_prefix` over a structure. It makes no tree, as classes may check their leaves.

    Raises:
      ValueError: it is not a prefix.
    """
    leaves, structure = _flatten(prefix, is_leaf)
    counts = _leaves_below(structure, treedef)
    if counts is None:  # the trees themselves show where they differ
        return broadcast_prefix(prefix, treedef.unflatten(range(treedef.num_leaves)), is_leaf)
    return [leaf for leaf, count in zip(leaves, counts, strict=True) for _ in range(count)]


def _leaves_below(prefix: PyTreeDef, full: PyTreeDef) -> list[int] | None:
    """The number of leaves of `full` below each leaf of `prefix`; None if it is not a prefix."""
    if is_one_leaf(prefix):
        return [full.num_leaves]
    if is_one_leaf(full) or prefix.node_data() != full.node_data():
        return None
    children, others = prefix.children(), full.children()
    if len(children) != len(others):
        return None
    below = [_leaves_below(child, other) for child, other in zip(children, others, strict=True)]
    return None if None in below else [count for counts in below for count in counts or ()]


def prefix_leaves(what: str, prefix: Any, full: Any, whole: str,
                  is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """`broadcast_prefix` of an argument from the user.

    Args:
      what: the name of the prefix tree, for messages.
      prefix, is_leaf: as for `broadcast_prefix`.
      full: the full tree, or its structure.
      whole: the name of the full tree, for messages.

    Raises:
      ValueError: it is not a prefix; names both.
    """
    over: Any = broadcast_prefix_to if isinstance(full, PyTreeDef) else broadcast_prefix
    try:
        return list(over(prefix, full, is_leaf))
    except ValueError as error:
        raise ValueError(f"{what} is not a tree prefix of {whole}. {error}") from None


def is_one_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is one leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees.

    Args:
      treedefs: structures.

    Returns:
      A `PyTreeDef`.

    Raises:
      TypeError: an element is not a `PyTreeDef`.
      ValueError: a structure is of another registry, such as jax's.

    Example:
      >>> mjax.tree_util.treedef_tuple([mjax.tree.structure(1), mjax.tree.structure([2])])
      PyTreeDef((*, [*]))
    """
    return trees.treedef_tuple(treedefs)


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """The children of a container, not flattened themselves, and its metadata.

    Args:
      tree: a container: a tuple, list, dict or None, or an instance of a registered class.

    Returns:
      The children, and the container's auxiliary data.

    Raises:
      ValueError: it is a leaf.

    Example:
      >>> flatten_one_level({"b": [1, 2], "a": 3})
      ((3, [1, 2]), ('a', 'b'))
    """
    level: Any = registry.flatten_one_level(tree)
    if level is None:
        msg = (f"flatten_one_level takes a container, but a {type(tree).__name__} is a leaf; "
               "register_pytree_node makes a class a container.")
        raise ValueError(msg)
    return level


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """`flatten_one_level` with the key of each child beside it.

    Args:
      tree: a container.

    Returns:
      The pairs `(key, child)`, and the container's auxiliary data.

    Raises:
      ValueError: the tree is a leaf.

    Example:
      >>> flatten_one_level_with_keys([7])
      ([(SequenceKey(idx=0), 7)], None)
    """
    _, data = flatten_one_level(tree)
    keys, values, _ = _one_level(tree) or ([], [], None)
    return list(zip(keys, values, strict=True)), data


# ---- key paths -------------------------------------------------------------------------


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text: `['a'][0].b`, or `a/0/b` with `simple` and a separator.

    Args:
      keys: a key path.
      simple: whether keys are written without brackets, quotes and dots.
      separator: the text between keys.

    Returns:
      A string.

    Raises:
      TypeError: `keys` cannot be iterated over.
      AttributeError: `separator` is not a string.

    Example:
      >>> [keystr(path) for path, _ in tree_flatten_with_path({"a": [1, 2]})[0]]
      ["['a'][0]", "['a'][1]"]
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(next((getattr(key, field) for field in ("key", "idx", "name")
                                    if hasattr(key, field)), key)) for key in keys)


@boundary
def tree_flatten_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None,
                           is_leaf_takes_path: bool = False
                           ) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves of a tree, each with its key path; and the structure.

    Args:
      tree: a pytree.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.
      is_leaf_takes_path: whether `is_leaf` is given the key path in front of the value.

    Returns:
      A list of pairs `(path, leaf)`, and a `PyTreeDef`.

    Raises:
      TypeError: `is_leaf` is not a function.
      ValueError: the keys of a dict cannot be sorted; without `is_leaf_takes_path`, `is_leaf` gives
        neither a bool nor None.

    Example:
      >>> mjax.tree.flatten_with_path({"a": [1]})[0]
      [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    if is_leaf_takes_path and is_leaf is not None:
        return _flatten_asking_with_path(tree, is_leaf)
    # jaxlib calls the predicate with the node, or (0.4.37 and later) with path and node.
    ask = None if is_leaf is None else lambda *path_and_node: is_leaf(path_and_node[-1])
    pairs, treedef = registry.flatten_with_path(tree, ask)
    return [(tuple(path), leaf) for path, leaf in pairs], treedef


def _flatten_asking_with_path(tree: Any, is_leaf: Callable[[KeyPath, Any], bool]
                              ) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    pairs: list[tuple[KeyPath, Any]] = []

    def walk(path: KeyPath, node: Any) -> Any:
        """The node with a marker in place of each leaf, while leaves are collected."""
        if not is_leaf(path, node):
            children = _one_level(node)
            if children is not None:
                keys, values, treedef = children
                return treedef.unflatten([walk((*path, key), value)
                                          for key, value in zip(keys, values, strict=True)])
        pairs.append((path, node))
        return object()

    return pairs, tree_structure(walk((), tree))


def _one_level(node: Any) -> tuple[list[Any], list[Any], PyTreeDef] | None:
    pairs, treedef = registry.flatten_with_path(
        node, lambda *path_and_node: path_and_node[-1] is not node)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return [path[0] for path, _ in pairs], [value for _, value in pairs], treedef


@boundary
def tree_leaves_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None,
                          is_leaf_takes_path: bool = False) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its key path.

    Args:
      tree: a pytree.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.
      is_leaf_takes_path: whether `is_leaf` is given the key path in front of the value.

    Returns:
      A list of pairs `(path, leaf)`.

    Raises:
      TypeError: `is_leaf` is not a function.
      ValueError: the keys of a dict cannot be sorted; without `is_leaf_takes_path`, `is_leaf` gives
        neither a bool nor None.

    Example:
      >>> [mjax.tree_util.keystr(path) for path, _ in mjax.tree.leaves_with_path({"a": [1, 2]})]
      ["['a'][0]", "['a'][1]"]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


# ---- Partial, containers of Python -----------------------------------------------------


class _Opaque:
    """A `functools.partial` that `functools.partial` does not recognize; equal if it is."""

    __slots__ = ("__wrapped__",)

    def __init__(self, function: functools.partial[Any]):
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if type(other) is _Opaque else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


class Partial(functools.partial[R]):
    """`functools.partial` as a container: its arguments are children, its function structure.

    Args:
      func: a function; it is part of the structure, compared by `==`.
      args: the first arguments, pytrees.
      kw: arguments by name, pytrees.

    Example:
      >>> import operator
      >>> add_two = Partial(operator.add, 2)
      >>> tree_leaves(add_two)
      [2]
    """

    def __new__(cls, func: Callable[..., R], *args: Any, **kw: Any) -> Self:
        if is_partial(func):
            # functools.partial would merge an inner partial, whose arguments would become leaves.
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kw)

    def __reduce__(self) -> Any:
        reduced: Any = super().__reduce__()
        kind, args, state = reduced
        return _partial if kind is Partial else kind, args, state


@pickled_as("partial_v1")
def _partial(func: Callable[..., Any]) -> Partial[Any]:
    """A container of a function; the rest follows as its state."""
    return Partial(func)


register_pytree_with_keys(
    Partial,
    lambda p: (((FlattenedIndexKey(0), p.args), (FlattenedIndexKey(1), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda p: ((p.args, p.keywords), p.func),
)
register_pytree_with_keys(
    collections.OrderedDict,
    lambda d: ([(DictKey(key), value) for key, value in d.items()], tuple(d)),
    lambda keys, values: collections.OrderedDict(zip(keys, values)),
    lambda d: (tuple(d.values()), tuple(d)),
)


def _unflatten_defaultdict(aux: tuple[Any, tuple[Hashable, ...]], values: Iterable[Any]) -> Any:
    factory, keys = aux
    return collections.defaultdict(factory, zip(keys, values))


register_pytree_with_keys(
    collections.defaultdict,
    lambda d: ([(DictKey(k), d[k]) for k in sorted(d)], (d.default_factory, tuple(sorted(d)))),
    _unflatten_defaultdict,
)

# ---- pickles ---------------------------------------------------------------------------


@pickled_as("tree_structure_v1")
def _tree_structure(node_data: Any, children: Any) -> PyTreeDef:
    """The structure of a node and its children; pickles of tree structures call this."""
    return trees.make_from_node_data_and_children(node_data, children)


def _reduce_structure(treedef: Any) -> Any:
    try:
        trees.treedef_tuple([treedef])
    except ValueError:  # of another registry, such as jax's: its own pickling applies
        return treedef.__reduce_ex__(4)
    return _tree_structure, (treedef.node_data(), treedef.children())


# The class is jaxlib's. Its own pickling knows only jax's registry, and aborts on failure.
copyreg.pickle(PyTreeDef, _reduce_structure)


__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "broadcast_prefix", "broadcast_prefix_to", "flatten_one_level",
    "flatten_one_level_with_keys", "keystr", "registry", "tree_flatten", "tree_flatten_with_path",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_structure", "tree_unflatten",
    "treedef_tuple",
]
