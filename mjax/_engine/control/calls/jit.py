"""The primitive `jit`: a call of a jaxpr that is compiled as one program.

Its frame derives its transformations; the runtime gives it its impl.

Params: `jaxpr`; `name`, of the function; `donated_invars`, whose memory the results may take
over; `keep_unused`, whether inputs that nothing reads are passed; `inline`, kept for readers of
jaxprs; `device`, to run on, or None; `compiler_options_kvs`, XLA options as pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.primitive import EnginePrimitive

_NOTHING: Mapping[str, Any] = {}


def _like(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a `jit` equation made from another, except for jaxpr, name and donation."""
    return {"inline": False, "keep_unused": False, "device": params.get("device"),
            "compiler_options_kvs": params.get("compiler_options_kvs", ())}


class _JitFrame(Frame):
    """Describes how an operand enters: whether it is donated."""

    threaded = each = False

    def open(self, params: dict[str, Any]) -> Held:
        rest = {name: value for name, value in params.items()
                if name not in ("jaxpr", "donated_invars")}
        body = params["jaxpr"]
        return Held(body, params["donated_invars"], [None] * len(body.outvars), rest)

    def close(self, held: Held) -> dict[str, Any]:
        return {"jaxpr": held.body, "donated_invars": tuple(held.ins), **held.rest}

    def again(self, held: Held) -> Held:
        """The same without donation: another equation may read the operands, too."""
        return held._replace(ins=[False] * len(held.ins), rest={
            "name": held.rest["name"], **_like(held.rest)})

    def derivative(self, how: Any) -> bool:
        return False


jit_p: EnginePrimitive = EnginePrimitive("jit", params={
    "jaxpr": Jaxpr, "name": str, "donated_invars": tuple[bool, ...], "keep_unused": bool,
    "inline": bool, "device": Any, "compiler_options_kvs": tuple[tuple[str, Any], ...]},
    multiple_results=True)
jit_frame = _JitFrame(jit_p)


@jit_p.def_lowering
def _jit_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    return ctx.call(jaxpr, name, *operands)


def call(jaxpr: Jaxpr, name: str, args: Sequence[Any], like: Mapping[str, Any] = _NOTHING
         ) -> list[Any]:
    """Applies `jit` to a jaxpr without donation, with the device and options of `like`."""
    return jit_p.bind(*args, jaxpr=jaxpr, name=name, donated_invars=(False,) * len(args),
                      **_like(like))


@jit_p.def_pretty
def _jit_pretty(params: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": params["name"], "jaxpr": params["jaxpr"]}
    if any(params["donated_invars"]):
        shown["donated_invars"] = params["donated_invars"]
    return shown | {name: params[name] for name in ("device", "compiler_options_kvs")
                    if params.get(name)}
