"""Functions of whole pytrees: reductions of leaves, tree_transpose, broadcasting of prefixes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, overload

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import A
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.ir.pytree import (
    PyTreeDef,
    broadcast_prefix,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
    up_to,
)
from mjaxlib_shim import trees


@boundary
def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are true.

    Args:
      tree: a pytree.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.

    Returns:
      A bool.

    Raises:
      TypeError: `is_leaf` is not a function, or a leaf is traced.
      ValueError: a leaf is an array of several elements; `is_leaf` gives neither a bool nor None;
        the keys of a dict cannot be sorted.

    Example:
      >>> mjax.tree.all({"a": True, "b": [True, False]})
      False
    """
    return all(tree_leaves(tree, is_leaf))


@overload
def tree_reduce(function: Callable[[A, Any], A], tree: Any, initializer: A,
                is_leaf: Callable[[Any], bool] | None = ...) -> A: ...
@overload
def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = ...,
                is_leaf: Callable[[Any], bool] | None = ...) -> Any: ...
@boundary
def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = NOT_GIVEN,
                is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """`functools.reduce` over the leaves.

    Args:
      function: `(accumulated, leaf) -> accumulated`.
      tree: a pytree.
      initializer: the first accumulated value; if not given, the first leaf.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.

    Returns:
      The last accumulated value.

    Raises:
      TypeError: there are no leaves, and no `initializer`.

    Example:
      >>> mjax.tree.reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
      6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is NOT_GIVEN:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


@boundary
def tree_reduce_associative(operation: Callable[[Any, Any], Any], tree: Any, *,
                            identity: Any = NOT_GIVEN,
                            is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Reduces the leaves by halves, in a tree of depth log(n).

    Args:
      operation: associative.
      tree: any pytree.
      identity: the result for a tree without leaves, and only for that.
      is_leaf: as in `tree_flatten`.

    Returns:
      The last value.

    Raises:
      TypeError: the tree has no leaves, and `identity` is not given.

    Example:
      >>> mjax.tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcd"))
      '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is NOT_GIVEN:
            msg = "tree_reduce_associative of a tree without leaves needs `identity`."
            raise TypeError(msg)
        return identity

    def reduce(start: int, end: int) -> Any:
        if end - start == 1:
            return leaves[start]
        middle = (start + end) // 2
        return operation(reduce(start, middle), reduce(middle, end))

    return reduce(0, len(leaves))


@boundary
def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None,
                   pytree_to_transpose: Any) -> Any:
    """Turns a tree of trees inside out.

    Args:
      outer_treedef: structure of the outer tree.
      inner_treedef: structure of the inner trees; None: that of the first one.
      pytree_to_transpose: the tree of trees.

    Returns:
      A tree of the inner structure, with trees of the outer one as leaves.

    Raises:
      TypeError: the tree does not have the structure of such a composition.

    Example:
      >>> tree_transpose(tree_structure([0, 0]), None, [(1, 2), (3, 4)])
      ([1, 3], [2, 4])
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    if treedef.num_leaves != outer_treedef.num_leaves * inner_treedef.num_leaves:
        msg = (f"tree_transpose: the tree has structure {treedef}, which is not a composition of "
               f"{outer_treedef} and {inner_treedef}.")
        raise TypeError(msg)
    n = inner_treedef.num_leaves
    rows = [leaves[i * n : (i + 1) * n] for i in range(outer_treedef.num_leaves)]
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in zip(*rows)])


@boundary
def tree_broadcast(prefix_tree: Any, full_tree: Any,
                   is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of the structure of a full tree whose leaves are those of its prefix, repeated.

    Args:
      prefix_tree: the prefix.
      full_tree: the full tree.
      is_leaf: which subtrees of the prefix are leaves of it.

    Returns:
      A pytree.

    Raises:
      ValueError: it is not a prefix.

    Example:
      >>> mjax.tree.broadcast((1, 2), ([3, 4], {"a": 5}))
      ([1, 1], {'a': 2})
    """
    return tree_structure(full_tree).unflatten(
        broadcast_prefix(prefix_tree, full_tree, is_leaf))


@boundary
def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any,
                       is_leaf: Callable[..., bool] | None = None,
                       is_leaf_takes_path: bool = False) -> Any:
    """`tree_map` for an `f` whose first argument is the leaf's key path.

    Args:
      f: `(path, leaf, *leaves of the others) -> leaf`.
      tree: a pytree.
      rest: trees that have `tree` as a prefix.
      is_leaf: a function that says of a value whether it is a leaf, before it is looked into.
      is_leaf_takes_path: whether `is_leaf` is given the key path in front of the value.

    Returns:
      A tree of the structure of `tree`.

    Raises:
      ValueError: the trees do not fit.

    Example:
      >>> mjax.tree.map_with_path(lambda path, x: mjax.tree_util.keystr(path), {"a": [1, 2]})
      {'a': ["['a'][0]", "['a'][1]"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [up_to(treedef, r) for r in rest]
    return treedef.unflatten([f(path, leaf, *others)
                              for (path, leaf), *others in zip(pairs, *columns, strict=True)])


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all values are leaves.

    Args:
      iterable: values.
      is_leaf: a function that says of a value whether it is a leaf.

    Returns:
      A bool.

    Raises:
      TypeError: `iterable` cannot be iterated over, or `is_leaf` is not a function.
      ValueError: `is_leaf` gives neither a bool nor None, or the keys of a dict cannot be sorted.

    Example:
      >>> mjax.tree_util.all_leaves([1, 2]), mjax.tree_util.all_leaves([1, [2]])
      (True, False)
    """
    values = list(iterable)
    leaves = tree_leaves(values, is_leaf)
    return len(values) == len(leaves) and all(map(operator.is_, values, leaves))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the root.

    Args:
      treedef: a structure.

    Returns:
      A list of `PyTreeDef`s.

    Raises:
      AttributeError: `treedef` is not a structure.

    Example:
      >>> mjax.tree_util.treedef_children(mjax.tree.structure((1, [2])))
      [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether nothing is below the root: a leaf, an empty container or None.

    Args:
      treedef: a structure.

    Returns:
      A bool.

    Raises:
      AttributeError: `treedef` is not a structure.

    Example:
      >>> mjax.tree_util.treedef_is_leaf(mjax.tree.structure(1))
      True
    """
    return treedef.num_nodes == 1


def is_tree_node(typ: type) -> bool:
    """Whether instances of a class are containers: built-in, namedtuples, or registered.

    Args:
      typ: a class.

    Returns:
      A bool.

    Example:
      >>> is_tree_node(dict), is_tree_node(int)
      (True, False)
    """
    return isinstance(typ, type) and trees.is_node_type(typ)


__all__ = ["all_leaves", "is_tree_node", "tree_all", "tree_broadcast", "tree_map_with_path",
           "tree_reduce", "tree_reduce_associative", "tree_transpose", "treedef_children",
           "treedef_is_leaf"]
