"""Names of JAX that mjax does not have, and what to use in their place.

`ABSENT` are names of jax 0.10.2. `FORMER` are names that JAX once had: programs written for an
older release ask for them. The error for any other name says that JAX does not have it either.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The release whose names these are.
JAX = "0.10.2"

_REFERENCES = "mjax does not have mutable references yet; return the new value instead."
_EXPLICIT = ("mjax does not have types with shardings: its meshes are Auto. "
             "lax.with_sharding_constraint and device_put place values.")
_EXTENSION = "it belongs to the extension surface here: import {} instead."
_KEY_REUSE = "mjax does not look for keys that are used twice."

#: Module -> name -> a sentence.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "mjax": {
        **dict.fromkeys(("Ref", "empty_ref", "free_ref", "freeze", "new_ref", "ref"), _REFERENCES),
        **dict.fromkeys(("auto_pcast", "remove_size_one_mesh_axis_from_type", "reshard"),
                        _EXPLICIT),
        "array_garbage_collection_guard": "mjax does not guard the collection of arrays.",
        "core": _EXTENSION.format("mjax_ext.core"),
        "debug_key_reuse": _KEY_REUSE,
        "ds": "use lax.dynamic_slice, as mjax does not have mutable references yet.",
        "enable_custom_prng": "keys of mjax.random.key have a type of their own without it.",
        "fwd_and_bwd": "use mjax.vjp, which gives the result and the backward function.",
        "host_count": "use mjax.process_count.",
        "host_id": "use mjax.process_index.",
        "host_ids": "use mjax.process_indices.",
        "interpreters": _EXTENSION.format("mjax_ext.interpreters"),
        "jax2tf_associative_scan_reductions": "mjax does not have jax2tf.",
        "lib": "mjaxlib_shim is the part of mjax that knows jaxlib.",
        "memory": "mjax names a memory by its kind: NamedSharding(..., memory_kind=...).",
        "softmax_custom_jvp": "mjax.nn.softmax always has that derivative.",
        "thread_guard": "mjax does not guard against computing on several threads.",
    },
    "mjax.errors": {
        "InconclusiveDimensionOperation": "mjax does not have symbolic shapes yet.",
        "JAXIndexError": "mjax raises IndexError.",
        "JAXTypeError": "mjax raises TypeError.",
        "KeyReuseError": _KEY_REUSE,
    },
    "mjax.experimental": {
        "EArray": "mjax has arrays of one class.",
        "checkify": "mjax.debug_nans and mjax.debug.callback find such mistakes.",
        "compilation_cache": "mjax.config.update('jax_compilation_cache_dir', ...) is its switch.",
        "cur_qdd": "mjax does not have mutable types.",
        "hijax": "mjax does not have types of users.",
        "jet": "nest mjax.jvp for higher derivatives.",
        "pallas": "mjax does not have a language for kernels: mjax.numpy or a foreign function.",
        "primal_tangent_dtype": "mjax_ext.core.primal_dtype_to_tangent_dtype tells tangent types.",
        "sparse": "mjax does not have sparse arrays: mjax.ops.segment_sum adds by index.",
    },
    "mjax.lax": {
        **dict.fromkeys(("precv", "psend"), "mjax runs on no devices that have it: use ppermute."),
    },
    "mjax.sharding": {
        **dict.fromkeys(("AbstractDevice", "auto_axes", "explicit_axes", "reshard"), _EXPLICIT),
    },
}

#: Module -> a name that JAX once had -> the name to use.
FORMER: Mapping[str, Mapping[str, str]] = {
    "mjax": {
        **{f"tree_{name}": f"mjax.tree.{name}" for name in (
            "flatten", "leaves", "map", "structure", "transpose", "unflatten")},
        "abstract_arrays": "mjax_ext.core",
        "clear_backends": "mjax.clear_caches",
        "device_put_replicated": "mjax.device_put with a NamedSharding",
        "device_put_sharded": "mjax.device_put with a NamedSharding",
        "tree_multimap": "mjax.tree.map",
        "treedef_is_leaf": "mjax.tree_util.treedef_is_leaf",
        "xla_computation": "mjax.jit(f).lower(...).compiler_ir('hlo')",
    },
    "mjax.experimental": {
        "disable_x64": "mjax.enable_x64(False)",
        "enable_x64": "mjax.enable_x64",
        "host_callback": "mjax.experimental.io_callback or mjax.pure_callback",
        "maps": "mjax.shard_map",
        "optimizers": "mjax.example_libraries.optimizers",
        "stax": "mjax.example_libraries.stax",
    },
    "mjax.lax": {
        "infeed": "mjax.experimental.io_callback",
        "outfeed": "mjax.experimental.io_callback",
    },
    "mjax.nn": {"normalize": "mjax.nn.standardize"},
    "mjax.numpy": {
        "DeviceArray": "mjax.Array",
        "alltrue": "mjax.numpy.all",
        "cumproduct": "mjax.numpy.cumprod",
        "fix": "mjax.numpy.trunc",
        "in1d": "mjax.numpy.isin",
        "issubsctype": "mjax.numpy.issubdtype",
        "msort": "mjax.numpy.sort(x, axis=0)",
        "product": "mjax.numpy.prod",
        "round_": "mjax.numpy.round",
        "row_stack": "mjax.numpy.vstack",
        "sometrue": "mjax.numpy.any",
        "trapz": "mjax.numpy.trapezoid",
    },
    "mjax.ops": {
        "index": "x.at[...]",
        "index_add": "x.at[...].add(y)",
        "index_max": "x.at[...].max(y)",
        "index_min": "x.at[...].min(y)",
        "index_mul": "x.at[...].multiply(y)",
        "index_update": "x.at[...].set(y)",
    },
    "mjax.random": {
        "KeyArray": "mjax.Array",
        "shuffle": "mjax.random.permutation",
    },
    "mjax.scipy.linalg": {"tril": "mjax.numpy.tril", "triu": "mjax.numpy.triu"},
    "mjax.sharding": {
        "GSPMDSharding": "mjax.sharding.NamedSharding",
        "PmapSharding": "mjax.sharding.NamedSharding",
        "PositionalSharding": "mjax.sharding.NamedSharding",
    },
    "mjax.tree_util": {"tree_multimap": "mjax.tree_util.tree_map"},
}


def why_absent(module: str, name: str) -> str:
    """The message for a name that a public module does not have.

    Example:
      >>> why_absent("mjax.numpy", "trapz").partition(": ")[2]
      'JAX removed jax.numpy.trapz before 0.10.2. Use mjax.numpy.trapezoid.'
    """
    said = f"module {module!r} has no attribute {name!r}"
    theirs = f"{module[1:]}.{name}"
    if reason := ABSENT.get(module, {}).get(name):
        return f"{said}. jax {JAX} has {theirs}, and {reason}"
    if instead := FORMER.get(module, {}).get(name):
        return f"{said}: JAX removed {theirs} before {JAX}. Use {instead}."
    return f"{said}. jax {JAX} does not have {theirs} either."
