"""Second, shorter public names of functions of pytrees."""

from __future__ import annotations

from mjax._engine.base.util import alias
from mjax._engine.ir import pytree, tree_functions

_HOME = "mjax.tree"

all = alias(tree_functions.tree_all, "all", _HOME)
broadcast = alias(tree_functions.tree_broadcast, "broadcast", _HOME)
flatten = alias(pytree.tree_flatten, "flatten", _HOME)
flatten_with_path = alias(pytree.tree_flatten_with_path, "flatten_with_path", _HOME)
leaves = alias(pytree.tree_leaves, "leaves", _HOME)
leaves_with_path = alias(pytree.tree_leaves_with_path, "leaves_with_path", _HOME)
map = alias(pytree.tree_map, "map", _HOME)
map_with_path = alias(pytree.tree_map_with_path, "map_with_path", _HOME)
reduce = alias(tree_functions.tree_reduce, "reduce", _HOME)
reduce_associative = alias(tree_functions.tree_reduce_associative, "reduce_associative", _HOME)
structure = alias(pytree.tree_structure, "structure", _HOME)
transpose = alias(tree_functions.tree_transpose, "transpose", _HOME)
unflatten = alias(pytree.tree_unflatten, "unflatten", _HOME)
