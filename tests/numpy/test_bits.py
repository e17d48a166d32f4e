"""Bits and divisors: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import Call, call, check, table

rng = np.random.default_rng(0)
DTYPES = (np.int8, np.uint8, np.int32, np.uint32)
INTS = {d: rng.integers(np.iinfo(d).min, np.iinfo(d).max, (3, 4), dtype=d, endpoint=True)
        for d in DTYPES}
B = rng.integers(0, 2, (3, 11)).astype(bool)
BYTES = rng.integers(0, 256, (2, 3), dtype=np.uint8)
LEAST = np.array([-(2**31), 2**31 - 1, 0, -1], np.int32)


def in_dtype(name: str) -> Any:
    """NumPy's function, with wrapping in the dtype of the arguments."""
    def reference(a: Any, b: Any) -> Any:
        wide = getattr(np, name)(np.asarray(a, np.int64), np.asarray(b, np.int64))
        return wide.astype(np.result_type(a, b))
    return reference


ROWS = [
    *[call(name, a, a[0]) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
      for a in (*INTS.values(), B)],
    call("bitwise_or", B[:0], B[0]),
    *[call(name, a, np.uint8(3).astype(a.dtype)) for name in ("left_shift", "right_shift")
      for a in INTS.values()],
    *[call(name, a) for name in ("invert", "bitwise_count") for a in INTS.values()],
    call("invert", B),
    *[call("packbits", a, axis=axis, bitorder=order)
      for a in (B, B[:, :8], B[:, :0], INTS[np.int32]) for axis in (None, 0, 1, -1)
      for order in ("big", "little")],
    call("packbits", B[0, 0]), call("packbits", B[None], axis=1), call("packbits", B[0]),
    *[call("unpackbits", BYTES, axis=axis, count=count, bitorder=order) for axis in (None, 0, -1)
      for count in (None, 3, 30, -5, 0) for order in ("big", "little")],
    call("unpackbits", BYTES[:0]), call("unpackbits", BYTES[0, 0]), call("unpackbits", BYTES, -1),
    *[call(name, a, a[::-1], reference=in_dtype(name)) for name in ("gcd", "lcm")
      for a in (INTS[np.int32] % 1000, INTS[np.uint8] % 16, INTS[np.int8] % 11 - 5,
                INTS[np.uint32] % 500)],
    call("gcd", LEAST[:, None], LEAST), call("gcd", INTS[np.int32], 12),
    call("lcm", np.zeros((2, 0), int), 3), call("gcd", INTS[np.uint8], INTS[np.int8]),
    call("lcm", np.int32(4), np.array([0, 6, -10])),
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


def test_counts_of_constants_are_arrays() -> None:
    for x in (True, np.True_, np.array([True])):
        out = mjax.jit(lambda x=x: jnp.bitwise_count(x).at[...].add(1))()
        np.testing.assert_array_equal(np.asarray(out), np.add(x, np.uint8(1)))


def test_unpacked_bits_are_packed_again() -> None:
    for order in ("big", "little"):
        bits = jnp.unpackbits(BYTES, axis=1, bitorder=order)
        np.testing.assert_array_equal(np.asarray(jnp.packbits(bits, 1, order)), BYTES)


ERRORS = [
    (TypeError, "packbits is for integers and booleans, not for dtype float32",
     lambda: jnp.packbits(np.ones(3))),
    (TypeError, "packbits requires ndarray", lambda: jnp.packbits([1, 0])),
    (ValueError, "packbits: bitorder must be 'big' or 'little', got 'middle'",
     lambda: jnp.packbits(B, bitorder="middle")),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.packbits(B, axis=2)),
    (TypeError, "unpackbits is for dtype uint8, not for int32",
     lambda: jnp.unpackbits(INTS[np.int32])),
    (ValueError, "unpackbits: bitorder", lambda: jnp.unpackbits(BYTES, bitorder="")),
    (TypeError, "unpackbits: count must be an integer", lambda: jnp.unpackbits(BYTES, count=1.5)),
    (ValueError, "Arguments to gcd must be integers, got dtype float32", lambda: jnp.gcd(1.0, 2)),
    (ValueError, "Arguments to lcm must be integers, got dtype bool", lambda: jnp.lcm(B, B)),
    (TypeError, "and does not accept dtype float32", lambda: jnp.bitwise_and(1.0, 2)),
    (TypeError, "not does not accept dtype float32", lambda: jnp.invert(1.0)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint32", "float16", "bfloat16",
                                   "float32", "complex64"])
def test_byteswap(dtype):
    x = np.arange(6).reshape(2, 3).astype(jnp.dtype(dtype))
    for f in (lambda a: a.byteswap(), mjax.jit(lambda a: a.byteswap()),
              mjax.vmap(lambda a: a.byteswap())):
        out = f(jnp.asarray(x))
        assert out.dtype == x.dtype and out.tobytes() == x.byteswap().tobytes()


def test_keys_have_no_bytes_to_swap():
    with pytest.raises(TypeError, match="key_data"):
        mjax.random.key(0).byteswap()
