"""Public functions for Python callbacks: `pure_callback`, `io_callback`, `debug.callback`,
`debug.print`, `debug.log`."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from mjax._engine.base.errors import LazyArgumentError, LazyText, LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import Keyed
from mjax._engine.control.callback_primitives import (
    debug_callback_p,
    debug_effect,
    io_callback_p,
    ordered_debug_effect,
    ordered_io_effect,
    pure_callback_p,
    refuse_device,
)
from mjax._engine.control.calls.static_arguments import Static
from mjax._engine.control.opaque_calls import check_method
from mjax._engine.ir.dtypes import canonical_dtype, is_extended
from mjax._engine.ir.effects import Effect, no_effects, token_names
from mjax._engine.ir.pytree import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.keys import unwrap
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.constraints import mesh_for_all
from mjax._engine.runtime.arrays.devices import default_device
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import SingleDeviceSharding
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.effects.tokens import thread_tokens
from mjax._engine.runtime.xla_errors import remember
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import call_with

logger = logging.getLogger("mjax.debug")


class FlatCallback:
    """A user's function of pytrees of arrays, as a function of flat NumPy arrays.

    Args:
      who: the public function, for messages.
      function: the user's function.
      in_tree: structure of `(args, kwargs)`.
      key_dtypes: of each of their leaves, its dtype if it holds keys, else None.
      out_tree: structure of its results; None: they are dropped.
      result_avals: their types.
      declared: the mesh axes of a shard_map along which each varies; None: all axes. Empty: None
        for all results.
      device: that calls it for all devices of a program; None: the first one.
    """

    def __init__(self, who: str, function: Callable[..., Any], in_tree: Any,
                 key_dtypes: Sequence[Any], out_tree: Any = None,
                 result_avals: Sequence[ShapedArray] = (),
                 declared: Sequence[frozenset[Any] | None] = (), device: Any = None):
        self.who = who
        self.function = function
        self.in_tree = in_tree
        self.key_dtypes = tuple(key_dtypes)
        self.out_tree = out_tree
        self.result_avals = tuple(result_avals)
        self.declared = tuple(declared)
        self.device = device
        self.settings = thread.settings

    def _key(self) -> tuple[Any, ...]:
        return (self.who, self.function, self.in_tree, self.key_dtypes, self.out_tree,
                self.result_avals, self.declared, self.device, self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatCallback) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.who, self.in_tree, self.result_avals))

    def __repr__(self) -> str:
        return function_name(self.function)

    def for_results(self, result_avals: Sequence[ShapedArray]) -> FlatCallback:
        """The same function with other result types."""
        return FlatCallback(self.who, self.function, self.in_tree, self.key_dtypes,
                            self.out_tree, result_avals, self.declared, self.device)

    def __call__(self, *values: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Called by XLA; its exception is kept, to be raised where its results are awaited."""
        previous, thread.settings = thread.settings, self.settings
        try:
            return call_with(evaluation, self.apply, values)
        except BaseException as error:
            raise remember(error) from None
        finally:
            thread.settings = previous

    def apply(self, values: Sequence[Any]) -> tuple[np.ndarray[Any, Any], ...]:
        """The results of the user's function, checked."""
        args, kwargs = tree_unflatten(self.in_tree, [
            to_array(v) if keys is None else keys.wrap(to_array(v))
            for v, keys in zip(values, self.key_dtypes, strict=True)])
        out = self.function(*args, **kwargs)
        if self.out_tree is None:
            return ()
        leaves, tree = tree_flatten(out)
        if len(leaves) != self.out_tree.num_leaves:
            msg = (f"{self.who}: {describe_function(self.function)} returned {tree}, but "
                   f"result_shape_dtypes says {self.out_tree}.")
            raise TypeError(msg)
        found = [np.asarray(leaf) for leaf in leaves]
        for i, (value, aval) in enumerate(zip(found, self.result_avals, strict=True)):
            if value.shape != aval.shape or canonical_dtype(value.dtype) != aval.dtype:
                path = keystr(tree_flatten_with_path(out)[0][i][0])
                msg = (f"{self.who}: {describe_function(self.function)} returned an array of "
                       f"dtype {value.dtype} and shape {value.shape} for result{path}, but "
                       f"result_shape_dtypes says {aval}.")
                raise TypeError(msg)
        return tuple(np.asarray(v, a.dtype) for v, a in zip(found, self.result_avals,
                                                            strict=True))


def _flat(who: str, function: Callable[..., Any], args: Any, kwargs: Any, results: Any = None,
          sharding: Any = None) -> tuple[list[Any], FlatCallback]:
    check_callable(who, function)
    if results is _nothing:
        args, kwargs = tree_map(_static_unless_array, (args, kwargs))
    else:
        check_arguments(who, args)
        check_arguments(who, kwargs)
    leaves, in_tree = tree_flatten((args, kwargs))
    dtypes = [typeof(leaf).dtype for leaf in leaves]
    key_dtypes = [dtype if is_extended(dtype) else None for dtype in dtypes]
    if results is _nothing:
        return leaves, FlatCallback(who, function, in_tree, key_dtypes)
    shapes, out_tree = tree_flatten(results)
    return leaves, FlatCallback(who, function, in_tree, key_dtypes, out_tree,
                                [_result_type(who, s) for s in shapes],
                                [s.vma if type(s) is ShapeDtypeStruct else None for s in shapes],
                                None if sharding is None else _device_of(who, sharding))


_nothing: Any = object()


def _static_unless_array(leaf: Any) -> Any:
    """Values that are not arrays are part of the structure; the callback gets them as they are."""
    try:
        typeof(leaf)
    except (TypeError, OverflowError):
        return Static.any(leaf)
    return leaf


def _result_type(who: str, spec: Any) -> ShapedArray:
    if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
        raise LazyTypeError(lambda: (
            f"{who}: result_shape_dtypes must hold objects with a shape and a dtype (such as "
            f"mjax.ShapeDtypeStruct), got {spec!r}."))
    if is_extended(spec.dtype):
        raise LazyTypeError(lambda: (
            f"{who}: result_shape_dtypes asks for keys ({spec.dtype}): have the callback return "
            "their data, and wrap it by random.wrap_key_data."))
    dtype = canonical_dtype(spec.dtype)
    if dtype != spec.dtype:
        raise LazyArgumentError(lambda: (
            f"{who}: result_shape_dtypes asks for {spec.dtype}, but 64-bit types are off: ask "
            f"for {dtype}, or enable_x64."))
    return ShapedArray(tuple(spec.shape), dtype)


@boundary
def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any,
                  sharding: SingleDeviceSharding | None = None, vmap_method: str | None = None,
                  **kwargs: Any) -> Any:
    """Calls a Python function without side effects from a compiled program.

    It may be called any number of times, or not at all if its results are unused.

    Args:
      callback: a function of arrays that returns arrays, of NumPy or of mjax.
      result_shape_dtypes: a tree of objects with `shape` and `dtype`, such as
        `ShapeDtypeStruct`: the types of its results. In the body of a shard_map each device
        calls it, and results are assumed to vary along all mesh axes, or along those in the
        struct's `manual_axis_type`. Differences along other axes are not detected.
      args: pytrees of arrays.
      sharding: of the device that calls it, one of the program's; None: the first of them.
      vmap_method: how it is called for a batch. "sequential": in a loop over the elements.
        "sequential_unrolled": the same without a loop. "expand_dims": once, for arrays with a
        leading batch axis, of size 1 for unbatched arguments. "broadcast_all": once, with every
        argument repeated along that axis. "legacy_vectorized": once, with unbatched arguments
        unchanged. None: vmap is refused.
      kwargs: pytrees of arrays, by name.

    Returns:
      The results, as arrays.

    Raises:
      TypeError: arguments that are not arrays; at run time: results of undeclared types.
      ValueError: an unknown `vmap_method`; when it is differentiated, or batched without one;
        the program does not run on the device of `sharding`.
      NotImplementedError: `sharding` is of another class, or given in the body of a shard_map.

    Example:
      >>> import numpy as np
      >>> @mjax.jit
      ... def f(x):
      ...   return mjax.pure_callback(np.sinc, x, x)
      >>> f(mjax.numpy.zeros(2))
      Array([1., 1.], dtype=float32)

    Source: the public interface of `jax.pure_callback`.
    """
    check_method("pure_callback", vmap_method)
    leaves, flat = _flat("pure_callback", callback, args, kwargs, result_shape_dtypes, sharding)
    outs = pure_callback_p.bind(*leaves, callback=flat, result_avals=flat.result_avals,
                                vmap_method=vmap_method)
    return tree_unflatten(flat.out_tree, outs)


def _device_of(who: str, sharding: Any) -> Any:
    if type(sharding) is not SingleDeviceSharding:
        msg = (f"{who}: sharding must be a SingleDeviceSharding, whose device calls the function, "
               f"or None; got {sharding!r}.")
        raise NotImplementedError(msg)
    return sharding.device


@boundary
def io_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any,
                sharding: SingleDeviceSharding | None = None, ordered: bool = False,
                **kwargs: Any) -> Any:
    """Calls a Python function with side effects from a compiled program, exactly once.

    Under `vmap` it is called for each element, in the order of the batch.

    Args:
      callback: a function of arrays that gives arrays.
      result_shape_dtypes: a tree of objects with `shape` and `dtype`, as for `pure_callback`;
        None: no results.
      args: pytrees of arrays.
      sharding: of the device that calls it, one of the program's; None: the first of them.
      ordered: whether calls happen in the program's order, also those of later computations
        of this thread. Ordered calls cannot be batched.
      kwargs: pytrees of arrays, by name.

    Returns:
      The results, as arrays.

    Raises:
      TypeError: arguments that are not arrays; at run time: results of undeclared types.
      ValueError: when it is differentiated, or batched although `ordered`; the program does not
        run on the device of `sharding`.
      NotImplementedError: `sharding` is of another class, or given in the body of a shard_map.

    Example:
      >>> log = []
      >>> out = mjax.jit(lambda x: io_callback(log.append, None, x, ordered=True))(3)
      >>> mjax.effects_barrier()
      >>> log
      [Array(3, dtype=int32)]

    Source: the public interface of `jax.experimental.io_callback`.
    """
    leaves, flat = _flat("io_callback", callback, args, kwargs, result_shape_dtypes, sharding)
    outs = io_callback_p.bind(*leaves, callback=flat, result_avals=flat.result_avals,
                              ordered=bool(ordered))
    return tree_unflatten(flat.out_tree, outs)


@overload
def debug_callback(callback: Callable[..., Any], *args: Any, ordered: bool = ...,
                   partitioned: bool = ..., **kwargs: Any) -> None: ...
@overload
def debug_callback(*, ordered: bool = ..., partitioned: bool = ...) -> Callable[..., None]: ...
@boundary
def debug_callback(callback: Callable[..., Any] | None = None, *args: Any, ordered: bool = False,
                   partitioned: bool = False, **kwargs: Any) -> Any:
    """Calls a Python function to inspect values in a compiled program.

    Every transformation allows it. Under differentiation it sees the primals; under `vmap` it is
    called for each element, in the order of the batch.

    Args:
      callback: a function of arrays; its result is dropped. Without it, a function of callback,
        args and kwargs is returned, for callbacks whose arguments have the names of options.
      args: pytrees of arrays; other leaves reach the callback as they are.
      ordered: whether calls happen in the program's order.
      partitioned: whether each device of a jitted program calls it, with its own pieces of the
        arguments, in no order. They are not gathered then.
      kwargs: the same, by name.

    Returns:
      None.

    Raises:
      TypeError: `callback` is not callable.
      ValueError: `partitioned` and `ordered` in a program over several devices.
      NotImplementedError: `partitioned` in such a program, before jaxlib 0.6.0.

    Example:
      >>> seen = []
      >>> mjax.jit(lambda x: mjax.debug.callback(seen.append, x + 1))(3)
      >>> mjax.effects_barrier()
      >>> seen
      [Array(4, dtype=int32)]

    Source: the public interface of `jax.debug.callback`.
    """

    @boundary
    def call(callback: Any, /, *args: Any, **kwargs: Any) -> None:
        _look(callback, args, kwargs, ordered, partitioned)

    return call if callback is None and not (args or kwargs) else call(callback, *args, **kwargs)


def _look(callback: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ordered: bool,
          partitioned: bool) -> None:
    leaves, flat = _flat("debug.callback", callback, args, kwargs, _nothing)
    effect = ordered_debug_effect if ordered else debug_effect
    debug_callback_p.bind(*leaves, callback=flat, effect=effect, partitioned=bool(partitioned))


class _Printer(Keyed):
    """Writes a format with its values: prints it, or logs it."""

    def __init__(self, who: str, fmt: str, write: Callable[[str], None]):
        self.fmt = fmt
        self.write = write
        #: NumPy's print options at the call; the program may run under others, in another thread.
        self.options = np.get_printoptions()
        self.__name__ = f"{who}({fmt!r})"

    def _key(self) -> tuple[Any, ...]:
        return self.fmt, self.write, repr(self.options)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self.options):
            try:
                text = self.fmt.format(*args, **kwargs)
            except Exception as error:  # it may come late: nothing else would name the call
                error.add_note(f"in {self.__name__}")
                raise
        self.write(text)


class _Checker(string.Formatter):
    """Formats only to find errors; the texts of values are not known yet."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(self, used: Any, args: Any, kwargs: Any) -> None:
        unused = [str(i) for i in range(len(args)) if i not in used]
        unused += [repr(k) for k in kwargs if k not in used]
        if unused:
            msg = (f"the arguments {', '.join(unused)} do not occur in it: write {{}} for each "
                   "argument by position, {name} for one by name.")
            raise ValueError(msg)


def _print(text: str) -> None:
    # Writes to the current sys.stdout, in one piece: devices print at the same time.
    print(f"{text}\n", end="")


def _log(text: str) -> None:
    logger.info("%s", text)


def _writer(who: str, write: Callable[[str], None], ordered: bool, partitioned: bool,
            skip_format_check: bool) -> Callable[..., None]:
    @boundary
    def call(fmt: str, /, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fmt, str):
            msg = (f"{who} expects a format string first, got {type(fmt).__name__}: write "
                   f"{who}('{{}}', x).")
            raise TypeError(msg)
        if not skip_format_check:
            _check_format(who, fmt, args, kwargs)
        _look(_Printer(who, fmt, write), args, kwargs, ordered, partitioned)

    return call


def _check_format(who: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        _Checker().vformat(fmt, args, kwargs)
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        what = (f"there is no argument {error} given by name." if isinstance(error, KeyError) else
                "it asks for more." if isinstance(error, IndexError) else str(error))
        msg = (f"{who}: the format {fmt!r} does not fit its {len(args)} positional and "
               f"{len(kwargs)} named arguments: {what}")
        kind = next(k for k in (KeyError, IndexError, ValueError, AttributeError)
                    if isinstance(error, k))
        raise _MISFITS[kind](msg) from None


class _UnknownName(LazyText, KeyError, ValueError, shown_as=KeyError):
    """The format refers to an argument by an unknown name."""


class _UnknownPlace(LazyText, IndexError, ValueError, shown_as=IndexError):
    """The format refers to more positional arguments than there are."""


_MISFITS: dict[type[Exception], type[Exception]] = {
    KeyError: _UnknownName, IndexError: _UnknownPlace, AttributeError: ValueError,
    ValueError: ValueError}


@overload
def debug_print(fmt: str, *args: Any, ordered: bool = ..., partitioned: bool = ...,
                skip_format_check: bool = ..., **kwargs: Any) -> None: ...
@overload
def debug_print(*, ordered: bool = ..., partitioned: bool = ..., skip_format_check: bool = ...
                ) -> Callable[..., None]: ...
@boundary
def debug_print(fmt: str | None = None, *args: Any, ordered: bool = False,
                partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any) -> Any:
    """Prints values in a compiled program, as `print(fmt.format(*args, **kwargs))` would.

    Args:
      fmt: a format string as of `str.format`. f-strings do not work: they are made when the
        function is traced. Without one, a function of format, args and kwargs is returned.
      args: pytrees of arrays, or anything else, for `{}` and `{0}`.
      ordered: whether lines come in the program's order.
      partitioned: whether each device of a jitted program prints its own pieces of the arguments,
        in no order. They are not gathered then.
      skip_format_check: whether the format may leave out arguments, or refer to attributes that
        exist only at run time.
      kwargs: the same, for `{name}`.

    Returns:
      None.

    Raises:
      TypeError: `fmt` is not a string.
      KeyError, IndexError: the format asks for an argument that is not given.
      ValueError: the format does not fit the arguments in another way; `partitioned` and
        `ordered` in a program over several devices.
      NotImplementedError: `partitioned` in such a program, before jaxlib 0.6.0.

    Example:
      >>> mjax.debug.print("x is {x}", x=mjax.numpy.arange(3))
      x is [0 1 2]

    Source: the public interface of `jax.debug.print`.
    """
    call = _writer("debug.print", _print, ordered, partitioned, skip_format_check)
    return call if fmt is None and not (args or kwargs) else call(fmt, *args, **kwargs)


@overload
def debug_log(fmt: str, *args: Any, ordered: bool = ..., partitioned: bool = ...,
              skip_format_check: bool = ..., **kwargs: Any) -> None: ...
@overload
def debug_log(*, ordered: bool = ..., partitioned: bool = ..., skip_format_check: bool = ...
              ) -> Callable[..., None]: ...
@boundary
def debug_log(fmt: str | None = None, *args: Any, ordered: bool = False,
              partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any) -> Any:
    """Logs values in a compiled program, to the logger "mjax.debug" at level INFO.

    Args:
      fmt: a format string as of `str.format`; see `debug.print`.
      args: pytrees of arrays, for `{}` and `{0}`.
      ordered: whether records come in the program's order.
      partitioned: see `debug.print`.
      skip_format_check: see `debug.print`.
      kwargs: pytrees of arrays, for `{name}`.

    Returns:
      None.

    Raises:
      TypeError: `fmt` is not a string.
      KeyError, IndexError: the format asks for an argument that is not given.
      ValueError: the format does not fit the arguments in another way.

    Example:
      >>> import logging, sys
      >>> logger = logging.getLogger("mjax.debug")
      >>> handler = logging.StreamHandler(sys.stdout)
      >>> logger.addHandler(handler)
      >>> logger.setLevel(logging.INFO)
      >>> mjax.debug.log("x is {}", 3)
      x is 3
      >>> logger.removeHandler(handler)

    Source: the public interface of `jax.debug.log`.
    """
    call = _writer("debug.log", _log, ordered, partitioned, skip_format_check)
    return call if fmt is None and not (args or kwargs) else call(fmt, *args, **kwargs)


# ---- evaluation ------------------------------------------------------------------------


def _call_now(callback: FlatCallback, args: Sequence[Any], effects: frozenset[Effect] = no_effects
              ) -> list[Array]:
    """Calls the function at once, after earlier ordered effects."""
    names = token_names(effects)
    if names:
        thread_tokens().wait_for(names)
    arrays = [a if type(a) is Array else to_array(a) for a in args]
    if callback.device is not None:
        _check_device(callback, arrays)
    values = [np.asarray(unwrap(a) if is_extended(a.dtype) else a) for a in arrays]
    return [to_array(out, False) for out in callback.apply(values)]


def _check_device(callback: FlatCallback, arrays: Sequence[Array]) -> None:
    mesh = mesh_for_all()
    devices = {d: None for a in arrays if a.committed for d in a.sharding.flat_devices} or (
        (default_device(),) if mesh is None else mesh.flat_devices)
    if callback.device not in devices:
        refuse_device(callback.who, callback.device, tuple(devices))


@pure_callback_p.def_impl
def _pure_impl(*args: Any, callback: FlatCallback, **params: Any) -> list[Array]:
    return _call_now(callback, args)


@io_callback_p.def_impl
def _io_impl(*args: Any, callback: FlatCallback, ordered: bool, **params: Any) -> list[Array]:
    return _call_now(callback, args, frozenset({ordered_io_effect}) if ordered else no_effects)


@debug_callback_p.def_impl
def _debug_impl(*args: Any, callback: FlatCallback, effect: Effect, partitioned: bool = False
                ) -> list[Array]:
    return _call_now(callback, args, frozenset({effect}))


__all__ = ["FlatCallback", "debug_callback", "debug_log", "debug_print", "io_callback",
           "pure_callback"]
