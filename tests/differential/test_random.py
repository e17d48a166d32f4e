"""Random numbers against jax in the same process: bits and integers exactly, floats to rounding."""

from __future__ import annotations

import contextlib
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.random

#: Both libraries warn.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Explicitly requested dtype", "ignore:.*was asked for, but 64-bit types are off")

IMPLS = ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32")
FLOATS = ("float32", "float16", "bfloat16", "float64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
SHAPES = ((), (1,), (5,), (0,), (2, 0), (3, 7), (2, 3, 4))


@contextlib.contextmanager
def settings(**flags):
    with contextlib.ExitStack() as stack:
        for name, value in flags.items():
            stack.enter_context(getattr(jax, name)(value))
            stack.enter_context(getattr(mjax, name)(value))
        yield


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    with settings(enable_x64=request.param):
        yield request.param


@pytest.fixture(params=[True, False], ids=["partitionable", "old"])
def partitionable(request):
    with settings(threefry_partitionable=request.param):
        yield request.param


def compare(ours, theirs):
    """Same shape, dtype and weak type; equal, or equal to a few units in the last place."""
    if jnp.issubdtype(theirs.dtype, jax.dtypes.prng_key):
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.shape == theirs.shape
        ours, theirs = mjax.random.key_data(ours), jax.random.key_data(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.weak_type == theirs.weak_type
    a, b = np.asarray(ours), np.asarray(theirs)
    assert a.shape == b.shape
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    eps = float(ml_dtypes.finfo(a.dtype).eps)
    np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=8 * eps, atol=8 * eps)


def same(name, *args, seed=7, impl=None, raw=False, jitted=False, **kwargs):
    """Calls a function of both libraries on the same key; ours jitted as well, if asked for."""
    keys = [(r.PRNGKey if raw else r.key)(seed, impl=impl) for r in (jax.random, mjax.random)]
    theirs = getattr(jax.random, name)(keys[0], *args, **kwargs)
    ours = getattr(mjax.random, name)
    compare(ours(keys[1], *args, **kwargs), theirs)
    if jitted:
        compare(mjax.jit(lambda key: ours(key, *args, **kwargs))(keys[1]), theirs)


# ---- keys ------------------------------------------------------------------------------

SEEDS = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 + 5, -(2**32) - 5, 2**63 - 1, -(2**63), True,
         np.int8(-1), np.int32(-1), np.uint32(2**32 - 1), np.int64(-(2**40) - 3),
         np.uint64(2**64 - 1))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("seed", SEEDS, ids=repr)
def test_seeds(seed, impl, x64):
    compare(mjax.random.key(seed, impl=impl), jax.random.key(seed, impl=impl))
    compare(mjax.random.PRNGKey(seed, impl=impl), jax.random.PRNGKey(seed, impl=impl))


@pytest.mark.parametrize("impl", IMPLS)
def test_traced_seeds(impl):
    ours = mjax.jit(lambda s: mjax.random.key(s, impl=impl))(np.int32(-3))
    compare(ours, jax.jit(lambda s: jax.random.key(s, impl=impl))(np.int32(-3)))
    seeds = np.arange(-2, 3, dtype=np.int32)
    compare(mjax.vmap(lambda s: mjax.random.key(s, impl=impl))(seeds),
            jax.vmap(lambda s: jax.random.key(s, impl=impl))(seeds))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("num", [1, 2, 3, (2, 3), (), 0, 101], ids=str)
def test_split(num, impl, raw, partitionable):
    with settings(default_prng_impl=impl):
        same("split", num, impl=impl, raw=raw)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("data", [0, 1, 2**32 - 1, np.int32(-1), np.int64(2**40 + 7)],
                         ids=repr)
def test_fold_in(data, impl, raw, partitionable, x64):
    with settings(default_prng_impl=impl):
        same("fold_in", data, impl=impl, raw=raw)


def test_clone_and_data():
    same("clone")
    same("key_data")
    same("key_data", raw=True)
    data = np.arange(6, dtype=np.uint32).reshape(3, 2)
    compare(mjax.random.wrap_key_data(data), jax.random.wrap_key_data(data))


# ---- bits ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", UINTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits(shape, dtype, x64, partitionable):
    same("bits", shape, dtype)


@pytest.mark.parametrize("dtype", UINTS)
@pytest.mark.parametrize("impl", IMPLS[1:])
def test_bits_of_other_generators(impl, dtype, x64):
    same("bits", (3, 5), dtype, impl=impl)


@pytest.mark.slow
@pytest.mark.parametrize("size", [*range(1, 40), 1000, 1001, 100_003])
def test_bits_of_many_sizes(size, partitionable):
    same("bits", (size,), "uint8")
    same("bits", (size,), "uint32")


def test_default_dtype_of_bits(x64):
    same("bits", (3,))


@pytest.mark.parametrize("impl", IMPLS)
def test_batches_of_keys(impl, partitionable):
    """vmap over keys, twice, and over data to fold in."""
    ours, theirs = [r.split(r.key(3, impl=impl), (2, 3)) for r in (mjax.random, jax.random)]

    def each(library, f):
        return library.vmap(library.vmap(f(library.random)))

    for f in (lambda r: lambda k: r.bits(k, (5,), "uint16"),
              lambda r: lambda k: r.split(k, 3),
              lambda r: lambda k: r.fold_in(k, 9),
              lambda r: lambda k: r.normal(k, (2,)),
              lambda r: lambda k: r.randint(k, (2,), 0, 100)):
        compare(each(mjax, f)(ours), each(jax, f)(theirs))
    data = np.arange(3, dtype=np.uint32)
    for row_ours, row_theirs in ((ours[0], theirs[0]), (ours[1], theirs[1])):
        compare(mjax.vmap(mjax.random.fold_in)(row_ours, data),
                jax.vmap(jax.random.fold_in)(row_theirs, data))
    compare(mjax.vmap(lambda d: mjax.random.fold_in(ours[0, 0], d))(data),
            jax.vmap(lambda d: jax.random.fold_in(theirs[0, 0], d))(data))


def test_threefry_2x32():
    from jax.extend.random import threefry_2x32 as theirs

    from mjax._engine.primitives.threefry import threefry_2x32 as ours

    key = np.array([17, 42], np.uint32)
    for shape in ((4,), (5,), (3, 3), ()):
        count = np.arange(np.prod(shape, dtype=int), dtype=np.uint32).reshape(shape)
        compare(ours(key, count), theirs(key, count))


# ---- distributions ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (2, 0), (3, 7)], ids=str)
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_uniform_and_normal(name, shape, dtype, x64, partitionable):
    same(name, shape, dtype, jitted=True, raw=shape == ())


def test_uniform_is_exact(x64):
    for dtype in (*FLOATS, "float8_e4m3fn", "float8_e5m2"):
        a, b = [np.asarray(r.uniform(r.key(1), (1000,), dtype)).astype(np.float64)
                for r in (mjax.random, jax.random)]
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["cauchy", "exponential", "gumbel", "laplace", "logistic",
                                  "maxwell", "normal", "uniform"])
def test_without_parameters(name, dtype):
    same(name, (3, 5), dtype)


@pytest.mark.parametrize("name", ["bits", "uniform", "normal", "rademacher", "exponential"])
def test_default_dtypes(name, x64):
    same(name, (3,))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normal(dtype, x64):
    same("normal", (3, 2), dtype)


COLUMN, ROW = np.array([[0.5], [2.0]], np.float32), np.array([1.0, 2.0, 3.0], np.float32)
CASES = [
    ("uniform", ((2, 3), "float32", COLUMN, 7.0)), ("uniform", ((2, 3), "float32", -1, 1)),
    ("uniform", ((4,), "bfloat16", 1.5, 3.0)),
    ("truncated_normal", (-1.0, 2.0, (5,))), ("truncated_normal", (COLUMN, ROW + 2)),
    ("truncated_normal", (0, 1)), ("truncated_normal", (-1.0, 1.0, (4,), "bfloat16")),
    ("lognormal", ()), ("lognormal", (ROW,)), ("lognormal", (ROW, (2, 3))),
    ("double_sided_maxwell", (ROW, COLUMN, (5,))), ("double_sided_maxwell", (0.0, 1.0)),
    ("rayleigh", (ROW,)), ("rayleigh", (2, (2, 3))),
    ("wald", (ROW,)), ("wald", (2.0, (2, 3))),
    ("pareto", (ROW,)), ("pareto", (2.0, (2, 3))),
    ("weibull_min", (ROW, 2.0)), ("weibull_min", (1.0, COLUMN, (2, 3))),
    ("triangular", (0.0, ROW, 4.0)), ("triangular", (0, 1, 2, (2, 3))),
    ("geometric", (0.3, (20,))), ("geometric", (np.float32([0.1, 0.9]),)),
    ("bernoulli", ()), ("bernoulli", (0.3, (40,))), ("bernoulli", (COLUMN / 4, (2, 9))),
    ("bernoulli", (np.float16(0.25), (40,))), ("bernoulli", (0.3, (40,), "high")),
    ("rademacher", ((9,), "float32")), ("rademacher", ((9,), "int8")),
    ("rademacher", ((9,), "bool")), ("rademacher", ((9,), "uint8")),
    ("gumbel", ((9,), "float32", "high")),
    ("categorical", (ROW,)), ("categorical", (COLUMN * ROW,)), ("categorical", (COLUMN * ROW, 0)),
    ("categorical", (COLUMN * ROW, -1, (50, 2))), ("categorical", (COLUMN * ROW, 0, (50, 3))),
    ("categorical", (COLUMN * ROW, -1, (2, 2), False)),
    ("categorical", (ROW, -1, (3,), False)), ("categorical", (ROW, -1, None, True, "high")),
    ("permutation", (10,)), ("permutation", (2000,)), ("permutation", (0,)), ("permutation", (1,)),
    ("permutation", (np.arange(12.0, dtype=np.float32),)),
    ("permutation", (np.arange(12).reshape(3, 4),)),
    ("permutation", (np.arange(12).reshape(3, 4), 1)),
    ("permutation", (np.arange(12).reshape(3, 4), -1, True)),
    ("choice", (5,)), ("choice", (5, (3, 2))), ("choice", (5, (4,), False)), ("choice", (0, (0,))),
    ("choice", (ROW, (4,))), ("choice", (COLUMN * ROW, (4, 2), True, None, 1)),
    ("choice", (COLUMN * ROW, (2,), False, None, 1)),
    ("choice", (5, (30,), True, np.float32([0.1, 0.2, 0.0, 0.3, 0.4]))),
    ("choice", (5, (3,), False, np.float32([0.1, 0.2, 0.1, 0.3, 0.3]))),
    ("choice", (COLUMN * ROW, (2, 1), False, ROW / 6, 1)),
    ("choice", (COLUMN * ROW, (5,), True, ROW / 6, 1)),
]


@pytest.mark.parametrize("name, args", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_distributions(name, args, x64):
    same(name, *args, jitted=not x64)
    same(name, *args, raw=True)


#: Distributions with parameters and a dtype: arguments before the shape.
WITH_DTYPE = {
    "truncated_normal": (-1.0, 2.0), "double_sided_maxwell": (0.5, 2.0), "rayleigh": (1.5,),
    "wald": (2.0,), "pareto": (2.0,), "weibull_min": (1.5, 2.0), "triangular": (0.0, 1.0, 4.0),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", WITH_DTYPE)
def test_dtypes_of_distributions(name, dtype, x64):
    same(name, *WITH_DTYPE[name], (7,), dtype)
    same(name, *[np.asarray(p).astype(dtype) for p in WITH_DTYPE[name]], (2, 3), dtype)


def test_dtype_of_lognormal(x64):
    for dtype in FLOATS:
        same("lognormal", 0.5, (7,), dtype)


def test_every_function_is_compared():
    """Each name of mjax.random is one of jax.random, and in this file."""
    text = Path(__file__).read_text()
    for name in mjax.random.__all__:
        assert hasattr(jax.random, name)
        found = any(form in text for form in (f'"{name}"', f".{name}(", f".{name}.bind("))
        assert found, f"{name} is not compared with jax's"


def test_dtypes_and_generators_of_keys():
    for impl in IMPLS:
        ours, theirs = mjax.random.key(0, impl=impl), jax.random.key(0, impl=impl)
        assert str(mjax.random.key_dtype(impl)) == str(jax.random.key_dtype(impl))
        assert mjax.random.key_impl(ours) == str(jax.random.key_impl(theirs)) == impl


RANGES = [
    (0, 5, "int32"), (-7, 100, "int32"), (0, 2**31 - 1, "int32"), (-(2**31), 2**31 - 1, "int32"),
    (5, 3, "int32"), (5, 5, "int32"), (-(2**31), np.uint32(2**31), "int32"),
    (0, np.uint32(2**32 - 1), "uint32"), (-5, 10, "uint32"), (0, 5, "uint8"), (-9, 500, "uint8"),
    (np.int8(-128), np.int16(128), "int8"), (-500, 500, "int8"), (-3, 2**15, "int16"),
    (0, 65536, "uint16"), (np.arange(6, dtype=np.int32), 9, "int32"),
    (np.int32([[0], [3]]), np.int32([1, 2, 3, 4, 5, 6]), "int32"), (0, 10, "int64"),
    (0, 10, None), (0.0, 1e3, "int32"), (-4.0, 5, "int8"),
]


@pytest.mark.parametrize("low, high, dtype", RANGES, ids=str)
def test_randint(low, high, dtype, x64, partitionable):
    shape = np.broadcast_shapes(np.shape(low), np.shape(high), (2, 6))
    same("randint", shape, low, high, dtype)


def test_randint_of_64_bits():
    with settings(enable_x64=True):
        for low, high, dtype in ((0, 2**63 - 1, "int64"), (-(2**63), 2**63 - 1, "int64"),
                                 (0, np.uint64(2**64 - 1), "uint64"), (-5, 2**40, "int64"),
                                 (0, 2**40, "int32"), (0, 2**40, "uint32")):
            same("randint", (6,), low, high, dtype)


# ---- distributions made of others, bit for bit ------------------------------------------

RATES = np.linspace(0.05, 9, 8).astype("float32").reshape(2, 4)
MATRIX = np.float32([[2, 1], [1, 3]])
#: In each float dtype.
EXACT = [
    ("gamma", (RATES,)), ("loggamma", (RATES / 100,)), ("beta", (RATES, RATES[0])),
    ("beta", (0.01, 2, (9,))), ("chisquare", (RATES,)), ("f", (RATES, RATES[::-1])),
    ("f", (2.5, 3.5, (9,))), ("t", (RATES,)), ("dirichlet", (RATES,)),
    ("dirichlet", (RATES[0], (3, 2))), ("generalized_normal", (2.5, (9,))),
    ("generalized_normal", (2, (9,))), ("ball", (3,)), ("ball", (4, 1.5, (5,))),
]
EXACT_COUNTS = [
    ("poisson", (RATES * 3,)), ("poisson", (3, (50,), "int8")), ("poisson", (30.0, (50,))),
    ("poisson", (np.float32([0, 3, -1, np.nan, 50, 1e9]), None, "uint32")),
    ("binomial", (10, 0.5)), ("binomial", (np.arange(40), 0.3)),
    ("binomial", (1000, 0.9, (50,), "float16")), ("binomial", (100_000, np.float64(0.7), (50,))),
    ("binomial", (np.float32([10, np.nan, -1, np.inf, 3.5, 1000, 5, 5, 0]),
                  np.float32([0.5, 0.5, 0.5, 0.5, 0.5, 0.3, -1, 1.5, 0.5]))),
    ("multinomial", (10, RATES[0] / 99)),
    ("multivariate_normal", (np.zeros(2, "float32"), MATRIX)),
    ("multivariate_normal", (np.zeros(2, "int32"), MATRIX, (4, 5), None, "svd")),
    ("multivariate_normal", (np.ones((3, 2), "float32"), MATRIX, (4, 3), "float16", "eigh")),
    ("orthogonal", (4,)), ("orthogonal", (4, (2, 3), None, 2)), ("orthogonal", (2, 3, complex, 3)),
    ("orthogonal", (0,)),
]


def same_bits(name, *args, **kwargs):
    theirs = getattr(jax.random, name)(jax.random.key(7), *args, **kwargs)
    ours = getattr(mjax.random, name)(mjax.random.key(7), *args, **kwargs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert ours.weak_type == theirs.weak_type
    assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize("name, args", EXACT, ids=lambda v: v if isinstance(v, str) else "")
def test_bits_of_distributions(name, args):
    same_bits(name, *args)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name, args", EXACT, ids=lambda v: v if isinstance(v, str) else "")
def test_bits_of_distributions_of_each_dtype(name, args, dtype):
    with settings(enable_x64=dtype == "float64"):
        narrow = tuple(x.astype(dtype) if isinstance(x, np.ndarray) else x for x in args)
        same_bits(name, *narrow, dtype=dtype)


@pytest.mark.parametrize("name, args", EXACT_COUNTS, ids=lambda v: v if isinstance(v, str) else "")
def test_bits_of_counts_and_vectors(name, args):
    same_bits(name, *args)


def test_bits_of_multinomial():
    same_bits("multinomial", np.arange(4) * 20, RATES[0] / 99, shape=(4, 4))
    same_bits("multinomial", 10, RATES[0] / 99, dtype="float16", unroll=2)


@pytest.mark.parametrize("impl", ["rbg", "philox2x32"])
def test_gamma_of_other_generators(impl):
    same("gamma", RATES, impl=impl)


def test_batches_of_gamma():
    keys = [m.random.split(m.random.key(3), 4) for m in (mjax, jax)]
    for in_axes in ((0, None), (None, 1), (0, 1)):
        for log in (False, True):
            ours, theirs = [m.vmap(m.random.loggamma if log else m.random.gamma, in_axes)(
                k if in_axes[0] == 0 else k[0], RATES)
                for m, k in zip((mjax, jax), keys, strict=True)]
            compare(ours, theirs)


def test_primitive_of_gamma():
    keys = [m.random.split(m.random.key(3), 2) for m in (mjax, jax)]
    compare(*[m.random.random_gamma_p.bind(k, m.numpy.asarray(RATES), log_space=False)
              for m, k in zip((mjax, jax), keys, strict=True)])


def test_derivatives_of_gamma():
    def slopes(m):
        def loss(a):
            r = m.random
            parts = (r.gamma(r.key(1), a) ** 2, r.loggamma(r.key(2), a), r.beta(r.key(3), a, 2.0))
            return sum(part.sum() for part in parts)

        return m.grad(loss)(RATES), m.jvp(loss, (RATES,), (RATES,))

    for ours, theirs in zip(mjax.tree.leaves(slopes(mjax)), jax.tree.leaves(slopes(jax)),
                            strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-4)


# ---- programs --------------------------------------------------------------------------


def primitives(jaxpr):
    """Names of primitives in order, those of inner jaxprs in place of `jit`."""
    names = []
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr")
        names += primitives(getattr(inner, "jaxpr", inner)) if inner else [eqn.primitive.name]
    return names


@pytest.mark.parametrize("f", [
    lambda r: lambda k: r.split(k), lambda r: lambda k: r.fold_in(k, 3),
    lambda r: lambda k: r.bits(k, (3,)), lambda r: lambda k: r.key_data(k),
    lambda r: lambda k: r.wrap_key_data(r.key_data(k)), lambda r: lambda k: r.clone(k)])
def test_jaxprs(f):
    ours = mjax.make_jaxpr(f(mjax.random))(mjax.random.key(0))
    theirs = jax.make_jaxpr(f(jax.random))(jax.random.key(0))
    assert primitives(ours.jaxpr) == primitives(theirs.jaxpr)


def test_gradients_through_samples():
    def loss(library):
        def f(mean, scale):
            r = library.random
            x = r.uniform(r.key(0), (4,), minval=mean, maxval=mean + scale)
            return (x * r.truncated_normal(r.key(1), -scale, scale, (4,))).sum()
        return f

    ours = mjax.grad(loss(mjax), (0, 1))(0.5, 2.0)
    theirs = jax.grad(loss(jax), (0, 1))(0.5, 2.0)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


# ---- errors ----------------------------------------------------------------------------

BAD = [
    ("split", (3,), {}), ("bits", (3,), {}), ("normal", (np.zeros(3, np.uint32),), {}),
    ("key", (3.0,), {}), ("key", ([1, 2],), {}), ("key", (0,), {"impl": "nothing"}),
    ("key", (2**64,), {}), ("wrap_key_data", (np.zeros(2, np.int32),), {}),
    ("wrap_key_data", (np.zeros(3, np.uint32),), {}),
]
BAD_WITH_KEY = [
    ("normal", ((2.0,),)), ("normal", ((2,), "int32")), ("uniform", ((2,), "int32")),
    ("bits", ((2,), "int32")), ("split", (2.5,)), ("fold_in", (np.arange(3),)), ("fold_in", (-1,)),
    ("fold_in", (2**40,)), ("bernoulli", (1,)), ("bernoulli", (np.zeros(3, np.float32), (2,))),
    ("bernoulli", (0.5, (), "middle")),
    ("randint", ((2,), np.zeros(3, np.int32), 5)), ("permutation", (2.5,)),
    ("permutation", (np.arange(4), 1)), ("choice", (5, (6,), False)), ("choice", (0,)),
    ("choice", (5, (), True, np.ones(4, np.float32))), ("gumbel", ((), None, "middle")),
    ("categorical", (np.ones((3, 4), np.float32), -1, (2,))),
    ("categorical", (np.ones((3, 4), np.float32), -1, (5, 3), False)),
    ("truncated_normal", (np.zeros(3, np.float32), 1.0, (2,))),
    ("gamma", (np.ones(3, np.float32), (2,))), ("gamma", (1.0, (), "int32")),
    ("dirichlet", (1.0,)), ("dirichlet", (np.ones((2, 3), np.float32), (3,))),
    ("poisson", (1.0, (), "float32")), ("poisson", (np.ones(3), (2,))), ("ball", (2.5,)),
    ("ball", (-1,)), ("ball", (2, 2, (), "int32")), ("binomial", (10, 0.5, (), "int32")),
    ("binomial", ([10], 0.5)), ("binomial", (10, np.ones(3), (2,))), ("multinomial", (10, 0.5)),
    ("multivariate_normal", (np.zeros(3), np.eye(2))), ("multivariate_normal", (0.0, np.eye(2))),
    ("multivariate_normal", (np.zeros(2), np.ones(2))), ("orthogonal", (-1,)),
    ("multivariate_normal", (np.zeros(2), np.eye(2), None, None, "lu")), ("orthogonal", (2.5,)),
    ("multivariate_normal", (np.zeros((4, 2)), np.eye(2), (3,))), ("orthogonal", (2, (), "int32")),
    ("lognormal", (np.zeros(3, np.float32), (2,))), ("geometric", (0.5, (), "float32")),
]


@pytest.mark.parametrize("name, args, kwargs", BAD, ids=str)
def test_errors(name, args, kwargs):
    with pytest.raises(Exception) as theirs:
        getattr(jax.random, name)(*args, **kwargs)
    with pytest.raises(theirs.type):
        getattr(mjax.random, name)(*args, **kwargs)


@pytest.mark.parametrize("name, args", BAD_WITH_KEY, ids=str)
def test_errors_with_a_key(name, args):
    with pytest.raises(Exception) as theirs:
        getattr(jax.random, name)(jax.random.key(0), *args)
    with pytest.raises(theirs.type):
        getattr(mjax.random, name)(mjax.random.key(0), *args)


@pytest.mark.parametrize("name, args", [
    ("split", ()), ("fold_in", (1,)), ("bits", ()), ("normal", ()), ("randint", ((), 0, 5)),
    ("permutation", (5,)), ("categorical", (ROW,)), ("choice", (5,))])
def test_several_keys_are_refused(name, args):
    for library in (jax, mjax):
        keys = library.random.split(library.random.key(0), 3)
        with pytest.raises(ValueError, match="vmap"):
            getattr(library.random, name)(keys, *args)
