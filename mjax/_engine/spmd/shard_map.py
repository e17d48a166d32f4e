"""`shard_map`: a function of the pieces that each device holds.

The function is always staged, then run. It takes pieces of its arguments, cut by in_specs, and
returns pieces of its results, joined by out_specs.

Three modes track which values may differ between devices:

    check_vma=True        by types; operands that do not vary alike are cast
    check_vma="explicit"  by types; the author writes every cast (`lax.pcast`)
    check_vma=False       not at all: psum is its own transpose, and out_specs are trusted when they
                          declare a result to be the same on all devices

Programs that are derived from a body, such as derivatives, get casts in any mode but the last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.signatures import D, Decorated, P
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.control.trace_body import Body, found_again, stage_body
from mjax._engine.ir.effects import describe, forbidden
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import UNCONSTRAINED, AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import check_spec
from mjax._engine.ir.pytree import (
    broadcast_prefix,
    broadcast_prefix_to,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
    treedef_tuple,
)
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.constraints import mesh_for_all
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.eager import compile_primitive
from mjax._engine.runtime.dispatch.jit_cache import caches_of
from mjax._engine.runtime.dispatch.runners import Runners
from mjax._engine.runtime.dispatch.short import ShortCalls, placement_of, program_for
from mjax._engine.spmd.axes import Manual, Mode, in_manual
from mjax._engine.spmd.shard_map_errors import (
    check_batches,
    refuse_prefix,
    refuse_rank,
    refuse_varying,
)
from mjax._engine.spmd.shard_map_rules import fit
from mjax._engine.spmd.shard_map_types import WHOLE, Region, shard_map_p
from mjax._engine.spmd.shard_map_values import ValuesInterpreter, has_values
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    debug_info_of,
    function_name,
    wraps,
)
from mjax._engine.tracing.rule_errors import carriers, refuse

if TYPE_CHECKING:
    from mjax._engine.base.signatures import NoFunction

_NO_FUNCTION = cast("NoFunction", None)
_MODES: dict[Any, Mode] = {True: "checked", False: "unchecked", "explicit": "explicit"}


@boundary
def shard_map(f: Callable[P, D] = _NO_FUNCTION, /, *,  # type: ignore[assignment]
              out_specs: Any, in_specs: Any = NOT_GIVEN, mesh: Mesh | AbstractMesh | None = None,
              axis_names: Iterable[Any] = frozenset(), check_vma: bool | str = True
              ) -> Decorated[P, D]:
    """Maps a function over the pieces of its arguments on the devices of a mesh.

    Each device calls `f` on its own pieces; collectives (`lax.psum`, `lax.all_gather`, ...) over
    the names of mesh axes communicate. The type of a value names the axes along which devices may
    hold different values (`float32[3]{V:i}`). So results that are declared to be the same on all
    devices are verified, and derivatives communicate only when necessary.

    Args:
      f: a function of positional arguments, pytrees of arrays. Without it the result is a
        decorator.
      out_specs: a tree prefix of the results, of `PartitionSpec`s: how pieces are joined. A result
        that a spec does not cut along an axis has to be the same on all devices of it.
      in_specs: a tuple with an entry per argument (or one spec for all): tree prefixes of
        `PartitionSpec`s. An argument whose entry is None is passed whole, as it is.
      mesh: the mesh; default: that of an enclosing shard_map, or of `set_mesh`.
      axis_names: the set of axes along which `f` is mapped, which specs and collectives may name.
        The others are left to XLA. Default: all.
      check_vma: `True`; `"explicit"`: operands that do not vary alike are refused rather than
        cast; `False`: variance is not checked.

    Returns:
      A function of whole arrays that gives whole arrays.

    Raises:
      ValueError: a missing mesh; a spec that names an unknown axis, or one twice, or is too long; a
        size that is not divisible; specs that are not a tree prefix; a result that may differ along
        an axis its spec does not name; an axis that an enclosing shard_map maps; a mesh that
        differs from that of an enclosing shard_map.
      TypeError: `f` is not callable, or called with arguments by keyword; `mesh` is not a mesh;
        `axis_names` is one name; specs that are not `PartitionSpec`s; in "explicit" mode, operands
        that vary along different axes.

    Example:
      >>> mesh = mjax.make_mesh((1,), ('i',))
      >>> @mjax.shard_map(mesh=mesh, in_specs=mjax.P('i'), out_specs=mjax.P())
      ... def total(rows):
      ...     return lax.psum(rows.sum(), 'i')
      >>> total(jnp.arange(4.))
      Array(6., dtype=float32)

    With `check_vma=False`, derivatives that are taken outside of the map are the same, but for
    more communication. Inside, psum is its own transpose: the derivative of a sum over devices
    comes out as often as there are devices, since every device's cotangent is summed too.

      >>> def double_gradient(x):
      ...     return mjax.grad(lambda x: lax.psum(x, 'i'))(x)
      >>> mjax.shard_map(double_gradient, mesh=mesh, in_specs=mjax.P(), out_specs=mjax.P(),
      ...                check_vma=False)(jnp.ones(()))  # the size of the axis
      Array(1., dtype=float32)

    Source: JEP 14273 and JEP 17111; the public interface of `jax.shard_map`.
    """
    if f is _NO_FUNCTION:
        return cast("Decorated[P, D]", functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
            check_vma=check_vma))
    check_callable("shard_map", f)
    if in_specs is NOT_GIVEN:
        msg = ("shard_map needs in_specs, a PartitionSpec per argument: mjax has no Explicit mesh "
               "axes whose types it could be read from.")
        raise TypeError(msg)
    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise LazyTypeError(lambda: (
            f"shard_map: mesh must be a Mesh or an AbstractMesh, got {mesh!r} of type "
            f"{type(mesh).__name__}: make one by mjax.make_mesh."))
    if isinstance(axis_names, str):
        raise LazyTypeError(lambda: (
            f"shard_map: axis_names must be a set of names, got {axis_names!r}: write "
            f"{{{axis_names!r}}}."))
    if type(in_specs) is list:
        in_specs = tuple(in_specs)
    if check_vma not in _MODES:
        msg = f"shard_map: check_vma must be True, False or 'explicit', got {check_vma!r}."
        raise ValueError(msg)
    _check_specs("in_specs", in_specs)
    _check_specs("out_specs", out_specs)
    mapped = _Mapped(f, in_specs, out_specs, mesh, frozenset(axis_names), _MODES[check_vma])
    if mesh is not None:
        mapped.region()  # refuses specs that do not fit the mesh at once

    caches = caches_of(f, ("shard_map", *map(_hashable, mapped[1:3]), *mapped[3:]))
    short = ShortCalls((), (), caches.short)

    def evaluated(args: tuple[Any, ...], kwargs: dict[str, Any], key: Any, taken: Any) -> Any:
        leaves, tree = tree_flatten(args)
        try:
            arrays = [x if type(x) is Array else to_array(x) for x in leaves]
        except (TypeError, OverflowError):
            return mapped(args, kwargs)  # raises the error
        what, placements = (tree, bool(kwargs)), tuple(map(placement_of, arrays))
        program = caches.calls.get((thread.settings, placements, *what))
        if program is None:
            applied = mapped.application(args, kwargs)
            if not applied.general:
                return applied.run()
            program = program_for(caches.calls, what, placements, applied.compiled)
        return short.run(key, taken, program, arrays)

    return wraps(f)(short.dispatcher(evaluated, mapped.__call__))


class _Application(Record):
    """A staged call.

    Attributes:
      region: the mesh and its axes.
      jaxpr: the program of pieces.
      operands, in_specs: its operands and their specs.
      out_specs: the specs of its results.
      out_tree: the tree of its results.
      general: whether other arguments of these types and shardings have the same program.
    """

    region: Region
    jaxpr: Jaxpr
    operands: list[Any]
    in_specs: list[PartitionSpec]
    out_specs: list[PartitionSpec]
    out_tree: Any
    general: bool

    def run(self) -> Any:
        """Applies the primitive."""
        return self.out_tree.unflatten(self.region.apply(
            self.jaxpr, self.operands, self.in_specs, self.out_specs))

    def compiled(self, placements: tuple[Any, ...]) -> Runners:
        """The functions that apply the primitive to arrays with these placements."""
        params = self.region.params(self.jaxpr, self.in_specs, self.out_specs)
        return compile_primitive(placements, shard_map_p, params, self.out_tree)


class _Mapped(Record):
    """A function with the options of `shard_map`."""

    f: Callable[..., Any]
    in_specs: Any
    out_specs: Any
    mesh: Mesh | AbstractMesh | None
    axis_names: frozenset[Any]
    mode: Mode

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.application(args, kwargs).run()

    def application(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Application:
        """Stages the function for a call."""
        if kwargs:
            raise LazyTypeError(lambda: (
                f"shard_map of {function_name(self.f)} takes arguments by position alone, as "
                f"in_specs has them, but got {', '.join(kwargs)} by keyword."))
        region = self.region()
        _check_set_mesh(region.mesh)
        leaves, specs = self.cut(args)
        check_batches(leaves, [*specs, *tree_leaves(self.out_specs)])
        cut = [s is not None for s in specs]
        given = [(x, s) for x, s in zip(leaves, specs, strict=True) if s is not None]
        avals = [self.piece(region, args, i, leaves[i], specs[i])
                 for i, c in enumerate(cut) if c]
        interp = None
        if region.check_vma and has_values(thread.interpreter):
            interp = ValuesInterpreter(region, given, self.refuse_effects,
                                       functools.partial(self.once, region))
        body = self.stage(region, args, cut, avals, interp)
        if interp is not None:
            given = interp.given
        jaxpr, out_specs = self.results(region, body, args, cut)
        return _Application(
            region, jaxpr, [*body.consts, *[x for x, _ in given]],
            [*[WHOLE] * len(body.consts), *[s for _, s in given]], out_specs, body.out_tree,
            all(cut) and not body.consts and (interp is None or interp.general))

    # -- meshes --

    def region(self) -> Region:
        """The mesh and its axes, once both are known.

        Raises:
          ValueError: no mesh is set, it does not have the axes, or they are mapped already.
        """
        around = _enclosing()
        mesh = self.mesh or (around.mesh if around else thread.settings.mesh)
        if mesh is None:
            msg = ("shard_map has no mesh: give one by mesh=, or call it under "
                   "`with mjax.set_mesh(mesh):`.")
            raise ValueError(msg)
        if around is not None:
            mesh = _same_mesh(mesh, around)
        taken = frozenset[Any]() if around is None else around.axes
        axes = self.axis_names or frozenset(mesh.axis_names) - taken
        unknown = sorted(axes - frozenset(mesh.axis_names), key=str)
        if unknown:
            raise LazyValueError(lambda: (
                f"shard_map: axis_names has {unknown[0]!r}, but the mesh has the axes "
                f"{', '.join(map(repr, mesh.axis_names)) or 'none'}."))
        if axes & taken or not axes:
            again = sorted(axes & taken or taken, key=str)
            raise LazyValueError(lambda: (
                f"shard_map within shard_map: {'is' if len(again) == 1 else 'are'} mapped already: "
                f"{', '.join(map(repr, again))}. The inner one can map the axes that the outer "
                "one leaves to XLA: name those of each in axis_names."))
        for what, tree in (("in_specs", self.in_specs), ("out_specs", self.out_specs)):
            for spec in tree_leaves(tree):
                _check_axes(what, spec, mesh, axes)
        return Region(mesh, axes, self.mode != "unchecked")

    # -- arguments --

    def cut(self, args: tuple[Any, ...]) -> tuple[list[Any], list[PartitionSpec | None]]:
        """The leaves of the arguments, and the spec of each."""
        try:
            specs = broadcast_prefix(self.in_specs, args, is_leaf=_is_none)
        except ValueError as error:
            refuse_prefix("in_specs", self.in_specs, args, self.f, error)
        return tree_leaves(args), specs

    def piece(self, region: Region, args: Any, i: int, leaf: Any, spec: Any) -> Any:
        """The type of a leaf's pieces.

        Raises:
          TypeError: it is not an array.
          ValueError: the spec cannot cut it.
        """
        try:
            aval = typeof(leaf)
        except TypeError:
            check_arguments(f"shard_map of {function_name(self.f)}", args)
            raise
        if len(spec) > aval.ndim:
            refuse_rank("argument", _path(args, i), spec, aval, self.f)
        try:
            return region.piece(aval, spec)
        except ValueError as error:
            text = str(error).removeprefix("shard_map: ")
            msg = (f"shard_map of {function_name(self.f)}: argument{_path(args, i)} cannot be cut "
                   f"by its in_specs: {text}")
            raise ValueError(msg) from None

    # -- the body --

    def stage(self, region: Region, args: Any, cut: list[bool], avals: list[Any],
              interp: ValuesInterpreter | None) -> Body:
        """The function's program. It is kept with the function if all its arguments are cut and
        Python does not ask for values. With an interpreter it may be the rest of the program."""
        f, tree = self.f, tree_structure(args)
        in_tree = tree
        if not all(cut):
            leaves = tree_leaves(args)

            def f(*pieces: Any) -> Any:
                given = iter(pieces)
                return self.f(*tree.unflatten([
                    next(given) if c else x for x, c in zip(leaves, cut, strict=True)]))

            f.__name__ = function_name(self.f)
            in_tree = tree_structure(tuple(avals))
        with in_manual(region.mesh, region.manual_axes, self.mode):
            body = stage_body("shard_map", f, treedef_tuple([in_tree, tree_structure({})]), avals,
                              control_flow=False, interp=interp)
        self.refuse_effects(body.jaxpr)
        return body

    def refuse_effects(self, jaxpr: Jaxpr) -> None:
        """Refuses effects that may not happen once per device.

        Raises:
          TypeError: there are some.
        """
        refused = forbidden(jaxpr.effects, "shardable")
        if refused:
            refuse(LazyTypeError(lambda: (
                f"shard_map of {function_name(self.f)}, which has the effects {describe(refused)}: "
                "their policy says shardable=False. They would happen once per device. Move them "
                f"out of the function.\n{carriers(jaxpr, refused)}")))

    def once(self, region: Region, number: int, jaxpr: Jaxpr) -> Jaxpr:
        """A part of the function's program, or the same part of an earlier call."""
        return found_again(self.f, (region, self.mode, thread.settings, number), jaxpr)

    def results(self, region: Region, body: Body, args: Any, cut: list[bool]
                ) -> tuple[Any, list[PartitionSpec]]:
        """The program whose results vary according to out_specs, and the spec of each.

        Raises:
          ValueError: one varies more, or does not have enough dimensions; out_specs are not
            a prefix.
        """
        try:
            specs = broadcast_prefix_to(self.out_specs, body.out_tree)
        except ValueError as error:
            refuse_prefix("out_specs", self.out_specs, body.results(), self.f, error)
        for i, (spec, aval) in enumerate(zip(specs, body.jaxpr.out_avals, strict=True)):
            if len(spec) > aval.ndim:
                refuse_rank("result", _path(body.results(), i), spec, aval, self.f)
            if region.check_vma and not aval.varying & region.manual_axes <= frozenset(spec.axes):
                info = debug_info_of("shard_map", self.f, args, {})
                names = [info.arg_name(j) for j, c in enumerate(cut) if c]
                in_specs = [s for s in broadcast_prefix(self.in_specs, args, is_leaf=_is_none)
                            if s is not None]
                own = len(body.consts)
                refuse_varying(region, body, i, f"result{_path(body.results(), i)}", spec,
                               [*["a closed-over value"] * own, *names],
                               [*[WHOLE] * own, *in_specs], self.f)
        return fit(region, body.jaxpr, specs), specs


def _enclosing() -> Manual | None:
    """Facts about the innermost enclosing shard_map."""
    for axis in reversed(thread.axis_env):
        if axis.manual is not None:
            manual: Manual = axis.manual
            return manual
    return None


def _same_mesh(mesh: Mesh | AbstractMesh, around: Manual) -> Mesh | AbstractMesh:
    """The mesh of the enclosing shard_map; inner ones must have the same."""
    other = around.mesh
    if isinstance(mesh, Mesh) and isinstance(other, Mesh):
        same = mesh is other
    else:
        same = mesh.shape_tuple == other.shape_tuple
    if not same:
        raise LazyValueError(lambda: (
            f"shard_map within shard_map: the inner one has the mesh {mesh!r}, the outer one "
            f"{other!r}{' of other devices' if mesh.shape_tuple == other.shape_tuple else ''}. "
            "Both need the same; leave out the mesh of the inner one."))
    return other


def _check_set_mesh(mesh: Mesh | AbstractMesh) -> None:
    """Refuses a mesh with other axes than that of `set_mesh`, under which all programs run."""
    known = mesh_for_all()
    if known is not None and known.shape_tuple != mesh.shape_tuple and not _enclosing():
        raise LazyValueError(lambda: (
            f"shard_map: mesh is {mesh!r}, but set_mesh has set {known!r}. Both need the same "
            "axes: leave out mesh= to map over the one that is set."))


# ---- specs -----------------------------------------------------------------------------


def _hashable(specs: Any) -> Any:
    leaves, tree = tree_flatten(specs)
    return tuple(leaves), tree


def _is_none(x: Any) -> bool:
    return x is None


def _check_specs(what: str, specs: Any) -> None:
    for leaf in tree_leaves(specs):
        if not isinstance(leaf, PartitionSpec):
            raise LazyTypeError(lambda leaf=leaf: (  # type: ignore[misc]
                f"shard_map: {what} must be a tree of PartitionSpecs, got {leaf!r} of type "
                f"{type(leaf).__name__}: write PartitionSpec({leaf!r}), or P({leaf!r})."))
        if UNCONSTRAINED in leaf:
            raise LazyValueError(lambda leaf=leaf: (  # type: ignore[misc]
                f"shard_map: {what} has {leaf}; a shard_map cuts each dimension or leaves it "
                "whole: write None in place of UNCONSTRAINED."))


def _check_axes(what: str, spec: PartitionSpec, mesh: Any, axes: frozenset[Any]) -> None:
    check_spec(spec, mesh, f"shard_map: {what}")
    others = [a for a in spec.axes if a not in axes]
    if others:
        raise LazyValueError(lambda: (
            f"shard_map: {what} has {spec}, which names the mesh axis {others[0]!r}, but the map "
            f"is over {', '.join(map(repr, sorted(axes, key=str)))} alone. Add it to axis_names, "
            "or leave it to XLA: cut the argument by lax.with_sharding_constraint."))


def _path(tree: Any, i: int) -> str:
    return keystr(tree_flatten_with_path(tree)[0][i][0])


__all__ = ["shard_map", "shard_map_p"]
