"""Division of integers where the compiler knows the operands, and by zero."""

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax


def expected(a, b):
    """The results of processors."""
    with np.errstate(all="ignore"):
        whole = b + (b == 0)
        quotient = np.where(b == 0, ~np.zeros_like(a), (np.abs(a) // np.abs(whole)) * np.sign(
            a) * np.sign(whole))
        return quotient.astype(a.dtype), np.where(b == 0, a, np.fmod(a, whole)).astype(a.dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_known_operands(dtype):
    """With jaxlib 0.10.2 XLA's own division by zero ended the process."""
    a = np.array([7, 3, 0, 1, 100], dtype)
    b = np.array([0, 2, 0, 1, 7], dtype)
    if dtype.startswith("i"):
        a, b = np.concatenate([a, -a]), np.concatenate([b, -b])
    quotient, remainder = expected(a, b)
    both = lambda a, b: (lax.div(a, b), lax.rem(a, b))
    for found in (
            mjax.jit(lambda: both(a, b))(), mjax.jit(lambda a: both(a, b))(a),
            mjax.jit(lambda b: both(a, b))(b), mjax.jit(both)(a, b), both(a, b),
            mjax.jit(lambda a, b: both(lax.neg(lax.neg(a)), lax.neg(lax.neg(b))))(a, b),
            lax.while_loop(lambda c: lax.lt(c[0], 1), lambda c: (lax.add(c[0], 1), both(a, b)),
                           (0, (a, b)))[1],
            mjax.jit(lambda: mjax.vmap(both)(a, b))()):
        np.testing.assert_array_equal(found[0], quotient)
        np.testing.assert_array_equal(found[1], remainder)


def test_what_cannot_be_zero_is_divided_at_once():
    x = np.arange(6).astype(np.int32)
    text = lambda f, *args: mjax.jit(f).lower(*args).as_text()
    for f in (lambda x, y: lax.div(x, y), lambda x, y: lax.rem(x, y), lambda x, y: x // 3,
              lambda x, y: lax.div(lax.neg(x), np.array([1, 2, 3, 4, 5, 6], np.int32))):
        division = [line for line in text(f, x, x).splitlines() if "select" in line]
        assert "compare  EQ" not in "".join(division)
    assert "select" in text(lambda x, y: lax.div(lax.neg(x), lax.neg(y)), x, x)
    assert "select" not in text(lambda x, y: lax.div(lax.neg(x), lax.neg(y)), x * 1.0, x * 1.0)


def test_narrow_integers():
    for dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        a, b = np.array([7, 3, 5], dtype), np.array([2, 3, 1], dtype)
        found = mjax.jit(lambda a=a, b=b: lax.div(lax.add(a, b - b), b))()
        np.testing.assert_array_equal(np.asarray(found).astype(int), [3, 1, 5])
