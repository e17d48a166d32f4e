"""Where a program runs: what its arguments and the `jit`s inside of it say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.control.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, subjaxprs
from mjax._engine.ir.source import summarize
from mjax._engine.runtime.array import Placement
from mjax._engine.runtime.devices import default_device
from mjax._engine.runtime.explain import warn
from mjax._engine.runtime.shardings import SingleDeviceSharding
from mjax._engine.runtime.transfer import device_put_p, sharding_of


class Demand(Record):
    """What an equation inside of a program asks of the whole: where or how it is to run."""

    eqn: JaxprEqn

    @property
    def device(self) -> Any:
        """The device or sharding asked for, or None."""
        return self.eqn.params.get("device")

    @property
    def options(self) -> dict[str, Any]:
        """XLA options."""
        return dict(self.eqn.params.get("compiler_options_kvs", ()))

    def __str__(self) -> str:
        return f"jit({self.eqn.params['name']}) at {summarize(self.eqn.source)}"


def demands_of(jaxpr: Jaxpr) -> list[Demand]:
    """The `jit`s and `device_put`s with a device or options in a jaxpr, however deep."""

    def make() -> list[Demand]:
        found = [Demand(eqn) for eqn in jaxpr.eqns
                 if (eqn.primitive is jit_p or eqn.primitive is device_put_p)
                 and (eqn.params.get("device") or eqn.params.get("compiler_options_kvs"))]
        for inner in subjaxprs(jaxpr):
            found += demands_of(inner)
        return found

    return jaxpr.cached("demands", make)


def execution_device(placements: Sequence[Placement], used: Collection[int],
                     describe: Callable[[int], str], demands: Sequence[Demand] = (),
                     device: Any = None) -> tuple[SingleDeviceSharding, bool]:
    """Where a computation on arguments so placed runs, and whether its results are committed.

    Args:
      placements: those of the arguments.
      used: which arguments are asked.
      describe: the name of an argument.
      demands: what equations of the program ask for.
      device: where to run, whatever the arguments say; None: where they say.

    Raises:
      ValueError: committed arguments and demands name different devices.
    """
    votes = [(sharding_of(d.device), str(d)) for d in demands
             if d.device is not None and d.eqn.primitive is jit_p]
    if device is None:
        votes = [(p.sharding, describe(i)) for i, p in enumerate(placements)
                 if p.committed and i in used] + votes
    else:
        votes.insert(0, (sharding_of(device), "the device given to jit"))
    if not votes:
        return SingleDeviceSharding(default_device()), False
    chosen, first = votes[0]
    for sharding, who in votes[1:]:
        if sharding is not chosen:
            one, other = (f"{s.device.platform}:{s.device.id}" for s in (chosen, sharding))
            msg = (f"the parts of one program are committed to different devices: {first} to "
                   f"{one}, {who} to {other}. Move an argument with mjax.device_put, or call the "
                   "parts one after the other, outside of jit.")
            raise ValueError(msg)
    return chosen, True


def check_demands(name: str, demands: Sequence[Demand], sharding: SingleDeviceSharding) -> None:
    """Refuses options of a part of the program; warns of `device_put`s without effect.

    Args:
      name: of the program.
      demands: what its equations ask for.
      sharding: where it runs.

    Raises:
      ValueError: a `jit` inside has `compiler_options`.
    """
    for demand in demands:
        if demand.options:
            msg = (f"compiler_options={demand.options} were given to {demand}, which is called "
                   f"inside of another program, {name}: a program is compiled as a whole. Give "
                   "them to the outermost jit.")
            raise ValueError(msg)
        if demand.eqn.primitive is device_put_p and sharding_of(demand.device) is not sharding:
            warn(f"device_put to {sharding_of(demand.device).device} at "
                 f"{summarize(demand.eqn.source)} has no effect: it is part of the program {name}, "
                 f"which runs on {sharding.device}. Call it outside of jit.")
