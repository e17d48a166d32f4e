"""Facades: classes of which a generation shows a listed set of attributes.

To freeze all of `Jaxpr`, `Primitive` or `LoweringRuleContext` would freeze the engine. A facade is
a class in front of the engine's: `isinstance` and `issubclass` ask that one, calls make its
instances, subclasses are subclasses of it. So objects are the engine's own, and cost what they
cost. The class shows the listed names alone, and takes the listed arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mjax._engine.base.records import Record

#: Dotted name -> the attributes that generations promise, of classes that have others for the
#: engine's use. The classes themselves are the engine's: rules and programs compare them.
PROMISED: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in {
    "core.AbstractToken": "str_short",
    "core.AbstractValue":
        "weak_type str_short strip_weak_type to_tangent to_cotangent physical batched element "
        "zeros",
    "core.ConcretizationTypeError": "",
    "core.DebugInfo":
        "arg_names func_name func_src_info result_paths traced_for with_unknown_names",
    "core.Effect": "",
    "core.Frame": "primitive param",
    "core.InconclusiveDimensionOperation": "",
    "core.JaxprEqn": "ctx effects invars outvars params primitive source_info replace",
    "core.JaxprEqnContext": "compute_type manager xla_metadata",
    "core.JaxprTypeError": "",
    "core.ShapedArray":
        "shape dtype weak_type ndim size sharding manual_axis_type str_short "
        "strip_weak_type to_tangent_aval to_cotangent_aval update",
    "core.Trace":
        "parent_trace invalidate is_valid process_call process_custom_jvp_call "
        "process_custom_vjp_call process_primitive",
    "core.Tracer":
        "aval dtype full_lower itemsize ndim shape sharding size to_concrete_value weak_type",
    "interpreters.ad.JVPTrace": "parent_trace tag process_primitive to_primal_tangent_pair",
    "interpreters.ad.JVPTracer": "aval dtype full_lower ndim primal shape size tangent weak_type",
    "interpreters.batching.BatchTrace":
        "axis_data parent_trace tag process_primitive to_batch_info",
    "interpreters.batching.BatchTracer": "",
    "interpreters.mlir.ModuleContext":
        "add_keepalive axis_context backend context get_backend ip lowering_parameters module "
        "platforms shape_poly_state symbol_table",
    "interpreters.mlir.TokenSet": "create get items names subset update_tokens",
    "interpreters.partial_eval.DynamicJaxprTrace":
        "parent_trace default_process_primitive new_arg process_primitive to_jaxpr "
        "to_jaxpr_tracer",
    "interpreters.partial_eval.DynamicJaxprTracer": "",
    "interpreters.partial_eval.JaxprTracer": "",
    "interpreters.pxla.ResourceEnv": "physical_mesh",
    "interpreters.pxla.thread_resources": "env",
    "linear_util.WrappedFun": "call_wrapped debug_info f in_type params",
    "random.PRNGImpl": "fold_in key_shape name random_bits seed split tag",
    "ref.AbstractRef": "dtype inner_aval ndim shape size str_short update weak_type",
    "ref.Ref": "addupdate at aval dtype get ndim set shape size swap",
    "sharding.GSPMDSharding":
        "addressable_devices_indices_map device_set devices_indices_map get_replicated "
        "is_equivalent_to is_fully_addressable is_fully_replicated memory_kind num_devices "
        "shard_shape with_memory_kind",
    "source_info_util.SourceInfo": "name_stack replace traceback",
}.items()}
#: Dotted name -> the arguments that generations promise, of functions and classes that take others
#: for the engine's use, or for reasons of the past; empty: mjax alone makes instances.
SIGNATURES: Mapping[str, str] = {
    "api_util.flatten_fun": "(fun, in_tree)",
    "api_util.flatten_fun_nokwargs": "(fun, in_tree)",
    "core.JaxprEqn": "",
    "core.ShapedArray": "(shape, dtype, weak_type=False, *, sharding=None)",
    "core.unmapped_aval": "(size, axis, aval)",
    "interpreters.batching.bdim_at_front": "(x, bdim, size)",
    "interpreters.batching.broadcast": "(x, sz, axis)",
    "interpreters.mlir.TokenSet": "",
    "interpreters.mlir.ir_constant": "(val)",
    "interpreters.partial_eval.DynamicJaxprTracer": "",
    "interpreters.partial_eval.trace_to_jaxpr_dynamic":
        "(fun, in_avals, *, keep_inputs=None, lower=False, auto_dce=False)",
    "interpreters.pxla.ResourceEnv": "",
    "linear_util.WrappedFun": "",
    "random.PRNGImpl": "",
    "ref.AbstractRef": "(inner_aval)",
    "ref.Ref": "",
    "source_info_util.NameStack": "",
    "source_info_util.SourceInfo": "(traceback, name_stack=())",
}
#: Dotted name -> the params that may be read, of primitives that hold functions of users. Which
#: others they have is the engine's: applications are made by `mjax.jit` and its kin.
PARAMS: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in {
    "core.primitives.custom_jvp_call_p": "call_jaxpr num_consts symbolic_zeros",
    "core.primitives.custom_vjp_call_p": "call_jaxpr num_consts symbolic_zeros",
    "core.primitives.jit_p": "jaxpr name donated_invars keep_unused inline",
}.items()}


class Listed(Record):
    """The part of a class that a generation shows.

    Attributes:
      signature: the arguments of a call, as text; empty: it is not to be called.
      attributes: names of attributes, properties and methods.
    """

    signature: str
    attributes: frozenset[str]


def _listed(signature: str, attributes: str) -> Listed:
    return Listed(signature, frozenset(attributes.split()))


_OF_PRIMITIVE = (
    "name schema multiple_results call_primitive map_primitive impl bind bind_with_trace "
    "get_bind_params rules def_abstract_eval def_batch def_effectful_abstract_eval def_impl "
    "def_jvp def_lowering def_schema def_transpose")
_OF_JAXPR = ("consts constvars debug_info effects eqns in_avals invars jaxpr literals out_avals "
             "outvars pretty_print replace")
#: Dotted name -> what generations show of it.
FACADES: Mapping[str, Listed] = {
    "core.CallPrimitive": _listed("(name, params=None)", _OF_PRIMITIVE),
    "core.ClosedJaxpr": _listed("(jaxpr, consts)", _OF_JAXPR),
    "core.Jaxpr": _listed(
        "(constvars, invars, outvars, eqns, effects=..., debug_info=None)", _OF_JAXPR),
    "core.Primitive": _listed(
        "(name, *, params=None, examples=(), multiple_results=False)", _OF_PRIMITIVE),
    "interpreters.mlir.LoweringRuleContext": _listed(
        "",
        "module_context primitive avals_in avals_out tokens_in tokens_out set_tokens_out "
        "name_stack traceback platforms dim_var_values is_forward_compat replace inline call"),
}


#: Docstrings of classes that take other arguments in generations than in the engine.
_DOCS: Mapping[str, str] = {"core.ClosedJaxpr": """A program with the values of its constants.

    Args:
      jaxpr: the program.
      consts: the values, one for each of its `constvars`.

    Example:
      >>> from mjax_ext.v1 import core
      >>> jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
      >>> core.ClosedJaxpr(jaxpr, jaxpr.consts).in_avals
      [ShapedArray(float32[], weak_type=True)]
    """}


class Facade(type):
    """The class of facades."""

    _target: type
    _listed: Listed

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an instance of the engine's class, from the listed arguments."""
        if not cls._listed.signature:
            msg = f"{cls.__name__} is made by mjax alone: rules receive it."
            raise TypeError(msg)
        try:
            given = cls.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{cls.__name__}{cls._listed.signature}: {error}."
            raise TypeError(msg) from None
        return cls._target(*given.args, **given.kwargs)

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any],
                **kwargs: Any) -> Any:
        """A facade; a subclass of one is an ordinary subclass of the engine's class."""
        if not any(isinstance(base, Facade) for base in bases):
            return super().__new__(mcs, name, bases, namespace)
        real = tuple(base._target if isinstance(base, Facade) else base for base in bases)
        return type(real[0])(name, real, namespace, **kwargs)

    @property
    def stands_for(cls) -> type:
        """The engine's class, for schemas."""
        return cls._target

    @property
    def __signature__(cls) -> inspect.Signature:
        scope: dict[str, Any] = {}
        exec(f"def f{cls._listed.signature or '()'}: pass", scope)
        return inspect.signature(scope["f"])

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._target)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(getattr(subclass, "_target", subclass), cls._target)

    def __getattr__(cls, name: str) -> Any:
        if name in cls._listed.attributes:
            return getattr(cls._target, name)
        msg = (f"{cls.__module__}.{cls.__name__} does not show {name!r}. It shows "
               f"{', '.join(sorted(cls._listed.attributes))}.")
        raise AttributeError(msg, name=name, obj=cls)

    def __dir__(cls) -> list[str]:
        return sorted(cls._listed.attributes)


def facade(name: str, target: type, generation: str) -> Any:
    """The facade of a class.

    Args:
      name: its dotted name below the namespace.
      target: the class of its instances.
      generation: the generation that shows it.
    """
    home, _, last = name.rpartition(".")
    return Facade(last, (), {
        "__slots__": (), "__doc__": _DOCS.get(name, target.__doc__), "_target": target,
        "_listed": FACADES[name],
        "__module__": f"mjax_ext.{generation}.{home}"})
