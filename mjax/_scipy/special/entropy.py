"""Entropies, divergences, log-odds and Box-Cox transformations."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._numpy.comparison import isnan
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import (
    GIVES,
    X,
    inexact_arguments,
    polynomial,
    real_arguments,
    settled_arguments,
    strong,
    where,
)

_X_Y = {"x": "x: array or scalar, the factor; ints and booleans become the default float.",
        "y": "y: array or scalar."}
_P_Q = {"p": "p: array or scalar, a probability; ints and booleans become the default float.",
        "q": "q: array or scalar, another probability."}

# ---- products with logarithms ----------------------------------------------------------


@custom_jvp
def times_log(x: Any, y: Any) -> Any:
    """`xlogy` of promoted values."""
    return where((x != 0) | isnan(y), x * lax.log(y), 0)


@times_log.defjvp
def _times_log_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return times_log(x, y), dx * lax.log(y) + dy * x / y


@custom_jvp
def times_log1p(x: Any, y: Any) -> Any:
    """`xlog1py` of promoted values."""
    return where((x != 0) | isnan(y), x * lax.log1p(y), 0)


@times_log1p.defjvp
def _times_log1p_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return times_log1p(x, y), dx * lax.log1p(y) + dy * x / (1 + y)


@custom_jvp
def _times_own_log(x: Any) -> Any:
    return times_log(x, x)


@_times_own_log.defjvp
def _times_own_log_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _times_own_log(x), t * (lax.log(x) + 1)


@fused
@documented(**_X_Y, **GIVES)
def xlogy(x: Any, y: Any) -> Any:
    """`x * log(y)`, which is 0 where `x` is 0 and `y` is a number.

    Args:
      [x]
      [y]

    [broadcast]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.xlogy`. Derivatives are those of the product: infinite and NaN at
    `y = 0`.

    Example:
      >>> print(f"{mjax.scipy.special.xlogy(0.0, 0.0):.4f}")
      0.0000
    """
    return times_log(*inexact_arguments("xlogy", x, y))


@fused
@documented(**_X_Y, **GIVES)
def xlog1py(x: Any, y: Any) -> Any:
    """`x * log(1 + y)`, which is 0 where `x` is 0 and `y` is a number.

    Args:
      [x]
      [y]

    [broadcast]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.xlog1py`. Derivatives are those of the product: infinite and NaN at
    `y = -1`.

    Example:
      >>> print(f"{mjax.scipy.special.xlog1py(0.0, -1.0):.4f}")
      0.0000
    """
    return times_log1p(*inexact_arguments("xlog1py", x, y))


@fused
@documented(**X, **GIVES)
def entr(x: Any) -> Any:
    """The summand of an entropy, `-x * log(x)`; 0 at 0, -inf for negative `x`.

    Args:
      [x]

    [one]

    [real]

    Source: `scipy.special.entr`.

    Example:
      >>> print(f"{mjax.scipy.special.entr(0.5):.4f}")
      0.3466
    """
    x, = real_arguments("entr", x)
    return where(x < 0, -math.inf, -_times_own_log(x))


@fused
@documented(**_P_Q, **GIVES)
def rel_entr(p: Any, q: Any) -> Any:
    """The summand of a relative entropy, `p * log(p / q)`.

    Args:
      [p]
      [q]

    [broadcast]
      The value is 0 where `p` is 0 and `q` is not negative. It is infinite where either is
      negative or `q` is 0.

    [real]

    Source: `scipy.special.rel_entr`.

    Example:
      >>> print(f"{mjax.scipy.special.rel_entr(0.5, 0.25):.4f}")
      0.3466
    """
    return _relative_entropy(*real_arguments("rel_entr", p, q))


def _relative_entropy(p: Any, q: Any) -> Any:
    if typeof(p).shape:
        p, q = strong(p, q)
    positive = (p > 0) & (q > 0)
    safe_p, safe_q = where(positive, p, 1), where(positive, q, 1)
    # Digits of log(p) - log(q) cancel where p and q are close, and p / q may overflow elsewhere.
    excess = safe_p - safe_q
    close = lax.abs(excess) < safe_q / 2
    out = where(close, safe_p * lax.log1p(where(close, excess, 0) / safe_q),
                _times_own_log(safe_p) - times_log(safe_p, safe_q))
    edge = where((p == 0) & (q >= 0), _c(out, 0), _c(out, math.inf))
    return where(positive, out, edge)


@fused
@documented(**_P_Q, **GIVES)
def kl_div(p: Any, q: Any) -> Any:
    """The summand of a Kullback-Leibler divergence, `p * log(p / q) - p + q`.

    Args:
      [p]
      [q]

    [broadcast]
      Infinite wherever `rel_entr` is. Over distributions, both have the same sum.

    [real]

    Source: `scipy.special.kl_div`.

    Example:
      >>> print(f"{mjax.scipy.special.kl_div(0.5, 0.25):.4f}")
      0.0966
    """
    p, q = real_arguments("kl_div", p, q)
    return _relative_entropy(p, q) - p + q


# ---- log-odds --------------------------------------------------------------------------


@custom_jvp
def log_odds(x: Any) -> Any:
    return lax.log(x / (1 - x))


@log_odds.defjvp
def _log_odds_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log_odds(x), t / (x * (1 - x))


@fused
@documented(**X, **GIVES)
def logit(x: Any) -> Any:
    """Log-odds, `log(x / (1 - x))`; infinite at 0 and 1, NaN outside.

    Args:
      [x]

    [one]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.logit`.

    Example:
      >>> print(f"{mjax.scipy.special.logit(0.75):.4f}")
      1.0986
    """
    return log_odds(*settled_arguments("logit", x))


@fused
@documented(**X, **GIVES)
def expit(x: Any) -> Any:
    """The logistic function, `1 / (1 + exp(-x))`: the inverse of `logit`.

    Args:
      [x]

    [one]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.expit`.

    Example:
      >>> print(f"{mjax.scipy.special.expit(0.0):.4f}")
      0.5000
    """
    return lax.logistic(*inexact_arguments("expit", x))


# ---- Box-Cox transformations -----------------------------------------------------------


@custom_jvp
def _power_transform(log: Any, exponent: Any) -> Any:
    zero = exponent == 0
    safe = where(zero, 1, exponent)
    return where(zero, log, lax.expm1(safe * log) / safe)


@_power_transform.defjvp
def _power_transform_jvp(primals: Any, tangents: Any) -> Any:
    (log, exponent), (dlog, dexponent) = primals, tangents
    out = _power_transform(log, exponent)
    u = exponent * log
    small = (lax.abs(u) < 0.3) | (exponent == 0)
    power = lax.exp(where(exponent == 0, 0, u))
    # For small u the two terms of the slope cancel.
    series = lax.square(where(small, log, 1)) * polynomial(where(small, u, 0), [
        (k + 1) / math.factorial(k + 2) for k in range(13)])
    safe, far = where(small, 1, exponent), where(small | (power == 0), 0, log)
    return out, power * dlog + where(small, series, (far * power - out) / safe) * dexponent


@fused
@documented(**X, **GIVES)
def boxcox(x: Any, lmbda: Any) -> Any:
    """The Box-Cox transformation: `(x**lmbda - 1) / lmbda`, and `log(x)` where `lmbda` is 0.

    Args:
      [x]
      lmbda: array or scalar, the exponent.

    [broadcast]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.boxcox`.

    Example:
      >>> print(f"{mjax.scipy.special.boxcox(4.0, 0.5):.4f}")
      2.0000
    """
    x, lmbda = inexact_arguments("boxcox", x, lmbda)
    return _power_transform(lax.log(x), lmbda)


@fused
@documented(**X, **GIVES)
def boxcox1p(x: Any, lmbda: Any) -> Any:
    """The Box-Cox transformation of `1 + x`, accurate for small `x`.

    Args:
      [x]
      lmbda: array or scalar, the exponent.

    [broadcast]

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `scipy.special.boxcox1p`.

    Example:
      >>> print(f"{mjax.scipy.special.boxcox1p(3.0, 0.5):.4f}")
      2.0000
    """
    x, lmbda = inexact_arguments("boxcox1p", x, lmbda)
    return _power_transform(lax.log1p(x), lmbda)
