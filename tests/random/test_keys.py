"""Keys as users see them: seeds, splits, folds, raw data, batches, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from tests.marks import some
from tests.random.statistics import check_continuous

IMPLS = ["threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"]
each_impl = pytest.mark.parametrize("impl", [
    pytest.param(impl, marks=[] if impl in IMPLS[:2] else [pytest.mark.slow]) for impl in IMPLS])


def data(key):
    return np.asarray(random.key_data(key))


def words(keys):
    return {tuple(row) for row in data(keys).reshape(-1, data(keys).shape[-1]).tolist()}


@pytest.mark.parametrize("impl", IMPLS)
def test_key(impl):
    key = random.key(3, impl=impl)
    assert key.shape == ()
    assert key.dtype == random.key_dtype(impl)
    assert mjax.dtypes.issubdtype(key.dtype, mjax.dtypes.prng_key)
    assert random.key_impl(key) == impl
    assert random.key(3, dtype=key.dtype).dtype is key.dtype
    np.testing.assert_array_equal(data(key), data(random.key(3, impl=impl)))
    assert data(key).tolist() != data(random.key(4, impl=impl)).tolist()


def test_default_implementation_is_a_setting():
    assert random.key_impl(random.key(0)) == "threefry2x32"
    with mjax.default_prng_impl("rbg"):
        assert random.key_impl(random.key(0)) == "rbg"
        assert random.key_dtype() == random.key_dtype("rbg")
        assert random.PRNGKey(0).shape == (4,)
        assert random.key_impl(random.PRNGKey(0)) == "rbg"


def test_seeds_of_any_integer_type():
    for seed in (7, np.int8(7), np.uint64(7), np.array(7), mjax.device_put(np.int32(7))):
        np.testing.assert_array_equal(data(random.key(seed)), [0, 7])
    np.testing.assert_array_equal(data(random.key(-1)), [0, 2**32 - 1])
    np.testing.assert_array_equal(data(random.key(2**32 + 5)), [0, 5])
    with mjax.enable_x64(True):
        np.testing.assert_array_equal(data(random.key(2**32 + 5)), [1, 5])
        np.testing.assert_array_equal(data(random.key(-1)), [2**32 - 1, 2**32 - 1])
    np.testing.assert_array_equal(data(mjax.jit(random.key)(7)), [0, 7])


@each_impl
def test_old_style_keys_are_the_data_of_new_ones(impl):
    raw = random.PRNGKey(5, impl=impl)
    assert raw.dtype == np.uint32
    np.testing.assert_array_equal(np.asarray(raw), data(random.key(5, impl=impl)))


@each_impl
@pytest.mark.parametrize("num", [1, 3, (2, 3), (), 0])
def test_split(num, impl):
    key = random.key(0, impl=impl)
    keys = random.split(key, num)
    assert keys.shape == ((num,) if isinstance(num, int) else num)
    assert keys.dtype == key.dtype
    assert len(words(keys) | words(key)) == keys.size + 1
    np.testing.assert_array_equal(data(keys), data(random.split(key, num)))
    np.testing.assert_array_equal(data(keys), data(mjax.jit(
        lambda k: random.split(k, num))(key)))


def test_split_gives_two():
    assert random.split(random.key(0)).shape == (2,)
    np.testing.assert_array_equal(data(random.split(random.key(0), np.int64(3))),
                                  data(random.split(random.key(0), [3])))


@each_impl
def test_fold_in(impl):
    key = random.key(0, impl=impl)
    folded = [random.fold_in(key, i) for i in range(5)]
    assert len(set().union(words(key), *map(words, folded))) == 6
    np.testing.assert_array_equal(data(folded[3]), data(random.fold_in(key, np.int8(3))))
    np.testing.assert_array_equal(data(folded[3]), data(mjax.jit(random.fold_in)(key, 3)))
    largest = random.fold_in(key, 2**32 - 1)
    np.testing.assert_array_equal(data(largest), data(random.fold_in(key, np.int32(-1))))


RAW = {
    "split": lambda k: random.split(k, 3), "fold_in": lambda k: random.fold_in(k, 3),
    "clone": random.clone, "bits": lambda k: random.bits(k, (3,)),
    "normal": lambda k: random.normal(k, (3,)), "randint": lambda k: random.randint(k, (3,), 0, 9),
    "bernoulli": lambda k: random.bernoulli(k, 0.5, (3,)),
    "permutation": lambda k: random.permutation(k, 5),
    "categorical": lambda k: random.categorical(k, np.zeros(3, np.float32), shape=(5,)),
}


@each_impl
@pytest.mark.parametrize("name", some(RAW, 3))
def test_raw_keys_work_as_typed_ones(name, impl):
    typed = RAW[name](random.key(1, impl=impl))
    typed = random.key_data(typed) if name in ("split", "fold_in", "clone") else typed
    with mjax.default_prng_impl(impl):
        for raw in (random.PRNGKey(1), np.asarray(random.PRNGKey(1))):
            out = RAW[name](raw)
            assert out.dtype == typed.dtype
            np.testing.assert_array_equal(np.asarray(out), np.asarray(typed))


def test_key_data_and_back():
    keys = random.split(random.key(0), (2, 3))
    raw = random.key_data(keys)
    assert (raw.shape, raw.dtype) == ((2, 3, 2), np.uint32)
    again = random.wrap_key_data(raw)
    assert (again.shape, again.dtype) == (keys.shape, keys.dtype)
    np.testing.assert_array_equal(data(again), np.asarray(raw))
    np.testing.assert_array_equal(np.asarray(random.key_data(raw)), np.asarray(raw))
    four = np.arange(4, dtype=np.uint32)
    assert random.wrap_key_data(four, impl="rbg").dtype == random.key_dtype("rbg")
    assert random.wrap_key_data(four, dtype=random.key_dtype("rbg")).shape == ()


def test_clone_gives_the_same_numbers():
    key = random.key(0)
    np.testing.assert_array_equal(np.asarray(random.normal(random.clone(key), (3,))),
                                  np.asarray(random.normal(key, (3,))))


def test_keys_go_through_transformations():
    """A program with keys inside: jit, vmap over seeds and keys, grad through samples."""
    def noisy(x, key):
        key, subkey = lax.unstack(random.split(key))
        return lax.mul(x, lax.add(random.normal(key), random.uniform(subkey)))

    keys = random.split(random.key(0), 4)
    xs = np.arange(4, dtype=np.float32)
    each = [noisy(x, k) for x, k in zip(xs, lax.unstack(keys), strict=True)]
    together = mjax.jit(mjax.vmap(noisy))(xs, keys)
    np.testing.assert_allclose(np.asarray(together), [float(x) for x in each], rtol=1e-5)
    slopes = mjax.vmap(mjax.grad(noisy))(xs, keys)
    np.testing.assert_allclose(np.asarray(slopes)[1:], np.asarray(together)[1:] / xs[1:], rtol=1e-5)


def test_structural_operations_on_keys():
    keys = random.split(random.key(0), (2, 3))
    turned = lax.transpose(keys, (1, 0))
    assert turned.shape == (3, 2)
    np.testing.assert_array_equal(data(turned), data(keys).transpose(1, 0, 2))
    np.testing.assert_array_equal(data(lax.reshape(keys, (6,))), data(keys).reshape(6, 2))
    np.testing.assert_array_equal(data(lax.concatenate([keys, keys], 0)),
                                  np.concatenate([data(keys)] * 2))
    chosen = lax.select(np.array([[True, False, True]] * 2), keys, lax.rev(keys, (0,)))
    np.testing.assert_array_equal(data(chosen), np.where(
        np.array([True, False, True])[:, None], data(keys), data(keys)[::-1]))


@each_impl
def test_splits_are_independent(impl):
    """First numbers of many keys made of one are as random as many numbers of one key."""
    keys = random.split(random.key(0, impl=impl), 2000)
    check_continuous(mjax.vmap(random.uniform)(keys), "uniform")
    folded = mjax.vmap(lambda i: random.fold_in(random.key(0, impl=impl), i))(np.arange(2000))
    check_continuous(mjax.vmap(random.uniform)(folded), "uniform")


MASK = np.array([True, False, True])
#: Functions that move, compare or fill keys do the same to their numbers; `one` is a key or its
#: numbers, `x` and `y` three of them.
MOVES = {
    "index": lambda m, x, y, one: x[1], "slice": lambda m, x, y, one: x[::-1],
    "mask": lambda m, x, y, one: x[MASK], "indices": lambda m, x, y, one: x[np.array([2, 0])],
    "axis": lambda m, x, y, one: x[None], "take": lambda m, x, y, one: m.take(x, MASK * 1, axis=0),
    "concatenate": lambda m, x, y, one: m.concatenate([x, y]),
    "stack": lambda m, x, y, one: m.stack([x, y]), "flip": lambda m, x, y, one: m.flip(x, 0),
    "where": lambda m, x, y, one: m.where(MASK if m is jnp else MASK[:, None], x, one),
    "roll": lambda m, x, y, one: m.roll(x, 1, axis=0), "repeat": lambda m, x, y, one: m.repeat(
        x, 2, axis=0),
    "zeros_like": lambda m, x, y, one: m.zeros_like(x), "ones": lambda m, x, y, one: m.ones_like(y),
}


@each_impl
@pytest.mark.parametrize("name", MOVES)
def test_arrays_of_keys_are_arrays(name, impl):
    x, y = random.split(random.key(1, impl=impl), (2, 3))
    move = MOVES[name]
    expected = move(np, data(x), data(y), data(x)[0])
    for f in (move, lambda m, *args: mjax.jit(lambda *args: move(m, *args))(*args)):
        out = f(jnp, x, y, x[0])
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(data(out), expected)


@each_impl
def test_filled_updated_and_compared(impl):
    x = random.split(random.key(1, impl=impl), 3)
    for make, number in ((jnp.zeros, 0), (jnp.ones, 1), (jnp.empty, 0),
                         (lambda *args: jnp.full(args[0], 7, args[1]), 7)):
        out = make((2,), x.dtype)
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(data(out), np.full((2, *data(x).shape[1:]), number))
    np.testing.assert_array_equal(data(x.at[1:].set(x[0])), data(x)[[0, 0, 0]])
    np.testing.assert_array_equal(data(jnp.full((2,), x[1])), data(x)[[1, 1]])
    np.testing.assert_array_equal(np.asarray(x == x[1]), [False, True, False])
    np.testing.assert_array_equal(np.asarray(x != x[1]), [True, False, True])
    assert x[1] in x
    with pytest.raises(TypeError, match="equal does not accept dtypes key<.*>, int32 together"):
        x == 3  # noqa: B015


def test_programs_are_compiled_once():
    from mjax._numpy.random import common

    key, calls = random.key(0), []
    f = common.sampler(shape=common.shape_argument)(
        lambda key, *, shape: calls.append(shape) or random.normal(key, shape))
    for shape in ((3,), (3,), [3], np.array([3])):
        assert f(key, shape=shape).shape == (3,)
    assert calls == [(3,)]
    f(random.key(1, impl="rbg"), shape=(3,))
    assert calls == [(3,), (3,)]
    with pytest.raises(TypeError, match=r"shapes must be sequences of integers, got \(3.0,\)"):
        f(key, shape=(3.0,))


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: random.key(1.5), TypeError, "PRNG key seed must be an integer, got"),
    (lambda: random.key([1, 2]), TypeError, "is not a valid array"),
    (lambda: random.key(np.arange(3)), TypeError, "key takes a scalar seed.* mjax.vmap"),
    (lambda: random.PRNGKey(np.arange(3)), TypeError, "PRNGKey takes a scalar seed"),
    (lambda: random.key(random.key(0)), TypeError, "but was given a PRNG key"),
    (lambda: random.key(2**64), OverflowError, "18446744073709551616 does not fit into 64 bits"),
    (lambda: random.key(0, impl="nothing"), ValueError, "'nothing'. Known ones: .*'threefry2x32'"),
    (lambda: random.key(0, impl="rbg", dtype=random.key_dtype()), ValueError, "not both"),
    (lambda: random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg", dtype=random.key_dtype()),
     ValueError, "not both"),
    (lambda: random.split(0), TypeError, r"split needs a PRNG key, .* type ~int32\[\]"),
    (lambda: random.normal(np.zeros(3, np.float32)), TypeError,
     r"normal needs a PRNG key, as random.key makes, or raw key data .* shape \(2,\)"),
    (lambda: random.normal(np.zeros(3, np.uint32)), TypeError, "normal needs a PRNG key"),
    (lambda: random.normal((3,), (3,)), TypeError, "argument key must be a key"),
    (lambda: random.split(random.split(random.key(0))), ValueError,
     r"split takes one key, .* keys of shape \(2,\); use mjax.vmap"),
    (lambda: random.normal(np.zeros((3, 2), np.uint32)), ValueError, "normal takes one key"),
    (lambda: random.split(random.key(0), -1), TypeError, "split: .* negative sizes"),
    (lambda: random.split(random.key(0), 2.5), TypeError, "split: shapes must be"),
    (lambda: random.fold_in(random.key(0), np.arange(3)), TypeError, "fold_in takes a scalar"),
    (lambda: random.fold_in(random.key(0), random.key(1)), TypeError, "fold_in takes a scalar"),
    (lambda: random.fold_in(random.key(0), -1), OverflowError, r"in \[0, 2\*\*32\), got -1"),
    (lambda: random.key_data(3.0), TypeError, "key_data needs a PRNG key"),
    (lambda: random.key_impl(np.zeros(2)), TypeError, "key_impl needs a PRNG key"),
    (lambda: random.clone(3), TypeError, "clone needs a PRNG key"),
    (lambda: random.wrap_key_data(np.zeros(2)), TypeError, "must have dtype uint32"),
    (lambda: lax.sin(random.key(0)), TypeError, "sin does not accept dtype key<fry>"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_errors_under_jit_name_the_function():
    with pytest.raises(TypeError, match="uniform needs a PRNG key"):
        mjax.jit(lambda k: random.uniform(k, (2,)))(3)
    with pytest.raises(ValueError, match="bits takes one key"):
        mjax.jit(lambda k: random.bits(random.split(k), (2,)))(random.key(0))


def test_fold_in_refuses_what_is_no_integer() -> None:
    key = random.key(0)
    for data, error in ((math.nan, ValueError), (math.inf, OverflowError), (1j, TypeError)):
        with pytest.raises(error):
            random.fold_in(key, data)
    assert random.fold_in(key, 3.0) == random.fold_in(key, 3)
