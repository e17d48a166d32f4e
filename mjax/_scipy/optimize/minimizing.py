"""Minimization of functions of a vector: `minimize`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.faces import rehome
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.transforms.reverse import value_and_grad
from mjax._numpy.core import check_array, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.staged import Staged, staged
from mjax._scipy.optimize.quasi_newton import bfgs, lbfgs


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    Attributes:
      x: the minimizer.
      success: whether the method converged.
      status: 0 for success. BFGS: 1: the limit of steps was reached; 3 or 5: the line search
        failed; -1: anything else. L-BFGS: 1, 2 or 3: the limit of steps, values or gradients was
        reached; 4: the value no longer decreases; 5: the line search failed.
      fun: the value at `x`.
      jac: the gradient at `x`.
      hess_inv: the approximate inverse of the Hessian; None for L-BFGS.
      nfev: the number of function evaluations.
      njev: the number of gradient evaluations.
      nit: the number of steps.

    Example:
      >>> from mjax.scipy.optimize import minimize
      >>> found = minimize(lambda x: jnp.sum((x - 1) ** 2), jnp.zeros(2), method="BFGS")
      >>> bool(found.success), found.x.shape, found.hess_inv.shape
      (True, (2,), (2, 2))
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


rehome(OptimizeResults, "mjax.scipy.optimize")


class _Method(NamedTuple):
    """A method, its options with defaults, and the options that are static in the program."""

    find: Callable[..., dict[str, Any]]
    options: Mapping[str, Any]
    static: Mapping[str, str]


_METHODS = {
    "bfgs": _Method(
        bfgs, {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10},
        {"norm": "norm_order"}),
    "l-bfgs-experimental-do-not-rely-on-this": _Method(
        lbfgs, {"maxiter": None, "norm": np.inf, "maxcor": 10, "ftol": 2.220446049250313e-09,
                "gtol": 1e-5, "maxfun": None, "maxgrad": None, "maxls": 20},
        {"norm": "norm_order", "maxcor": "maxcor"}),
}


@boundary
def minimize(fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str,
             tol: float | None = None, options: Mapping[str, Any] | None = None
             ) -> OptimizeResults:
    """Finds a local minimum of a function of a vector.

    Args:
      fun: the function, called as `fun(x, *args)`; returns a real scalar and is differentiable.
      x0: the starting point, a vector of inexact dtype.
      args: further arguments, pytrees of arrays.
      method: "BFGS".
      tol: the default of the option `gtol`.
      options: a dict. `maxiter`: the limit of steps, by default 200 per element. `gtol`: the search
        stops when the gradient's norm is below this. `norm`: the order of that norm, by default
        infinity. `line_search_maxiter`: the limit of lengths tried for a step, by default 10.

    Returns:
      An `OptimizeResults`: the point, the value there, and statistics of the search.

    Raises:
      TypeError: `args` is not a tuple, an option is unknown, `x0` is not a vector of inexact
        dtype, or `fun` does not return a real scalar.
      ValueError: another method.

    Works under `jit` and `vmap`, with forward-mode derivatives. SciPy's version has more methods
    and a slightly different line search.

    Source: `scipy.optimize.minimize`; J. Nocedal and S. Wright, "Numerical optimization", 1999.

    Example:
      >>> from mjax.scipy.optimize import minimize
      >>> found = minimize(lambda x: jnp.sum((x - 2.0) ** 4), jnp.array([0.0, 3.0]), method="BFGS")
      >>> bool(found.success), np.allclose(found.x, 2, atol=0.05)
      (True, True)
    """
    if not isinstance(args, tuple):
        msg = f"minimize: args must be a tuple of arguments, got {args!r}. Write (x,) for one."
        raise TypeError(msg)
    known = _METHODS.get(method.lower())
    if known is None:
        msg = f'minimize: method must be "BFGS", got {method!r}.'
        raise ValueError(msg)
    x0 = array_of(check_array("minimize", x0, "x0"))
    if len(shape_of(x0)) != 1 or not dtypes.is_inexact(typeof(x0).dtype):
        raise LazyTypeError(lambda: (
            f"minimize: x0 must be a vector of an inexact dtype, got {typeof(x0)}. "
            "mjax.flatten_util.ravel_pytree makes vectors of other trees."))
    chosen = _chosen_options(known, shape_of(x0)[0], tol, options or {})
    function, consts = staged("minimize", fun, x0, *args)
    _check_scalar(function)
    static = {name: chosen.pop(option) for option, name in known.static.items()}
    leaves, tree = tree_flatten(args)
    return OptimizeResults(**_minimized(
        x0, [*consts, *leaves], list(chosen.values()), method=known.find, function=function,
        trees=(len(consts), tree), names=tuple(chosen), static=tuple(static.items())))


@fused(static_argnames=("method", "function", "trees", "names", "static"))
def _minimized(x0: Any, operands: Sequence[Any], numbers: Sequence[Any], *, method: Any,
               function: Staged, trees: tuple[int, Any], names: tuple[str, ...],
               static: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    n, tree = trees
    objective = value_and_grad(lambda x: function(
        operands[:n], x, *tree.unflatten(operands[n:])))
    options = dict(zip(names, numbers, strict=True))
    return method(objective, x0, options, **dict(static))


def _chosen_options(method: _Method, size: int, tol: Any, given: Mapping[str, Any]
                    ) -> dict[str, Any]:
    unknown = sorted(set(given) - set(method.options))
    if unknown:
        msg = (f"minimize: unknown option {unknown[0]!r}; this method has "
               f"{', '.join(method.options)}.")
        raise TypeError(msg)
    chosen = {**method.options, **({} if tol is None else {"gtol": tol}), **given}
    limits = [name for name in ("maxiter", "maxfun", "maxgrad") if name in chosen]
    if all(chosen[name] is None for name in limits):
        chosen["maxiter"] = 200 * size
    return {name: math.inf if name in limits and value is None else value
            for name, value in chosen.items()}


def _check_scalar(function: Staged) -> None:
    avals = function.jaxpr.out_avals
    if len(avals) != 1 or avals[0].shape or not dtypes.is_float(avals[0].dtype):
        raise LazyTypeError(lambda: (
            f"minimize: fun must return a real scalar, but {function.name} returned "
            f"{', '.join(map(str, avals)) or 'nothing'}."))


__all__ = ["OptimizeResults", "minimize"]
