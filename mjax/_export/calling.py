"""The primitive that calls an exported program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.platforms import names_of
from mjax._engine.ir.dimensions import evaluate
from mjax._engine.ir.effects import token_names
from mjax._engine.ir.pytree import keystr, tree_flatten_with_path
from mjax._engine.ir.sizes import fits, is_constant_shape
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.lowering.dimensions import solve, values_of
from mjax._engine.lowering.shardings import tensor_sharding
from mjax._engine.lowering.tokens import TokenSet
from mjax._engine.primitives.emit import constant, hlo, ir
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._export.checks import DisabledSafetyCheck, custom_call_targets
from mjax._export.merging import main_of, merge
from mjaxlib_shim.artifacts import deserialize_artifact, keep_literals
from mjaxlib_shim.custom_calls import register_lapack
from mjaxlib_shim.mlir import func, sdy
from mjaxlib_shim.sharding_texts import declared_meshes

call_exported_p = EnginePrimitive("call_exported", params={"exported": Any}, multiple_results=True)


@call_exported_p.def_effectful_abstract_eval
def _call_type(*avals: Any, exported: Any) -> Any:
    for i, (given, wanted) in enumerate(zip(avals, exported.in_avals, strict=True)):
        if not isinstance(given, ShapedArray) or not fits(given.shape, wanted.shape):
            _refuse(exported, i, "shape", getattr(wanted, "shape", wanted),
                    getattr(given, "shape", given))
        if given.dtype != wanted.dtype:
            _refuse(exported, i, "dtype", wanted.dtype, given.dtype)
    return _outs(exported, avals), frozenset(
        (*exported.ordered_effects, *exported.unordered_effects))


def _outs(exported: Any, avals: Any) -> list[Any]:
    """The types of the results, for arguments of these types."""
    wanted = [a.shape for a in exported.in_avals]
    if all(map(is_constant_shape, wanted)):
        return list(exported.out_avals)
    values = values_of(solve(wanted), [a.shape for a in avals], exported.fun_name,
                       lambda i, j: f"dimension {j} of {_name(exported, i)}")
    return [a.update(shape=tuple(evaluate(n, values) for n in a.shape)) for a in exported.out_avals]


def _name(exported: Any, index: int) -> str:
    tree = exported.in_tree
    paths = tree_flatten_with_path(tree.unflatten(range(tree.num_leaves)))[0]
    path = paths[index][0]
    return f"{('args', 'kwargs')[path[0].idx]}{keystr(path[1:])}"


def _refuse(exported: Any, index: int, what: str, wanted: Any, given: Any) -> None:
    raise LazyValueError(lambda: (
        f"{exported.fun_name}: {_name(exported, index)} was exported with the {what} {wanted}, and "
        f"is called with {given}."))


call_exported_p.without("jvp", "Its program is an artifact: call it by Exported.call, which has "
                        "the derivatives that were exported.")
call_exported_p.without("batch", "Its program is that of one element. Export the batched function, "
                        "jit(vmap(f)), with a symbolic batch size if that varies; or call it for "
                        "one element after the other, by lax.map.")


@call_exported_p.def_lowering
def _call_lowering(ctx: Any, *operands: Any, exported: Any) -> Any:
    mctx = ctx.module_context
    number = _platform_number(exported, ctx.platform)
    count = len(mctx.devices or (None,))
    if exported.nr_devices not in (1, count):
        raise LazyValueError(lambda: (
            f"{exported.fun_name} was exported for {exported.nr_devices} devices, and is called in "
            f"a program on {count}. Place its arguments by exported.in_shardings_jax(mesh), over a "
            "mesh of as many devices."))
    args = _constrained(mctx, operands, ctx.avals_in, exported._in_named_shardings)
    function, inputs, outputs = _function_of(mctx, exported, ctx.avals_in)
    tokens = token_names(frozenset(exported.ordered_effects))
    given = [*([constant(np.int32(number))] if len(exported.platforms) > 1 else ()),
             *map(ctx.tokens_in.get, tokens),
             *(args[i] for i in exported.module_kept_var_idx)]
    given = [g if g.type == t else hlo.convert(t, g) for g, t in zip(given, inputs, strict=True)]
    results = list(func.CallOp(list(outputs), ir.FlatSymbolRefAttr.get(function), given).results)
    if tokens:
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(TokenSet(
            zip(tokens, results[:len(tokens)], strict=True))))
    given = [g if g.type == t else hlo.convert(t, g)
             for g, t in zip(results[len(tokens):], ctx.out_types, strict=True)]
    return _constrained(mctx, given, ctx.avals_out, exported._out_named_shardings)


def _platform_number(exported: Any, platform: str) -> int:
    for i, name in enumerate(exported.platforms):
        if not set(names_of(platform)).isdisjoint(names_of(name)):
            return i
    if DisabledSafetyCheck.platform() in exported.disabled_safety_checks:
        return 0
    raise LazyValueError(lambda: (
        f"{exported.fun_name} was exported for {', '.join(exported.platforms)} and is called on "
        f"{platform}. Export it with platforms={(*exported.platforms, platform)}."))


def _function_of(mctx: Any, exported: Any, avals: Sequence[Any]
                 ) -> tuple[str, list[Any], list[Any]]:
    """The function of a program in a module, and its types.

    It is made once per module; a polymorphic program once per types of its arguments.
    """
    symbolic = not all(is_constant_shape(a.shape) for a in exported.in_avals)
    mctx.refined = mctx.refined or symbolic
    key = (id(exported), *avals) if symbolic else id(exported)
    known: tuple[str, list[Any], list[Any]] | None = mctx.functions.get(key)
    if known is None:
        part = deserialize_artifact(exported.mlir_module_serialized, mctx.module.context)
        if any(target.startswith("lapack_") for target in custom_call_targets(part)):
            register_lapack()
        if declared_meshes(part):
            _check_mesh(mctx, exported)
        main = main_of(part)
        types = list(main.type.inputs), list(main.type.results)
        if not symbolic:  # else it is done before shape refinement
            keep_literals(part)
        name = merge(mctx.module, part, mctx.fresh_name(f"call_exported_{exported.fun_name}"),
                     mctx.fresh_name)
        mctx.kept.append(exported)
        known = mctx.functions[key] = (name, *types)
    return known


def _check_mesh(mctx: Any, exported: Any) -> None:
    """Refuses another mesh for shardings in text form: jaxlib crashes on that."""
    wanted = {s.mesh.shape_tuple: s.mesh for s in (
        *exported._in_named_shardings, *exported._out_named_shardings) if s is not None}
    if mctx.mesh is not None and wanted and mctx.mesh.shape_tuple not in wanted:
        raise LazyValueError(lambda: (
            f"{exported.fun_name} was exported over {', '.join(map(str, wanted.values()))} on a "
            f"jaxlib before 0.7.0, and is called over {mctx.mesh}. Place its arguments by "
            "exported.in_shardings_jax(mesh), over a mesh of the same axes."))


def _constrained(mctx: Any, values: Sequence[Any], avals: Sequence[Any],
                 shardings: Sequence[Any]) -> list[Any]:
    """Values sharded as the program's arguments or results."""
    if not mctx.partitioned:
        return list(values)
    return [v if s is None else sdy.ShardingConstraintOp(v, tensor_sharding(
        mctx, s.mesh, s.spec, physical_aval(a).ndim)).result
        for v, a, s in zip(values, avals, shardings, strict=True)]
