"""`ffi_call`: a function of arrays that calls a foreign function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.foreign_calls import TYPED, Order, ffi_call_p, one_for_each, order_of
from mjax._engine.control.opaque_calls import check_method
from mjax._engine.ir.pytree import tree_flatten, tree_unflatten
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.custom_call_ir import frozen
from mjax._engine.runtime.arrays.layouts import Layout
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.xla_errors import JaxRuntimeError, UnknownTargetError
from mjax._engine.tracing.interpreter import Tracer


@boundary
def ffi_call(target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False,
             vmap_method: str | None = None, input_layouts: Sequence[Any] | None = None,
             output_layouts: Any = None, input_output_aliases: Mapping[int, int] | None = None,
             custom_call_api_version: int = 4, legacy_backend_config: str | None = None
             ) -> Callable[..., Any]:
    """A function of arrays that calls a foreign function, such as a kernel in C++.

    Args:
      target_name: the name under which the function was registered: see `register_ffi_target`. The
        LAPACK functions of jaxlib (`lapack_spotrf_ffi`) are there already.
      result_shape_dtypes: the types of its results: an object with `shape` and `dtype`, such as a
        `ShapeDtypeStruct`, or a tree of them. `abstract_token` is the type of a token. In the body
        of a shard_map results vary along the mesh axes of the operands, unless a struct names
        others by its `manual_axis_type`.
      has_side_effect: whether it is called even if its results are unused. Its results may then
        differ on each device of a shard_map.
      vmap_method: how it is called for a batch. "sequential": in a loop over the elements.
        "sequential_unrolled": the same without a loop. "expand_dims": once, for arrays with a
        leading batch axis, of size 1 for unbatched operands. "broadcast_all": once, with every
        operand repeated along that axis. "legacy_vectorized": once, with unbatched operands
        unchanged. None: vmap is refused.
      input_layouts: the layout that it needs of each operand: its axes from major to minor (the
        last axis of row-major arrays comes last), a `Layout`, or None: row-major.
      output_layouts: the layouts of its results, one for each leaf of `result_shape_dtypes`.
      input_output_aliases: number of an operand -> number of a result that takes over its memory.
      custom_call_api_version: its calling convention: 4 is XLA's typed FFI, the only one that
        takes attributes.
      legacy_backend_config: a string for functions of older conventions.

    Returns:
      A function of the operands, by position. Arguments by name become attributes: numbers,
      strings, NumPy arrays, and tuples and dicts of them. Python numbers have 64 bits: give
      `np.float32(2)` for an attribute of type `float`. It returns arrays in the structure of
      `result_shape_dtypes`, and raises

      - TypeError: an attribute of another kind;
      - ValueError: layouts or aliases do not fit the operands; when it is differentiated;
      - NotImplementedError: when it is batched without a `vmap_method`;
      - JaxRuntimeError: when it is compiled: the function is not registered.

    Raises:
      TypeError: `target_name` is not a text; at calls: a layout is not one, or aliases not a dict.
      ValueError: an unknown `vmap_method`; a result without `shape` and `dtype`; a number of
        layouts that differs from that of results; `legacy_backend_config` in convention 4.

    Example:
      >>> cholesky = mjax.ffi.ffi_call("lapack_spotrf_ffi", (
      ...     mjax.ShapeDtypeStruct((2, 2), "float32"), mjax.ShapeDtypeStruct((), "int32")),
      ...     input_layouts=[(1, 0)], output_layouts=[(1, 0), None])
      >>> factor, status = cholesky(jnp.array([[4.0, 0.0], [2.0, 2.0]]), uplo=np.uint8(ord("L")))
      >>> factor
      Array([[2., 0.],
             [1., 1.]], dtype=float32)

    Source: the public interface of `jax.ffi.ffi_call`.
    """
    if not isinstance(target_name, str):
        msg = f"ffi_call: target_name must be a text, got {target_name!r}."
        raise TypeError(msg)
    check_method("ffi_call", vmap_method)
    if custom_call_api_version >= TYPED and legacy_backend_config is not None:
        msg = ("ffi_call: legacy_backend_config is for functions of older calling conventions; "
               f"with custom_call_api_version={custom_call_api_version}, give attributes by name "
               "in the call.")
        raise ValueError(msg)
    specs, tree = tree_flatten(result_shape_dtypes)
    result_avals = tuple([_result_type(spec, i) for i, spec in enumerate(specs)])
    single = tree.num_nodes == 1 and len(specs) == 1
    outs = _layouts("result", result_avals, [output_layouts] if single else output_layouts)
    params = {
        "target_name": target_name, "result_avals": result_avals,
        "declared": tuple([s.vma if type(s) is ShapeDtypeStruct else None for s in specs]),
        "has_side_effect": bool(has_side_effect), "vmap_method": vmap_method,
        "output_layouts": outs, "custom_call_api_version": int(custom_call_api_version),
        "legacy_backend_config": legacy_backend_config}

    @boundary
    def call(*args: Any, **attributes: Any) -> Any:
        avals = tuple(map(typeof, args))
        ins = _layouts("operand", avals, input_layouts)
        aliases = _aliases(input_output_aliases or {}, avals, result_avals, ins, outs)
        static = tuple([(name, _attribute(target_name, name, value))
                        for name, value in sorted(attributes.items())])
        try:
            results = ffi_call_p.bind(*args, **params, input_layouts=ins,
                                      input_output_aliases=aliases, attributes=static)
        except UnknownTargetError:
            raise
        except JaxRuntimeError as error:  # of an evaluation: it does not name the function
            error.add_note(
                f"Raised by the foreign function {target_name!r}, called with operands "
                f"({', '.join(map(str, avals))}), results ({', '.join(map(str, result_avals))}) "
                f"and attributes ({', '.join(map(str, sorted(attributes)))}).")
            raise
        return tree_unflatten(tree, results)

    return call


def _result_type(spec: Any, place: int) -> Any:
    if spec is abstract_token:
        return spec
    if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
        raise LazyValueError(lambda: (
            "ffi_call: result_shape_dtypes must hold objects with a shape and a dtype (such as "
            f"mjax.ShapeDtypeStruct), or abstract_token; got {spec!r} at position {place}."))
    # 64-bit dtypes are kept: the function returns what it returns, whatever x64 says.
    return ShapedArray(tuple(spec.shape), spec.dtype)


def _layouts(what: str, avals: Sequence[Any], given: Sequence[Any] | None) -> tuple[Order, ...]:
    """The layouts of operands or results, minor to major.

    Args:
      what: "operand" or "result".
      avals: their types.
      given: the layouts as the user gave them, major to minor.

    Raises:
      ValueError: the number of layouts differs; one does not name each axis once.
    """
    orders = []
    for i, (aval, layout) in enumerate(zip(
            avals, one_for_each("ffi_call", what, avals, given), strict=True)):
        order = order_of(aval, layout, f"ffi_call: {what} {i}")
        # Bare axes are major to minor here.
        orders.append(order if layout is None or isinstance(layout, Layout) else order[::-1])
    return tuple(orders)


def _aliases(given: Mapping[int, int], avals: Sequence[Any], result_avals: Sequence[Any],
             ins: Sequence[Order], outs: Sequence[Order]) -> tuple[tuple[int, int], ...]:
    """The aliases as pairs.

    Raises:
      ValueError: one names an operand or result that does not exist, or two that differ.
    """
    if not isinstance(given, Mapping):
        msg = ("ffi_call: input_output_aliases must be a dict from numbers of operands to numbers "
               f"of results, such as {{0: 0}}; got {given!r}.")
        raise TypeError(msg)
    pairs = sorted((operator.index(i), operator.index(o)) for i, o in given.items())
    for operand, result in pairs:
        _check_end("operand", operand, len(avals))
        _check_end("result", result, len(result_avals))
        _check_alike((operand, avals[operand], ins[operand]),
                     (result, result_avals[result], outs[result]))
    return tuple(pairs)


def _check_end(what: str, place: int, count: int) -> None:
    if not 0 <= place < count:
        msg = (f"ffi_call: input_output_aliases names {what} {place}, but there are {count}, from "
               "0 on.")
        raise ValueError(msg)


def _check_alike(operand: tuple[int, Any, Order], result: tuple[int, Any, Order]) -> None:
    (i, aval, order), (o, result_aval, result_order) = operand, result
    if not aval.matches(result_aval) or order != result_order:
        raise LazyValueError(lambda: (
            f"ffi_call: input_output_aliases gives the memory of operand {i} to result {o}, but "
            f"they differ: {aval} in the order {order[::-1]}, and {result_aval} in the order "
            f"{result_order[::-1]}."))


def _attribute(target: str, name: str, value: Any) -> Any:
    """An attribute as a hashable value.

    Raises:
      TypeError: it is not static, or of another kind.
    """
    if isinstance(value, Tracer) or (hasattr(value, "aval") and not isinstance(value, np.ndarray)):
        raise LazyTypeError(lambda: (
            f"ffi_call: the attribute {name!r} of {target!r} is an array ({value!r}). Attributes "
            "are part of the program: give a NumPy array or a number, or pass it as an operand."))
    try:
        return frozen(value)
    except TypeError:
        raise LazyTypeError(lambda: (
            f"ffi_call: the attribute {name!r} of {target!r} is not hashable: {value!r} of type "
            f"{type(value).__name__}. Attributes are numbers, strings, NumPy arrays, and tuples "
            "and dicts of them.")) from None


__all__ = ["ffi_call"]
