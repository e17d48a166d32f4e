"""The public callables that mjax and jax share, and what one call of both shows.

New names are found by walking the packages; nothing is listed by hand but the arguments that a
parameter of a given name gets (`GOOD`) and the callables that a test must not call (`NOT_CALLED`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import pkgutil
import random
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

import mjax


class Pair(NamedTuple):
    """A public callable under its name in both libraries."""

    name: str
    ours: Any
    theirs: Any


def modules() -> Iterator[tuple[str, Any, Any]]:
    """Public modules that both libraries have, by their names without the library's."""
    names = [m.name for m in pkgutil.walk_packages(mjax.__path__, "mjax.")]
    for name in ["mjax", *(n for n in names if "._" not in n)]:
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield name[5:], importlib.import_module(name), importlib.import_module(f"j{name[2:]}")


@functools.cache
def callables() -> tuple[Pair, ...]:
    """Public names that both libraries have, where one of them is callable."""
    found = []
    for module, ours, theirs in modules():
        for name in ours.__all__:
            with contextlib.suppress(AttributeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pair = Pair(f"{module}.{name}".lstrip("."), getattr(ours, name),
                            getattr(theirs, name))
                if not isinstance(pair.ours, types.ModuleType) and any(map(callable, pair[1:])):
                    found.append(pair)
    return tuple(found)


def methods() -> Iterator[Pair]:
    """Public methods of the classes that both libraries have."""
    for name, ours, theirs in callables():
        if inspect.isclass(ours) and inspect.isclass(theirs):
            for method in dir(ours):
                pair = Pair(f"{name}.{method}", getattr(ours, method),
                            getattr(theirs, method, None))
                if not method.startswith("_") and callable(pair.ours) and callable(pair.theirs):
                    yield pair


# ---- signatures ------------------------------------------------------------------------


def parameters(pair: Pair) -> list[list[tuple[str, str, str]]] | None:
    """Names, kinds and defaults, of ours and theirs; None: theirs does not tell, as it is C++.

    The array of a method is left out: the functions that are methods name it as functions do.
    """
    found = []
    for f in pair[1:]:
        try:
            known = list(inspect.signature(f).parameters.values())
        except (ValueError, TypeError):
            return None
        rows = [(p.name, p.kind.name, _default(p.default))
                for p in known[is_method(pair):] if not p.name.startswith("_")]
        found.append(sorted(rows, key=lambda row: row[0] if row[1] == "KEYWORD_ONLY" else ""))
    return found


def is_method(pair: Pair) -> bool:
    """Whether the first parameter is the object itself."""
    owner = pair.name.rpartition(".")[0].rpartition(".")[2]
    return owner[:1].isupper() or owner == "ndarray" or owner == "ufunc"


def _default(value: Any) -> str:
    """Sentinels and functions differ between libraries; values do not."""
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, np.generic):
        value = value.item()
    plain = (type(None), bool, int, float, complex, str, tuple, frozenset)
    return repr(value) if isinstance(value, plain) else "an object"


# ---- calls -----------------------------------------------------------------------------

#: Not called, by pattern, with the reason.
NOT_CALLED = {
    "debug.breakpoint": "reads the terminal",
    "distributed.*": "starts services",
    "experimental.multihost_utils.*": "talks to other processes",
    "monitoring.*": "changes the state of the process",
    "profiler.*": "starts services",
    "tree_util.register_*": "changes the state of the process",
    "live_arrays": "gives those of other tests",
    "clear_caches": "slows every other test down",
    "set_mesh": "changes the state of the process",
    "sharding.set_mesh": "changes the state of the process",
    "numpy.set_printoptions": "changes the state of the process",
    "numpy.save": "writes files",
    "numpy.savez": "writes files",
    "test_util.*": "they run what they are given",
    "lax.*_p": "primitives have a method, bind, and tests of their own",
    "errors.*": "exceptions take what the library gives them",
    "stages.*": "made by the library alone",
}

Make = Callable[[Any], Any]


@functools.cache
def _array_of(m: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return m.numpy.asarray(np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype))


class _Array(NamedTuple):
    """Makes a strong array, in whose place `typed_calls` puts other kinds."""

    shape: tuple[int, ...]
    dtype: Any

    def __call__(self, m: Any) -> Any:
        return _array_of(m, *self)


class _List(NamedTuple):
    """Makes a list of arrays."""

    entries: tuple[Make, ...]

    def __call__(self, m: Any) -> Any:
        return [make(m) for make in self.entries]


def _array(*shape: int, dtype: Any = np.float32) -> Make:
    return _Array(shape, dtype)


def _value(value: Any) -> Make:
    return lambda m: value


def _function(m: Any) -> Any:
    return lambda x, *_: m.numpy.multiply(x, 2)


@functools.cache
def _key(m: Any) -> Any:
    return m.random.key(0)


_MATRIX, _VECTOR, _SCALAR = _array(2, 3), _array(3), _array()
_SQUARE, _INTS = _array(3, 3), _array(2, 3, dtype=np.int32)
_COMPLEX = _array(2, 3, dtype=np.complex64)
_IMAGES, _KERNEL = _array(1, 2, 4, 4), _array(3, 2, 2, 2)
_STRIDES = _value((1, 1))


def _for(functions: str, **values: Make) -> dict[str, Make]:
    return {f"{f}.{name}": value for f in functions.split() for name, value in values.items()}


#: The argument of a required parameter, by the function's name and its own, else by its own; any
#: other gets a matrix of float32.
GOOD: dict[str, Make] = {
    **dict.fromkeys(["key", "keys"], _key),
    **dict.fromkeys(["axis", "dimension", "source", "destination", "axis1", "num", "index", "k",
                     "n", "N", "M", "repeats", "start_index", "indices_or_sections", "m", "offset",
                     "slice_size", "length", "num_segments", "d", "decimals", "start_dimension",
                     "count", "limit_index"], _value(1)),
    **dict.fromkeys(["axis2", "start"], _value(0)),
    **dict.fromkeys(["shape", "sizes", "reps", "newshape", "dims", "new_sizes"], _value((2, 3))),
    **dict.fromkeys(["dtype", "new_dtype"], _value(np.float32)),
    **dict.fromkeys(["fun", "f", "func", "function", "fun_jax", "callback", "fn", "body_fun",
                     "true_fun", "false_fun"], _function),
    **dict.fromkeys(["arrays", "operands", "tup", "seq", "arys"], _List((_MATRIX, _MATRIX))),
    **dict.fromkeys(["permutation", "axes", "dimensions"], _value((1, 0))),
    **dict.fromkeys(["indices"], _array(2, dtype=np.int32)),
    **dict.fromkeys(["axis_name", "name"], _value("name")),
    "subscripts": _value("ij->i"),
    **_for("experimental.ode.odeint", t=_VECTOR),
    **_for("scipy.interpolate.RegularGridInterpolator",
           points=lambda m: (m.numpy.arange(2.0), m.numpy.arange(3.0))),
    **_for("scipy.ndimage.map_coordinates", order=_value(1)),
    **_for("nn.glu", x=_array(3, 2)),
    **_for("nn.dot_product_attention", query=_IMAGES, key=_IMAGES, value=_IMAGES),
    **_for("random.multivariate_normal", mean=_VECTOR, cov=_SQUARE),
    **_for("random.multinomial", n=_value(3), p=_VECTOR),
    **_for("nn.initializers.zeros nn.initializers.ones", shape=_value((2, 3))),
    **_for("image.resize image.scale_and_translate", method=_value("linear"),
           spatial_dims=_value((0, 1)), scale=_array(2), translation=_array(2)),
    **_for("ops.segment_max ops.segment_min ops.segment_prod ops.segment_sum",
           segment_ids=_value(np.array([0, 1]))),
    **_for("nn.one_hot", x=_INTS, num_classes=_value(3)),
    "pred": _value(True),
    "index_dtype": _value(np.int32),
    "padding": _value("VALID"),
    "window_strides": _STRIDES,
    "strides": _STRIDES,
    **_for("lax.conv lax.conv_general_dilated lax.conv_transpose lax.conv_general_dilated_local "
           "lax.conv_with_general_padding lax.conv_general_dilated_patches", lhs=_IMAGES,
           rhs=_KERNEL, filter_shape=_value((2, 2)), lhs_dilation=_STRIDES, rhs_dilation=_STRIDES),
    **_for("lax.bitwise_and lax.bitwise_not lax.bitwise_or lax.bitwise_xor lax.clz lax.mulhi "
           "lax.population_count lax.shift_left lax.shift_right_logical "
           "lax.shift_right_arithmetic", x=_INTS, y=_INTS),
    **_for("lax.real lax.imag", x=_COMPLEX),
    **_for("lax.reduce_and lax.reduce_or lax.reduce_xor", operand=_INTS),
    **_for("lax.dot lax.batch_matmul numpy.matmul numpy.dot numpy.inner numpy.linalg.matmul "
           "numpy.matvec numpy.vecmat numpy.vecdot numpy.linalg.vecdot numpy.cross numpy.kron",
           lhs=_SQUARE, rhs=_SQUARE, a=_SQUARE, b=_SQUARE, x1=_SQUARE, x2=_SQUARE),
    **_for("lax.dot_general", rhs=_MATRIX, dimension_numbers=_value((((1,), (1,)), ((), ())))),
    **_for("lax.dynamic_slice lax.dynamic_update_slice", start_indices=_value((0, 0)),
           slice_sizes=_value((1, 1))),
    **_for("lax.slice", start_indices=_value((0, 0)), limit_indices=_value((1, 1))),
    **_for("lax.pad", padding_value=_SCALAR, padding_config=_value(((0, 0, 0), (0, 0, 0)))),
    **_for("lax.full lax.full_like numpy.full", fill_value=_SCALAR),
    **_for("lax.iota", size=_value(3)),
    **_for("lax.integer_pow", y=_value(2)),
    **_for("lax.broadcast_in_dim", broadcast_dimensions=_value((0, 1))),
    **_for("lax.broadcast_to_rank", rank=_value(3)),
    **_for("lax.broadcast_shapes numpy.broadcast_shapes", shapes=_value((2, 3))),
    **_for("lax.fori_loop", lower=_value(0), upper=_value(3),
           body_fun=lambda m: lambda i, x: m.numpy.multiply(x, 2)),
    **_for("lax.while_loop", cond_fun=lambda m: lambda x: True),
    **_for("lax.scan", f=lambda m: lambda c, x: (c, x), xs=_MATRIX),
    **_for("lax.cond", true_fun=lambda m: lambda: 1, false_fun=lambda m: lambda: 2),
    **_for("lax.switch", index=_value(0), branches=lambda m: [_function(m), _function(m)]),
    **_for("lax.map lax.associative_scan", f=lambda m: lambda x: m.numpy.multiply(x, 2),
           fn=lambda m: m.numpy.add),
    **_for("lax.polygamma", m=_MATRIX),
    **_for("lax.rng_uniform", a=_SCALAR, b=_SCALAR),
    **_for("lax.reduce_precision", exponent_bits=_value(4), mantissa_bits=_value(3)),
    **_for("lax.argmax lax.argmin", axis=_value(1)),
    **_for("lax.reduce", operands=_MATRIX, init_values=_SCALAR, computation=lambda m: m.numpy.add,
           dimensions=_value((0,))),
    **_for("lax.reduce_window", init_value=lambda m: np.float32(0), computation=lambda m: m.lax.add,
           window_dimensions=_value((1, 2))),
    **_for("lax.approx_max_k lax.approx_min_k lax.top_k", k=_value(1)),
    **_for("lax.dynamic_update_slice_in_dim lax.dynamic_update_index_in_dim", axis=_value(0),
           start_index=_value(0), index=_value(0), update=_array(1, 3)),
    **_for("jvp", primals=lambda m: (_MATRIX(m),), tangents=lambda m: (_MATRIX(m),)),
    **_for("lax.select", pred=_array(2, 3, dtype=bool)),
    **_for("lax.sort_key_val", keys=_MATRIX),
    **_for("lax.collapse", start_dimension=_value(0)),
    **_for("lax.ragged_dot", group_sizes=_array(1, dtype=np.int32), rhs=_array(1, 3, 4)),
    **_for("dtypes.iinfo numpy.iinfo", int_type=_value(np.int32), dtype=_value(np.int32)),
    **_for("tree_util.tree_all tree.all", tree=_value([True])),
    **_for("tree_util.tree_map tree.map", f=_function),
    **_for("numpy.unravel_index", indices=_INTS),
    **_for("numpy.left_shift numpy.right_shift numpy.bitwise_and numpy.bitwise_or "
           "numpy.bitwise_xor numpy.invert numpy.bitwise_count numpy.bitwise_not numpy.gcd "
           "numpy.lcm numpy.bitwise_left_shift numpy.bitwise_right_shift numpy.bitwise_invert",
           x=_INTS, y=_INTS, x1=_INTS, x2=_INTS),
    **_for("numpy.packbits numpy.unpackbits", a=_array(2, 3, dtype=np.uint8)),
    **_for("numpy.interp numpy.histogram2d numpy.polyval numpy.polymul numpy.polyadd numpy.polysub "
           "numpy.polydiv numpy.convolve numpy.correlate numpy.trim_zeros numpy.digitize "
           "numpy.searchsorted numpy.lexsort numpy.bincount numpy.ix_ numpy.bartlett numpy.vander "
           "numpy.polyfit numpy.roots",
           x=_VECTOR, xp=_VECTOR, fp=_VECTOR, y=_VECTOR, p=_VECTOR, a1=_VECTOR, a2=_VECTOR,
           u=_VECTOR, v=_VECTOR, a=_VECTOR, filt=_VECTOR, bins=_VECTOR, deg=_value(1)),
    **_for("numpy.linalg.trace numpy.diagonal numpy.trace", a=_SQUARE, x=_SQUARE),
    **_for("numpy.linalg.matrix_power", a=_SQUARE, n=_value(2)),
    **_for("numpy.full_like", fill_value=_SCALAR),
    **_for("numpy.tensordot numpy.linalg.tensordot", b=_MATRIX),
    **_for("numpy.linspace numpy.logspace numpy.geomspace", start=_value(1.0), stop=_value(5.0)),
    **_for("numpy.arange", start=_value(3)),
    **_for("numpy.pad", pad_width=_value(1)),
    **_for("numpy.apply_along_axis numpy.apply_over_axes", func1d=_function),
    **_for("numpy.take_along_axis numpy.put_along_axis", indices=_array(2, 1, dtype=np.int32)),
    **_for("numpy.kaiser", beta=_value(14.0)),
    **_for("numpy.meshgrid", xi=_VECTOR),
    **_for("numpy.can_cast", from_=_value(np.float32), to=_value(np.float32)),
    **_for("numpy.promote_types", a=_value(np.float32), b=_value(np.int32)),
    **_for("numpy.issubdtype dtypes.issubdtype", arg1=_value(np.float32), arg2=_value(np.inexact),
           a=_value(np.float32), b=_value(np.inexact)),
    **_for("numpy.isdtype", kind=_value("real floating")),
    **_for("random.choice", a=_value(5)),
    **_for("random.randint", minval=_value(0), maxval=_value(9)),
    **_for("random.key random.PRNGKey", seed=_value(0)),
    **_for("random.fold_in", data=_value(1)),
    **_for("random.wrap_key_data", key_bits_array=_array(2, dtype=np.uint32)),
    **_for("random.geometric", p=_value(0.5)),
    **_for("vmap", axis_size=_value(1)),
    **_for("scipy.linalg.cholesky scipy.linalg.cho_factor scipy.linalg.cho_solve scipy.linalg.det "
           "scipy.linalg.eigh scipy.linalg.expm scipy.linalg.expm_frechet scipy.linalg.funm "
           "scipy.linalg.hessenberg scipy.linalg.inv scipy.linalg.lu_factor scipy.linalg.lu_solve "
           "scipy.linalg.rsf2csf scipy.linalg.schur scipy.linalg.solve scipy.linalg.sqrtm "
           "scipy.linalg.solve_sylvester scipy.linalg.solve_triangular",
           a=_SQUARE, b=_SQUARE, A=_SQUARE, B=_SQUARE, C=_SQUARE, E=_SQUARE, T=_SQUARE, Z=_SQUARE,
           c_and_lower=lambda m: (_SQUARE(m), False), func=lambda m: m.numpy.exp,
           lu_and_piv=lambda m: (_SQUARE(m), m.numpy.asarray([1, 2, 2], m.numpy.int32))),
    **_for("scipy.linalg.toeplitz scipy.linalg.hankel scipy.linalg.leslie scipy.linalg.polar",
           c=_VECTOR, f=_array(4), s=_VECTOR, a=_SQUARE),
    **_for("scipy.signal.istft", Zxx=_array(5, 3, dtype=np.complex64)),
    **_for("scipy.linalg.eigh_tridiagonal", d=_array(4), e=_VECTOR),
    **_for("scipy.linalg.qr_multiply", c=_array(3, 2)),
    **_for("numpy.interp numpy.nan_to_num numpy.sum numpy.max numpy.select", left=_SCALAR,
           right=_SCALAR, nan=_SCALAR, initial=_SCALAR, default=_SCALAR),
    **_for("numpy.bincount", weights=_VECTOR),
}

_OBJECT = object()
#: Bad input: each required argument becomes each of these.
BAD: dict[str, Make] = {
    "None": _value(None),
    "text": _value("text"),
    "object": _value(_OBJECT),
    "ragged": _value([[1.0, 2.0], [3.0]]),
    "complex": _array(2, 3, dtype=np.complex64),
    "ints": _array(2, 3, dtype=np.int32),
    "scalar": _array(),
    "rank4": _array(2, 2, 1, 3),
    "2.5": _value(2.5),
    "key": _key,
}
#: Optional parameters become these; those that say an axis also 99.
BAD_OPTIONS = ("text", "object", "2.5")


class Call(NamedTuple):
    """A call that both libraries get, and what jax makes of it."""

    text: str
    args: tuple[Make, ...]
    kwargs: dict[str, Make]
    expected: Any = None


def calls(name: str, f: Any, outcome_of: Callable[[Call], Any]) -> Iterator[Call]:
    """Calls of jax's function: a good one, those with one bad argument each, wrong numbers of them.

    A function that takes none of our generic arguments is called with wrong numbers of them alone.
    """
    understood = False
    for i, call in enumerate(_generic_calls(name, f)):
        if i == 0:
            expected = outcome_of(call)
            understood = not isinstance(expected, Exception)
            if understood:
                yield call._replace(expected=expected)
        elif understood or call.text in _WRONG_NUMBERS:
            yield call._replace(expected=outcome_of(call))


_WRONG_NUMBERS = ("too many", "unknown keyword", "nothing")


def _generic_calls(name: str, f: Any, options: Sequence[str] = ()) -> Iterator[Call]:
    try:
        known = inspect.signature(f).parameters.values()
    except (ValueError, TypeError):
        return
    positional = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    if len(needed) < 2:
        needed += [p for p in known if p.kind is p.VAR_POSITIONAL]
    needed += [p for p in known if p.name in options]
    good, names = [_good(name, p) for p in needed], [p.name for p in needed]
    kwargs = {p.name: _good(name, p) for p in known
              if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    yield Call(", ".join(names), tuple(good), kwargs)
    for i, bad in itertools.product(range(len(good)), BAD):
        yield Call(", ".join([*names[:i], f"{names[i]}={bad}", *names[i + 1:]]),
                   (*good[:i], BAD[bad], *good[i + 1:]), kwargs)
    for p in known:
        if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY:
            for bad in (*BAD_OPTIONS, *(["99"] if "axis" in p.name else [])):
                yield Call(", ".join([*names, f"{p.name}={bad}"]), tuple(good),
                           {**kwargs, p.name: _value(99) if bad == "99" else BAD[bad]})
    if all(p.kind is not p.VAR_POSITIONAL for p in known):
        yield Call("too many", (_MATRIX,) * (len(positional) + 1), kwargs)
    if all(p.kind is not p.VAR_KEYWORD for p in known):
        yield Call("unknown keyword", tuple(good), {**kwargs, "unknown": _value(1)})
    if good:
        yield Call("nothing", (), {})


def _good(name: str, p: inspect.Parameter) -> Make:
    return GOOD.get(f"{name}.{p.name}", GOOD.get(p.name, _MATRIX))


def outcome(m: Any, f: Any, call: Call) -> Any:
    """The exception, or the types of the results, of a call that is traced and not run."""
    def program() -> Any:
        result = f(*args, **kwargs)
        leaves = m.tree_util.tree_leaves(result)
        others.extend(map(_type_name, leaves))
        return [x for x in leaves if isinstance(x, m.Array) and hasattr(x, "shape")]  # no tokens

    others: list[Any] = []
    args = [make(m) for make in call.args]
    kwargs = {name: make(m) for name, make in call.kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = m.eval_shape(program)
    except Exception as error:
        return error
    return others, [(t.shape, str(t.dtype), t.weak_type and t.dtype != bool) for t in arrays]


# ---- types of operands -----------------------------------------------------------------

#: Not called with operands of every kind, with the reason.
NOT_TYPED = {
    "lax.composite": "its first argument is a function",
    "lax.RaggedDotDimensionNumbers": "it takes numbers of axes",
    "lax.padtype_to_pads": "it takes sizes",
    "numpy.apply_over_axes": "its second argument is axes",
    "numpy.frombuffer": "it takes bytes",
    "numpy.float6_*": "jaxlib has no arrays of this dtype on CPU",
    "lax.reshape": "jax does not look at the number of elements before it lowers",
}
#: Dtypes of operands; 64-bit arrays are made with x64 alone.
_NARROW = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32",
           "complex64")
_WIDE = ("int64", "uint64", "float64", "complex128")
#: Optional parameters that are operands too.
_OPERANDS = {
    "numpy.clip": ("min", "max"), "numpy.where": ("x", "y"), "numpy.interp": ("left", "right"),
    "numpy.average": ("weights",), "numpy.cov": ("y",), "numpy.corrcoef": ("y",),
    "numpy.nan_to_num": ("nan",), "numpy.trapezoid": ("x",), "numpy.sum": ("initial",),
    "numpy.max": ("initial",), "numpy.diff": ("prepend",), "numpy.ediff1d": ("to_end",),
    "numpy.select": ("default",), "numpy.histogram": ("weights",), "numpy.bincount": ("weights",),
}
#: A kind of operand: an array, of its dtype and weak type, in place of one of any shape.
Kind = Callable[[Any, tuple[int, ...]], Any]


def _numpy_array(shape: tuple[int, ...], dtype: str) -> Any:
    return np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(
        getattr(ml_dtypes, dtype, dtype))


def _weak_array(m: Any, value: Any, shape: tuple[int, ...]) -> Any:
    return m.numpy.broadcast_to(m.numpy.asarray(value), shape)


def kinds(x64: bool) -> dict[str, Kind]:
    """The kinds of operands, by their names."""
    known: dict[str, Kind] = {}
    for v in (True, 2, 1.5, 1j):
        known[f"Python {type(v).__name__}"] = lambda m, shape, v=v: v
        if v is not True:
            known[f"weak {type(v).__name__} scalar"] = lambda m, shape, v=v: _weak_array(m, v, ())
            known[f"weak {type(v).__name__}"] = lambda m, shape, v=v: _weak_array(m, v, shape)
    for d in (*_NARROW, *_WIDE):
        known[f"np.{d} scalar"] = lambda m, shape, d=d: _numpy_array((), d)[()]
        known[f"np.{d}"] = lambda m, shape, d=d: _numpy_array(shape, d)
        if x64 or d in _NARROW:
            known[d] = lambda m, shape, d=d: m.numpy.asarray(_numpy_array(shape, d))
            known[f"{d} scalar"] = lambda m, shape, d=d: m.numpy.asarray(_numpy_array((), d))
    return known


def typed_calls(name: str, f: Any, x64: bool, most: int) -> Iterator[Call]:
    """The good call of a function with operands of every kind in each other's company.

    If these are more than `most`, a sample of them, the same each time.
    """
    call = (Call("", (_MATRIX,) * f.nin, {}) if isinstance(f, jax.numpy.ufunc) else
            next(_generic_calls(name, f, _OPERANDS.get(name, ())), None))
    if call is None:
        return
    places = [(i, j, leaf.shape) for i, make in enumerate(call.args)
              for j, leaf in enumerate(make.entries if isinstance(make, _List) else [make])
              if isinstance(leaf, _Array)]
    known = list(kinds(x64))
    every = len(known) ** len(places)
    numbers = range(every) if every <= most else random.Random(name).sample(range(every), most)
    for number in numbers if places else ():
        chosen = [known[number // len(known)**i % len(known)] for i in range(len(places))]
        args: list[Any] = [list(a.entries) if isinstance(a, _List) else a for a in call.args]
        for (i, j, shape), kind in zip(places, chosen, strict=True):
            made = functools.partial(_made, kind, shape, x64)
            if isinstance(args[i], list):
                args[i][j] = made
            else:
                args[i] = made
        yield Call(", ".join(chosen), tuple(_List(tuple(a)) if isinstance(a, list) else a
                                            for a in args), call.kwargs)


@functools.cache
def _made(kind: str, shape: tuple[int, ...], x64: bool, m: Any) -> Any:
    with m.enable_x64(x64):
        return kinds(x64)[kind](m, shape)


def _type_name(x: Any) -> str:
    if isinstance(x, (jax.Array, mjax.Array)):
        return "Array"
    if callable(x):
        return "function"
    return type(x).__name__ if type(x).__module__ in ("builtins", "numpy") else "object"


def difference(ours: Any, theirs: Any) -> str | None:
    """In words, the messages on lines of their own; None: both raise alike, or give results of the
    same types."""
    if isinstance(theirs, Exception):
        wanted = _class(theirs)
        if not isinstance(ours, Exception):
            return f"accepted, not {wanted}\n    jax: {str(theirs)[:200]}"
        known = {c.__name__ for c in type(ours).__mro__}
        return None if wanted in known else (
            f"{type(ours).__name__}, not {wanted}\n    {str(ours)[:200]}\n    {str(theirs)[:200]}")
    if isinstance(ours, Exception):
        return f"{type(ours).__name__}, not accepted\n    {str(ours)[:200]}"
    return None if ours == theirs else f"gives {ours}, not {theirs}"


def typed_difference(ours: Any, theirs: Any) -> str | None:
    """As `difference`, of calls that jax takes, where it gives arrays, not NumPy's."""
    if isinstance(theirs, Exception) or {*theirs[0]} != {"Array"}:
        return None
    return difference(ours, theirs)


def _class(error: Exception) -> str:
    """The most special class of an exception that users can name."""
    return next(c.__name__ for c in type(error).__mro__
                if hasattr(jax.errors, c.__name__) or c.__module__ == "builtins")
