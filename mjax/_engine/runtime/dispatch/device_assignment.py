"""The devices of a program, from its arguments and from the meshes and devices inside of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, subjaxprs
from mjax._engine.ir.mesh import UNCONSTRAINED, Mesh, PartitionSpec
from mjax._engine.ir.source import summarize, warn
from mjax._engine.lowering.context import nested_constants
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.constraints import mesh_for_all, sharding_constraint_p
from mjax._engine.runtime.arrays.device_put import device_put_p
from mjax._engine.runtime.arrays.devices import default_device
from mjax._engine.runtime.arrays.gspmd_sharding import GSPMDSharding
from mjax._engine.runtime.arrays.memory_spaces import Space, in_space
from mjax._engine.runtime.arrays.placement import Placement
from mjax._engine.runtime.arrays.shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    mesh_over,
)
from mjax._engine.runtime.arrays.transfer import sharding_of


class Demand(Record):
    """An equation's request for the devices or the compilation of the whole program.

    Attributes:
      eqn: the equation.
      meshes: the meshes and shardings over several devices among its params.
    """

    eqn: JaxprEqn
    meshes: tuple[Any, ...] = ()

    @property
    def device(self) -> Any:
        """The device or sharding asked for, or None."""
        return None if self.meshes else self.eqn.params.get("device")

    @property
    def options(self) -> dict[str, Any]:
        """XLA options."""
        return dict(self.eqn.params.get("compiler_options_kvs", ()))

    def __str__(self) -> str:
        name = (f"jit({self.eqn.params['name']})" if self.eqn.primitive is jit_p else
                self.eqn.primitive.name)
        return f"{name} at {summarize(self.eqn.source)}"


def demands_of(jaxpr: Jaxpr) -> list[Demand]:
    """The equations of a jaxpr that name a mesh, a device or options, however deep."""

    def make() -> list[Demand]:
        found = []
        for eqn in jaxpr.eqns:
            meshes = tuple([v for name, v in eqn.params.items()
                            if type(v) in _MESHED and name != "src"])
            if eqn.primitive is sharding_constraint_p:
                meshes = (eqn.params["sharding"],)
            device = eqn.params.get("device")
            if meshes or ((eqn.primitive is jit_p or eqn.primitive is device_put_p) and (
                    (device and type(device) is not Space)
                    or eqn.params.get("compiler_options_kvs"))):
                found.append(Demand(eqn, meshes))
        for inner in subjaxprs(jaxpr):
            found += demands_of(inner)
        return found

    return jaxpr.cached("demands", make)


def moved_to(jaxpr: Jaxpr, placements: Sequence[Placement]) -> list[Any]:
    """Per argument of an evaluated `jit` the sharding that all of its readers ask for, or None.

    Its `in_shardings` have become such equations; arguments are moved there as by a call.
    """
    asked: dict[Any, Any] = {v: None for v in jaxpr.outvars if type(v) is not Literal}
    for eqn in jaxpr.eqns:
        sharding = eqn.params["sharding"] if eqn.primitive is sharding_constraint_p else None
        for v in eqn.invars:
            if type(v) is not Literal and asked.setdefault(v, sharding) is not sharding:
                asked[v] = None
    shardings = [asked.get(v) for v in jaxpr.invars]
    return [s if s is not None and p.committed and not _is_abstract(s)
            and set(s.flat_devices) != set(p.sharding.flat_devices) else None
            for s, p in zip(shardings, placements, strict=True)]


_MESHED: tuple[Any, ...] = (Mesh, NamedSharding, GSPMDSharding)


class Place(Record):
    """The devices of a program.

    Attributes:
      sharding: of whole arrays: on the only device, or copies on all devices.
      committed: whether its results are committed there.
      meshes: meshes of the program's devices that arguments and equations name.
      shardings: shardings that they name, with devices in the program's order.
    """

    sharding: Any
    committed: bool
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Any, ...] = ()


def execution_place(placements: Sequence[Placement], used: Collection[int],
                    describe: Callable[[int], str], jaxpr: Jaxpr, device: Any = None,
                    in_shardings: Sequence[Any] = (), out_shardings: Sequence[Any] = ()) -> Place:
    """The devices for a computation on arguments with these placements.

    Args:
      placements: the placements of the arguments.
      used: which arguments count.
      describe: the name of an argument.
      jaxpr: the program.
      device: the device to run on, wherever the arguments are; None: they decide.
      in_shardings, out_shardings: the requested one, or None, per argument and result.

    Raises:
      ValueError: committed arguments, equations and shardings name different devices, or devices
        outside of the mesh of `set_mesh`.
    """
    demands = demands_of(jaxpr)
    votes = [(sharding_of(d.device), str(d)) for d in demands
             if d.device is not None and d.eqn.primitive is jit_p]
    votes += [(mesh, str(d)) for d in demands for mesh in d.meshes]
    if device is None:
        # An argument that is requested elsewhere is moved.
        moved = {i for i, s in enumerate(in_shardings) if s is not None and not _is_abstract(s)}
        votes = [(p.sharding, describe(i)) for i, p in enumerate(placements)
                 if p.committed and i in used and i not in moved] + votes
    else:
        votes.insert(0, (sharding_of(device), "the device given to jit"))
    votes += [(s, f"in_shardings of {describe(i)}") for i, s in enumerate(in_shardings)
              if s is not None]
    votes += [(s, f"out_shardings of result {i}") for i, s in enumerate(out_shardings)
              if s is not None]
    votes += [(c.sharding, f"an array of type {c.aval} that it closes over")
              for c in nested_constants(jaxpr)
              if is_array(c) and type(c.sharding) is not SingleDeviceSharding]
    abstract = [v.mesh for v, _ in votes if _is_abstract(v)]
    votes = [(v, who) for v, who in votes if not _is_abstract(v)]
    required = mesh_for_all() if device is None else None
    if not votes and required is not None:
        return _over([required], abstract)
    if not votes:
        return Place(SingleDeviceSharding(default_device()), False)
    chosen, first = votes[0]
    for other, who in votes[1:]:
        if other is not chosen and set(other.flat_devices) != set(chosen.flat_devices):
            msg = (f"the parts of one program are committed to different devices: {first} to "
                   f"{_listed(chosen)}, {who} to {_listed(other)}. Move an argument with "
                   "mjax.device_put, or call the parts one after the other, outside of jit.")
            raise ValueError(msg)
    if required is not None and set(required.flat_devices) != set(chosen.flat_devices):
        msg = (f"{first} is on {_listed(chosen)}, but set_mesh has set the mesh {required}, of "
               f"{_listed(required)}: programs run there. Move an argument there, as by "
               "mjax.device_put(x, mjax.P()), or call this where that mesh is not set.")
        raise ValueError(msg)
    meshed = [v for v, _ in votes if type(v) is not SingleDeviceSharding]
    return _over(meshed, abstract) if meshed else Place(chosen.in_default_memory, True)


def _is_abstract(vote: Any) -> bool:
    """Whether a sharding names axes, but no devices."""
    return type(vote) is NamedSharding and vote.is_abstract


def _over(votes: Sequence[Any], abstract: Sequence[Any]) -> Place:
    """Several devices, or a mesh of one, in the order of the first.

    Args:
      votes: meshes, and shardings over several devices.
      abstract: meshes without devices. The axes of those of the same size may describe shardings
        that XLA chooses.
    """
    devices = votes[0].flat_devices
    meshes = dict.fromkeys(v if type(v) is Mesh else v.mesh for v in votes
                           if type(v) is not GSPMDSharding and v.flat_devices == devices)
    mesh = next(iter(meshes), None) or Mesh(devices, "_0")
    meshes = dict.fromkeys((*(meshes or (mesh,)), *(
        mesh_over(a, devices, "") for a in abstract if a.size == len(devices))))
    shardings = dict.fromkeys(v.in_default_memory for v in votes if type(v) is not Mesh
                              and v.flat_devices == devices and UNCONSTRAINED not in v.spec)
    return Place(NamedSharding(mesh, PartitionSpec()), True, tuple(meshes), tuple(shardings))


def _listed(where: Any) -> str:
    devices = where.flat_devices
    ids = [d.id for d in devices]
    return f"{devices[0].platform}:{ids[0] if len(ids) == 1 else ids}"


def check_demands(name: str, demands: Sequence[Demand], sharding: Any) -> None:
    """Refuses options of a part of the program; warns about `device_put`s without effect.

    Args:
      name: the name of the program.
      demands: the requests of its equations.
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
        if demand.eqn.primitive is device_put_p and not demand.meshes and (
                sharding_of(demand.device).in_default_memory is not sharding):
            warn(f"device_put to {sharding_of(demand.device).device} at "
                 f"{summarize(demand.eqn.source)} has no effect: it is part of the program {name}, "
                 f"which runs on {place_text(sharding)}. Call it outside of jit.")


def out_memories(jaxpr: Jaxpr, out_shardings: Sequence[Any]) -> Sequence[Any]:
    """The shardings of results, including another memory that a final `device_put` asks for.

    Args:
      jaxpr: the program.
      out_shardings: the requested sharding per result, or None.
    """
    put = _put_last(jaxpr)
    return [p if s is None and _other_memory(p) else s
            for p, s in zip(put, out_shardings, strict=True)] if any(put) else out_shardings


def out_spaces(jaxpr: Jaxpr, out_shardings: Sequence[Any], whole: Sharding) -> Sequence[Any]:
    """The same for a memory that a final `device_put` names by its purpose.

    Args:
      jaxpr, out_shardings: the same.
      whole: where the program runs.

    Raises:
      ValueError: it runs on several devices, over which XLA cuts the results.
    """
    put = [p if s is None and p is Space.Host else None
           for p, s in zip(_put_last(jaxpr), out_shardings, strict=True)]
    if not any(put):
        return out_shardings
    if type(whole) is not SingleDeviceSharding:
        raise LazyValueError(lambda: (
            f"device_put: {Space.Host} was given for a result of a program on "
            f"{_listed(whole)}. Give a NamedSharding with memory_kind, which says how the result "
            "is cut, or move the result after the call."))
    return [in_space(whole, p) if p is not None else s
            for p, s in zip(put, out_shardings, strict=True)]


def _put_last(jaxpr: Jaxpr) -> list[Any]:
    """Per result the place that a `device_put` asks for whose result it is, also in calls."""

    def make() -> list[Any]:
        made: dict[Any, Any] = {}
        for eqn in jaxpr.eqns:
            if eqn.primitive is device_put_p:
                made[eqn.outvars[0]] = eqn.params["device"]
            elif eqn.primitive is jit_p:
                made.update(zip(eqn.outvars, _put_last(eqn.params["jaxpr"]), strict=True))
        return [None if type(v) is Literal else made.get(v) for v in jaxpr.outvars]

    return jaxpr.cached("put last", make)


def _other_memory(device: Any) -> bool:
    return isinstance(device, Sharding) and device.in_default_memory is not device


def place_text(sharding: Any) -> Any:
    """The devices of a program, for messages."""
    return sharding.device if type(sharding) is SingleDeviceSharding else _listed(sharding)
