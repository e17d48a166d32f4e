"""The primitive `jit`: a call of a jaxpr that is compiled as one program.

Its transformations are those of `calls`; the runtime gives it its impl.

Params: `jaxpr`; `name`, of the function; `donated_invars`, whose memory the results may take
over; `keep_unused`, whether inputs that nothing reads are passed; `inline`, kept for readers of
jaxprs; `device`, to run on, or None; `compiler_options_kvs`, XLA options as pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mjax._engine.control.calls.closed_call import Calls
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.primitive import Primitive

_NOTHING: Mapping[str, Any] = {}


def _like(params: Mapping[str, Any], operands: int) -> dict[str, Any]:
    """The params of a `jit` equation made from one with these, but for its jaxpr and name.

    What is read a second time must not be donated the first time, so nothing is.
    """
    return {"donated_invars": (False,) * operands, "inline": False, "keep_unused": False,
            "device": params.get("device"),
            "compiler_options_kvs": params.get("compiler_options_kvs", ())}


def _without(params: dict[str, Any], kept: Sequence[bool]) -> dict[str, Any]:
    rest = {name: value for name, value in params.items() if name != "jaxpr"}
    return rest | {"donated_invars": tuple(
        d for d, k in zip(params["donated_invars"], kept, strict=True) if k)}


jit_p = Primitive("jit", multiple_results=True, types_cacheable=False, own_varying=True)
Calls(jit_p, "jaxpr", lambda params, operands: {"name": params["name"],
                                                **_like(params, operands)}, _without)


@jit_p.def_lowering
def _jit_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    return ctx.call(jaxpr, name, *operands)


def call(jaxpr: Jaxpr, name: str, args: Sequence[Any], like: Mapping[str, Any] = _NOTHING
         ) -> list[Any]:
    """Applies `jit` to a jaxpr without donation; it runs where and as the params `like` say."""
    return jit_p.bind(*args, jaxpr=jaxpr, name=name, **_like(like, len(args)))


def _jit_pretty(params: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": params["name"], "jaxpr": params["jaxpr"]}
    if any(params["donated_invars"]):
        shown["donated_invars"] = params["donated_invars"]
    return shown | {name: params[name] for name in ("device", "compiler_options_kvs")
                    if params.get(name)}


jit_p.pretty = _jit_pretty
