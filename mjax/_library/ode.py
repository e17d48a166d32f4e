"""Ordinary differential equations: `odeint`, with adaptive step sizes.

The method is the Runge-Kutta pair of Dormand and Prince, of orders 5 and 4. A polynomial of degree
4 interpolates between steps. Derivatives integrate the adjoint equation backwards and keep only
the solution at the requested times.

Sources: J. Dormand and P. Prince, "A family of embedded Runge-Kutta formulae", 1980; L. Shampine,
"Some practical Runge-Kutta formulas", 1986 (the value at mid-step); E. Hairer, S. Nørsett and G.
Wanner, "Solving ordinary differential equations I", II.4 (step sizes); R. Chen, Y. Rubanova, J.
Bettencourt and D. Duvenaud, "Neural ordinary differential equations", 2018, appendix C (the
adjoint equation).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_vjp import custom_vjp
from mjax._engine.control.loops.looping import fori_loop, scan, while_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.pytree import tree_flatten, tree_leaves
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import real
from mjax._engine.primitives.shapes import array_of
from mjax._engine.transforms.reverse import vjp
from mjax._engine.transforms.vmap import vmap
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.arithmetic import sqrt, square
from mjax._numpy.calculus import polyval
from mjax._numpy.core import cast, check_array, shape_of
from mjax._numpy.creation import zeros
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate, stack
from mjax._numpy.norms import norm
from mjax._numpy.products import dot
from mjax._numpy.raveling import Unravel, ravel_pytree
from mjax._numpy.selecting import clip, where
from mjax._numpy.staged import Staged, staged
from mjax._numpy.statistics import mean
from mjax._numpy.ufuncs import maximum, minimum

# ---- the method ------------------------------------------------------------------------

#: Stage -> its time, and the weights of the preceding slopes.
_TIMES = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_WEIGHTS = np.zeros((7, 7))
for _stage, _row in enumerate([
        [], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]]):
    _WEIGHTS[_stage, :len(_row)] = _row
#: Weights of the solution of order 5, of its difference from that of order 4, and of the solution
#: at mid-step.
_FIFTH = _WEIGHTS[6]
_ERROR = _FIFTH - np.array([1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300,
                            1 / 60])
_MIDDLE = np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728,
    187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384]) / 2
#: Coefficients of the polynomial, highest power first. They multiply the step size times the slopes
#: at both ends, and the solution at the beginning, end and middle.
_POLYNOMIAL = np.array([
    [-2, 2, -8, -8, 16], [5, -3, 18, 14, -32], [-4, 1, -11, -5, 16], [1, 0, 0, 0, 0],
    [0, 0, 1, 0, 0]])
_SAFETY, _LONGER, _SHORTER = 0.9, 10.0, 0.2

_dot = functools.partial(dot, precision="highest")


class _Control(NamedTuple):
    rtol: float
    atol: float
    mxstep: float
    hmax: float


class _State(NamedTuple):
    """After a step: solution and slope, time, length of the next step, time before the step, and
    the polynomial over it."""

    y: Any
    slope: Any
    t: Any
    dt: Any
    before: Any
    polynomial: Any


def _stages(slope: Callable[..., Any], state: _State) -> tuple[Any, Any, Any]:
    """One step: the solution, its error estimate, and the slopes of all stages."""
    y, first, t, dt = state[:4]
    dtype = typeof(y).dtype
    h = cast(dt, dtypes.real_dtype(dtype))
    times, weights = [array_of(c.astype(typeof(x).dtype)) for c, x in ((_TIMES, t), (_WEIGHTS, y))]

    def stage(i: Any, slopes: Any) -> Any:
        return slopes.at[i].set(slope(y + h * _dot(weights[i], slopes), t + dt * times[i]))

    slopes = zeros((7, *shape_of(y)), dtype).at[0].set(first)
    slopes = fori_loop(1, 7, stage, slopes)
    combined = lambda weights: h * _dot(array_of(weights.astype(dtype)), slopes)
    return y + combined(_FIFTH), combined(_ERROR), slopes


def _polynomial(before: Any, after: Any, slopes: Any, dt: Any) -> Any:
    """The solution within a step, from its beginning, 0, to its end, 1."""
    dtype = typeof(before).dtype
    h = cast(dt, dtypes.real_dtype(dtype))
    middle = before + h * _dot(array_of(_MIDDLE.astype(dtype)), slopes)
    return _dot(array_of(_POLYNOMIAL.astype(dtype)),
                stack([h * slopes[0], h * slopes[-1], before, after, middle]))


def _error_ratio(error: Any, before: Any, after: Any, options: _Control) -> Any:
    """The ratio of a step's error to the tolerance; steps up to 1 are accepted."""
    allowed = options.atol + options.rtol * maximum(absolute(before), absolute(after))
    return sqrt(mean(square(absolute(error) / allowed)))


def _next_length(dt: Any, ratio: Any) -> Any:
    """The step size that would just meet the tolerance."""
    least = where(ratio < 1, 1.0, _SHORTER)
    factor = minimum(_LONGER, maximum(ratio ** (-1 / 5) * _SAFETY, least))
    return dt * cast(where(ratio == 0, _LONGER, factor), typeof(dt).dtype)


def _first_length(slope: Callable[..., Any], y: Any, first: Any, t: Any, options: _Control) -> Any:
    """The first step size, from an Euler step and its change of slope."""
    scale = options.atol + absolute(y) * options.rtol
    size, steepness = norm(y / scale), norm(first / scale)
    small = where((size < 1e-5) | (steepness < 1e-5), 1e-6, 0.01 * size / steepness)
    ahead = slope(y + small * first, t + cast(small, typeof(t).dtype))
    curvature = norm((ahead - first) / scale) / small
    length = where((steepness <= 1e-15) & (curvature <= 1e-15), maximum(1e-6, small * 1e-3),
                   (0.01 / maximum(steepness, curvature)) ** (1 / 5))
    return cast(minimum(100.0 * small, length), typeof(t).dtype)


@fused(static_argnames=("system", "options"))
def _evolved(y0: Any, ts: Any, operands: Sequence[Any], *, system: _System, options: _Control
             ) -> Any:
    """The flattened solution at all times."""
    slope = lambda y, t: system(y, t, *operands)
    bounded = lambda dt: clip(dt, 0.0, options.hmax)

    def goes_on(counted: Any, target: Any) -> Any:
        count, state = counted
        on = (state.t < target) & (state.dt > 0)
        return on if math.isinf(options.mxstep) else on & (count < options.mxstep)

    def advanced(counted: Any) -> Any:
        count, old = counted
        y, error, slopes = _stages(slope, old)
        ratio = _error_ratio(error, old.y, y, options)
        taken = (y, slopes[-1], old.t + old.dt, bounded(_next_length(old.dt, ratio)), old.t,
                 _polynomial(old.y, y, slopes, old.dt))
        new = _State(*[where(ratio <= 1, a, b) for a, b in zip(taken, old, strict=True)])
        return count + 1, new._replace(dt=taken[3])

    def at_next(state: _State, target: Any) -> tuple[Any, Any]:
        _, state = while_loop(lambda counted: goes_on(counted, target), advanced, (0, state))
        # No step was taken if the first times are equal.
        length = state.t - state.before
        passed = (target - state.before) / where(length == 0, 1, length)
        return state, polyval(state.polynomial, cast(passed, dtypes.real_dtype(
            typeof(y0).dtype)))

    t0 = ts[0]
    first = slope(y0, t0)
    start = _State(y0, first, t0, bounded(_first_length(slope, y0, first, t0, options)), t0,
                   stack([y0] * 5))
    _, ys = scan(at_next, start, ts[1:])
    return concatenate([y0[None], ys])


# ---- the adjoint equation --------------------------------------------------------------


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _integrated(system: _System, options: _Control, y0: Any, ts: Any, *operands: Any) -> Any:
    return _evolved(y0, ts, operands, system=system, options=options)


def _forward(system: _System, options: _Control, y0: Any, ts: Any, *operands: Any) -> Any:
    ys = _integrated(system, options, y0, ts, *operands)
    return ys, (ys, ts, operands)


def _backward(system: _System, options: _Control, saved: Any, cts: Any) -> Any:
    return tuple(_returned(*saved, cts, system=system, options=options))


@fused(static_argnames=("system", "options"))
def _returned(ys: Any, ts: Any, operands: Sequence[Any], cts: Any, *, system: _System,
              options: _Control) -> list[Any]:
    """Cotangents of the initial value, of the times, and of the inexact operands."""
    moving = [dtypes.is_inexact(typeof(x).dtype) for x in operands]
    inexact = [x for x, m in zip(operands, moving, strict=True) if m]

    def slope(y: Any, t: Any, *inexact: Any) -> Any:
        given = iter(inexact)
        return system(y, t, *[next(given) if m else x
                              for x, m in zip(operands, moving, strict=True)])

    def adjoint(state: Any, t: Any, *inexact: Any) -> Any:
        # Time runs backwards.
        y, ct, _, _ = state
        rise, pullback = vjp(slope, y, -t, *inexact)
        ct_y, ct_t, *others = pullback(ct)
        return -rise, ct_y, ct_t, others

    def to_previous(carry: Any, row: Any) -> tuple[Any, Any]:
        ct, ct_t0, ct_operands = carry
        y, t, before, ct_here, ct_before = row
        ct_t = _dot(slope(y, t, *inexact), ct_here)
        ct_t = real(ct_t) if dtypes.is_complex(typeof(ct_t).dtype) else ct_t
        ct_t = cast(ct_t, typeof(t).dtype)
        _, ct, ct_t0, ct_operands = odeint(
            adjoint, (y, ct, ct_t0 - ct_t, ct_operands), stack([-t, -before]), *inexact,
            **options._asdict())
        return (ct[1] + ct_before, ct_t0[1], [x[1] for x in ct_operands]), ct_t

    start = cts[-1], zeros((), typeof(ts).dtype), [
        zeros(shape_of(x), typeof(x).dtype) for x in inexact]
    (ct, ct_t0, ct_operands), ct_ts = scan(
        to_previous, start, (ys[1:], ts[1:], ts[:-1], cts[1:], cts[:-1]), reverse=True)
    found = iter(ct_operands)
    return [ct, concatenate([ct_t0[None], ct_ts]), *[next(found) if m else None for m in moving]]


_integrated.defvjp(_forward, _backward)


# ---- trees -----------------------------------------------------------------------------


class _System(NamedTuple):
    """The user's function, applied to flattened solutions.

    Attributes:
      function: the function; the first `num_consts` operands are its closed-over values.
      y_tree, args_tree: structures of the solution and of the further arguments.
      unravel: maps flattened solutions to lists of leaves.
    """

    function: Staged
    num_consts: int
    y_tree: Any
    args_tree: Any
    unravel: Unravel

    def __call__(self, y: Any, t: Any, *operands: Any) -> Any:
        n = self.num_consts
        rise = self.function(operands[:n], self.y_tree.unflatten(self.unravel(y)), t,
                             *self.args_tree.unflatten(operands[n:]))
        flat, _ = ravel_pytree(rise)
        return cast(flat, typeof(y).dtype)


@boundary
def odeint(func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8,
           atol: float = 1.4e-8, mxstep: float = math.inf, hmax: float = math.inf) -> Any:
    """Solves the ordinary differential equation `dy/dt = func(y, t, *args)`.

    Args:
      func: the derivative of the solution: maps a solution, a time and `args` to a tree like `y0`,
        of the same shapes.
      y0: the solution at `t[0]`: a pytree of arrays of inexact dtype.
      t: increasing times, a vector of a float dtype.
      args: further arguments of `func`: pytrees of arrays, which are differentiable.
      rtol, atol: the tolerated error of a step, `atol + rtol * abs(y)`, as root mean square over
        all elements.
      mxstep: the limit of steps between successive times; beyond it the results are unreliable.
      hmax: the maximum step size.

    Returns:
      The solutions at the times: a tree like `y0` whose leaves have a leading axis of `len(t)`.

    Raises:
      TypeError: an argument is not an array, `t` is not a vector of floats, or results of `func`
        differ from `y0` in dtype or number of elements.
      ValueError: `t` is empty.

    Reverse-mode derivatives of any order solve the adjoint equation, within the tolerances.
    Forward mode is not supported, as for every `custom_vjp`. SciPy's function takes the same first
    arguments but uses LSODA, which suits stiff equations.

    Source: J. Dormand and P. Prince, "A family of embedded Runge-Kutta formulae", 1980; R. Chen
    and others, "Neural ordinary differential equations", 2018.

    Example:
      >>> from mjax.experimental.ode import odeint
      >>> y = odeint(lambda y, t, rate: -rate * y, 1.0, jnp.array([0.0, 1.0]), 0.5)
      >>> np.allclose(y, [1.0, np.exp(-0.5)])
      True
    """
    t = array_of(check_array("odeint", t, "t"))
    if not dtypes.is_float(typeof(t).dtype):
        raise LazyTypeError(lambda: (
            f"odeint: t must be an array of floats, got {typeof(t)}. Cast with .astype(float)."))
    if len(shape_of(t)) != 1 or not shape_of(t)[0]:
        raise (LazyTypeError if shape_of(t) != (0,) else LazyValueError)(lambda: (
            f"odeint: t must be a vector of times, at least one, got shape {shape_of(t)}."))
    options = _Control(*[_number(*item) for item in (
        ("rtol", rtol), ("atol", atol), ("mxstep", mxstep), ("hmax", hmax))])
    function, consts = staged("odeint", func, y0, t[0], *args)
    _check_results(function, y0)
    (leaves, y_tree), (rest, args_tree) = tree_flatten(y0), tree_flatten(args)
    return y_tree.unflatten(_solved(leaves, t, [*consts, *rest], function=function,
                                    trees=(len(consts), y_tree, args_tree), options=options))


@fused(static_argnames=("function", "trees", "options"))
def _solved(leaves: Sequence[Any], ts: Any, operands: Sequence[Any], *, function: Staged,
            trees: tuple[int, Any, Any], options: _Control) -> list[Any]:
    flat, unravel = ravel_pytree(list(leaves))
    if not leaves:
        return []
    system = _System(function, *trees, unravel)
    # The carry keeps its type: Python numbers are weakly typed, but results of a step are not.
    flat = cast(flat, typeof(flat).dtype)
    return vmap(unravel)(_integrated(system, options, flat, ts, *map(array_of, operands)))


def _number(name: str, value: Any) -> float:
    try:
        return float(value) if not isinstance(value, int) else value
    except (TypeError, ValueError) as error:
        raise LazyTypeError(lambda: (
            f"odeint: {name} must be a static number, got {value!r}. Under jit, mark the argument "
            "static or close over the number.")) from error


def _check_results(function: Staged, y0: Any) -> None:
    """Raises unless the function's results can be derivatives of the solution."""
    ours, theirs = list(map(typeof, tree_leaves(y0))), function.jaxpr.out_avals
    sizes = [sum(a.size for a in avals) for avals in (ours, theirs)]
    if not ours:
        return
    if sizes[1] != sizes[0]:
        raise LazyTypeError(lambda: (
            f"odeint: func must return an array for each of y0, of the same shape; y0 has "
            f"{', '.join(map(str, ours))}, and {function.name} returned "
            f"{', '.join(map(str, theirs)) or 'nothing'}."))
    types = [(a.dtype, a.weak_type) for a in (*ours, *theirs)]
    dtype, fitting = common_type(*types[:len(ours)])[0], common_type(*types)[0]
    if not dtypes.is_inexact(dtype) or fitting != dtype:
        raise LazyTypeError(lambda: (
            f"odeint: y0 must be of an inexact dtype to which the results of func fit, but y0 is "
            f"of dtype {dtype}; {function.name} returned {', '.join(map(str, theirs))}. Cast y0 "
            f"with .astype({inexact_dtype(fitting).name!r})."))


__all__ = ["odeint"]
