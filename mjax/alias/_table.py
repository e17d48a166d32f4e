"""Which names the alias has beyond those of the public modules of mjax.

A module of jax that is not listed here is mjax's of the same name: `jax.numpy` is `mjax.numpy`.
`docs/alias.md` lists the private names; a test compares.
"""

from __future__ import annotations


def _of(home: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), home)


#: Module of jax -> the module of mjax that has all its names.
OPEN = {
    "jax.extend.backend": "mjax_ext.backend",
    "jax.extend.core.primitives": "mjax_ext.core.primitives",
    "jax.extend.ifrt_programs": "mjax_ext.ifrt_programs",
    "jax.extend.linear_util": "mjax_ext.linear_util",
    "jax.extend.lowering": "mjax_ext.lowering",
    "jax.extend.random": "mjax_ext.random",
    "jax.extend.sharding": "mjax_ext.sharding",
    "jax.extend.source_info_util": "mjax_ext.source_info_util",
    "jax.interpreters.ad": "mjax_ext.interpreters.ad",
    "jax.interpreters.batching": "mjax_ext.interpreters.batching",
    "jax.interpreters.mlir": "mjax_ext.interpreters.mlir",
    "jax.interpreters.partial_eval": "mjax_ext.interpreters.partial_eval",
    "jax.interpreters.pxla": "mjax_ext.interpreters.pxla",
    "jax.interpreters.xla": "mjax_ext.interpreters.xla",
}

_CORE = "mjax_ext.core"
_EXTEND_CORE = """
    AbstractToken CallPrimitive ClosedJaxpr DebugInfo DropVar Effect Effects
    InconclusiveDimensionOperation Jaxpr JaxprEqn JaxprTypeError Literal Primitive Token TraceTag
    Var array_types call_impl check_jaxpr concrete_or_error find_top_trace gensym
    get_opaque_trace_state jaxpr_as_fun jaxprs_in_params mapped_aval new_jaxpr_eqn no_effects
    nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype set_current_trace subjaxprs
    take_current_trace unmapped_aval unsafe_am_i_under_a_jit_DO_NOT_USE
    unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE valid_jaxtype"""
_ARTIFACTS = """
    deserialize_portable_artifact hlo_to_stablehlo lower_with_sharding_in_types
    refine_polymorphic_shapes serialize_portable_artifact"""

#: Module of jax -> its names -> the module of mjax that has the name, or `module:name`.
CLOSED: dict[str, dict[str, str]] = {
    "jax.core": _of(_CORE, """
        AbstractValue Atom ParamDict ShapedArray Trace Tracer Value eval_context eval_jaxpr max_dim
        min_dim
        CallPrimitive DebugInfo DropVar Effect Effects InconclusiveDimensionOperation JaxprTypeError
        OutputType abstract_token check_jaxpr concrete_or_error find_top_trace gensym
        get_opaque_trace_state is_concrete is_constant_dim is_constant_shape jaxprs_in_params
        new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype
        pytype_aval_mappings trace_ctx unsafe_am_i_under_a_jit_DO_NOT_USE
        unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE valid_jaxtype""")
    | _of("mjax", "ensure_compile_time_eval"),
    "jax.extend.core": _of(_CORE, _EXTEND_CORE),
    "jax.extend.mlir": _of("mjax_ext.interpreters.mlir", _ARTIFACTS + " ir passmanager dialects"),
    "jax.experimental.sparse": _of("mjax.alias._sparse", "BCOO sparsify"),
    "jax.lib": {},
    # ---- private names
    "jax._src.ad_checkpoint": _of("mjax_ext.core.primitives", "name_p remat_p"),
    "jax._src.ad_util":
        _of("mjax_ext.core.primitives", "stop_gradient_p")
        | _of("mjax_ext.interpreters.ad", "Zero"),
    "jax._src.api": _of("mjax", "ShapeDtypeStruct jit"),
    "jax._src.api_util": _of("mjax_ext.api_util", "infer_argnums_and_argnames"),
    "jax._src.checkify":
        _of("mjax.experimental.checkify", "Error checkify user_checks")
        | {"JaxException": "mjax._checkify.errors:CheckError", "Out": "mjax.alias._private"},
    "jax._src.compiler": {
        "backend_compile_and_load": "mjaxlib_shim.executables:compile_module"},
    "jax._src.core": _of(_CORE, f"""
        {_EXTEND_CORE}
        AbstractValue Atom ShapedArray Trace Tracer eval_jaxpr full_lower get_aval is_concrete
        physical_aval pytype_aval_mappings trace_ctx trace_state_clean"""),
    "jax._src.dispatch":
        _of("mjax.alias._private", "wait_for_tokens")
        | _of("mjax_ext.interpreters.xla", "apply_primitive"),
    "jax._src.distributed": _of("mjax.alias._private", "State global_state"),
    "jax._src.dtypes":
        _of("mjax.dtypes", """TypePromotionError bfloat16 canonicalize_dtype extended finfo float0
            iinfo issubdtype itemsize_bits prng_key result_type scalar_type_of""")
        | _of("mjax.alias._private", "DType supports_inf to_complex_dtype")
        | {"ExtendedDType": "mjax._engine.ir.dtypes"},
    "jax._src.effects":
        _of(_CORE, "Effect") | _of("mjax_ext.interpreters.mlir", "lowerable_effects"),
    "jax._src.flatten_util": _of("mjax.flatten_util", "ravel_pytree"),
    "jax._src.interpreters.pxla": _of("mjax_ext.interpreters.pxla", "global_result_handlers"),
    "jax._src.layout": _of("mjax.experimental.layout", "Format"),
    "jax._src.literals":
        _of("mjax.alias._private", "TypedComplex TypedFloat TypedInt TypedNdArray"),
    "jax._src.mesh":
        _of("mjax.sharding", "AxisType Mesh")
        | _of("mjax_ext.interpreters.pxla", "thread_resources"),
    "jax._src.mesh_utils": _of("mjax.experimental.mesh_utils", "create_device_mesh"),
    "jax._src.pjit": _of("mjax_ext.core.primitives", "jit_p"),
    "jax._src.public_test_util":
        _of("mjax.test_util", "check_grads check_jvp check_vjp")
        | _of("mjax.alias._private", "check_close"),
    "jax._src.random.threefry2x32":
        _of("mjax.alias._private", "threefry_random_bits threefry_seed threefry_split"),
    "jax._src.sharding": _of("mjax.sharding", "Sharding"),
    "jax._src.source_info_util":
        _of("mjax_ext.source_info_util", "current extend_name_stack new_source_info summarize"),
    "jax._src.state.types": _of("mjax._engine.ir.references", "AbstractRef"),
    "jax._src.traceback_util":
        _of("mjax_ext.traceback_util",
            "api_boundary filter_traceback include_frame register_exclusion")
        | _of("mjax.alias._private", "_exclude_paths"),
    "jax._src.tree_util": _of("mjax.tree_util", """
        KeyEntry KeyPath Partial PyTreeDef flatten_one_level tree_flatten tree_leaves tree_map
        tree_structure tree_unflatten treedef_is_leaf""")
        | _of("mjax.alias._private", "_registry"),
    "jax._src.typing": _of("mjax.typing", "ArrayLike DTypeLike") | _of("mjax", "Array"),
    "jax._src.util": _of("mjax_ext.util", "safe_map safe_zip split_list unzip2 wraps"),
    "jax._src.xla_bridge":
        _of("mjax_ext.backend", "devices get_backend")
        | {"_backends": "mjax._engine.runtime.arrays.devices:_clients"},
}

#: Names that are looked up at every use, and whose assignment reaches mjax.
LIVE = {"jax._src.compiler.backend_compile_and_load", "jax._src.xla_bridge._backends"}

#: Places to look for a missing private name, for the message.
SEARCHED = (
    "mjax_ext.core", "mjax_ext.interpreters.ad", "mjax_ext.interpreters.batching",
    "mjax_ext.interpreters.mlir", "mjax_ext.interpreters.partial_eval",
    "mjax_ext.interpreters.pxla", "mjax_ext.interpreters.xla", "mjax_ext.api_util",
    "mjax_ext.linear_util", "mjax_ext.util", "mjax_ext.source_info_util",
    "mjax_ext.traceback_util", "mjax_ext.backend", "mjax_ext.core.primitives", "mjax_ext.random",
    "mjax_ext.sharding", "mjax.api_util", "mjax.tree_util", "mjax.dtypes", "mjax.errors",
    "mjax.sharding", "mjax.lax", "mjax", "mjax.numpy",
)
