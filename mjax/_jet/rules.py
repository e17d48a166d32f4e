"""Recurrences for primitives whose jvp rules would cost more.

Sources: Griewank and Walther 2008, section 13.2; Neidinger 2010 for powers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import trigonometric
from mjax._engine.primitives.convolution import conv_general_dilated_p
from mjax._engine.primitives.dot import dot_general_p
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.ragged import ragged_dot_general_p
from mjax._engine.tracing.primitive import Primitive
from mjax._jet.series import Rule, Sparse, Terms, jet_rules, scaled


def _sum(parts: Sequence[Any]) -> Any:
    return functools.reduce(lax.add, parts)


def _product(xs: Sequence[Any], ys: Sequence[Any], k: int, apply: Callable[..., Any] = lax.mul
             ) -> Any:
    """Coefficient `k` of a product, from the known coefficients."""
    return _sum([apply(xs[i], ys[k - i]) for i in range(k + 1) if i < len(xs) and k - i < len(ys)])


def _speeds(terms: Sequence[Any]) -> list[Any]:
    """The coefficients of the derivative."""
    return [scaled(k + 1, t) for k, t in enumerate(terms)]


def _bilinear(primitive: Primitive) -> Rule:
    """The rule of a primitive that is linear in each of its first two operands."""

    def rule(primals: Any, terms: list[Terms], **params: Any) -> Any:
        x, y, *others = primals
        xs, ys = [x, *(terms[0] or ())], [y, *(terms[1] or ())]
        apply = lambda x, y: primitive.bind(x, y, *others, **params)
        order = len(terms[0] or terms[1] or ())
        out, *series = [_product(xs, ys, k, apply) for k in range(order + 1)]
        return out, series

    return rule


_mul = _bilinear(lax.mul_p)


def _square(primals: Any, terms: Any, **params: Any) -> Any:
    return _mul([*primals, *primals], [*terms, *terms])


def _div(primals: Any, terms: list[Terms], **params: Any) -> Any:
    x, y = primals
    order = len(terms[0] or terms[1] or ())
    outs = [lax.div_p.bind(x, y, **params)]
    for k in range(1, order + 1):
        given = terms[0][k - 1] if terms[0] else None
        if terms[1]:
            moved = _product(terms[1], outs, k - 1)
            given = lax.neg(moved) if given is None else lax.sub(given, moved)
        outs.append(lax.div(given, y))
    return outs[0], outs[1:]


def _defined_by(primitive: Primitive, start: Callable[..., list[Any]],
                slope: Callable[[list[list[Any]], int], list[Any]], factor: float = 1.0) -> Rule:
    """The rule of a function that solves a differential equation `y' = w x'`.

    Args:
      primitive: the function.
      start: from the argument and the result to the values of all functions of the system.
      slope: from their coefficients so far, coefficient `k` of each one's `w`.
      factor: the factor of the argument's derivative.
    """

    def rule(primals: Any, terms: Any, **params: Any) -> Any:
        x, = primals
        y = primitive.bind(x, **params)
        speeds = [scaled(factor, v) for v in _speeds(terms[0])]
        functions = [[value] for value in start(x, y)]
        slopes: list[list[Any]] = [[] for _ in functions]
        for k in range(len(speeds)):
            for known, w in zip(slopes, slope(functions, k), strict=True):
                known.append(w)
            for known, w in zip(functions, slopes, strict=True):
                known.append(scaled(1 / (k + 1), _product(speeds, w, k)))
        return y, functions[0][1:]

    return rule


def _one_more(x: Any, sign: int = 1) -> Any:
    return lax.add(constant_like(x, 1), x if sign == 1 else lax.neg(x))


def _of_square(sign: int) -> Callable[..., list[Any]]:
    """The slope `1 + y^2` or `1 - y^2`."""

    def slope(functions: list[list[Any]], k: int) -> list[Any]:
        square = _product(functions[0], functions[0], k)
        if k == 0:
            return [_one_more(square, sign)]
        return [square if sign == 1 else lax.neg(square)]

    return slope


def _own(functions: list[list[Any]], k: int) -> list[Any]:
    return [f[k] for f in functions]


_turning = lambda f, k: [f[1][k], lax.neg(f[0][k])]
_crossing = lambda f, k: [f[1][k], f[0][k]]
#: The start values of the functions of a system, their slopes, and a factor.
_EQUATIONS: dict[Primitive, tuple[Any, ...]] = {
    lax.exp_p: (lambda x, y: [y], _own),
    lax.exp2_p: (lambda x, y: [y], _own, math.log(2.0)),
    lax.expm1_p: (lambda x, y: [_one_more(y)], _own),
    trigonometric.sin_p: (lambda x, y: [y, trigonometric.cos(x)], _turning),
    trigonometric.cos_p: (lambda x, y: [y, lax.neg(trigonometric.sin(x))], _turning),
    trigonometric.sinh_p: (lambda x, y: [y, trigonometric.cosh(x)], _crossing),
    trigonometric.cosh_p: (lambda x, y: [y, trigonometric.sinh(x)], _crossing),
    trigonometric.tanh_p: (lambda x, y: [y], _of_square(-1)),
    trigonometric.tan_p: (lambda x, y: [y], _of_square(1)),
    lax.logistic_p: (lambda x, y: [y], lambda f, k: [lax.sub(f[0][k], _product(f[0], f[0], k))]),
}


def _power(primitive: Primitive, exponent: float) -> Rule:
    """The rule of `y = x^p`, from `x y' = p y x'`."""

    def rule(primals: Any, terms: Any, **params: Any) -> Any:
        x, = primals
        xs, ys = [x, *terms[0]], [primitive.bind(x, **params)]
        for k in range(1, len(xs)):
            total = _sum([scaled(exponent * j - (k - j), lax.mul(xs[j], ys[k - j]))
                          for j in range(1, k + 1)])
            ys.append(lax.div(total, scaled(k, x)))
        return ys[0], ys[1:]

    return rule


def _integer_pow(primals: Any, terms: Any, *, y: int, **params: Any) -> Any:
    """The rule by squaring, which is correct where the base is zero."""
    x, = primals
    out = lax.integer_pow_p.bind(x, y=y, **params)
    if y == 0:
        return out, None
    square: Any = (x, terms[0])
    result: Any = None
    n = abs(y)
    while n:
        if n % 2:
            result = square if result is None else _mul(
                [result[0], square[0]], [result[1], square[1]])
        n //= 2
        if n:
            square = _mul([square[0]] * 2, [square[1]] * 2)
    if y < 0:
        result = _div([constant_like(x, 1), result[0]], [None, result[1]])
    return out, result[1]


_RULES: dict[Primitive, Rule] = {
    **{p: _bilinear(p) for p in (
        lax.mul_p, dot_general_p, conv_general_dilated_p, ragged_dot_general_p)},
    **{p: _defined_by(p, *equation) for p, equation in _EQUATIONS.items()},
    **{p: _power(p, exponent) for p, exponent in (
        (lax.sqrt_p, 1 / 2), (lax.rsqrt_p, -1 / 2), (lax.cbrt_p, 1 / 3))},
    lax.square_p: _square, lax.div_p: _div, lax.integer_pow_p: _integer_pow,
}
jet_rules.update({primitive: Sparse(rule) for primitive, rule in _RULES.items()})
