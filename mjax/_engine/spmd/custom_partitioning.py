"""`custom_partitioning`: a function that XLA cuts over devices as its author says.

In a program over several devices a call is one operation. Shardy chooses the shardings of its
operands and results by the author's rule. Then XLA asks the author's `partition` for the program
of one device, and for the shardings that this needs. XLA moves data that is cut in another way.

On one device, and in the body of a shard_map, the function itself is the program.

Source: the public interface of `jax.experimental.custom_partitioning`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import (
    LazyTypeError,
    LazyValueError,
    UnexpectedTracerError,
)
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import BoundedCache
from mjax._engine.control.calls.static_arguments import Static
from mjax._engine.control.cast_varying import joined, varying_of, widened
from mjax._engine.control.trace_body import stage_body
from mjax._engine.ir.effects import describe
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_leaves, tree_structure
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.custom_call_ir import custom_call
from mjax._engine.spmd.partitioned_calls import TARGET, PartitionedCall, mesh_of, rule_for
from mjax._engine.spmd.sharding_rules import SdyShardingRule, rule_of_text
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import carriers

# Its types are those of the program in its params.
custom_partitioning_p: EnginePrimitive = EnginePrimitive("custom_partitioning", params={
    "call": Jaxpr, "in_tree": Any, "out_tree": Any, "partition": Any, "decode_shardings": bool,
    "infer_sharding_from_operands": Any, "sharding_rule": Any, "static_args": Any},
    multiple_results=True, types_cacheable=False, own_varying=True)
custom_partitioning_p.def_abstract_eval(lambda *avals, call, **params: list(call.out_avals))


@custom_partitioning_p.def_lowering
def _custom_partitioning_lowering(ctx: Any, *operands: Any, call: Any, **params: Any) -> Any:
    mctx = ctx.module_context
    if not mctx.partitioned or mctx.per_device:
        return ctx.inline(call, *operands)
    mesh = mesh_of(mctx)
    partitioned = PartitionedCall(mctx, mesh, call, ctx.source, **params)
    mctx.add_keepalive(partitioned)  # the module has its key
    rule = rule_for(mesh, call, ctx.out_types, [v.type for v in operands], **params)
    return custom_call(
        TARGET, result_types=ctx.out_types, operands=operands, backend_config=partitioned.key,
        extra_attributes={} if rule is None else {"sdy.sharding_rule": rule}).results


@custom_partitioning_p.def_cast_varying
def _cast_varying(given: Any, *, call: Jaxpr, **params: Any) -> Any:
    """An equation that was traced elsewhere, in a shard_map."""
    wanted = joined(given, varying_of(call))
    return wanted, {**params, "call": widened(call, wanted)}


for _rule, _remedy in (("jvp", "a derivative by custom_jvp or custom_vjp"),
                       ("transpose", "a transpose by custom_vjp or linear_call"),
                       ("batch", "a batch by custom_vmap")):
    custom_partitioning_p.without(_rule, (
        f"Its partition is that of the function itself. Give it {_remedy} around it, of functions "
        "that have partitions of their own if necessary."))


class custom_partitioning:  # a decorator
    """A function with a partition over devices of its own.

    On one device, and in the body of a shard_map, it is the function. In a program over several
    devices its `partition`, set by `def_partition`, gives the program of each device.

    Args:
      fun: a function of arrays, or pytrees of them; it must not close over traced values.
      static_argnums: positions of arguments that are Python values. `partition` and the other
        functions get them first.

    Returns:
      A function of the same arguments. It has neither derivatives nor batches: give them by
      `custom_jvp`, `custom_vjp` or `custom_vmap` around it. It raises

      - TypeError: arguments that are not arrays, or that the signature does not have;
      - UnexpectedTracerError: it closes over traced values, or a static argument is one;
      - ValueError: it has effects; in a program over several devices: what `partition` returns
        does not fit.

    Raises:
      TypeError: `fun` is not callable.

    Example:
      >>> from mjax.experimental.custom_partitioning import custom_partitioning
      >>> @custom_partitioning
      ... def row_sums(x):
      ...   return x.sum(1)
      >>> def partition(mesh, arg_shapes, result_shape):
      ...   rows = mjax.P(arg_shapes[0].sharding.spec[0])  # rows stay together
      ...   return (mesh, lambda x: x.sum(1), mjax.NamedSharding(mesh, rows),
      ...           (mjax.NamedSharding(mesh, rows),))
      >>> _ = row_sums.def_partition(partition, sharding_rule="i j -> i")
      >>> rows = mjax.NamedSharding(mjax.make_mesh((2,), ("x",)), mjax.P("x"))
      >>> x = mjax.device_put(jnp.ones((4, 3)), rows)
      >>> mjax.jit(row_sums)(x).sharding.spec
      PartitionSpec('x',)

    Source: the public interface of `jax.experimental.custom_partitioning.custom_partitioning`.
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()):
        check_callable("custom_partitioning", fun)
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.static_argnums: tuple[int, ...] = tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.propagate_user_sharding: Callable[..., Any] | None = None
        self.decode_shardings: bool = True
        self.sharding_rule: Any = None
        self._known = BoundedCache(64)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds a method."""
        return self if instance is None else functools.partial(self, instance)

    @boundary
    def def_partition(self, partition: Callable[..., Any],
                      infer_sharding_from_operands: Callable[..., Any] | None = None,
                      propagate_user_sharding: Callable[..., Any] | None = None,
                      decode_shardings: bool = True, sharding_rule: Any = None, *,
                      reduction_factors: tuple[str, ...] = (),
                      need_replication_factors: tuple[str, ...] = (),
                      permutation_factors: tuple[str, ...] = (), **factor_sizes: int
                      ) -> Callable[..., Any]:
        """Sets how the function is cut over devices.

        Args:
          partition: `(*static, mesh, arg_shapes, result_shape) -> (mesh, f, result_shardings,
            arg_shardings)`. It gets `ShapeDtypeStruct`s, with the shardings that the compiler
            suggests, in the structure of the arguments (a tuple) and of the result. `f` takes and
            gives the pieces of one device; collectives in it name axes of the mesh. The shardings
            returned are those that `f` needs and gives.
          infer_sharding_from_operands: `(*static, mesh, arg_shapes, result_shape) ->
            result_shardings`. Without a `sharding_rule`, mjax makes one of its answers for
            operands that are cut along one dimension.
          propagate_user_sharding: as JAX takes it; it is not asked, because rules hold in both
            directions.
          decode_shardings: whether shardings are `NamedSharding`s where the mesh describes them;
            else they are `GSPMDSharding`s.
          sharding_rule: which dimensions are cut alike: a text such as `"... i j, j k -> ... i k"`,
            a `SdyShardingRule`, or a function `(*static, mesh, operand types, result types)` that
            returns one, or a pair of one and a dict of the arguments below. Types are MLIR's.
          reduction_factors: of a text, the factors over which it reduces.
          need_replication_factors: of a text, the factors whose dimensions must not be cut.
          permutation_factors: of a text, the factors whose pieces devices would have to exchange.
          factor_sizes: of a text, the sizes of factors that only occur in brackets.

        Returns:
          `partition`.

        Raises:
          TypeError: a function is not callable.
          ValueError: the rule is invalid; options of a text without one.

        Example:
          >>> from mjax.experimental.custom_partitioning import custom_partitioning
          >>> double = custom_partitioning(lambda x: 2 * x)
          >>> def partition(mesh, args, result):
          ...   return mesh, lambda x: 2 * x, args[0].sharding, (args[0].sharding,)
          >>> double.def_partition(partition, sharding_rule="... -> ...") is partition
          True
        """
        for name, f in (("partition", partition),
                        ("infer_sharding_from_operands", infer_sharding_from_operands),
                        ("propagate_user_sharding", propagate_user_sharding)):
            if not callable(f) and (f is not None or name == "partition"):
                msg = f"custom_partitioning: {name} must be a function, got {f!r}."
                raise TypeError(msg)
        kinds = {"reduction_factors": reduction_factors, "permutation_factors": permutation_factors,
                 "need_replication_factors": need_replication_factors}
        options = {name: given for name, given in kinds.items() if len(given)} | factor_sizes
        if sharding_rule is None or callable(sharding_rule) or isinstance(
                sharding_rule, SdyShardingRule):
            if options:
                msg = (f"custom_partitioning: {', '.join(options)} belong to a sharding_rule that "
                       "is a text; give them to the SdyShardingRule, or return them with the text.")
                raise ValueError(msg)
        else:
            sharding_rule = rule_of_text(sharding_rule, **options)
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        self.decode_shardings = bool(decode_shardings)
        self.sharding_rule = sharding_rule
        return partition

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        who = f"custom_partitioning of {describe_function(self.fun)}"
        if self.partition is None:
            msg = f"{who}: say how it is cut, by def_partition, before it is called."
            raise ValueError(msg)
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise LazyTypeError(lambda: (
                f"{who}: the arguments {', '.join(bound.kwargs)} can only be given by name. "
                "Let the signature have positional parameters alone."))
        places = {i % len(bound.args) for i in self.static_argnums}
        static = tuple([Static.any(bound.args[i]) for i in sorted(places)])
        for argument in static:
            _check_static(who, argument.value)
        dynamic = tuple([x for i, x in enumerate(bound.args) if i not in places])
        check_arguments(who, dynamic)
        leaves, in_tree = tree_flatten(dynamic)
        avals = list(map(typeof, leaves))
        for aval in avals:
            _check_type(who, aval)
        f = self._known.get(static) or self._known.put(static, _Without(self.fun, places, static))
        body = stage_body(who, f, tree_structure((dynamic, {})), avals, self.fun,
                          control_flow=False)
        if body.consts:
            raise UnexpectedTracerError(lambda: (
                f"{who}: it closes over values that are traced, such as one of type "
                f"{typeof(body.consts[0])}: make them arguments."))
        if body.jaxpr.effects:
            raise LazyValueError(lambda: (
                f"{who}: it has the effects {describe(body.jaxpr.effects)}, which its partition "
                f"would not have.\n{carriers(body.jaxpr, list(body.jaxpr.effects))}"))
        return body.out_tree.unflatten(custom_partitioning_p.bind(
            *leaves, call=body.jaxpr, in_tree=in_tree, out_tree=body.out_tree,
            partition=self.partition, decode_shardings=self.decode_shardings,
            infer_sharding_from_operands=self.infer_sharding_from_operands,
            sharding_rule=self.sharding_rule, static_args=static))


def _check_static(who: str, value: Any) -> None:
    if any(isinstance(leaf, Tracer) for leaf in tree_leaves(value)):
        raise UnexpectedTracerError(lambda: (
            f"{who}: a static argument is traced: {value!r}. Leave its position out of "
            "static_argnums."))


def _check_type(who: str, aval: Any) -> None:
    if aval.extended:
        raise LazyTypeError(lambda: (
            f"{who}: an argument has type {aval}. Give it the data of keys "
            "(random.key_data), and wrap them inside (random.wrap_key_data)."))


class _Without:
    """A function with its static arguments.

    Args:
      fun: the function.
      places: their positions.
      static: the arguments.
    """

    def __init__(self, fun: Callable[..., Any], places: set[int], static: Sequence[Static]):
        self.fun, self.places, self.static = fun, places, static
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any) -> Any:
        given, fixed = iter(args), iter(self.static)
        count = len(args) + len(self.static)
        return self.fun(*[next(fixed).value if i in self.places else next(given)
                          for i in range(count)])


__all__ = ["custom_partitioning", "custom_partitioning_p"]
