"""The settings numpy_dtype_promotion and default_matmul_precision, as jax has them."""

import itertools
import operator
import re

import jax
import numpy as np
import pytest

import mjax

STRONG = ("bool", "int8", "int32", "uint8", "float16", "bfloat16", "float32", "complex64")
OTHERS = {"True": True, "2": 2, "2.5": 2.5, "2j": 2j, "np.float32": np.float32(2),
          "np.int64": np.int64(2), "np.float64[]": np.ones(2), "np.int64[]": np.ones(2, int)}


def pair(f):
    """A function of two values, given as arrays of one shape."""
    return lambda m, a, b: f(m.numpy, m.numpy.broadcast_to(a, (2,)), m.numpy.broadcast_to(b, (2,)))


OPERATIONS = {
    "+": lambda m, a, b: operator.add(a, b), "<": lambda m, a, b: operator.lt(a, b),
    "/": lambda m, a, b: operator.truediv(a, b), "**": lambda m, a, b: operator.pow(a, b),
    "maximum": lambda m, a, b: m.numpy.maximum(a, b),
    "where": lambda m, a, b: m.numpy.where(True, a, b),
    "arctan2": lambda m, a, b: m.numpy.arctan2(a, b),
    "result_type": lambda m, a, b: m.numpy.zeros((), m.numpy.result_type(a, b)),
    "concatenate": pair(lambda jnp, a, b: jnp.concatenate([a, b])),
    "trapezoid": pair(lambda jnp, a, b: jnp.trapezoid(a, dx=b)),
    "at add": pair(lambda jnp, a, b: a.at[0].add(b[0])),
}


def outcome(m, operation, a, b):
    def value(name):
        return m.numpy.ones(2, name) if name in STRONG else OTHERS[name]

    try:
        out = OPERATIONS[operation](m, value(a), value(b))
    except (TypeError, ValueError) as error:
        return "refused" if "promotion" in str(error) else type(error).__name__
    return str(out.dtype), bool(getattr(out, "weak_type", False))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_strict_promotion(operation):
    wrong = {}
    for a, b in itertools.product((*STRONG, *OTHERS), repeat=2):
        if a in OTHERS and (b in OTHERS or operation == "at add"):
            continue
        with mjax.numpy_dtype_promotion("strict"), jax.numpy_dtype_promotion("strict"):
            ours, theirs = outcome(mjax, operation, a, b), outcome(jax, operation, a, b)
        if ours != theirs:
            wrong[a, b] = ours, theirs
    assert not wrong


PRODUCTS = {
    "matmul": lambda m, x: x @ x,
    "einsum": lambda m, x: m.numpy.einsum("ij,jk->ik", x, x),
    "a precision of its own": lambda m, x: m.lax.dot(x, x, precision="highest"),
    "a pair": lambda m, x: m.lax.dot(x, x, precision=("high", "default")),
    "convolution": lambda m, x: m.lax.conv(x[None, None], x[None, None], (1, 1), "SAME"),
    "gradient": lambda m, x: m.grad(lambda x: (x @ x).sum())(x),
    "integers": lambda m, x: x.astype("int32") @ x.astype("int32"),
}
PRECISIONS = (None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
              "BF16_BF16_F32", "BF16_BF16_F32_X3", "F32_F32_F32", "F64_F64_F64")


def precisions(m, product, precision):
    """What the StableHLO operations say of their precision."""
    f = m.jit(lambda x: PRODUCTS[product](m, x))
    with m.default_matmul_precision(precision):
        text = f.lower(np.ones((4, 4), np.float32)).as_text()
    return re.findall(r"precision(?:_config)? = \[([^\]]*)\]|algorithm = <([^>]*)>", text)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_matmul_precision(product, precision):
    assert precisions(mjax, product, precision) == precisions(jax, product, precision) != []


@pytest.mark.parametrize("precision", ["TF32_TF32_F32", "ANY_F8_ANY_F8_F32"])
def test_algorithms_that_a_cpu_has_not(precision):
    for m in (mjax, jax):
        with m.default_matmul_precision(precision), pytest.raises(
                ValueError, match=rf"{precision}.* is not supported"):
            m.jit(lambda x: x @ x).lower(np.ones((2, 2), np.float32))


@pytest.mark.parametrize("precision", ["nonsense", 3, "HIGHEST"])
def test_values_that_are_no_precision(precision):
    for m in (mjax, jax):
        with pytest.raises((ValueError, TypeError)), m.default_matmul_precision(precision):
            pass
