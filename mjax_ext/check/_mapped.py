"""Applications that refer to named axes: collectives, which need devices or a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import mjax
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import Effects
from mjax._engine.ir.jaxpr import named_axes
from mjax._engine.tracing.primitive import Primitive
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext.check._application import Application, Arrays, in_numpy
from mjax_ext.check._operands import elements


class Mapped(Application):
    """A primitive on several devices, along named axes, as a function of all devices' operands.

    Args:
      primitive: the primitive.
      examples: its operands on one device.
      params: its params, which name axes.
      size: the number of devices along each axis.
      same: whether operands are the same on all devices.
    """

    def __init__(self, primitive: Primitive, examples: Sequence[Any], params: dict[str, Any],
                 size: int, same: bool):
        super().__init__(primitive, examples, params)
        self.axes = tuple(sorted(_names(params), key=str))
        self.size, self.same = size, same
        self.count = size ** len(self.axes)
        if not same:
            several = elements(self, np.random.default_rng(1), self.count)
            self.values = [np.stack(column) for column in zip(*several, strict=True)]

    def call(self, *values: Any, bind: Any = None) -> list[Any]:
        """The results of all devices, stacked along the first axis."""

        def body(*shards: Any) -> list[Any]:
            ins = shards if self.same else [lax.squeeze(x, [0]) for x in shards]
            return [lax.expand_dims(out, [0])
                    for out in super(Mapped, self).call(*ins)]

        devices = np.array(mjax.devices()[:self.count]).reshape((self.size,) * len(self.axes))
        spec = PartitionSpec() if self.same else PartitionSpec(self.axes)
        return list(mjax.shard_map(body, mesh=Mesh(devices, self.axes), in_specs=spec,
                                   out_specs=PartitionSpec(self.axes))(*values))

    def mapped(self, *values: Any) -> Arrays:
        """The same under vmap with a name for its axis."""
        outs = mjax.vmap(super().call, in_axes=None if self.same else 0, axis_name=self.axes[0],
                         axis_size=self.size)(*values)
        return list(map(in_numpy, outs))

    def evaluate(self, *values: Any) -> Arrays:
        """The results, compiled: on devices there is no other way."""
        with np.errstate(all="ignore"):
            return list(map(in_numpy, self._compiled(*map(np.array, values))))

    lowered = evaluate

    def types(self) -> tuple[list[Any], Effects]:
        """The types of the results on one device and the effects."""
        jaxpr = mjax.make_jaxpr(self.call)(*self.values)
        body = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "shard_map")
        eqn = next(e for e in body.params["jaxpr"].eqns if e.primitive is self.primitive)
        return [v.aval for v in eqn.outvars], eqn.effects

    def types_again(self) -> list[Any]:
        return self.types()[0]


def application_of(primitive: Primitive, examples: Sequence[Any], params: dict[str, Any]
                   ) -> Application:
    """The application, on several devices if the params name axes that are not in scope."""
    if _names(params):
        for same in (False, True):
            for size in _sizes(params):
                if size ** len(_names(params)) > mjax.device_count():
                    continue
                made = Mapped(primitive, examples, params, size, same)
                try:
                    made.types()
                except Exception:
                    continue
                return made
    return Application(primitive, examples, params)


def _names(params: dict[str, Any]) -> set[Any]:
    """The named axes that are not in scope."""
    known = {axis.name for axis in thread.axis_env}
    found = {n for n in named_axes(params) if isinstance(n, str)} - known
    return found if "mesh" not in params else set()


def _sizes(params: dict[str, Any]) -> list[int]:
    """How many devices there may be along an axis."""
    said = params.get("axis_size")
    groups = params.get("axis_index_groups")
    perm = params.get("perm")
    known = [said] if isinstance(said, int) else []
    known += [sum(map(len, groups))] if groups else []
    known += [1 + max(max(pair) for pair in perm)] if perm else []
    return list(dict.fromkeys([*known, 2, 4]))
