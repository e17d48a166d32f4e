"""Errors of shard_map about specs that do not fit. Texts are built when shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyValueError
from mjax._engine.control.trace_body import Body
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import typeof
from mjax._engine.spmd.shard_map_types import Region
from mjax._engine.tracing.flat import describe_function, function_name
from mjax._engine.tracing.variance import pvary_p
from mjax._engine.transforms.batching import AxisData, BatchTracer


def refuse_prefix(what: str, specs: Any, tree: Any, f: Callable[..., Any], error: Exception
                  ) -> NoReturn:
    """Raises the error for specs that are not a tree prefix."""
    of = "arguments" if what == "in_specs" else "results"
    hint = ("one PartitionSpec for all, or a tuple with one entry per argument"
            if what == "in_specs" else "one PartitionSpec for all, or one per result")
    raise LazyValueError(lambda: (
        f"shard_map: {what} must be a tree prefix of the {of} of {function_name(f)}: {hint}. "
        f"{what} is {specs!r}, the {of} are {tree_map(_shown, tree)!r}: {error}")) from None


def _shown(leaf: Any) -> Any:
    """An array's type, in place of its numbers."""
    try:
        return typeof(leaf)
    except (TypeError, OverflowError):
        return leaf


def refuse_rank(kind: str, path: str, spec: PartitionSpec, aval: Any, f: Callable[..., Any]
                ) -> NoReturn:
    """Raises the error for a spec with more entries than its value has dimensions."""
    which = "in_specs" if kind == "argument" else "out_specs"

    def text() -> str:
        remedy = ("Leave out the last entries." if aval.ndim or kind == "argument" else
                  "A scalar has no dimension to be put together along: give it one (x[None]), or "
                  "reduce it over the axis and write P().")
        return (f"shard_map of {function_name(f)}: {kind}{path} has type {aval}, with {aval.ndim} "
                f"dimensions, but its {which} entry {spec} has {len(spec)}. {remedy}")

    raise LazyValueError(text)


def spmd_names(axis: AxisData) -> tuple[Any, ...]:
    """The mesh axes that the `spmd_axis_name` of a vmap names."""
    names = axis.spmd_name
    return () if names is None else tuple(names) if isinstance(names, (tuple, list)) else (names,)


def check_batches(leaves: Sequence[Any], specs: Sequence[PartitionSpec | None]) -> None:
    """Refuses batches to be spread over axes that specs name already.

    Args:
      leaves: the leaves of the arguments.
      specs: their specs, and those of the results.

    Raises:
      ValueError: there is one.
    """
    batched: dict[int, AxisData] = {
        id(x.interp): x.interp.axis  # type: ignore[attr-defined]
        for x in leaves if type(x) is BatchTracer}
    for axis in batched.values():
        names = spmd_names(axis)
        taken = [n for n in names if any(s is not None and n in s.axes for s in specs)]
        if taken:
            raise LazyValueError(lambda axis=axis, taken=taken: (  # type: ignore[misc]
                f"vmap of shard_map: spmd_axis_name={axis.spmd_name!r} spreads the batch over the "
                f"mesh axis {taken[0]!r}, which in_specs or out_specs of the shard_map name "
                "already. Use an axis that no spec names."))


def refuse_varying(region: Region, body: Body, place: int, result: str, spec: PartitionSpec,
                   names: Sequence[str], in_specs: Sequence[PartitionSpec], f: Callable[..., Any]
                   ) -> NoReturn:
    """Raises the error for a result that varies along an axis its spec does not name.

    Args:
      region: the shard_map's params.
      body: its program.
      place: of the result.
      result: its name.
      spec: its spec.
      names: of the inputs.
      in_specs: theirs.
      f: the user's function.
    """
    aval = body.jaxpr.out_avals[place]
    extra = region.in_order(aval.varying - frozenset(spec.axes))

    def text() -> str:
        axis, size = extra[0], dict(region.mesh.shape_tuple)[extra[0]]
        return (
            f"shard_map: {result} of {describe_function(f)} has type {aval}: along mesh axis "
            f"{axis!r} its {size} devices may hold different values. Its out_specs entry {spec} "
            f"does not name {axis!r}, which says that they are the same.\n"
            f"{_why(body.jaxpr, place, axis, names, in_specs)}\n"
            f"Either make it the same on all devices, by a collective over {axis!r} (lax.psum, "
            "lax.pmean, lax.pmax; lax.all_gather_invariant for all values), or name the axis in "
            "out_specs, which puts the devices' values one after another: "
            f"{_with_axis(spec, axis, aval.ndim)}. (check_vma=False would take one device's "
            "value.)")

    raise LazyValueError(text)


def _with_axis(spec: PartitionSpec, axis: Any, ndim: int) -> str:
    if not ndim:
        return f"P({axis!r}) for x[None]"
    for i in range(ndim):
        if i >= len(spec) or spec[i] is None:
            return repr(PartitionSpec(*spec[:i], *[None] * (i - len(spec)), axis, *spec[i + 1:]))
    first, *rest = spec
    return repr(PartitionSpec((*(first if type(first) is tuple else (first,)), axis), *rest))


def _why(jaxpr: Jaxpr, place: int, axis: Any, names: Sequence[str],
         in_specs: Sequence[PartitionSpec]) -> str:
    """The equation that made a result, and the input or the equation that made it vary."""
    made_by: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    atom: Any = jaxpr.outvars[place]
    last = first = made_by.get(atom)
    while atom in made_by:
        first = made_by[atom]
        varying = [a for a in first.invars if type(a) is not Literal
                   and axis in getattr(a.aval, "varying", ())]
        if not varying:
            break
        # A cast is there for the sake of another operand.
        atom = next((a for a in varying if a not in made_by
                     or made_by[a].primitive is not pvary_p), varying[0])
    lines = []
    if last is not None:
        lines.append(f"It is the result of {last.primitive.name} at {summarize(last.source)}.")
    if atom in jaxpr.invars:
        i = jaxpr.invars.index(atom)
        cut = f", which in_specs cut by {in_specs[i]}" if axis in in_specs[i].axes else ""
        lines.append(f"It varies along {axis!r} because {names[i]} does{cut}.")
    elif first is not None:
        lines.append(f"It varies along {axis!r} because of {first.primitive.name} at "
                     f"{summarize(first.source)}.")
    return "\n".join(lines)
