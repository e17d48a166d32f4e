"""Convolutions and reductions over windows, on both libraries."""

from __future__ import annotations

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, assert_same_equations

rng = np.random.default_rng(0)


def drawn(*shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)


IMAGE, KERNEL = drawn(2, 4, 7, 6), drawn(6, 4, 3, 2)
GROUPED = drawn(6, 2, 3, 2)
SIGNAL, FILTER = drawn(2, 9, 3), drawn(4, 3, 5)
LAST = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
#: Name -> lhs, rhs, arguments of conv_general_dilated.
CONVOLUTIONS = {
    "plain": (IMAGE, KERNEL, ((1, 1), "VALID"), {}),
    "same": (IMAGE, KERNEL, ((2, 1), "SAME"), {}),
    "same lower": (IMAGE, KERNEL, ((2, 1), "SAME_LOWER"), {}),
    "padding": (IMAGE, KERNEL, ((1, 2), [(1, 0), (-1, 2)]), {}),
    "holes": (IMAGE, KERNEL, ((1, 2), [(1, 0), (2, 2)], (2, 3), (2, 1)), {}),
    "channels last": (IMAGE.transpose(0, 2, 3, 1), KERNEL.transpose(2, 3, 1, 0),
                      ((1, 1), "SAME"), LAST),
    "feature groups": (IMAGE, GROUPED, ((1, 1), "SAME"), {"feature_group_count": 2}),
    "batch groups": (IMAGE, KERNEL, ((1, 1), "SAME"), {"batch_group_count": 2}),
    "complex": (IMAGE * (1 + 1j), KERNEL * (2 - 1j), ((1, 1), "SAME"), {}),
    "integers": (np.round(3 * IMAGE).astype(np.int32), np.round(3 * KERNEL).astype(np.int32),
                 ((1, 1), "SAME"), {}),
    "preferred": (IMAGE.astype(ml_dtypes.bfloat16), KERNEL.astype(ml_dtypes.bfloat16),
                  ((1, 1), "SAME"), {"preferred_element_type": np.float32,
                                     "precision": ("high", "highest")}),
    "no axes": (drawn(3, 4), drawn(5, 4), ((), "SAME"), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    lhs, rhs, args, kwargs = CONVOLUTIONS[name]

    def conv(m, x, k):
        return m.lax.conv_general_dilated(x, k, *args, **kwargs)

    assert_same_equations(conv, lhs, rhs)
    assert_agree(conv, lhs, rhs, tolerance=1e-4)
    if name == "integers":
        return

    def pullback(m, x, k):
        out, vjp = m.vjp(lambda x, k: conv(m, x, k), x, k)
        return vjp(out)

    def push(m, x, k):
        return m.jvp(lambda x, k: conv(m, x, k), (x, k), (x, k))

    assert_agree(pullback, lhs, rhs, tolerance=1e-4)
    assert_agree(push, lhs, rhs, tolerance=1e-4)
    if "groups" not in name:  # there jax says reshape for transpose and reshape
        assert_same_equations(pullback, lhs, rhs)
        assert_same_equations(push, lhs, rhs)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
@pytest.mark.parametrize("name", ["same", "channels last", "feature groups", "batch groups"])
def test_batches_of_convolutions(name, axes):
    lhs, rhs, args, kwargs = CONVOLUTIONS[name]
    stacks = [x if d is None else np.stack([x, 2 * x, -x], d)
              for x, d in zip((lhs, rhs), axes, strict=True)]
    assert_agree(lambda m, x, k: m.vmap(
        lambda x, k: m.lax.conv_general_dilated(x, k, *args, **kwargs), axes)(x, k), *stacks,
        tolerance=1e-4)


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 0)], [(0, 2)]])
def test_variants(padding, consistent):
    x, k = SIGNAL, FILTER.transpose(2, 1, 0)
    for strides, step in itertools.product([(1,), (2,), (7,)], [None, (2,)]):
        assert_same_equations(lambda m, x, k, s=strides, d=step: m.lax.conv_transpose(
            x, k, s, padding, d, use_consistent_padding=consistent), x, k)
        assert_agree(lambda m, x, k, s=strides, d=step: m.lax.conv_transpose(
            x, k, s, padding, d, transpose_kernel=True, use_consistent_padding=consistent),
            x, k.transpose(0, 2, 1), tolerance=1e-4)
    numbers = [None, ("NCH", "OIH", "HNC")]
    for step, spec in itertools.product([None, (2,)], numbers):
        assert_agree(lambda m, x, d=step, spec=spec: m.lax.conv_general_dilated_patches(
            x, (2,), (2,), padding, None, d, spec), SIGNAL)
    for name in ("conv_transpose_shape_tuple", "conv_general_shape_tuple"):
        assert_agree(lambda m, name=name: [int(n) for n in getattr(m.lax, name)(
            x.shape, k.shape, (2,), padding, ("NHC", "HIO", "NHC"))])


POOLED = drawn(3, 6, 5)
#: Arguments of reduce_window after the function.
WINDOWS = {
    "plain": ((1, 2, 3),), "strides": ((1, 2, 2), (1, 2, 2)),
    "same": ((2, 3, 2), (1, 1, 1), "SAME"),
    "padding": ((1, 3, 2), (1, 2, 1), [(0, 0), (2, 1), (1, 0)]),
    "holes": ((1, 4, 2), (1, 1, 2), [(0, 0), (1, 2), (0, 0)], (1, 3, 1)),
    "windows with holes": ((2, 2, 2), None, "VALID", None, (1, 3, 2)),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(("function", "init"), [
    ("add", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_windows(name, function, init):
    def pool(m, x):
        return m.lax.reduce_window(x, init, getattr(m.lax, function), *WINDOWS[name])

    def pullback(m, x):
        out, vjp = m.vjp(lambda x: pool(m, x), x)
        return vjp(m.lax.sin(out))

    assert_same_equations(pool, POOLED)
    assert_agree(pool, POOLED)
    assert_agree(lambda m, x: m.jvp(lambda x: pool(m, x), (x,), (2 * x,)), POOLED)
    assert_agree(lambda m, x: m.vmap(lambda x: pool(m, x), 1)(x), np.stack([POOLED, -POOLED], 1))
    if name != "windows with holes":
        assert_same_equations(lambda m, x: m.jvp(lambda x: pool(m, x), (x,), (2 * x,)), POOLED)
    if name != "windows with holes" or function == "add":  # jax has no gradient there
        assert_same_equations(pullback, POOLED)
        assert_agree(pullback, POOLED)
        assert_agree(lambda m, x: m.vmap(lambda x: pullback(m, x))(x), np.stack([POOLED, -POOLED]))


#: Name -> function of (m, a, b), initial value.
FUNCTIONS = {
    "add": (lambda m, a, b: m.lax.add(a, b), 0.0),
    "compound": (lambda m, a, b: a + b + a * b, 0.0),
    "logaddexp": (lambda m, a, b: m.numpy.logaddexp(a, b), -np.inf),
    "product": (lambda m, a, b: m.lax.mul(a, b), 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function, init = FUNCTIONS[name]

    def total(m, x):
        return m.lax.reduce(x, init, lambda a, b: function(m, a, b), (0, 2))

    def pool(m, x):
        return m.lax.reduce_window(x, init, lambda a, b: function(m, a, b), (1, 2, 3), (1, 1, 2),
                                   "SAME")

    assert_agree(total, POOLED, tolerance=1e-4)
    assert_agree(pool, POOLED, tolerance=1e-4)
    assert_agree(lambda m, x: m.jvp(lambda x: total(m, x), (x,), (2 * x,)), POOLED, tolerance=1e-4)
    assert_agree(lambda m, x: m.vjp(lambda x: total(m, x), x)[1](total(m, x)), POOLED,
                 tolerance=1e-4)
    assert_agree(lambda m, x: m.jvp(lambda x: pool(m, x), (x,), (2 * x,)), POOLED, tolerance=1e-4)
    assert_agree(lambda m, x: m.vmap(lambda x: (total(m, x), pool(m, x)))(x),
                 np.stack([POOLED, -POOLED]), tolerance=1e-4)
    if name in ("compound", "logaddexp"):  # mjax sees that a lambda adds or multiplies
        assert_same_equations(total, POOLED)
        assert_same_equations(pool, POOLED)


@pytest.mark.parametrize(("function", "init"), [
    ("add", 0), ("mul", 1), ("max", np.iinfo(np.int32).min), ("bitwise_and", -1),
    ("bitwise_or", 0), ("bitwise_xor", 0), ("add", 5)])
def test_known_functions(function, init):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    init = np.int32(init)
    assert_agree(lambda m, x: m.lax.reduce(x, init, getattr(m.lax, function), (1,)), x)
    if (function, init) != ("bitwise_and", -1):
        assert_same_equations(
            lambda m, x: m.lax.reduce(x, init, getattr(m.lax, function), (1,)), x)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_vectors(mode):
    a, v = SIGNAL[0, :, 0], FILTER[0, 0]
    for x, y in ((a, v), (v, a), (a + 1j * a[::-1], v), (v, a * (1 + 2j)),
                 (np.round(9 * a).astype(np.int8), np.round(9 * v).astype(np.uint8)),
                 (a.astype(np.float16), v)):
        assert_agree(lambda m, x, y: [m.numpy.convolve(x, y, mode), m.numpy.correlate(x, y, mode)],
                     x, y, tolerance=1e-4)
        assert_same_equations(lambda m, x, y: m.numpy.correlate(x, y, mode), x, y)
        assert_same_equations(lambda m, x, y: m.numpy.convolve(x, y, mode), x, y)


#: Calls that both libraries refuse.
REFUSED = {
    "ranks": lambda m: m.lax.conv(IMAGE, KERNEL[0], (1, 1), "SAME"),
    "features": lambda m: m.lax.conv(IMAGE, KERNEL[:, :1], (1, 1), "SAME"),
    "dtypes": lambda m: m.lax.conv(IMAGE, KERNEL.astype(np.float16), (1, 1), "SAME"),
    "narrower": lambda m: m.lax.conv(IMAGE, KERNEL, (1, 1), "SAME", None, np.float16),
    "padding": lambda m: m.lax.conv(IMAGE, KERNEL, (1, 1), "FULL"),
    "strides": lambda m: m.lax.conv(IMAGE, KERNEL, (1,), "SAME"),
    "groups": lambda m: m.lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME",
                                                   feature_group_count=2),
    "same with holes": lambda m: m.lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", (2, 2)),
    "numbers": lambda m: m.lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME",
                                                    dimension_numbers=("NCHW", "OIHX", "NCHW")),
    "windows": lambda m: m.lax.reduce_window(POOLED, 0.0, m.lax.add, (2, 2)),
    "window of 0": lambda m: m.lax.reduce_window(POOLED, 0.0, m.lax.add, (0, 2, 2)),
    "axes": lambda m: m.lax.reduce(POOLED, 0.0, m.lax.add, (3,)),
    "initial dtype": lambda m: m.lax.reduce(POOLED, np.int32(0), lambda a, b: a + b + a * b,
                                             (0,)),
    "trees": lambda m: m.lax.reduce((POOLED, POOLED), (0.0,), lambda a, b: a, (0,)),
    "closure": lambda m: m.jit(lambda x, y: m.lax.reduce(x, 1.0, lambda a, b: a * b * y, (0,)))(
        POOLED, 2.0),
    "vectors": lambda m: m.numpy.convolve(POOLED, POOLED),
    "mode": lambda m: m.numpy.correlate(SIGNAL[0, 0], SIGNAL[0, 0], "most"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(name):
    for m in (jax, mjax):
        with pytest.raises((TypeError, ValueError, RuntimeError, NotImplementedError)):
            REFUSED[name](m)
