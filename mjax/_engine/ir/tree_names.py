"""Second, shorter public names of functions of pytrees."""

from __future__ import annotations

from typing import Final

from mjax._engine.base.util import alias
from mjax._engine.ir import pytree, tree_functions

_HOME = "mjax.tree"

all: Final = alias(tree_functions.tree_all, "all", _HOME)
broadcast: Final = alias(tree_functions.tree_broadcast, "broadcast", _HOME)
flatten: Final = alias(pytree.tree_flatten, "flatten", _HOME)
flatten_with_path: Final = alias(pytree.tree_flatten_with_path, "flatten_with_path", _HOME)
leaves: Final = alias(pytree.tree_leaves, "leaves", _HOME)
leaves_with_path: Final = alias(pytree.tree_leaves_with_path, "leaves_with_path", _HOME)
map: Final = alias(pytree.tree_map, "map", _HOME)
map_with_path: Final = alias(tree_functions.tree_map_with_path, "map_with_path", _HOME)
reduce: Final = alias(tree_functions.tree_reduce, "reduce", _HOME)
reduce_associative: Final = alias(
    tree_functions.tree_reduce_associative, "reduce_associative", _HOME)
structure: Final = alias(pytree.tree_structure, "structure", _HOME)
transpose: Final = alias(tree_functions.tree_transpose, "transpose", _HOME)
unflatten: Final = alias(pytree.tree_unflatten, "unflatten", _HOME)
