"""Public functions for reverse-mode derivatives: `vjp`, `grad`, `value_and_grad`,
`linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, overload

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import A, Function, P, R, T
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, no_debug_info
from mjax._engine.ir.pytree import (
    Partial,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    treedef_tuple,
)
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.shapes import full, held, scalar_of
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.flat import (
    FlatFunction,
    argument_numbers,
    check_arguments,
    check_callable,
    choose_arguments,
    described,
    function_name,
    refuse_leaf,
    wraps,
)
from mjax._engine.tracing.reference import refuse_differentiated
from mjax._engine.tracing.stage import stage
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import fitted
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.forward import same_structure
from mjax._engine.transforms.linearize import linearize_flat
from mjax._engine.transforms.transpose import backward_pass


class Pullback:
    """A linear program walked backwards; the function of the `Partial` that `vjp` returns.

    Args:
      jaxpr: the linear program, without the values of its constants.
      nonzeros: which leaves of the arguments have a tangent among its inputs.
      in_avals: types of the arguments' cotangents.
      in_tree: structure of the arguments.
      out_avals: types of the results' cotangents.
      nonzero_outs: which results have a tangent among its results.
      out_tree: structure of the results.
    """

    __slots__ = ("in_avals", "in_tree", "jaxpr", "nonzero_outs", "nonzeros", "out_avals",
                 "out_tree")

    def __init__(self, jaxpr: Jaxpr, nonzeros: Sequence[bool], in_avals: Sequence[Any],
                 in_tree: Any, out_avals: Sequence[Any], nonzero_outs: Sequence[bool],
                 out_tree: Any):
        self.jaxpr = jaxpr
        self.nonzeros = nonzeros
        self.in_avals = in_avals
        self.in_tree = in_tree
        self.out_avals = out_avals
        self.nonzero_outs = nonzero_outs
        self.out_tree = out_tree

    @boundary
    def __call__(self, consts: Sequence[Any], *cts: Any) -> Any:
        if len(cts) != 1:
            msg = (f"vjp function: takes one argument, a cotangent of the structure of the "
                   f"function's output; got {len(cts)}.")
            raise TypeError(msg)
        leaves = _cotangents("vjp function", cts[0], self.out_tree, self.out_avals, ValueError)
        found = self.pull(consts, [c for c, nz in zip(leaves, self.nonzero_outs, strict=True)
                                   if nz])
        return self.in_tree.unflatten(map(_of_primal, found, self.in_avals))

    def pull(self, consts: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the arguments' leaves, `Zero`s among them."""
        undefined = [UndefinedPrimal(v.aval) for v in self.jaxpr.invars]
        found = iter(backward_pass(self.jaxpr, consts, undefined, cts, "transpose"))
        return [next(found) if nz else Zero(a)
                for a, nz in zip(self.in_avals, self.nonzeros, strict=True)]

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, avals)) for avals in (self.out_avals, self.in_avals))
        return f"<pullback of {self.jaxpr.debug_info.func_name}: ({ins}) -> ({outs})>"


def vjp_flat(f: FlatFunction, leaves: Sequence[Any], nonzeros: Sequence[bool],
             debug_info: DebugInfo = no_debug_info) -> tuple[list[Any], Pullback, list[Any]]:
    """Results, pullback and residuals of a function of flat values."""
    leaves = held(leaves, nonzeros)
    outs, linear, nonzero_outs = linearize_flat(f, leaves, nonzeros, debug_info=debug_info)
    pullback = Pullback(linear, nonzeros, [typeof(leaf).to_tangent() for leaf in leaves],
                        f.in_tree, [typeof(o).to_tangent() for o in outs], nonzero_outs,
                        f.out_tree)
    return outs, pullback, linear.consts


def _refuse_reduce_axes(who: str, reduce_axes: Any) -> None:
    """Refuses a former feature of JAX: sums of gradients over named axes."""
    if reduce_axes:
        msg = (f"{who}: reduce_axes is not supported, got {reduce_axes!r}. Sum the results with "
               "lax.psum over these axes.")
        raise NotImplementedError(msg)


def _cotangents(who: str, ct: Any, out_tree: Any, out_avals: Sequence[Any],
                error: type[Exception]) -> list[Any]:
    """The leaves of an output's cotangent, cast to its types if only device variance differs.

    Raises:
      `error`: it has another structure, or a leaf another type.
    """
    leaves, tree = tree_flatten(ct)
    same_structure(who, out_tree, tree, ("the function's output", "the cotangent given"), error)
    for i, expected in enumerate(out_avals):
        leaf, leaves[i] = leaves[i], fitted(leaves[i], expected)
        # The cotangent of an output without a derivative is unused: only its shape has to fit.
        if leaves[i] is None and not (
                isinstance(expected, ShapedArray) and expected.dtype == dtypes.float0
                and typeof(leaf).shape == expected.shape):
            path = tree_flatten_with_path(ct)[0][i][0]
            msg = (f"{who}: cotangent{keystr(path)} has type {typeof(leaf)}, but the "
                   f"output's cotangents have type {expected}.")
            raise error(msg)
    return leaves


@overload
def vjp(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False,
        reduce_axes: Any = ()) -> tuple[R, Callable[..., Any]]: ...
@overload
def vjp(fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True],
        reduce_axes: Any = ()) -> tuple[R, Callable[..., Any], A]: ...
@overload
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool, reduce_axes: Any = ()
        ) -> tuple[Any, ...]: ...
@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
        ) -> Any:
    """Evaluates a function and gives the function that pulls cotangents back through it.

    Args:
      fun: a function of pytrees of arrays.
      primals: its arguments.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.
      reduce_axes: must be empty, as in JAX.

    Returns:
      `(outputs, f_vjp)`, or with `has_aux` `(outputs, f_vjp, aux)`. `f_vjp` takes a cotangent
      of the structure, shapes and dtypes of the outputs, and gives the tuple of the
      arguments' cotangents (float0 for integers). It is a pytree whose leaves are the values
      it keeps, so that jitted functions can return it.

    Raises:
      TypeError: an argument is not an array.
      NotImplementedError: there are `reduce_axes`.
      ValueError: at calls of `f_vjp`: the cotangent has another structure, shape or dtype.

    Example:
      >>> y, f_vjp = mjax.vjp(lax.mul, 3.0, 4.0)
      >>> [float(ct) for ct in f_vjp(1.0)]
      [4.0, 3.0]
    """
    check_callable("vjp", fun)
    _refuse_reduce_axes("vjp", reduce_axes)
    check_arguments("vjp", primals)
    leaves, tree = tree_flatten(primals)
    flat = FlatFunction(fun, treedef_tuple((tree, tree_structure({}))), has_aux)
    nonzeros = [typeof(leaf).inexact for leaf in leaves]
    outs, pullback, _ = vjp_flat(flat, leaves, nonzeros, DebugInfo("vjp", function_name(fun)))
    pullback.in_tree = tree
    # Residuals of unwanted tangents must not be kept.
    linear, _ = dce_jaxpr(pullback.jaxpr, [True] * len(pullback.jaxpr.outvars), True)
    consts = linear.consts
    pullback.jaxpr = linear.replace(consts=[None] * len(consts))
    results = (flat.out_tree.unflatten(outs), Partial(pullback, consts))
    return (*results, flat.aux) if has_aux else results


# Only one overload takes a function alone: mypy has no types for a lambda that several may take,
# where the result is an argument of `jit` or `vmap`.
@overload
def value_and_grad(fun: Callable[Concatenate[T, P], R], argnums: Literal[0] = 0,
                   has_aux: Literal[False] = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Any = ()
                   ) -> Function[Concatenate[T, P], tuple[R, T]]: ...
@overload
def value_and_grad(fun: Callable[Concatenate[T, P], tuple[R, A]], argnums: Literal[0] = 0, *,
                   has_aux: Literal[True], holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Any = ()) -> Function[Concatenate[T, P], tuple[tuple[R, A], T]]: ...
@overload
def value_and_grad(fun: Callable[P, R], argnums: int | Sequence[int],
                   has_aux: Literal[False] = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Any = ()
                   ) -> Function[P, tuple[R, Any]]: ...
@overload
def value_and_grad(fun: Callable[P, tuple[R, A]], argnums: int | Sequence[int],
                   has_aux: Literal[True], holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Any = ()) -> Function[P, tuple[tuple[R, A], Any]]: ...
@overload
def value_and_grad(fun: Callable[P, tuple[Any, Any]], argnums: int | Sequence[int], has_aux: bool,
                   holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = ()
                   ) -> Function[P, Any]: ...
@overload
def value_and_grad(fun: Callable[P, tuple[Any, Any]], *, has_aux: bool, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Any = ()) -> Function[P, Any]: ...
@boundary
def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Any = ()) -> Callable[..., Any]:
    """A function that gives the value of a scalar function and its gradient.

    Args:
      fun: a function whose result is a scalar (shape `()`) of real dtype.
      argnums: positions of the arguments to differentiate in.
      has_aux: whether `fun` returns a pair `(scalar, aux)`.
      holomorphic: whether `fun` is a holomorphic function of complex arguments.
      allow_int: whether integer arguments are accepted; their gradients are float0.
      reduce_axes: must be empty, as in JAX.

    Returns:
      A function of the same arguments that gives `(value, gradient)`; the value is
      `(scalar, aux)` with `has_aux`, the gradient has the structure of the argument, and is
      a tuple if `argnums` is a sequence.

    Raises:
      TypeError: at calls: the result is not a real scalar; an argument is an integer, or missing.

    Example:
      >>> mjax.value_and_grad(lax.sin)(0.0)
      (Array(0., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    _refuse_reduce_axes("value_and_grad", reduce_axes)
    check_callable("grad", fun)
    numbers = argument_numbers("grad", argnums)

    @wraps(fun)
    @boundary
    def value_and_grad_of(*args: Any, **kwargs: Any) -> Any:
        f, chosen, places, single = choose_arguments("grad", fun, numbers, args, kwargs, TypeError)
        leaves, tree = tree_flatten(chosen)
        _check_grad_inputs(fun, args, places, holomorphic, allow_int)
        flat = FlatFunction(f, treedef_tuple((tree, _empty)), has_aux)
        nonzeros = [typeof(leaf).inexact for leaf in leaves]
        outs, pullback, consts = vjp_flat(flat, leaves, nonzeros, DebugInfo(
            "grad", function_name(fun)))
        _check_grad_output(fun, outs, flat.out_tree, holomorphic)
        one = _one(outs[0])
        cts = pullback.pull(consts, [one] if pullback.nonzero_outs[0] else [])
        grads = tree.unflatten([
            _of_primal(c, a) for c, a in zip(cts, pullback.in_avals, strict=True)])
        value = flat.out_tree.unflatten(outs)
        return (value, flat.aux) if has_aux else value, grads[0] if single else grads

    value_and_grad_of.__doc__ = described(
        f"Value of {function_name(fun)}, and its gradient in argument {argnums}.", fun)
    return value_and_grad_of


def _of_primal(ct: Any, aval: Any) -> Any:
    """A cotangent as an array with the weak type of its primal."""
    ct = _array(instantiate(ct))
    given = typeof(ct)
    return ct if given.weak_type == aval.weak_type else convert(ct, given.dtype, aval.weak_type)


_empty = tree_structure({})


def _one(out: Any) -> Any:
    return scalar_of(typeof(out), 1)


def _array(gradient: Any) -> Any:
    """Makes arrays of cotangents that are still the scalar seed."""
    return full((), gradient) if isinstance(gradient, (float, complex, np.generic)) else gradient


def _check_grad_inputs(fun: Callable[..., Any], args: Sequence[Any], places: Sequence[int],
                       holomorphic: bool, allow_int: bool) -> None:
    for i in places:
        for path, leaf in tree_flatten_with_path(args[i])[0]:
            where = f"argument {i}{keystr(path)} of {function_name(fun)}"
            refuse_differentiated("grad", where, leaf)
            try:
                aval = typeof(leaf)
                dtype = None if aval.is_high else aval.dtype
            except TypeError as error:
                refuse_leaf(f"grad: {where}", error)
            if dtype is None:
                if not aval.inexact and not allow_int:
                    msg = (f"grad: {where} is of type {aval}, whose values do not have tangents. "
                           "Choose other arguments with argnums.")
                    raise TypeError(msg)
                continue
            if holomorphic and not dtypes.is_complex(dtype):
                msg = (f"grad with holomorphic=True requires complex inputs, but {where} has dtype "
                       f"{dtype}.")
                raise TypeError(msg)
            if not dtypes.is_inexact(dtype) and not allow_int:
                msg = (f"grad requires real- or complex-valued inputs, but {where} has dtype "
                       f"{dtype}. Convert it to a float, choose other arguments with argnums, "
                       "or pass allow_int=True to get float0 gradients.")
                raise TypeError(msg)


def _check_grad_output(fun: Callable[..., Any], outs: Sequence[Any], tree: Any,
                       holomorphic: bool) -> None:
    name = function_name(fun)
    if len(outs) != 1 or tree.num_nodes != 1:
        msg = (f"gradient only defined for scalar-output functions; {name} returned a value of "
               f"structure {tree}. Return one array, or (value, aux) with has_aux=True.")
        raise TypeError(msg)
    aval = typeof(outs[0])
    if aval.shape:
        msg = (f"gradient only defined for scalar-output functions; {name} returned an array of "
               f"shape {aval.shape}. Reduce it to a scalar (sum, mean), or use vjp, jacrev or "
               "jacfwd.")
        raise TypeError(msg)
    accepted = dtypes.is_complex(aval.dtype) if holomorphic else dtypes.is_float(aval.dtype)
    if not accepted:
        wanted = "complex outputs" if holomorphic else "real-valued outputs (floating dtype)"
        msg = (f"grad requires {wanted}; {name} returned dtype {aval.dtype}."
               + (" For a holomorphic function pass holomorphic=True."
                  if dtypes.is_complex(aval.dtype) else ""))
        raise TypeError(msg)


@overload
def grad(fun: Callable[Concatenate[T, P], Any], argnums: Literal[0] = 0,
         has_aux: Literal[False] = False, holomorphic: bool = False, allow_int: bool = False,
         reduce_axes: Any = ()
         ) -> Function[Concatenate[T, P], T]: ...
@overload
def grad(fun: Callable[Concatenate[T, P], tuple[Any, A]], argnums: Literal[0] = 0, *,
         has_aux: Literal[True], holomorphic: bool = False, allow_int: bool = False,
         reduce_axes: Any = ()) -> Function[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(fun: Callable[P, Any], argnums: int | Sequence[int], has_aux: Literal[False] = False,
         holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = ()
         ) -> Function[P, Any]: ...
@overload
def grad(fun: Callable[P, tuple[Any, A]], argnums: int | Sequence[int], has_aux: bool = False,
         holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = ()
         ) -> Function[P, Any]: ...
@overload
def grad(fun: Callable[P, tuple[Any, A]], *, has_aux: bool, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Any = ()) -> Function[P, Any]: ...
@boundary
def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
         holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = ()
         ) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function.

    Args:
      fun: a function whose result is a scalar (shape `()`) of real dtype.
      argnums: positions of the arguments to differentiate in.
      has_aux: whether `fun` returns a pair `(scalar, aux)`.
      holomorphic: whether `fun` is a holomorphic function of complex arguments.
      allow_int: whether integer arguments are accepted; their gradients are float0.
      reduce_axes: must be empty, as in JAX.

    Returns:
      A function of the same arguments that gives the gradient, of the structure of the
      argument (a tuple if `argnums` is a sequence); `(gradient, aux)` with `has_aux`.

    Raises:
      TypeError: at calls: the result is not a real scalar; an argument is an integer, or missing.

    Example:
      >>> mjax.grad(lax.sin)(0.0)
      Array(1., dtype=float32, weak_type=True)
    """
    _refuse_reduce_axes("grad", reduce_axes)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    @boundary
    def grad_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    grad_of.__doc__ = described(
        f"Gradient of {function_name(fun)} in argument {argnums}.", fun)
    return grad_of


def _number_kind(dtype: Any) -> str:
    return ("inexact" if dtypes.is_inexact(dtype) else
            "integer" if dtypes.is_integer(dtype) else "other")


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()
                     ) -> Callable[..., Any]:
    """The transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function of pytrees of arrays.
      primals: arguments, or `ShapeDtypeStruct`s in their place; only their types are used.
      reduce_axes: must be empty, as in JAX.

    Returns:
      A function from a cotangent of the output to the tuple of the arguments' cotangents.

    Raises:
      TypeError: an argument is not an array; arguments and results are neither all of inexact
        nor all of integer dtypes; at calls: `fun` is not linear.
      NotImplementedError: at calls: `fun` applies a primitive that has no transpose rule.

    Example:
      >>> t = mjax.linear_transpose(lambda x: 2.0 * x, 1.0)
      >>> float(t(3.0)[0])
      6.0
    """
    check_callable("linear_transpose", fun)
    _refuse_reduce_axes("linear_transpose", reduce_axes)
    check_arguments("linear_transpose", primals)
    leaves, tree = tree_flatten(primals)
    avals = [typeof(leaf) for leaf in leaves]
    flat = FlatFunction(fun, treedef_tuple((tree, _empty)))
    jaxpr = stage(flat, avals, DebugInfo("linear_transpose", function_name(fun)))
    out_avals = jaxpr.out_avals
    kinds = {_number_kind(a.dtype) for a in (*avals, *out_avals)}
    if len(kinds) > 1 or "other" in kinds:
        msg = ("linear_transpose needs arguments and results that are all of inexact dtypes, or "
               f"all of integer dtypes; got arguments {', '.join(map(str, avals))} and results "
               f"{', '.join(map(str, out_avals))}.")
        raise TypeError(msg)

    @boundary
    def transposed(ct: Any) -> Any:
        cts = _cotangents("linear_transpose", ct, flat.out_tree, out_avals, TypeError)
        found = backward_pass(jaxpr, jaxpr.consts, [UndefinedPrimal(a) for a in avals], cts,
                              "transpose")
        return tree.unflatten([
            _array(instantiate(Zero(a) if type(c) is Zero else c))
            for a, c in zip(avals, found, strict=True)])

    return transposed
