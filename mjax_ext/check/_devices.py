"""Devices: results vary along the mesh axes along which operands do, and so do cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import mjax
from mjax import lax
from mjax._engine.ir.effects import describe, forbidden
from mjax._engine.ir.types import typeof
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext.check._application import UNOPTIMIZED, Application, Arrays, in_numpy
from mjax_ext.check._compare import difference, tolerance
from mjax_ext.check._operands import elements
from mjax_ext.check._pairs import pulled
from mjax_ext.check._run import Run

_AXIS = "devices of the check"
_COUNT = 2


def check_varying(run: Run) -> str | None:
    """On several devices each computes what it computes alone, and types say what differs."""
    application = run.application
    if mjax.device_count() < _COUNT:
        return ("there is one device; with several, or XLA_FLAGS="
                "--xla_force_host_platform_device_count=2, it is.")
    if application.axes:
        return "it was checked on devices all along."
    if _names_devices(application.params):
        return "its params name devices of their own."
    refused = forbidden(run.facts["effects"], "shardable")
    if refused:
        return f"the policy of its effects {describe(refused)} forbids shard_map."
    if not application.values:
        return None
    batch = elements(application, run.random, _COUNT)
    count = len(application.values)
    ways = [(), *((k,) for k in range(count)), tuple(range(count))]
    if any(operand.kind == "reference" for operand in application.operands):
        ways = [(), tuple(range(count))]  # what is written varies as the reference does
    ways = list(dict.fromkeys(ways))[:6]
    said: dict[tuple[int, ...], list[bool]] = {}
    mapped = {way: _mapped(application, way, said) for way in ways}
    args = [[np.stack([one[k] for one in batch]) if k in way else batch[0][k]
             for k in range(count)] for way in ways]
    for way, xs in zip(ways, args, strict=True):
        with run.blaming("varying", f"shard_map with {_named(application, way)}"):
            mjax.make_jaxpr(mapped[way])(*xs)
    with run.blaming("varying", "shard_map"):
        results = mjax.jit(lambda args: [mapped[way](*xs) for way, xs in zip(
            ways, args, strict=True)], compiler_options=UNOPTIMIZED)(args)
    for way, outs in zip(ways, results, strict=True):
        each = [application.evaluate(*[batch[d if k in way else 0][k] for k in range(count)])
                for d in range(_COUNT)]
        wanted = [np.stack(column) for column in zip(*each, strict=True)]
        found = list(map(in_numpy, outs))
        run.require_same("varying", f"shard_map with {_named(application, way)}", difference(
            found, wanted, tolerance([*batch[0], *wanted])),
            "Compute each device's result from its operands alone.")
        for n, (varies, out) in enumerate(zip(said[way], wanted, strict=True)):
            if not varies and not np.array_equal(out[0], out[1], equal_nan=out.dtype.kind in "fc"):
                run.fault("varying", (
                    f"with {_named(application, way)}, the type of result {n} says that it is the "
                    "same on all devices, but it differs."), (
                    "Make the primitive without own_varying=True, and results vary as the operands "
                    "do; or return x.update(...), which keeps x.varying."),
                    "shard_map gives the value of one device for those of all, without an error.")
    return None


def _names_devices(params: dict[str, Any]) -> bool:
    """Whether a param holds devices: the program of the check has devices of its own."""
    inside = [x for value in params.values()
              for x in (value if isinstance(value, (tuple, list)) else [value])]
    return any(hasattr(x, "device_set") or isinstance(x, Mesh) for x in inside)


def _named(application: Application, way: Sequence[int]) -> str:
    if not way:
        return "operands that are the same on all devices"
    places = " and ".join(str(application.places[k]) for k in way)
    return f"operand{'s' if len(way) > 1 else ''} {places} different on each device"


def _mapped(application: Application, way: Sequence[int], said: dict[Any, list[bool]]) -> Any:
    """The application on each device; operands in `way` are cut, of the others there are copies."""

    def body(*shards: Any) -> list[Any]:
        outs = application.call(*[lax.squeeze(x, [0]) if k in way else x
                                  for k, x in enumerate(shards)])
        said[tuple(way)] = [_AXIS in typeof(out).varying for out in outs]
        return [lax.expand_dims(out, [0]) for out in outs]

    mesh = Mesh(np.array(mjax.devices()[:_COUNT]), (_AXIS,))
    specs = tuple(PartitionSpec(_AXIS) if k in way else PartitionSpec()
                  for k in range(len(application.values)))
    return mjax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(_AXIS))


def check_varying_cotangents(run: Run) -> str | None:
    """The cotangent of what is the same on all devices is the sum over them."""
    application = run.application
    group = run.facts.get("group", ())
    if mjax.device_count() < _COUNT or forbidden(run.facts["effects"], "shardable") or not group:
        return None
    if application.axes or _names_devices(application.params):
        return None
    batch = elements(application, run.random, _COUNT)
    count = len(application.values)
    ways = [(k,) for k in range(count)] if count > 1 and not any(
        operand.kind == "reference" for operand in application.operands) else []
    for way in ways[:3]:
        said: dict[Any, list[bool]] = {}
        f = _mapped(application, way, said)
        xs = [np.stack([one[k] for one in batch]) if k in way else batch[0][k]
              for k in range(count)]
        what = f"vjp of shard_map with {_named(application, way)}"
        with run.blaming("varying", what):
            found = list(map(in_numpy, mjax.jit(
                lambda *xs, f=f: pulled(f, group, xs)[1], compiler_options=UNOPTIMIZED)(*xs)))
        each: list[Arrays] = [list(map(in_numpy, pulled(application.call, group, [
            batch[d if k in way else 0][k] for k in range(count)])[1])) for d in range(_COUNT)]
        wanted = [np.stack(column) if k in way else np.sum(column, 0, dtype=column[0].dtype)
                  for k, column in zip(group, zip(*each, strict=True), strict=True)]
        run.require_same("varying", what, difference(found, wanted, 10 * tolerance(wanted)), (
            "Return cotangents that vary as the given one does; the engine sums those of operands "
            "that are the same on all devices."))
    return None
