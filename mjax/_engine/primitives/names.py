"""Names of values for rematerialization policies: the primitive `name`."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.pytree import tree_map
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.primitive import EnginePrimitive

name_p = EnginePrimitive("name", params={"name": str})
name_p.def_impl(lambda x, *, name: x)
name_p.def_abstract_eval(lambda x, *, name: x)
name_p.def_lowering(lambda ctx, x, *, name: [x])
name_p.def_transpose(lambda ct, x, *, name: [ct])
name_p.def_batch(lambda args, dims, *, name: (name_p.bind(*args, name=name), *dims))


@name_p.def_jvp
def _name_jvp(primals: Any, tangents: Any, *, name: str) -> Any:
    # The name belongs to the value, not to its tangent: a policy does not save tangents by it.
    return name_p.bind(*primals, name=name), tangents[0]


@boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """Gives values a name that the policy of a `checkpoint` around them can refer to.

    Args:
      x: pytree of arrays.
      name: the name of all of them.

    Returns:
      `x`, unchanged: same structure, shapes and dtypes.

    Raises:
      TypeError: `name` is not a string; a leaf of `x` is not an array.

    Example:
      >>> from mjax.ad_checkpoint import checkpoint_name
      >>> def f(x):
      ...   y = checkpoint_name(mjax.lax.sin(x), "sine")
      ...   return mjax.lax.exp(mjax.lax.cos(y))
      >>> save = mjax.checkpoint_policies.save_only_these_names("sine")
      >>> float(mjax.grad(mjax.checkpoint(f, policy=save))(0.0))
      -0.0

    Source: JAX, `jax.ad_checkpoint.checkpoint_name`.
    """
    if not isinstance(name, str):
        msg = (f"checkpoint_name: the name must be a string, got {name!r} of type "
               f"{type(name).__name__}. The value comes first, the name second.")
        raise TypeError(msg)
    check_arguments("checkpoint_name", x, "x")
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)
