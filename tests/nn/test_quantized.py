"""Products of rounded numbers: against ml_dtypes, block by block, in NumPy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import nn

rng = np.random.default_rng(0)
A, B = rng.normal(size=(2, 3, 64)).astype("f"), rng.normal(size=(2, 32, 64)).astype("f")
A[0, 1], A[1, 0, :32], A[0, 0, 5], A[1, 1, 0] = 0, 0, 300, -1e-30
LAST = (((2,), (2,)), ((0,), (0,)))
GLOBAL = np.float32([0.25])


def rounded(x, mode, scale=1.0):
    """Numbers after quantization along the last axis."""
    block, elements = (32, ml_dtypes.float8_e4m3fn) if mode == "mxfp8" else (
        16, ml_dtypes.float4_e2m1fn)
    blocks = (np.asarray(x, "f") / np.float32(scale)).reshape(*x.shape[:-1], -1, block)
    largest = float(ml_dtypes.finfo(elements).max)
    unit = np.abs(blocks).max(-1, keepdims=True) / np.float32(largest)
    if mode == "mxfp8":
        scales = 2.0 ** np.ceil(np.log2(np.maximum(unit, 2.0 ** -126)))
    else:
        scales = np.minimum(unit, 448).astype(ml_dtypes.float8_e4m3fn).astype("f")
    quotients = np.clip(blocks / np.where(scales == 0, 1, scales), -largest, largest)
    return (quotients.astype(elements).astype("f") * scales).reshape(x.shape) * scale


def configs(mode):
    return [nn.get_scaled_dot_general_config(mode, None if mode == "mxfp8" else GLOBAL)] * 3


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_value(mode):
    scale = 1.0 if mode == "mxfp8" else 0.25
    expected = np.einsum("bmk,bnk->bmn", rounded(A, mode, scale), rounded(B, mode, scale))
    f = lambda a, b: nn.scaled_dot_general(a, b, LAST, configs=configs(mode))
    for g in (f, mjax.jit(f), mjax.vmap(lambda a, b: nn.scaled_dot_general(
            a, b, (((1,), (1,)), ((), ())), configs=configs(mode)))):
        np.testing.assert_allclose(g(A, B), expected, 1e-5, 1e-5)
    shared = mjax.vmap(lambda a: f(a, B))(np.stack([A, -A]))
    np.testing.assert_allclose(shared, np.stack([expected, -expected]), 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_derivative(mode):
    ct = rng.normal(size=(2, 3, 32)).astype("f")
    pull = lambda a, b: mjax.vjp(
        lambda a, b: nn.scaled_dot_general(a, b, LAST, configs=configs(mode)), a, b)[1]
    if mode == "nvfp4":  # the cotangent itself; a number beyond 2688 * 0.25 is bounded
        a = A.copy()
        a[0, 2, 7] = 1e4
        to_a, to_b = pull(a, B)(ct)
        expected = np.einsum("bmn,bnk->bmk", ct, B) * (np.abs(a) <= 672)
        np.testing.assert_allclose(to_b, np.einsum("bmn,bmk->bnk", ct, a), 1e-4, 1e-4)
    else:
        with pytest.raises(ValueError, match="needs blocks of 32 along the contracted axes of a"):
            pull(A, B)(ct)
        to_a = pull(np.tile(A, (1, 32, 1)), B)(np.tile(ct, (1, 32, 1)))[0][:, :3]
        expected = np.einsum("bmn,bkn->bmk", rounded(ct, mode), rounded(
            np.swapaxes(B, 1, 2), mode))
    np.testing.assert_allclose(to_a, expected, 1e-5, 1e-5)


def test_a_global_scale_is_a_constant():
    def f(scale):
        config = nn.get_scaled_dot_general_config("nvfp4", scale)
        return nn.scaled_dot_general(A, B, LAST, configs=[config] * 3).sum()

    assert mjax.grad(f)(GLOBAL).tolist() == [0]
    np.testing.assert_allclose(mjax.vmap(f)(np.stack([GLOBAL, GLOBAL])), [f(GLOBAL)] * 2, 1e-5)


def test_other_axes():
    a, b = A.transpose(2, 0, 1).reshape(8, 8, 2, 3), B.transpose(2, 1, 0).reshape(8, 8, 32, 2)
    out = nn.scaled_dot_general(a, b, (((0, 1), (0, 1)), ((2,), (3,))), configs=configs("nvfp4"))
    straight = nn.scaled_dot_general(A, B, LAST, configs=configs("nvfp4"))
    np.testing.assert_array_equal(out, straight)
    vectors = nn.scaled_dot_general(A[0, 0], B[0, 0], ((0, 0), ((), ())), configs=configs("nvfp4"))
    np.testing.assert_allclose(vectors, straight[0, 0, 0], 1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "float8_e4m3fn"])
def test_dtypes(dtype):
    a, b = [jnp.asarray(np.round(4 * x)).astype(dtype) for x in (A, B)]
    wide = [np.asarray(x.astype("float32")) for x in (a, b)]
    for mode in ("mxfp8", "nvfp4"):
        out = nn.scaled_dot_general(a, b, LAST, "bfloat16", configs(mode))
        expected = nn.scaled_dot_general(*wide, LAST, configs=configs(mode))
        assert out.dtype == jnp.bfloat16
        np.testing.assert_allclose(out.astype("float32"), expected, 0.05, 0.02 * 1200)
    if dtype in ("bfloat16", "float16"):
        slope = mjax.grad(lambda a: nn.scaled_dot_general(a, b, LAST, configs=configs(mode)).sum())
        assert slope(a).dtype == dtype


def test_without_configs():
    np.testing.assert_allclose(nn.scaled_dot_general(A, B, LAST), np.einsum("bmk,bnk->bmn", A, B),
                               1e-4, 1e-4)
    assert nn.scaled_dot_general(A, B, LAST, "bfloat16").dtype == jnp.bfloat16


def test_infinity_and_nan_show():
    a = A.copy()
    a[0, 0, 0], a[0, 2, 40] = np.inf, np.nan
    out = nn.scaled_dot_general(a, B, LAST, configs=configs("mxfp8"))
    assert np.isnan(out[0, 0]).all() and np.isnan(out[0, 2]).all() and np.isfinite(out[1]).all()


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda c: nn.get_scaled_dot_general_config("fp8"), ValueError, "mode must be 'mxfp8'"),
    (lambda c: nn.scaled_dot_general(A[..., :40], B[..., :40], LAST, configs=c), ValueError,
     "needs blocks of 32 along the contracted axes, whose sizes multiply to 40"),
    (lambda c: nn.scaled_dot_general(A, B[..., :32], LAST, configs=c), TypeError,
     "contracting axes must have equal sizes"),
    (lambda c: nn.scaled_dot_general(A, B, LAST, "int32", c), TypeError, "or float16, got i"),
    (lambda c: nn.scaled_dot_general(A, B, LAST, None, c), TypeError, "or float16, got None"),
    (lambda c: nn.scaled_dot_general(A + 1j, B, LAST, configs=c), TypeError, "takes real numbers"),
    (lambda c: nn.scaled_dot_general(A, B, LAST, configs=c[:1]), TypeError, "configs must be res"),
    (lambda c: nn.scaled_dot_general(A, B, LAST, configs="mxfp8"), TypeError, "configs must be re"),
    (lambda c: mjax.grad(lambda a: nn.scaled_dot_general(a, B, LAST, configs=c[:2]).sum())(A),
     ValueError, "configs must have a third entry"),
    (lambda c: nn.scaled_dot_general(A, B, LAST, configs=[
        nn.get_scaled_dot_general_config("nvfp4", jnp.ones(2))] * 3), ValueError,
     re.escape("global_scale must be a float32 array of one element, got float32[2]")),
])
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call(configs("mxfp8"))
