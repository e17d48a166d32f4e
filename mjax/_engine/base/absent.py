"""Names of JAX that mjax does not have, and what to use in their place.

`ABSENT` are names of jax 0.10.2. `FORMER` are names that JAX once had: programs written for an
older release ask for them. `ELSEWHERE` are names that JAX never had where users look for them,
since NumPy, SciPy or another library has them there. The error for any other name says that JAX
does not have it either.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The release whose names these are.
JAX = "0.10.2"

_REFERENCES = "mjax does not have mutable references yet; return the new value instead."
_EXPLICIT = ("mjax does not have types with shardings: its meshes are Auto. "
             "lax.with_sharding_constraint and device_put place values.")
_EXTENSION = "It belongs to the extension surface here: import {} instead."
_PLATFORM = "It is for accelerators. mjax runs on CPU so far."
_KEY_REUSE = "mjax does not look for keys that are used twice."

#: Module -> name -> a sentence, which follows "jax has it."
ABSENT: Mapping[str, Mapping[str, str]] = {
    "mjax": {
        **dict.fromkeys(("Ref", "empty_ref", "free_ref", "freeze", "new_ref", "ref"), _REFERENCES),
        **dict.fromkeys(("auto_pcast", "remove_size_one_mesh_axis_from_type", "reshard"),
                        _EXPLICIT),
        "api_util": "It is about how JAX works inside. mjax.tree_util has functions of trees.",
        "array_garbage_collection_guard": "mjax does not guard the collection of arrays.",
        "cloud_tpu_init": _PLATFORM, "collect_profile": "mjax.profiler records profiles.",
        "core": _EXTENSION.format("mjax_ext.core"),
        "debug_key_reuse": _KEY_REUSE,
        "ds": "Use lax.dynamic_slice, as mjax does not have mutable references yet.",
        "enable_custom_prng": "Keys of mjax.random.key have a type of their own without it.",
        "export": "mjax does not export programs yet. mjax.jit(f).lower(...).as_text() shows them.",
        "extend": "mjax_ext is what extends mjax: mjax_ext.core, mjax_ext.interpreters.",
        "ffi": "mjax does not call foreign functions yet. mjax.pure_callback calls Python's.",
        "fwd_and_bwd": "Use mjax.vjp, which gives the result and the backward function.",
        "host_count": "Use mjax.process_count.",
        "host_id": "Use mjax.process_index.",
        "host_ids": "Use mjax.process_indices.",
        "interpreters": _EXTENSION.format("mjax_ext.interpreters"),
        "jax2tf_associative_scan_reductions": "mjax does not have jax2tf.",
        "lib": "mjaxlib_shim is the part of mjax that knows jaxlib.",
        "memory": "mjax names a memory by its kind: NamedSharding(..., memory_kind=...).",
        "softmax_custom_jvp": "mjax.nn.softmax always has that derivative.",
        "thread_guard": "mjax does not guard against computing on several threads.",
        "tools": "mjax.jit(f).lower(...).as_text() shows programs.",
    },
    "mjax.errors": {
        "InconclusiveDimensionOperation": "mjax does not have symbolic shapes yet.",
        "JAXIndexError": "mjax raises IndexError.",
        "JAXTypeError": "mjax raises TypeError.",
        "KeyReuseError": _KEY_REUSE,
    },
    "mjax.experimental": {
        "EArray": "mjax has arrays of one class.",
        "array_serialization": "mjax.experimental.checkpoint saves trees of arrays.",
        "buffer_callback": "Use mjax.pure_callback or mjax.experimental.io_callback.",
        "checkify": "mjax.debug_nans and mjax.debug.callback find such mistakes.",
        "colocated_python": "mjax does not run Python on other hosts. mjax.pure_callback runs it.",
        "compilation_cache": "mjax.config.update('jax_compilation_cache_dir', ...) is its switch.",
        "compute_on": "mjax does not place parts of programs. mjax.pure_callback runs Python.",
        "control_deps": "mjax.lax.optimization_barrier keeps an order.",
        "cur_qdd": "mjax does not have mutable types.",
        "custom_partitioning": "mjax.shard_map says how a function is cut over devices.",
        "fused": "mjax.jit makes one program of a function.",
        "hijax": "mjax does not have types of users.",
        "jax2tf": "mjax does not have a bridge to TensorFlow. mjax.dlpack hands arrays over.",
        "jet": "Nest mjax.jvp for higher derivatives.",
        "key_reuse": _KEY_REUSE,
        "mosaic": _PLATFORM,
        "pallas": "mjax does not have a language for kernels. Use mjax.numpy and mjax.lax.",
        "primal_tangent_dtype": "mjax_ext.core.primal_dtype_to_tangent_dtype tells tangent types.",
        "profiler": "mjax.profiler records profiles.",
        "random": "mjax.random has functions of keys, without a state.",
        "rnn": "Write the step of a recurrent network, and mjax.lax.scan over it.",
        "roofline": "mjax.jit(f).lower(...).cost_analysis() estimates costs.",
        "scheduling_groups": _PLATFORM,
        "serialize_executable": "The flag jax_compilation_cache_dir keeps programs on disk.",
        "shard_alike": "mjax.lax.with_sharding_constraint places values within programs.",
        "source_mapper": "mjax.jit(f).lower(...).as_text(debug_info=True) shows source lines.",
        "sparse": "mjax does not have sparse arrays. mjax.ops.segment_sum adds by index.",
        "topologies": "mjax compiles for devices that are there.",
        "transfer": "mjax.device_put moves arrays between devices.",
        "xla_metadata": "mjax.named_scope names parts of a program.",
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

_LAYERS = dict.fromkeys((
    "BatchNorm", "Conv", "Conv1d", "Conv2d", "Dense", "Dropout", "Embedding", "LayerNorm", "Linear",
    "MaxPool", "Module", "Sequential", "functional"),
    "mjax.example_libraries.stax, or a library of networks")
_OPTIMIZERS = "mjax.example_libraries.optimizers, or a library of optimizers"
_STATELESS = "mjax.random.key, and hand keys on: generators here have no state"
_MINIMIZE = "mjax.scipy.optimize.minimize of a sum of squares"
_ROOTS = "mjax.lax.while_loop for the steps, in mjax.lax.custom_root for derivatives"
_NUMPY_READS = "mjax.numpy.asarray of what NumPy reads"

#: Module -> a name that others have in such a place -> the name to use.
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "mjax": {
        "Tensor": "mjax.Array", "array": "mjax.numpy.array", "optax": _OPTIMIZERS,
        "optim": _OPTIMIZERS, "optimizers": "mjax.example_libraries.optimizers",
        "pjit": "mjax.jit", "stax": "mjax.example_libraries.stax",
        "stop_gradient": "mjax.lax.stop_gradient",
    },
    "mjax.image": {
        "affine_transform": "mjax.scipy.ndimage.map_coordinates",
        "crop": "mjax.lax.dynamic_slice", "flip": "mjax.numpy.flip", "rot90": "mjax.numpy.rot90",
    },
    "mjax.lax": {
        "einsum": "mjax.numpy.einsum", "expit": "mjax.lax.logistic", "matmul": "mjax.lax.dot",
        "sigmoid": "mjax.lax.logistic", "softmax": "mjax.nn.softmax", "where": "mjax.lax.select",
    },
    "mjax.nn": {
        **_LAYERS,
        "avg_pool": "mjax.lax.reduce_window", "max_pool": "mjax.lax.reduce_window",
        "conv": "mjax.lax.conv", "dropout": "mjax.random.bernoulli and mjax.numpy.where",
        "cross_entropy": "mjax.nn.log_softmax", "layer_norm": "mjax.nn.standardize",
        "batch_norm": "mjax.nn.standardize", "prelu": "mjax.nn.leaky_relu",
        "softmin": "mjax.nn.softmax(-x)",
    },
    "mjax.nn.initializers": {
        "he": "mjax.nn.initializers.he_normal", "kaiming": "mjax.nn.initializers.he_normal",
        "lecun": "mjax.nn.initializers.lecun_normal", "ones_init": "mjax.nn.initializers.ones",
        "xavier": "mjax.nn.initializers.glorot_normal", "zeros_init": "mjax.nn.initializers.zeros",
        "glorot": "mjax.nn.initializers.glorot_normal",
    },
    "mjax.numpy": {
        **{name: f"mjax.nn.{name}" for name in ("relu", "sigmoid", "softmax", "softplus")},
        **{name: f"mjax.scipy.special.{name}" for name in ("erf", "erfc", "gammaln", "logsumexp")},
        **dict.fromkeys(("asmatrix", "bmat", "mat", "matrix"), "mjax.numpy.array, with two axes"),
        **dict.fromkeys(("copyto", "putmask"), "x.at[mask].set(y), or mjax.numpy.where"),
        **dict.fromkeys(("errstate", "seterr"), "mjax.debug_nans and mjax.debug_infs"),
        **dict.fromkeys(("fromregex", "genfromtxt", "loadtxt", "memmap"), _NUMPY_READS),
        "asanyarray": "mjax.numpy.asarray", "ascontiguousarray": "mjax.numpy.asarray",
        "asarray_chkfinite": "mjax.numpy.asarray and mjax.debug_nans",
        "asfarray": "mjax.numpy.asarray(x, dtype=float)",
        "float": "float, or mjax.numpy.float32", "int": "int, or mjax.numpy.int32",
        "ma": "mjax.numpy.where, and the argument `where` of reductions",
        "ndindex": "numpy.ndindex", "poly1d": "mjax.numpy.polyval and its kin",
        "random": "mjax.random", "stop_gradient": "mjax.lax.stop_gradient",
        "testing": "numpy.testing",
    },
    "mjax.numpy.linalg": {
        "LinAlgError": "numpy.linalg.LinAlgError, which mjax does not raise: results are NaN",
        "expm": "mjax.scipy.linalg.expm", "lu": "mjax.scipy.linalg.lu",
    },
    "mjax.ops": {
        "segment_mean": "mjax.ops.segment_sum, and divide by the segment_sum of ones",
    },
    "mjax.random": {
        **dict.fromkeys(("rand", "random", "random_sample"), "mjax.random.uniform"),
        **dict.fromkeys(("randn", "standard_normal"), "mjax.random.normal"),
        **dict.fromkeys(("Generator", "RandomState", "default_rng", "seed"), _STATELESS),
        "integers": "mjax.random.randint",
        "negative_binomial": "mjax.random.poisson, whose means mjax.random.gamma gives",
        "standard_cauchy": "mjax.random.cauchy", "standard_gamma": "mjax.random.gamma",
        "standard_exponential": "mjax.random.exponential", "standard_t": "mjax.random.t",
        "weibull": "mjax.random.weibull_min",
    },
    "mjax.scipy.fft": {name: f"mjax.numpy.fft.{name}" for name in (
        "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn",
        "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn")},
    "mjax.scipy.integrate": {
        **dict.fromkeys(("odeint", "ode", "solve_ivp"), "mjax.experimental.ode.odeint"),
        **dict.fromkeys(("quad", "romb", "simps", "simpson", "trapz"),
                        "mjax.scipy.integrate.trapezoid"),
    },
    "mjax.scipy.interpolate": {
        "griddata": "mjax.scipy.interpolate.RegularGridInterpolator",
        "interp1d": "mjax.numpy.interp",
        "interpn": "mjax.scipy.interpolate.RegularGridInterpolator",
    },
    "mjax.scipy.linalg": {
        **{name: f"mjax.numpy.linalg.{name}" for name in (
            "eig", "eigvals", "eigvalsh", "lstsq", "norm", "pinv", "svdvals")},
        "kron": "mjax.numpy.kron", "pinvh": "mjax.numpy.linalg.pinv(x, hermitian=True)",
    },
    "mjax.scipy.ndimage": {
        **dict.fromkeys(("convolve", "correlate", "gaussian_filter", "uniform_filter"),
                        "mjax.scipy.signal.convolve"),
        **dict.fromkeys(("affine_transform", "rotate", "shift"),
                        "mjax.scipy.ndimage.map_coordinates"),
        "zoom": "mjax.image.resize",
    },
    "mjax.scipy.optimize": {
        **dict.fromkeys(("curve_fit", "least_squares", "leastsq"), _MINIMIZE),
        **dict.fromkeys(("bisect", "brentq", "fsolve", "newton", "root", "root_scalar"), _ROOTS),
        "fmin_bfgs": "mjax.scipy.optimize.minimize(method='BFGS')",
    },
    "mjax.scipy.signal": {
        "lfilter": "mjax.lax.scan", "periodogram": "mjax.scipy.signal.welch with one segment",
        "spectrogram": "mjax.scipy.signal.stft",
    },
    "mjax.scipy.special": {
        **{name: f"mjax.numpy.{name}" for name in ("cbrt", "exp2", "expm1", "log1p", "round")},
        **dict.fromkeys(("j0", "j1", "jn", "jv"), "mjax.scipy.special.bessel_jn"),
        "binom": "mjax.scipy.special.comb", "psi": "mjax.scipy.special.digamma",
    },
    "mjax.scipy.stats": {"zscore": "mjax.nn.standardize(x, axis=0, epsilon=0)"},
    **{f"mjax.scipy.stats.{ours}": {"rvs": f"mjax.random.{sampler}"} for ours, sampler in (
        *((name, name) for name in (
            "bernoulli", "beta", "cauchy", "dirichlet", "gamma", "laplace", "logistic",
            "multinomial", "multivariate_normal", "pareto", "poisson", "t", "uniform")),
        ("binom", "binomial"), ("chi2", "chisquare"), ("expon", "exponential"),
        ("gennorm", "generalized_normal"), ("geom", "geometric"), ("gumbel_r", "gumbel"),
        ("norm", "normal"), ("truncnorm", "truncated_normal"))},
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
        return f"{said}. jax {JAX} has {theirs}. {reason}"
    if instead := FORMER.get(module, {}).get(name):
        return f"{said}: JAX removed {theirs} before {JAX}. Use {instead}."
    neither = f"{said}. jax {JAX} does not have {theirs} either."
    if instead := ELSEWHERE.get(module, {}).get(name):
        return f"{neither} Use {instead}."
    return neither
