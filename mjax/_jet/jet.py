"""`jet`: functions of truncated Taylor series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mjax._jet.references
import mjax._jet.rules  # noqa: F401 - both register rules
from mjax._engine.base.folding import boundary
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.pytree import is_one_leaf, tree_flatten, tree_structure
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import full, scalar_of
from mjax._engine.tracing.flat import check_callable
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.variance import fitted
from mjax._jet.series import Terms, instantiated, jet_flat, scaled


@boundary
def jet(fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]],
        factorial_scaled: bool = True, **_: Any) -> tuple[Any, Any]:
    """Evaluates a function of curves, given by their Taylor series.

    Each argument is a curve `x(t)`: its value at 0 and its derivatives of order 1, 2, ...; so is
    each result. For most functions the cost grows with the square of the order, while nested `jvp`s
    double it with each order.

    Args:
      fun: a function of arrays, with a tree of arrays as its result.
      primals: the values of its arguments, arrays or scalars. Arguments of dtypes that are not
        inexact are constant: the terms of their series are zero.
      series: for each argument the derivatives of its curve, of its type, equally many for each. A
        Python number means an array filled with it.
      factorial_scaled: False if the terms are Taylor coefficients instead of derivatives.

    Returns:
      The results, and for each result the list of its derivatives: arrays of its type, or zeros
      of the default float dtype if its dtype is not inexact.

    Raises:
      ValueError: the series differ in length, or an argument or a term is not an array.
      TypeError: `primals`, `series` or one of the series is not a sequence; a term does not have
        the type of its argument; `fun` calls a function with `custom_vjp`, which has no forward
        mode.
      NotImplementedError: a primitive has neither a rule in `jet_rules` nor a jvp rule.

    Example:
      >>> from mjax.experimental.jet import jet
      >>> y, derivatives = jet(lax.exp, (0.0,), ((1.0, 0.0, 0.0),))
      >>> [float(d) for d in derivatives]
      [1.0, 1.0, 1.0]

    Source: Griewank and Walther 2008, chapter 13; Bettencourt, Johnson and Duvenaud 2019.
    """
    check_callable("jet", fun)
    if not all(hasattr(part, "__len__") for part in (primals, series)) or not all(
            hasattr(terms, "__len__") for terms in series):
        msg = (f"jet: primals={primals!r} and series={series!r} must be a tuple of values, and a "
               "tuple with a list of terms for each of them: jet(f, (x,), ([x1, x2],)).")
        raise TypeError(msg)
    if len(primals) != len(series) or len(set(map(len, series))) != 1:
        lengths = ", ".join(str(len(s)) for s in series) or "none"
        msg = (f"jet: jet terms have inconsistent lengths for different arguments: {len(primals)} "
               f"arguments, and series of lengths {lengths}. Give one series for each argument, "
               "with one term for each order.")
        raise ValueError(msg)
    order = len(series[0])
    terms = [_checked(i, x, s, factorial_scaled)
             for i, (x, s) in enumerate(zip(primals, series, strict=True))]
    trees: list[Any] = []

    def flat(*args: Any) -> Any:
        leaves, tree = tree_flatten(fun(*args))
        trees.append(tree)
        return leaves

    outs, found = jet_flat(flat, primals, terms, order)
    results = [_given_back(out, s, order, factorial_scaled)
               for out, s in zip(outs, found, strict=True)]
    return trees[0].unflatten(outs), trees[0].unflatten(results)


def _given_back(primal: Any, terms: Terms, order: int, factorial_scaled: bool) -> list[Any]:
    """The derivatives of a result, or its coefficients; derivatives are of inexact types."""
    aval = typeof(primal)
    if not factorial_scaled:
        return instantiated(primal, terms, order)
    if not aval.inexact:
        return [full(aval.shape, 0.0)] * order
    return [scaled(math.factorial(k + 1), t)
            for k, t in enumerate(instantiated(primal, terms, order))]


def _checked(place: int, primal: Any, terms: Sequence[Any], factorial_scaled: bool) -> Terms:
    """The coefficients of an argument; None if it is constant."""
    if not is_one_leaf(tree_structure(primal)):
        msg = (f"jet: primal value at position {place} is not an array, but {primal!r}. Give each "
               "array of a tree as an argument.")
        raise ValueError(msg)
    aval = typeof(primal)
    if is_reference(aval):
        msg = (f"jet: primal value at position {place} is a reference of type {aval}. Give its "
               "contents, ref[...], and make the reference in the function.")
        raise ValueError(msg)
    found = [_term(f"jet: term {k} for argument {place}", aval, term)
             for k, term in enumerate(terms)]
    return None if not aval.inexact else [
        scaled(1 / math.factorial(k + 1) if factorial_scaled else 1, term)
        for k, term in enumerate(found)]


def _term(name: str, aval: Any, term: Any) -> Any:
    """One derivative of an argument of this type, checked."""
    if not is_one_leaf(tree_structure(term)):
        msg = f"{name} is not an array, but {term!r}."
        raise ValueError(msg)
    if not aval.inexact:
        if typeof(term).dtype == float0 or not (isinstance(term, Tracer) or np.any(term)):
            return None
        msg = (f"{name} is {term!r}, but the argument has type {aval}, which does not have "
               "derivatives: give zeros, or convert the argument to a float dtype.")
        raise TypeError(msg)
    tangent = aval.to_tangent()
    if isinstance(term, (int, float)):
        term = full(tangent.shape, scalar_of(tangent, term))  # weakly typed if the argument is
    value = fitted(term, tangent)
    if value is None:
        msg = f"{name} has type {typeof(term)}, but the argument has type {aval}: give that type."
        raise TypeError(msg)
    return value
