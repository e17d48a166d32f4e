"""Short names of the functions of `mjax.tree_util`."""

from mjax._engine.ir.pytree import static
from mjax._engine.ir.pytree import tree_all as all
from mjax._engine.ir.pytree import tree_broadcast as broadcast
from mjax._engine.ir.pytree import tree_flatten as flatten
from mjax._engine.ir.pytree import tree_flatten_with_path as flatten_with_path
from mjax._engine.ir.pytree import tree_leaves as leaves
from mjax._engine.ir.pytree import tree_leaves_with_path as leaves_with_path
from mjax._engine.ir.pytree import tree_map as map
from mjax._engine.ir.pytree import tree_map_with_path as map_with_path
from mjax._engine.ir.pytree import tree_reduce as reduce
from mjax._engine.ir.pytree import tree_reduce_associative as reduce_associative
from mjax._engine.ir.pytree import tree_structure as structure
from mjax._engine.ir.pytree import tree_transpose as transpose
from mjax._engine.ir.pytree import tree_unflatten as unflatten

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map",
    "map_with_path", "reduce", "reduce_associative", "static", "structure", "transpose",
    "unflatten",
]
