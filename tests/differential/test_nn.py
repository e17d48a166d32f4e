"""Functions of neural networks, on both libraries."""

from __future__ import annotations

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, primitive_names

rng = np.random.default_rng(0)
#: Corners of the activations among other numbers.
CORNERS = np.float32([-np.inf, -100, -3, -1, -0.5, -1e-6, -0.0, 0.0, 1e-6, 0.5, 1, 2, 3, 6, 50,
                      100, np.inf, np.nan])
INSIDE = CORNERS[np.isfinite(CORNERS)]
ACTIVATIONS = {
    **{name: lambda m, x, name=name: getattr(m.nn, name)(x) for name in (
        "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity",
        "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
        "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh")},
    "celu with alpha": lambda m, x: m.nn.celu(x, 2.0),
    "elu with alpha": lambda m, x: m.nn.elu(x, 2),
    "exact gelu": lambda m, x: m.nn.gelu(x, False),
    "leaky_relu with slope": lambda m, x: m.nn.leaky_relu(x, negative_slope=x),
    "squareplus with b": lambda m, x: m.nn.squareplus(x, 1.5),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    f = ACTIVATIONS[name]
    for x in (CORNERS, 1.5, np.float32(-2), INSIDE[:0]):
        assert_agree(f, x)

    def derivatives(m, x):
        slope = m.grad(lambda x: f(m, x))
        return (m.vmap(slope)(x), m.vmap(m.grad(slope))(x),
                m.jvp(m.jit(lambda x: f(m, x)), (x,), (x,)))

    assert_agree(derivatives, INSIDE)


@pytest.mark.slow
def test_narrow_activations():
    for (name, f), dtype in itertools.product(ACTIVATIONS.items(), ("float16", ml_dtypes.bfloat16)):
        assert_agree(f, INSIDE.astype(dtype))
        if name not in ("sigmoid", "silu", "swish"):
            assert_agree(f, np.int8([-2, 0, 3]))


def _under(m, f, x, x64):
    with m.enable_x64(x64):
        return f(m, x)


# ---- normalizing -----------------------------------------------------------------------

X = rng.normal(size=(3, 4)).astype(np.float32)
MASK = np.array([[True, False, True, True], [True] * 4, [False] * 4])
NORMALIZING = {
    "softmax": lambda m, x: m.nn.softmax(x),
    "softmax over all": lambda m, x: m.nn.softmax(x, axis=None),
    "softmax over two": lambda m, x: m.nn.softmax(x, axis=(0, -1)),
    "masked softmax": lambda m, x: m.nn.softmax(x, 0, where=MASK),
    "log_softmax": lambda m, x: m.nn.log_softmax(x),
    "masked log_softmax": lambda m, x: m.nn.log_softmax(x, 0, where=MASK),
    "logsumexp": lambda m, x: m.nn.logsumexp(x, -1, keepdims=True) + x,
    "logmeanexp": lambda m, x: m.nn.logmeanexp(x, 0, where=MASK) + x,
    "standardize": lambda m, x: m.nn.standardize(x),
    "stable standardize": lambda m, x: m.nn.standardize(x, 0, algorithm="stable"),
    "masked standardize": lambda m, x: m.nn.standardize(x, None, where=MASK),
    "standardize with moments": lambda m, x: m.nn.standardize(x, mean=0.5, variance=X[0] ** 2,
                                                              epsilon=1.0),
    "glu": lambda m, x: m.nn.glu(x),
}


@pytest.mark.parametrize("name", NORMALIZING)
def test_normalizing(name):
    f = NORMALIZING[name]
    assert_agree(f, X)
    assert_agree(f, X * 1000)
    assert_agree(lambda m, x: m.jvp(lambda x: f(m, x), (x,), (X[::-1],)), X, tolerance=1e-4)
    if "log" not in name:
        assert_agree(lambda m, x: m.hessian(lambda x: f(m, x)[0, 1])(x), X, tolerance=1e-3)
    assert_agree(f, X.astype(ml_dtypes.bfloat16))
    if name != "glu" and "log" not in name:  # jax's log_softmax warns of integers
        assert_agree(f, X.astype("int8"))


def test_softmax_of_corners():
    for name in ("softmax", "log_softmax"):
        for x in ([np.inf, 1], [-np.inf, 1], [-np.inf, -np.inf], [np.nan, 1], [1e38, -1e38]):
            assert_agree(lambda m, x, name=name: getattr(m.nn, name)(x), np.float32(x))
        assert_agree(lambda m, x, name=name: getattr(m.nn, name)(x, where=MASK), X)
        assert_agree(lambda m, x, name=name: getattr(m.nn, name)(x), X[:, :0])


# ---- one_hot ---------------------------------------------------------------------------


def test_one_hot():
    x = np.array([[0, 3, -1], [2, 1, 5]], np.int32)
    for axis, dtype in itertools.product((-1, 0, 1, -2), (None, "int8", "bool", "complex64")):
        assert_agree(lambda m, x, axis=axis, dtype=dtype: (
            m.nn.one_hot(x, 4, axis=axis, dtype=dtype)), x)
    for y in (x.astype("uint8"), x[0, 0], 2, [1, 2], x[:0]):
        assert_agree(lambda m, y=y: m.nn.one_hot(y, 4))
    assert_agree(lambda m, x: m.nn.one_hot(x, 0), x)
    assert_agree(lambda m, x: m.vmap(lambda x, _: m.nn.one_hot(x, 5, axis="i"), axis_name="i",
                                     in_axes=(None, 0))(x, np.arange(5)), x)


@pytest.mark.filterwarnings("ignore:.*one_hot:DeprecationWarning")
def test_one_hot_of_floats():
    assert_agree(lambda m, x: m.nn.one_hot(x, 4), np.float32([0, 1.5, 3]))


# ---- attention -------------------------------------------------------------------------

Q = rng.normal(size=(2, 5, 4, 3)).astype(np.float32)
K, V = rng.normal(size=(2, 2, 6, 4, 3)).astype(np.float32)
BIAS = rng.normal(size=(2, 4, 5, 6)).astype(np.float32)
LENGTHS = {"query_seq_lengths": np.int32([3, 5]), "key_value_seq_lengths": np.int32([6, 2])}
ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.5},
    "biased": {"bias": BIAS},
    "biased alike": {"bias": BIAS[:1, :1]},
    "masked": {"mask": BIAS > -1.5},
    "masked in part": {"mask": BIAS[0, 0] > 0},
    "windows": {"local_window_size": 1},
    "lopsided windows": {"local_window_size": (0, 2)},
    "lengths": LENGTHS,
    "query lengths": {"query_seq_lengths": LENGTHS["query_seq_lengths"]},
    "all": {"is_causal": True, "bias": BIAS, "mask": BIAS < 2, "local_window_size": (3, 3),
            **LENGTHS},
}


def attend(m, q, k, v, residual=True, **kwargs):
    return m.nn.dot_product_attention(q, k, v, return_residual=residual, **kwargs)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    kwargs = ATTENTION[name]
    assert_agree(lambda m, *qkv: attend(m, *qkv, **kwargs), Q, K, V)

    def pullback(m, *qkv):
        out, vjp = m.vjp(lambda *qkv: attend(m, *qkv, residual=False, **kwargs), *qkv)
        return vjp(out)

    assert_agree(pullback, Q, K, V, tolerance=1e-4)


def test_attention_of_shared_heads():
    for shared in (1, 2):
        assert_agree(lambda m, *qkv: attend(m, *qkv, **ATTENTION["all"]), Q, K[:, :, :shared],
                     V[:, :, :shared])


def test_attention_without_a_batch():
    assert_agree(attend, Q[0], K[0], V[0])
    assert_agree(lambda m, *qkv: attend(m, *qkv, bias=BIAS[0], mask=BIAS[0] > 0), Q[0], K[0], V[0])
    assert_agree(lambda m, *qkv: m.vmap(lambda *qkv: attend(m, *qkv))(*qkv), Q, K, V)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64"])
def test_attention_in_other_dtypes(dtype):
    with mjax.enable_x64():
        qkv = [x.astype(dtype) for x in (Q, K, V)]
        f = lambda m, *qkv: attend(m, *qkv, bias=BIAS, is_causal=True)
        assert_agree(lambda m, *qkv: _under(m, lambda m, qkv: f(m, *qkv), qkv, True), *qkv)


# ---- equations -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ACTIVATIONS, *NORMALIZING])
def test_equations_are_no_more_than_jax_s(name):
    f = {**ACTIVATIONS, **NORMALIZING}[name]
    ours, theirs = [m.make_jaxpr(lambda x, m=m: f(m, x))(X) for m in (mjax, jax)]
    assert len(primitive_names(ours.jaxpr)) <= len(primitive_names(theirs.jaxpr))


# ---- products of rounded numbers -------------------------------------------------------


def _composed(jaxpr, consts, *args):
    """Runs a jaxpr of JAX, whose CPU does not have `scaled_matmul_wrapper`."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    for eqn in jaxpr.eqns:
        ins = [jax.numpy.asarray(v.val, v.aval.dtype) if hasattr(v, "val") else values[v]
               for v in eqn.invars]
        name = eqn.primitive.name
        inner = eqn.params.get("jaxpr" if name == "jit" else "call_jaxpr")
        if name == "scaled_matmul_wrapper":
            left, right = [x.astype("float32") * jax.numpy.repeat(
                s.astype("float32"), x.shape[-1] // s.shape[-1], -1)
                for x, s in zip(ins[:2], ins[2:], strict=True)]
            out = jax.numpy.einsum("bmk,bnk->bmn", left, right)
            outs = [out.astype(eqn.params["preferred_element_type"])]
        elif inner is not None:
            outs = _composed(inner.jaxpr, inner.consts, *ins)
        else:
            outs = eqn.primitive.bind(*ins, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        values.update(zip(eqn.outvars, outs, strict=True))
    return [values[v] for v in jaxpr.outvars]


SPREAD = (rng.normal(size=(2, 32, 64)) * np.exp(3 * rng.normal(size=(2, 32, 1)))).astype("f")
OTHER = rng.normal(size=(2, 64, 64)).astype("f")


@pytest.mark.parametrize(("mode", "dtype"), [
    ("mxfp8", "float32"), ("nvfp4", "float32"),
    pytest.param("mxfp8", "bfloat16", marks=pytest.mark.slow),
    pytest.param("nvfp4", "bfloat16", marks=pytest.mark.slow)])
def test_scaled_dot_general(mode, dtype):
    def out_and_slopes(m):
        config = m.nn.get_scaled_dot_general_config(mode, m.numpy.float32([0.125]))
        f = lambda a, b: m.nn.scaled_dot_general(a, b, (((2,), (2,)), ((0,), (0,))), dtype,
                                                 [config] * 3)

        def both(a, b):
            out, pullback = m.vjp(f, a, b)
            return [out, *pullback(out)]

        return both, [m.numpy.asarray(x).astype(dtype) for x in (SPREAD, OTHER)]

    f, args = out_and_slopes(mjax)
    g, theirs = out_and_slopes(jax)
    program = jax.make_jaxpr(g)(*theirs)
    expected = jax.jit(lambda *xs: _composed(program.jaxpr, program.consts, *xs))(*theirs)
    for x, y in zip(mjax.jit(f)(*args), expected, strict=True):
        assert x.dtype == dtype
        scale = float(abs(y).max())
        np.testing.assert_allclose(np.asarray(x, "f") / scale, np.asarray(y, "f") / scale, 0, 1e-6)


def test_configs_of_scaled_dot_general():
    for mode in ("mxfp8", "nvfp4"):
        ours, theirs = [m.nn.get_scaled_dot_general_config(mode) for m in (mjax, jax)]
        np.testing.assert_equal(np.asarray(ours.global_scale), np.asarray(theirs.global_scale))
        for name in ("mode", "block_size", "data_type", "scale_type"):
            assert getattr(ours, name) == getattr(theirs, name)
