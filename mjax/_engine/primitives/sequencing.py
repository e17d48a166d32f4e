"""Primitives that preserve computations and their order: tokens, and uses without results."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.effects import Effect
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.primitives.emit import hlo
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import Zero
from mjaxlib_shim.mlir import unread_use

# ---- tokens ----------------------------------------------------------------------------

create_token_p = EnginePrimitive("create_token", params={})
create_token_p.def_abstract_eval(lambda: abstract_token)
create_token_p.def_lowering(lambda ctx: [hlo.create_token()])
create_token_p.def_jvp(lambda primals, tangents: _with_zero(create_token_p.bind()))
create_token_p.def_batch(lambda args, dims: (create_token_p.bind(), None))

after_all_p = EnginePrimitive("after_all", params={})
after_all_p._narrow = False  # it takes any number of operands


@after_all_p.def_abstract_eval
def _after_all_type(*tokens: Any) -> Any:
    for place, token in enumerate(tokens):
        if token is not abstract_token:
            msg = (f"Arguments to after_all must be tokens, but argument {place} has the type "
                   f"{token}. lax.create_token() returns a token.")
            raise TypeError(msg)
    return abstract_token


after_all_p.def_lowering(lambda ctx, *tokens: [hlo.after_all(tokens)])
# Tokens are never batched and do not have tangents; so they are not transposed either.
after_all_p.def_jvp(lambda primals, tangents: _with_zero(after_all_p.bind(*primals)))
after_all_p.def_batch(lambda args, dims: (after_all_p.bind(*args), None))


def _with_zero(token: Any) -> Any:
    return token, Zero(abstract_token)


@boundary
def create_token(_: Any = None) -> Any:
    """A token without predecessors.

    Tokens are values of programs without numbers. `after_all` orders them, and primitives whose
    lowering needs a token take them.

    Args:
      _: ignored, as in JAX.

    Returns:
      A token. It has neither axes nor a derivative: `vmap` and `grad` leave it as it is.

    Example:
      >>> mjax.make_jaxpr(lambda: lax.after_all(lax.create_token(), lax.create_token()))()
      { lambda  ; . let
          a:Tok = create_token
          b:Tok = create_token
          c:Tok = after_all a b
        in (c,) }

    Source: StableHLO `create_token`.
    """
    return create_token_p.bind()


@boundary
def after_all(*operands: Any) -> Any:
    """A token that follows all of these.

    Args:
      operands: any number of tokens, as `create_token` returns them.

    Returns:
      A token.

    Raises:
      TypeError: one is not a token.

    Example:
      >>> token = lax.create_token()
      >>> mjax.typeof(lax.after_all(token, token))
      AbstractToken()

    Source: StableHLO `after_all`.
    """
    return after_all_p.bind(*operands)


# ---- uses without results --------------------------------------------------------------


class NoDCEEffect(Effect):
    """Marks an equation that dead-code elimination must keep; allowed everywhere."""


no_dce_effect = NoDCEEffect()
dce_sink_p = EnginePrimitive("dce_sink", params={"prevent_mlir_dce": bool}, multiple_results=True)
dce_sink_p.def_impl(lambda x, *, prevent_mlir_dce: [])
dce_sink_p.def_effectful_abstract_eval(lambda x, *, prevent_mlir_dce: ([], {no_dce_effect}))


@dce_sink_p.def_lowering
def _dce_sink_lowering(ctx: Any, x: Any, *, prevent_mlir_dce: bool) -> Any:
    if prevent_mlir_dce:
        unread_use(x)
    return []


@dce_sink_p.def_jvp
def _dce_sink_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Uses the tangent as well. There are no results, so a transpose is not needed."""
    dce_sink_p.bind(*primals, **params)
    if type(tangents[0]) is not Zero:
        dce_sink_p.bind(*tangents, **params)
    return [], []


dce_sink_p.def_batch(lambda args, dims, **params: (dce_sink_p.bind(*args, **params), []))


@boundary
def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Uses arrays without computing anything, so that programs keep their computation.

    Args:
      val: pytree of arrays.
      prevent_mlir_dce: whether XLA keeps it too, not only jaxprs.

    Raises:
      TypeError: a leaf is not an array.
      NotImplementedError: `prevent_mlir_dce`, when the program is lowered with a jaxlib before
        0.10.0.

    Example:
      >>> mjax.make_jaxpr(lambda x: lax.dce_sink(x))(1.0)
      { lambda  ; a:~f32[]. let
          dce_sink[prevent_mlir_dce=False] a
        in () : {NoDCEEffect} }
    """
    for leaf in tree_leaves(val):
        dce_sink_p.bind(leaf, prevent_mlir_dce=bool(prevent_mlir_dce))
