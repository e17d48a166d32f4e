"""`export`: from a jitted function to an `Exported`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.platforms import PLATFORMS
from mjax._engine.base.signatures import P, R
from mjax._engine.ir.effects import token_name, token_names
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.pytree import keystr, tree_leaves_with_path
from mjax._engine.ir.references import INSIDE, is_reference
from mjax._engine.ir.sizes import is_constant_shape, is_symbolic_dim
from mjax._engine.runtime.arrays.devices import default_device
from mjax._engine.runtime.arrays.layouts import sharding_behind
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._engine.runtime.dispatch.executable import Program, lower
from mjax._engine.runtime.dispatch.jit import jit
from mjax._engine.runtime.dispatch.stages import Traced
from mjax._engine.runtime.dispatch.wrapped import Wrapped
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.reverse import vjp
from mjax._export.checks import DisabledSafetyCheck, check_custom_calls
from mjax._export.exported import Exported, maximum_supported_calling_convention_version
from mjax._export.merging import joined, main_of
from mjaxlib_shim.artifacts import serialize_artifact
from mjaxlib_shim.client import vendor_platform
from mjaxlib_shim.mlir import hlo, ir, new_context


@boundary
def default_export_platform() -> str:
    """The platform for which programs are exported by default: that of the default device.

    Example:
      >>> mjax.export.default_export_platform()
      'cpu'
    """
    return vendor_platform(default_device())


@boundary
def export(fun_jit: Wrapped[P, R], *, platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = ()) -> Callable[..., Exported]:
    """A function that exports a jitted function for the types of its arguments.

    Args:
      fun_jit: a function made by `mjax.jit`.
      platforms: the platforms to lower for, from "cpu", "cuda", "rocm" and "tpu". They need not
        be present. By default, and if it is empty, that of the default device.
      disabled_checks: the checks to disable.

    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s in their place, that returns an
      `Exported`.

    Raises:
      ValueError: `fun_jit` is not jitted; a platform is unknown or repeated; or symbolic sizes of
        arguments are of several scopes.
      NotImplementedError: the program calls Python functions.
      MissingRuleError: a primitive has no lowering for a platform.

    Example:
      >>> exported = mjax.export.export(mjax.jit(jnp.sin), platforms=("cpu", "tpu"))(
      ...     mjax.ShapeDtypeStruct((2,), "float32"))
      >>> artifact = exported.serialize()
      >>> mjax.export.deserialize(artifact).call(jnp.zeros(2))
      Array([0., 0.], dtype=float32)
    """
    if not isinstance(fun_jit, Wrapped):
        msg = f"export takes a function made by mjax.jit, not {fun_jit!r}: write export(jit(f))."
        raise ValueError(msg)
    wanted = _checked(platforms)
    checks = tuple(disabled_checks)

    @boundary
    def exporting(*args: Any, **kwargs: Any) -> Exported:
        _check_scopes(args, kwargs)
        return _export(fun_jit.trace(*args, **kwargs), wanted or (default_export_platform(),),
                       checks)

    return exporting


def _checked(platforms: Sequence[str] | None) -> tuple[str, ...]:
    if platforms is None or (not platforms and not isinstance(platforms, str)):
        return ()
    known = [name for name in PLATFORMS if name != "gpu"]
    if isinstance(platforms, str) or len({*platforms}) < len(platforms) or not (
            {*platforms} <= {*known}):
        msg = (f"export: platforms={platforms!r} must be a sequence of different names, of "
               f"{', '.join(known)}.")
        raise ValueError(msg)
    return tuple(platforms)


def _check_scopes(args: Any, kwargs: Any) -> None:
    """Compares the scopes of symbolic sizes: an artifact knows symbols by name alone."""
    first: tuple[str, Any, Any] | None = None
    for (side, *path), leaf in tree_leaves_with_path((args, kwargs)):
        for size in filter(is_symbolic_dim, getattr(leaf, "shape", ())):
            place = f"{('args', 'kwargs')[side.idx]}{keystr(tuple(path))}"
            first = first or (place, size, size.scope)
            if size.scope is not first[2]:
                msg = (f"export: the symbolic dimensions {first[1]} of {first[0]} and {size} of "
                       f"{place} are of different scopes. Make them with one scope: "
                       "symbolic_shape(..., scope=scope), or symbolic_args_specs for all "
                       "arguments.")
                raise ValueError(msg)


def _export(traced: Traced, platforms: tuple[str, ...],
            checks: tuple[DisabledSafetyCheck, ...]) -> Exported:
    if any(map(is_reference, traced.jaxpr.in_avals)):
        msg = (f"export of {traced.fun_name}: it takes or closes over references, and an artifact "
               "holds pure programs. Export a function of the array that makes the reference, "
               "mjax.new_ref(x), and returns mjax.freeze(ref).")
        raise NotImplementedError(msg)
    program = traced.program()
    context = new_context()
    with context, ir.Location.unknown(context):
        modules = [_module(program, platform) for platform in platforms]
        module = joined(modules, context) if len(modules) > 1 else modules[0]
        check_custom_calls(module, program.name, checks)
    jaxpr = traced.jaxpr
    # References that a program makes are of no concern to its callers.
    effects = sorted(jaxpr.effects - {INSIDE}, key=lambda e: (token_name(e) or "", repr(e)))
    shardings, single = program.shardings, program.shardings.single
    ins, outs = (
        tuple(None if single else _abstract(sharding_behind(a) or s)
              for a, s in zip(asked or [None] * len(some), some, strict=True))
        for asked, some in ((program.asked.in_shardings, shardings.inputs),
                            (program.asked.out_shardings, shardings.outputs)))
    return Exported(
        fun_name=program.name, in_tree=traced.in_tree, in_avals=tuple(jaxpr.in_avals),
        out_tree=traced.out_tree, out_avals=tuple(jaxpr.out_avals), _has_named_shardings=True,
        _in_named_shardings=ins, _out_named_shardings=outs,
        in_shardings_hlo=(None,) * len(ins), out_shardings_hlo=(None,) * len(outs),
        nr_devices=len(program.devices), platforms=platforms,
        ordered_effects=tuple(e for e in effects if e.policy.ordered),
        unordered_effects=tuple(e for e in effects if not e.policy.ordered),
        disabled_safety_checks=checks, mlir_module_serialized=serialize_artifact(
            module, partitioned=len(program.devices) > 1),
        calling_convention_version=maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(program.kept),
        uses_global_constants=len(platforms) > 1 or not _of_known_shapes(jaxpr),
        _get_vjp=lambda primal: _exported_vjp(traced, program, primal))


def _of_known_shapes(jaxpr: Jaxpr) -> bool:
    return all(is_constant_shape(getattr(a, "shape", ())) for a in jaxpr.in_avals)


def _module(program: Program, platform: str) -> Any:
    lowered = lower(program, platform, whole=True)
    if lowered.host_callbacks or lowered.inspections:
        msg = (f"{program.name} calls Python functions (pure_callback, io_callback, debug.print), "
               "which an artifact cannot hold: export a function without them.")
        raise NotImplementedError(msg)
    names = token_names(program.jaxpr.effects)
    with lowered.context:
        tokens = list(main_of(lowered.module).type.inputs)[:len(names)]
        if lowered.tokens != names or any(t != hlo.TokenType.get() for t in tokens):
            msg = (f"{program.name} has ordered effects and runs on several devices; this jaxlib "
                   "has no tokens for that. Export it for one device, or on a newer jaxlib.")
            raise NotImplementedError(msg)
        lowered.module.operation.attributes["jax.uses_shape_polymorphism"] = ir.BoolAttr.get(
            not _of_known_shapes(program.jaxpr))
    return lowered.module


def _abstract(sharding: Any) -> NamedSharding | None:
    if sharding is None:
        return None
    if type(sharding) is not NamedSharding:
        msg = (f"a value is cut by {sharding}, which artifacts cannot hold: use NamedShardings.")
        raise NotImplementedError(msg)
    return NamedSharding(sharding.mesh.abstract_mesh, PartitionSpec(*sharding.spec))


def _exported_vjp(traced: Traced, program: Program, primal: Exported) -> Exported:
    jaxpr, n = traced.jaxpr, len(primal.in_avals)

    def backward(*values: Any) -> Any:
        pullback = vjp(lambda *args: eval_jaxpr(jaxpr, jaxpr.consts, *args), *values[:n])[1]
        return pullback(list(values[n:]))

    backward.__name__ = f"vjp_{primal.fun_name}"
    avals = [*primal.in_avals, *(a.to_tangent() for a in primal.out_avals)]
    keywords: dict[str, Any] = {}
    if not program.shardings.single:
        devices = program.devices
        ins, outs = ([s and s.over(devices, primal.fun_name) for s in some] for some in (
            primal._in_named_shardings, primal._out_named_shardings))
        keywords = {"in_shardings": (*ins, *outs), "out_shardings": tuple(ins)}
    return _export(jit(backward, **keywords).trace(*map(ShapeDtypeStruct.of, avals)),
                   primal.platforms, tuple(primal.disabled_safety_checks))
