"""Pytrees: nested containers of arrays, and functions over them."""

from mjax._engine.base.faces import face
from mjax._engine.ir.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    flatten_one_level,
    flatten_one_level_with_keys,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_tuple,
)
from mjax._engine.ir.pytree import registry as default_registry
from mjax._engine.ir.tree_functions import (
    all_leaves,
    is_tree_node,
    tree_all,
    tree_broadcast,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_transpose,
    treedef_children,
    treedef_is_leaf,
)
from mjax._engine.ir.tree_registration import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "default_registry", "flatten_one_level",
    "flatten_one_level_with_keys", "is_tree_node", "keystr", "register_dataclass",
    "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static", "tree_all", "tree_broadcast",
    "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_with_path", "tree_reduce", "tree_reduce_associative", "tree_structure",
    "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple",
]

face("mjax.tree_util")
