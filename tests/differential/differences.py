"""Where public callables of mjax and jax differ on purpose: the one list, with the reasons.

An entry is a pattern for the lines that `test_surface` prints (of `fnmatch`; brackets stand for
themselves), and the reason. An entry that no difference matches any more fails the test: delete it.
"""

from __future__ import annotations

_MORE = "mjax names what jax takes as *args or **kwargs"
_PRIVATE = "only the library makes these objects"
_OLD = "older JAX has it too"

SIGNATURES = {
    "*: parameters [('new_val', *": "mjax shows the default, jax a sentinel",
    "api_util.debug_info: parameters [('result_paths_thunk', *": "None for jax's sentinel",
    "api_util.flatten_fun*: parameters [('in_tree', *": "jax's are wrappers with their parameters",
    "numpy.ndarray: *": _PRIVATE,
    "stages.*: parameters *": _PRIVATE,
    "experimental.checkify.Error: parameters *": _PRIVATE,
    "experimental.checkify.checkify: parameters [('errors', *": "classes of its own",
    "errors.*: parameters *": "mjax's errors take their text, jax's some take the tracer",
    "sharding.PartitionSpec: __name__ PartitionSpec, not P": "its name in pickles",
    "ShapeDtypeStruct: parameters [('vma', *": _OLD,
    "experimental.shard_map.shard_map: parameters [('auto', *": _OLD,
    "sharding.AbstractMesh: parameters *": "older JAX takes pairs of names and sizes",
    "sharding.AbstractMesh.update: parameters *": "mjax names them all",
    "remat: parameters [('static_argnames',*": "it is checkpoint",
    "*jit: parameters *": "None and no sharding mean the same",
    "stages.Compiled.call: __name__ __call__, not call": "the same function",
    "debug.breakpoint: parameters *": _MORE,
    "debug.visualize_array_sharding: parameters *": _MORE,
    "numpy.array: parameters *": "jax refuses them by place since 0.10, NumPy takes them",
    "numpy.fromfile: parameters *": _MORE,
    "numpy.fromiter: parameters *": _MORE,
    "numpy.set_printoptions: parameters *": _MORE,
    "numpy.result_type: parameters *": "dtypes.result_type has it in jax too",
    "lax.random_gamma_grad: *": "jax's is a wrapper without a signature",
    "*.argsort: parameters [('dtype', *": "of the function",
    "*.dot: parameters [('out_sharding', *": "of the function",
    "*.std: parameters [('mean', *": "of the function",
    "*.var: parameters [('mean', *": "of the function",
    "*.reshape: parameters [('copy', *": "of the function",
    "*.index: parameters [('bounds', *": "that of a tuple",
    "*.AbstractRef.update: parameters [('fields', *": "the fields of the array's type, too",
    "*.AbstractRef.*_val: parameters *": "of the base class",
    "experimental.hijax.HiPrimitive.*: parameters *": "those of mjax_ext.core.Primitive",
    "experimental.hijax.ShapedArray*": "mjax_ext.core.ShapedArray, whose types have no sharding",
    "experimental.hijax.*: __name__ *": "their names in the engine",
    "experimental.hijax.is_undefined_primal: parameters *": "that of mjax_ext.v1",
    "ref.Ref: parameters *": _PRIVATE,
    "ref.*: __name__ *, not ref_*": "their public names",
}

_CLASS = "both refuse; jax's class is that of the operation that happens to fail"
_PLACES = "mjax does not place references"
_EARLY = "mjax refuses at once what cannot be meant; jax fails later, or gives something else"
_OPTION = "mjax looks at every option; jax ignores values that it does not know"
_NUMPY = "mjax does what NumPy does"
_SIZES = "both refuse arrays as sizes and axes; jax's class is that of a comparison that fails"
_SIZES_ARE_INTEGERS = "a size is an integer"
_TRACED = "values that a program computes are not sizes; jax does not look at them"
_LATER = "mjax looks at it when it is used"


def _each(difference: str, why: str, functions: str) -> dict[str, str]:
    """An entry for each of some functions."""
    return {f"{name}{difference}": why for name in functions.split()}


CALLS = {
    # ---- scipy.special and scipy.stats -----------------------------------------------------
    "scipy.special.bessel_jn(*: TypeError, not ValueError": "jax's jit looks at static names first",
    **_each("(too many): TypeError, not ValueError", "jax's jit looks at static names first",
            "scipy.stats.mode scipy.stats.rankdata scipy.stats.sem"),
    "scipy.special.log_ndtr(x=ragged): ValueError, not TypeError": "both refuse it",
    "scipy.special.logsumexp(a, axis=text): TypeError, not NameError": "both refuse it",
    "scipy.special.owens_t(*complex*): ValueError, not accepted": "it takes real numbers",
    "scipy.stats.rankdata(a=key): TypeError, not accepted": "keys have no order",
    "experimental.checkify.Error(*": _PRIVATE,
    "experimental.checkify.*check(pred, msg*: TypeError, not accepted":
        "jax looks at the message when it is shown",
    "experimental.checkify.checkify(f*: TypeError, not accepted":
        "jax looks at its arguments when the result is called",
    # ---- scipy and library -----------------------------------------------------------------
    **_each("(*: TypeError, not AttributeError",
            "jax fails on an attribute that the argument lacks",
            "experimental.ode.odeint scipy.interpolate.RegularGridInterpolator"),
    "scipy.interpolate.RegularGridInterpolator(*: ValueError, not AttributeError":
        "jax fails on an attribute that the argument lacks",
    "scipy.*(too many): TypeError, not ValueError":
        "jax hashes static arguments before it counts them",
    "example_libraries.optimizers.*=key*: TypeError, not AssertionError": "an assertion of jax",
    "example_libraries.stax.*(too many): TypeError, not ValueError":
        "jax hashes static arguments before it counts them",
    "example_libraries.stax.standardize(x, axis=text): TypeError, not NameError":
        "no name of an axis is looked for",
    **_each("(*: TypeError, not IndexError", "jax indexes what is not a vector",
            "experimental.ode.odeint"),
    **_each("(too many): TypeError, not ValueError", "jax hashes static arguments first",
            "lax.fft nn.glu nn.log_softmax nn.logmeanexp nn.standardize"),
    **_each("(*axis=text): TypeError, not NameError", "jax takes it for the name of an axis",
            "nn.logmeanexp nn.logsumexp nn.standardize"),
    **_each("(image=*: TypeError, not AttributeError",
            "jax fails on an attribute that the argument lacks",
            "image.resize image.scale_and_translate"),
    "image.scale_and_translate(image=2.5*: ValueError, not AttributeError":
        "jax fails on an attribute that the argument lacks",
    "image.*(*method=*: TypeError, not AssertionError": "an assertion of jax",
    "image.*(*spatial_dims=text*: *Error, not AssertionError": "an assertion of jax",
    "random.f(*=rank4*: accepted, not TypeError": "parameters broadcast, as those of the others",
    "random.multinomial(*unroll=*: ValueError, not TypeError": "scan names its argument",
    "random.multinomial(*unroll=2.5): ValueError, not accepted": "a number of steps is an integer",
    # ---- both refuse, with other classes ---------------------------------------------------
    "lax.index_in_dim(*: IndexError, not AttributeError":
        "jax fails on an attribute that the argument lacks",
    "lax.conv_with_general_padding(*: TracerIntegerConversionError, not AttributeError":
        "jax fails on an attribute that the argument lacks",
    **_each("(*: TypeError, not AttributeError",
            "jax fails on an attribute that the argument lacks",
            "device_count devices experimental.io_callback experimental.pjit.pjit "
            "lax.associative_scan lax.batch_matmul lax.collapse lax.cond lax.conv "
            "lax.conv_general_dilated lax.conv_with_general_padding lax.dynamic_index_in_dim "
            "lax.dynamic_slice lax.dynamic_slice_in_dim lax.dynamic_update_slice lax.index_in_dim "
            "lax.reduce_window lax.slice_in_dim lax.sort lax.sort_key_val local_device_count "
            "local_devices named_call process_count process_index process_indices pure_callback "
            "sharding.make_single_device_sharding"),
    **_each("(*: ValueError, not AttributeError",
            "jax fails on an attribute that the argument lacks",
            "lax.associative_scan lax.batch_matmul lax.dynamic_slice lax.dynamic_slice_in_dim "
            "lax.dynamic_update_slice lax.full lax.full_like lax.slice_in_dim numpy.arange "
            "numpy.empty numpy.empty_like numpy.fft.fftfreq numpy.full numpy.full_like numpy.ones "
            "numpy.ones_like numpy.zeros numpy.zeros_like"),
    **_each("(*: TypeError, not AssertionError", "an assertion of jax",
            "lax.dynamic_update_index_in_dim lax.random_gamma_grad"),
    "lax.dynamic_update_index_in_dim(*: ValueError, not AssertionError": "an assertion of jax",
    "nn.glu(*: ValueError, not AssertionError": "an assertion of jax",
    "lax.padtype_to_pads(*: TracerIntegerConversionError, not RuntimeError":
        "a RuntimeError of jaxlib about a text",
    **_each("(*: ValueError, not RuntimeError", "a RuntimeError of jaxlib about a text",
            "lax.conv lax.conv_general_dilated lax.conv_general_dilated_patches "
            "lax.conv_with_general_padding lax.reduce_window"),
    **_each("(unknown keyword): TypeError, not ValueError", "jax hashes static arguments first",
            "lax.fft numpy.argpartition numpy.partition numpy.resize"),
    **_each("(*: TypeError, not IndexError", "jax indexes a shape with what is not an index",
            "lax.dynamic_index_in_dim lax.dynamic_slice_in_dim lax.dynamic_update_slice_in_dim "
            "lax.index_in_dim lax.reduce lax.reduce_and lax.reduce_or lax.reduce_xor "
            "numpy.packbits numpy.swapaxes numpy.unpackbits random.categorical"),
    **_each("(*: ValueError, not IndexError", "jax indexes a shape with what is not an index",
            "lax.associative_scan lax.map lax.reduce numpy.linalg.lstsq numpy.polyval "
            "random.categorical"),
    **_each("(*=key*: TypeError, not IndexError", "a key is of the wrong type",
            "numpy.fft.hfft numpy.linalg.vecdot numpy.vecdot"),
    "numpy.cov(*weights=2.5): RuntimeError, not IndexError": _NUMPY,
    **_each("(*=key*: TypeError, not ValueError",
            "a key is of the wrong type; jax looks at its shape or its value first",
            "dtypes.itemsize_bits lax.bitcast_convert_type numpy.all numpy.any numpy.can_cast "
            "numpy.column_stack numpy.concatenate numpy.dstack numpy.hstack "
            "numpy.isdtype numpy.linalg.tensordot numpy.signbit numpy.tensordot "
            "numpy.vstack random.fold_in random.randint"),
    **_each("(*=key*: ValueError, not TypeError",
            "a key is not promoted, or has too few axes, before its dtype is looked at; jax: after",
            "lax.dynamic_slice lax.dynamic_update_slice numpy.apply_over_axes numpy.histogramdd "
            "numpy.linalg.matrix_norm"),
    **_each("(*=ragged*: TypeError, not TracerArrayConversionError",
            "a ragged list is not an array; jax converts it entry by entry",
            "lax.dynamic_update_index_in_dim numpy.average random.double_sided_maxwell "
            "random.dirichlet random.gamma random.loggamma random.randint random.truncated_normal"),
    **_each("(*=ragged*: TypeError, not ValueError",
            "a ragged list is not an array; jax asks NumPy, which refuses its shape",
            "lax.conv_with_general_padding numpy.broadcast_shapes numpy.broadcast_to"),
    **_each("(*=ragged*: ValueError, not TypeError",
            "the list is refused for its length, before its entries are looked at",
            "numpy.copy numpy.permute_dims"),
    "lax.dynamic_*index_in_dim(too many): TypeError, not ValueError":
        "jax hashes static arguments before it counts them",
    "numpy.*(too many): TypeError, not ValueError":
        "jax hashes static arguments before it counts them",
    "numpy.*, out=*: NotImplementedError, not TypeError":
        "arrays are immutable: any `out` is refused",
    "numpy.*, out=*: NotImplementedError, not ValueError":
        "arrays are immutable: any `out` is refused",
    "lax.broadcast(operand, sizes=*: TracerIntegerConversionError, not ValueError": _SIZES,
    "lax.broadcast_in_dim(*dimensions=*: TracerIntegerConversionError, not ValueError":
        _SIZES,
    "lax.broadcast_to_rank(x, rank=*: TypeError, not TracerBoolConversionError": _SIZES,
    "lax.broadcast_to_rank(x, rank=*: TypeError, not ValueError": _SIZES,
    "lax.top_k(operand, k=*: TypeError, not TracerBoolConversionError": _SIZES,
    "lax.top_k(operand, k=*: TypeError, not ValueError": _SIZES,
    "lax.dynamic_update_index_in_dim(operand, update, index, axis=*: TypeError, not *": _SIZES,
    "lax.dynamic_*slice(*start_indices=scalar*: ValueError, not TypeError": _SIZES,
    "numpy.swapaxes(a, axis*: TypeError, not ValueError": _SIZES,
    "numpy.rollaxis(a, axis=*: TypeError, not ValueError": _SIZES,
    "numpy.unravel_index(indices, shape=*: TracerIntegerConversionError, not ValueError": _SIZES,
    "lax.*(operand, ax*=text*: TypeError, not ValueError": _CLASS,
    "lax.*(operand, axis=2.5*: TypeError, not ValueError": _CLASS,
    "lax.index_in_dim(operand, index, axis=text): TypeError, not ValueError": _CLASS,
    "lax.broadcasted_iota(dtype, shape, dimension=*: TypeError, not *": _CLASS,
    "lax.approx_*_k(operand=*: ValueError, not TypeError": _CLASS,
    "lax.broadcast_like(*: TypeError, not ValueError": _CLASS,
    "lax.conv*(*window_strides=text*: TypeError, not ValueError": _CLASS,
    "lax.conv_general_dilated(*group_count=2.5): TypeError, not ValueError": _CLASS,
    "lax.dot_general(*dimension_numbers=None): TypeError, not ValueError": _CLASS,
    "lax.empty(shape, dtype=*: ValueError, not TypeError": "an array is not a dtype",
    "dtypes.canonicalize_dtype(dtype=*: ValueError, not TypeError": "an array is not a dtype",
    "lax.fori_loop(*unroll=*: ValueError, not *": _CLASS,
    "lax.integer_pow(x, y=text): ValueError, not TypeError": _CLASS,
    "lax.pad(*: TypeError, not ValueError": _CLASS,
    "lax.pad(*: ValueError, not TypeError": _CLASS,
    "lax.platform_dependent(nothing): ValueError, not TypeError": _CLASS,
    "lax.reduce_and(operand=*axes): ValueError, not TypeError": "axes are checked before dtypes",
    "lax.reduce_or(operand=*axes): ValueError, not TypeError": "axes are checked before dtypes",
    "lax.reduce_xor(operand=*axes): ValueError, not TypeError": "axes are checked before dtypes",
    "lax.reduce_window(*: ValueError, not TypeError": _CLASS,
    "lax.sort(operand, num_keys=*: TypeError, not ValueError": _CLASS,
    "numpy.*m??(*where=*: ValueError, not TypeError": "jax looks at the mask before the identity",
    "numpy.*(a, axis=text): TypeError, not NameError": "no name of an axis is looked for",
    "numpy.*(tup=scalar): TypeError, not ValueError": _CLASS,
    "numpy.concatenate(arrays=scalar): TypeError, not ValueError": _CLASS,
    "numpy.copy(a=None): ValueError, not TypeError": _CLASS,
    "numpy.cross(*: ValueError, not TypeError": "shapes that do not fit are values, as in NumPy",
    "numpy.histogram2d(*: ValueError, not TypeError": "as of cross",
    "numpy.permute_dims(a=*: ValueError, not TypeError": "as of cross",
    "numpy.vecmat(x1, x2=*: TypeError, not ValueError": "shapes of products are TypeErrors in jax",
    "numpy.histogram*bins=text): NotImplementedError, not TypeError":
        "only numbers of bins exist yet",
    "numpy.histogram*bins=text): NotImplementedError, not ValueError":
        "only numbers of bins exist yet",
    "numpy.histogram*range=2.5): IndexError, not ValueError": _CLASS,
    "numpy.isdtype(dtype, kind=*: ValueError, not *": _CLASS,
    "numpy.repeat(a, repeats=*: TypeError, not ValueError": _CLASS,
    "numpy.repeat(a, repeats=*: ValueError, not accepted": _CLASS,
    "numpy.searchsorted(a, v, sorter=2.5): ValueError, not TypeError": _CLASS,
    **_each("(*: TypeError, not ValueError", "what is not a dtype is of the wrong type",
            "dtypes.finfo dtypes.iinfo numpy.finfo numpy.iinfo"),
    **_each("(*subset_by_index=*: TypeError, not ValueError", "jax looks at full_matrices first",
            "lax.linalg.svd numpy.linalg.svd"),
    "ShapeDtypeStruct(*sharding=*: TypeError, not ValueError": _CLASS,
    "jvp(*has_aux=*: TypeError, not UnexpectedTracerError": "the result is not a pair",
    "sharding.ManualAxisType(*: NotImplementedError, not TypeError": "mjax does not have such axes",
    "checking_leaks(too many): ValueError, not TypeError": "it may be given the value True",
    "local_devices(*: ValueError, not TypeError": "no process has this number",
    "numpy.fromfile(nothing): TypeError, not NotImplementedError": "it exists here",
    "numpy.fromiter(nothing): TypeError, not NotImplementedError": "it exists here",
    "scipy.linalg.*=ragged*: ValueError, not *Error": "NumPy refuses it; jax takes it apart",
    "scipy.ndimage.*=ragged*: ValueError, not TypeError": "NumPy refuses it; jax takes it apart",
    "scipy.signal.*: *Error, not AttributeError":
        "jax fails on an attribute that the argument lacks",
    "scipy.signal.correlate(in1, in2=key): TypeError, not NotImplementedError": _CLASS,
    "scipy.signal.detrend(data, bp=*: *Error, not *Error": _CLASS,
    "scipy.linalg.eigh(a, b=*: NotImplementedError, not TypeError": _CLASS,
    "scipy.linalg.eigh_tridiagonal(*: ValueError, not IndexError": _CLASS,
    "scipy.linalg.hankel(c=key): TypeError, not ValueError": _CLASS,
    "scipy.linalg.hessenberg(*: *Error, not IndexError": _CLASS,
    "scipy.linalg.lu_solve(lu_and_piv=text, b): ValueError, not TypeError": _CLASS,
    "scipy.linalg.polar(a, eps=text): ValueError, not TypeError": _CLASS,
    "scipy.linalg.qr_multiply(a, c=*: ValueError, not IndexError": _CLASS,
    "scipy.linalg.schur(a=None): ValueError, not TypeError": _CLASS,
    "scipy.linalg.sqrtm(A=*: TypeError, not AttributeError": _CLASS,
    # ---- mjax refuses ----------------------------------------------------------------------
    "scipy.fft.*dctn(x=key): TypeError, not accepted": "jax transforms along no axis",
    "scipy.fft.*dctn(x=2.5): gives*": "jax gives back what has no axes",
    "numpy.fft.*fftfreq(n=*: TypeError, not *": _SIZES_ARE_INTEGERS,
    "scipy.linalg.*n=2.5): TypeError, not accepted": _SIZES_ARE_INTEGERS,
    "scipy.linalg.*max_*s=2.5): TypeError, not accepted": _SIZES_ARE_INTEGERS,
    "scipy.interpolate.RegularGridInterpolator(*: ValueError, not accepted":
        "mjax compares the shapes of the grid and of the values, as SciPy does",
    "scipy.linalg.eigh(a=rank4): TypeError, not accepted":
        "jax adds the transpose to matrices of one row, which broadcasts",
    "scipy.linalg.lu(a=rank4): accepted, not ValueError": "stacks are accepted, as in SciPy",
    "scipy.linalg.polar(a=*: accepted, not NotImplementedError":
        "wide matrices are accepted, as in SciPy",
    "scipy.linalg.polar(a, eps=2.5): accepted, not ValueError": "a tolerance may be large",
    "scipy.linalg.toeplitz(c=key): accepted, not TypeError": "keys are only put in places",
    "custom_*(fun=*: TypeError, not accepted": _EARLY,
    "*_callback(callback=*: TypeError, not accepted": _EARLY,
    "custom_batching.sequential_vmap(f=*: TypeError, not accepted": _EARLY,
    "lax.composite(*: TypeError, not accepted": _EARLY,
    "experimental.shard_map.shard_map(*: TypeError, not accepted": _EARLY,
    "Shard(*: TypeError, not accepted": _EARLY,
    "ShapeDtypeStruct(shape=*: TracerIntegerConversionError, not accepted": _EARLY,
    "ShapeDtypeStruct(shape=*: TypeError, not accepted": _EARLY,
    "free_ref(ref*: TypeError, not accepted": _EARLY,
    "*.AbstractRef(inner_aval*: TypeError, not accepted": _EARLY,
    "*.AbstractRef(*: NotImplementedError, not accepted": _PLACES,
    "experimental.custom_partitioning.*(fun=*: TypeError, not accepted": _EARLY,
    "experimental.custom_partitioning.*(*static_argnums=*: TypeError, not accepted": _OPTION,
    "experimental.hijax.HiPrimitive(name=*: TypeError, not accepted": "a name is a text",
    "experimental.hijax.ShapedArray(*": "mjax_ext.core.ShapedArray looks at what it takes",
    "ffi.ffi_call(*: TypeError, not accepted": _EARLY,
    "ffi.ffi_call(*: TypeError, not ValueError": "mjax looks at the target first",
    "*_ref(*memory_space=*: NotImplementedError, not accepted": _PLACES,
    "new_ref(*kind=*: NotImplementedError, not accepted": _PLACES,
    "*_callback(*sharding=*: NotImplementedError, not accepted": _OPTION,
    "lax.*accuracy=*: TypeError, not accepted": _OPTION,
    "*(new_val*: ValueError, not accepted": _OPTION,
    "disable_jit(disable=*: ValueError, not accepted": _OPTION,
    "checkpoint(*: TypeError, not accepted": _OPTION,
    "checkpoint(*: ValueError, not accepted": _OPTION,
    "remat(*: TypeError, not accepted": _OPTION,
    "custom_*(*nondiff_*=text): TypeError, not accepted": _OPTION,
    "custom_*(*nondiff_*=text): ValueError, not accepted": _OPTION,
    "jac*(fun, argnums=*: TypeError, not accepted": _OPTION,
    "make_jaxpr(fun, static_argnums=*: TypeError, not accepted": _OPTION,
    "named_call(fun, name=*: TypeError, not accepted": _OPTION,
    "ad_checkpoint.checkpoint_name(x, name=*: TypeError, not accepted": _OPTION,
    "lax.approx_*_k(*: TypeError, not accepted": _OPTION,
    "lax.approx_*_k(*: ValueError, not accepted": _OPTION,
    "lax.rng_bit_generator(*: TypeError, not accepted": _OPTION,
    "lax.rng_bit_generator(*: ValueError, not accepted": _OPTION,
    "lax.ragged_dot(*group_offset=*: NotImplementedError, not accepted": _OPTION,
    "experimental.jet.jet(*: TypeError, not accepted": _EARLY,
    "experimental.jet.jet(*: ValueError, not TypeError": _CLASS,
    "experimental.pjit.pjit(*: RuntimeError, not accepted": _OPTION,
    "experimental.pjit.pjit(*: TypeError, not accepted": _OPTION,
    "experimental.pjit.pjit(*: ValueError, not accepted": _OPTION,
    "numpy.vectorize(*signature=*: TypeError, not accepted": _OPTION,
    "numpy.vectorize(*signature=*: ValueError, not accepted": _OPTION,
    "numpy.polyval(*unroll=2.5): TypeError, not accepted": _OPTION,
    "random.choice(*: TypeError, not accepted": _OPTION,
    "random.choice(*: ValueError, not accepted": _OPTION,
    "debug.*_array_sharding(*: TypeError, not accepted": _EARLY,
    "lax.*arg???(operand=complex*: TypeError, not accepted": "jax refuses it while it lowers",
    "numpy.*arg???(a=complex): TypeError, not accepted": "jax refuses it while it lowers",
    "numpy.*arg???(a=key): TypeError, not accepted": "jax refuses it while it lowers",
    "lax.cumlogsumexp(operand=ints): TypeError, not accepted": "jax refuses it while it lowers",
    "lax.dynamic_update_slice_in_dim(*axis=scalar): TypeError, not accepted": _SIZES,
    "lax.??(*=key*): TypeError, not accepted": "a key and a number have no order and no equality",
    "lax.full_like(*dtype=2.5): TypeError, not accepted": "a number is not a dtype",
    "lax.integer_pow(x, y=2.5): TypeError, not accepted": _EARLY,
    "lax.padtype_to_pads(*: TracerIntegerConversionError, not accepted": _EARLY,
    "lax.padtype_to_pads(*: TypeError, not accepted": _EARLY,
    "lax.reshape(operand=*: TypeError, not accepted": "jax refuses it while it lowers",
    "lax.shape_as_value(shape*: TracerIntegerConversionError, not accepted": _TRACED,
    "numpy.apply_over_axes(*: TypeError, not accepted": _EARLY,
    "numpy.apply_over_axes(*: ValueError, not accepted": _EARLY,
    "numpy.*split(ary, indices_or_sections=*: TypeError, not accepted": _EARLY,
    "numpy.bartlett(M=*: TypeError, not accepted": _EARLY,
    "numpy.blackman(M=*: TypeError, not accepted": _EARLY,
    "numpy.ha??ing(M=*: TypeError, not accepted": _EARLY,
    "numpy.kaiser(*: TypeError, not accepted": _EARLY,
    "numpy.kaiser(*: ValueError, not accepted": _EARLY,
    "numpy.bool(x=*: TypeError, not accepted": "texts and objects are not values of arrays",
    "numpy.is*obj(x=text): TypeError, not accepted": "as of bool",
    "numpy.ndim(a=*: TypeError, not accepted": "as of bool",
    "numpy.shape(a=*: TypeError, not accepted": "as of bool",
    "numpy.size(a=*: TypeError, not accepted": "as of bool",
    "numpy.frombuffer(buffer*: TypeError, not *": "an Array is not a buffer of bytes",
    "numpy.full_like(a=key, fill_value): TypeError, not accepted": "a number is not a key",
    "numpy.pad(array=key, pad_width): TypeError, not accepted": "a number is not a key",
    "numpy.polydiv(u=*: ValueError, not accepted": _EARLY,
    "numpy.unravel_index(*: TypeError, not accepted": "indices and sizes are integers",
    "random.PRNGKey(seed=*: TypeError, not accepted": "jax refuses it while it is traced",
    "random.key(seed=*: TypeError, not accepted": "jax refuses it while it is traced",
    "random.clone(key=*: TypeError, not accepted": "numbers are not keys",
    "random.randint(*=complex*: TypeError, not accepted": "bounds of integers are integers",
    "sharding.make_single_device_sharding(*: TypeError, not accepted": _EARLY,
    "lax.reduce(*out_sharding=*: TypeError, not accepted": "jax ignores what is not a sharding",
    # ---- jax refuses -----------------------------------------------------------------------
    "ShapeDtypeStruct(shape, dtype=key): accepted, not ValueError": "an array with a dtype",
    "*dtype(*=key*: accepted, not ValueError": "an array with a dtype",
    "*from_dlpack(*: accepted, not TypeError": _LATER,
    "dlpack.is_supported_dtype(dtype=None): accepted, not TypeError": _NUMPY,
    "dtypes.scalar_type_of(x=None): accepted, not ValueError": _NUMPY,
    "flatten_util.ravel_pytree(pytree=key): accepted, not TypeError": "keys are raveled too",
    "lax.broadcast_shapes(nothing): accepted, not AssertionError": "jax gives () outside of jit",
    "lax.collapse(operand=2.5, start_dimension): accepted, not AttributeError": _NUMPY,
    "lax.conv*(*window_strides=None*: accepted, not TypeError": "None: steps of one",
    "lax.reduce_window(*: accepted, not TracerBoolConversionError":
        "None is windows of one; init may be traced",
    "lax.reduce_window(*: accepted, not TypeError": "None is windows of one; init may be traced",
    "numpy.int2(x=2.5): accepted, not OverflowError": _NUMPY,
    "numpy.*int1(x=2.5): accepted, not OverflowError": _NUMPY,
    "numpy.float6_*(x=2.5): JaxRuntimeError, not accepted": "jaxlib has no such arrays on CPU",
    "numpy.*median(*overwrite_input=*: accepted, not ValueError": _NUMPY,
    "numpy.meshgrid(xi=*: accepted, not ValueError": _NUMPY,
    "numpy.nan_to_num(x, copy=*: accepted, not TypeError": _NUMPY,
    "numpy.linalg.lstsq(*numpy_resid=*: accepted, not TracerBoolConversionError":
        "a wide matrix has no residuals, whatever its rank",
    "numpy.poly???(*: accepted, not IndexError":
        "polynomials may be scalars and matrices, as in NumPy",
    "numpy.poly???(*: accepted, not TracerBoolConversionError":
        "polynomials may be scalars and matrices, as in NumPy",
    "numpy.poly???(*: accepted, not TypeError":
        "polynomials may be scalars and matrices, as in NumPy",
    "numpy.poly???(*: accepted, not ValueError":
        "polynomials may be scalars and matrices, as in NumPy",
    # ---- both accept -----------------------------------------------------------------------
    "linear_transpose(*: gives*": "a function of derivatives keeps what it needs to itself",
    "linearize(*: gives*": "a function of derivatives keeps what it needs to itself",
    "vjp(*: gives*": "a function of derivatives keeps what it needs to itself",
    "custom_derivatives.zero_from_primal(*: gives*": "zeros of float0 are NumPy's",
    "lax.empty(shape, dtype=None): gives*": "of the default float; jax's is float64 without x64",
    "lax.shape_as_value(shape): gives*": "an array of the library, not NumPy's",
    "random.*=complex*: TypePromotionError, not accepted": "complex parameters are refused",
    "tree_util.is_tree_node(typ=None): accepted, not TypeError": "None is a tree",
}

#: Results of operands of every kind; the calls are as those of `surface.typed_calls`.
TYPES = {
    "scipy.special.owens_t(*: gives *": "jax gives the dtype of a table; mjax promotes",
    "scipy.special.owens_t(*complex*: ValueError, not accepted": "it is a function of real numbers",
    "scipy.stats.mode(*complex*: gives *": "jax forgets that complex numbers are weakly typed",
    "scipy.fft.*dctn(* scalar): gives *": "jax gives back what has no axes",
    "scipy.fft.*dctn(Python *): gives *": "jax gives back what has no axes",
    "scipy.signal.detrend(weak *: gives *": "the trend is strongly typed",
    "scipy.linalg.rsf2csf(weak complex, *: gives *": "rotated matrices are strongly typed",
    "*arg???(*complex*: TypeError, not accepted": "jax refuses complex numbers while it lowers",
    "lax.cumlogsumexp(*int*: TypeError, not accepted": "jax refuses it while it lowers",
    "lax.linalg.lu(weak *: gives *": "pivots are strong integers; jax's are weak if the matrix is",
    "*full_like(*complex*: TypeError, not accepted": "the imaginary part would be lost",
    "numpy.delete(*bool*): ValueError, not accepted": "NumPy refuses a mask without axes too",
    "numpy.linalg.vector_norm(*bool*: gives *": "jax does not promote them, as its norm does",
    "numpy.linalg.vector_norm(*int*: gives *": "jax does not promote them, as its norm does",
    "numpy.polyfit(*float16*: gives *": "LAPACK has no such dtype: integers are fitted in float32",
    "numpy.pow*, *int* scalar): gives *": "jax reads integer exponents whose values are known",
    "numpy.roll(*: TypeError, not accepted": "a shift is an integer",
    "numpy.int2(Python int): OverflowError, not accepted": "2 does not fit; jax gives -2",
    "numpy.*int1(Python int): OverflowError, not accepted": "2 does not fit; jax gives 0",
    "numpy.unravel_index(*: TypeError, not accepted": "indices are integers",
    "random.*complex*: TypePromotionError, not accepted": "complex parameters are refused",
}
