"""Key arrays: their dtype, the primitives on them, generators of one's own, threefry's hash."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest

import mjax
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, physical_aval
from mjax._engine.primitives import keys as K
from mjax._engine.primitives.barrier import optimization_barrier
from mjax._engine.primitives.rng import (
    RandomAlgorithm,
    rbg_prng,
    rng_bit_generator,
    rng_uniform,
    unsafe_rbg_prng,
)
from mjax._engine.primitives.threefry import (
    iota_2x32_shape_p,
    threefry2x32_p,
    threefry_2x32,
    threefry_prng,
)
from tests.engine.primitives.harness import Case, table

IMPLS = [threefry_prng, rbg_prng, unsafe_rbg_prng]
each_impl = pytest.mark.parametrize("impl", IMPLS, ids=str)


def seeded(seed, impl=threefry_prng):
    return K.random_seed_p.bind(np.int32(seed), impl=impl)


def data(keys):
    return np.asarray(K.unwrap(keys))


# ---- the hash --------------------------------------------------------------------------


def threefry(k1, k2, x, y):
    """Threefry-2x32 with 20 rounds, as the paper states it, for Python integers."""
    mask = 2**32 - 1
    key = [k1, k2, k1 ^ k2 ^ 0x1BD11BDA]
    x, y = (x + k1) & mask, (y + k2) & mask
    for i in range(20):
        x = (x + y) & mask
        d = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        y = ((y << d | y >> (32 - d)) & mask) ^ x
        if i % 4 == 3:
            group = i // 4 + 1
            x, y = (x + key[group % 3]) & mask, (y + key[(group + 1) % 3] + group) & mask
    return x, y


def threefry_reference(*operands):
    broadcast = np.broadcast_arrays(*operands)
    out = np.array([threefry(*map(int, row)) for row in zip(*map(np.ravel, broadcast),
                                                           strict=True)], np.uint32)
    return [out.reshape(-1, 2)[:, i].reshape(broadcast[0].shape) for i in (0, 1)]


def words(rng, shape, dtype):
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


def unsigned(width):
    return lambda rng, shape, dtype: rng.integers(0, 2**width, shape, dtype=dtype)


def on_data(f):
    """A function of keys as one of the numbers behind them."""
    def g(raw, *args):
        out = f(K.wrap(raw, threefry_prng), *args)
        return K.unwrap(out) if K.is_key_dtype(out.dtype) else out
    return g


def split_reference(key):
    hashes = threefry_reference(*key, np.zeros(6, np.uint32), np.arange(6, dtype=np.uint32))
    return np.stack(hashes, -1).reshape(2, 3, 2)


def bits_reference(key, width, size):
    high, low = threefry_reference(*key, np.zeros(size, np.uint32),
                                   np.arange(size, dtype=np.uint32))
    if width == 64:
        return high.astype(np.uint64) << np.uint64(32) | low
    return (high ^ low).astype(f"uint{width}")


CASES = [
    # Two operands at a time: programs of hundreds of hashes take their time to compile.
    Case("threefry2x32", lambda x, y: threefry2x32_p.bind(np.uint32(3), np.uint32(5), x, y),
         lambda x, y: threefry_reference(3, 5, x, y), "u32[] u32[]; u32[3] u32[3]", draw=words,
         order=0),
    Case("threefry2x32", lambda k, x: threefry2x32_p.bind(np.uint32(3), k, x, x),
         lambda k, x: threefry_reference(3, k, x, x), "u32[] u32[2]", draw=words, order=0,
         label="key"),
    Case("iota_2x32_shape", lambda: iota_2x32_shape_p.bind(shape=(2, 3)), lambda: (
        np.zeros((2, 3), np.uint32), np.arange(6, dtype=np.uint32).reshape(2, 3)), "", order=0),
    Case("random_seed", lambda s: K.unwrap(K.random_seed_p.bind(s, impl=threefry_prng)),
         lambda s: np.stack([np.zeros_like(s), s], -1).astype(np.uint32), "T[]; T[3]",
         T="i32 u32 i8", native=True, order=0),
    Case("random_split", on_data(lambda k: K.random_split_p.bind(k, shape=(2, 3))),
         split_reference, "u32[2]", draw=words, order=0),
    *(Case("random_bits", on_data(partial(K.random_bits_p.bind, bit_width=w, shape=(5,))),
           partial(bits_reference, width=w, size=5), "u32[2]", draw=words, result=f"u{w}",
           order=0, label=str(w)) for w in (32, 8, 16, 64)),
    Case("random_fold_in", on_data(K.random_fold_in_p.bind), lambda key, number: np.stack(
        threefry_reference(*key, np.uint32(0), number), -1), "u32[2] u32[]", draw=words, order=0),
    Case("random_wrap", on_data(lambda k: k), lambda key: key, "u32[2]; u32[3,2]", order=0),
    Case("random_unwrap", on_data(lambda k: k), lambda key: key, "u32[2]", order=0),
    Case("random_clone", on_data(K.random_clone_p.bind), lambda key: key, "u32[2]", order=0),
    Case("optimization_barrier", lambda x, y: optimization_barrier((x, y)), lambda x, y: (x, y),
         "T[3] T[2,2]", T="f32 c64 i32 bool", linear=[(0, 1)]),
    Case("rng_bit_generator", lambda: rng_bit_generator(np.arange(4, dtype=np.uint32), (3,)),
         None, "", order=0),
    # Its numbers differ from program to program, so that only an empty range can be compared.
    Case("rng_uniform", lambda: rng_uniform(2.0, 2.0, (3,)), lambda: np.full(3, 2, np.float32), "",
         order=0),
]


@table(CASES)
def test_rules(check, sample):
    check(sample)


def test_known_answers():
    """The test vectors of the authors of threefry."""
    ones = np.uint32(2**32 - 1)
    for k1, k2, x, y, expected in (
            (0, 0, 0, 0, (0x6B200159, 0x99BA4EFE)),
            (ones, ones, ones, ones, (0x1CB996FC, 0xBB002BE7)),
            (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3, (0xC4923A9C, 0x483DF7A0))):
        out = threefry2x32_p.bind(*map(np.uint32, (k1, k2, x, y)))
        assert tuple(int(v) for v in out) == expected


def test_keys_and_counters_stretch():
    k1, k2, x, y = [np.arange(n, dtype=np.uint32).reshape(shape)
                    for n, shape in ((2, (2, 1)), (2, (2, 1)), (3, (1, 3)), (6, (2, 3)))]
    for operands in ((k1, k2, x, y), (k1, np.uint32(5), x, x), (k1[0, 0], k2, y, x)):
        for out, expected in zip(threefry2x32_p.bind(*operands), threefry_reference(*operands),
                                 strict=True):
            np.testing.assert_array_equal(np.asarray(out), expected)


def test_threefry_2x32_pairs_halves():
    key = np.array([7, 9], np.uint32)
    count = np.arange(5, dtype=np.uint32)
    left, right = threefry_reference(*key, np.uint32([0, 1, 2]), np.uint32([3, 4, 0]))
    np.testing.assert_array_equal(np.asarray(threefry_2x32(key, count)), [*left, *right[:2]])


def test_threefry_takes_uint32_alone():
    with pytest.raises(TypeError, match="threefry2x32 takes arrays of uint32, got int32"):
        threefry2x32_p.bind(*[np.int32(0)] * 4)


def test_positions():
    high, low = iota_2x32_shape_p.bind(shape=(2, 3))
    np.testing.assert_array_equal(np.asarray(high), np.zeros((2, 3)))
    np.testing.assert_array_equal(np.asarray(low), [[0, 1, 2], [3, 4, 5]])
    # Beyond 2**32 elements, computed only where it is read.
    f = mjax.jit(lambda: mjax.lax.slice(iota_2x32_shape_p.bind(shape=(3, 2**31, 2))[0],
                                        (0, 0, 1), (3, 1, 2)))
    np.testing.assert_array_equal(np.asarray(f()).ravel(), [0, 1, 2])


# ---- the dtype -------------------------------------------------------------------------


@each_impl
def test_key_dtype(impl):
    key = seeded(0, impl)
    dtype = key.dtype
    assert dtype is K.KeyType(impl)
    assert str(dtype) == repr(dtype) == f"key<{impl.tag}>"
    assert dtypes.issubdtype(dtype, dtypes.prng_key)
    assert dtypes.issubdtype(dtype, dtypes.extended)
    assert not dtypes.issubdtype(dtype, np.integer)
    assert dtype != np.dtype("uint32")
    assert dtype.itemsize == 4 * impl.key_shape[0]
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    assert physical_aval(ShapedArray((3,), dtype)) is ShapedArray((3, *impl.key_shape), np.uint32)
    assert key.aval.to_tangent().dtype == dtypes.float0
    assert (key.shape, key.ndim, key.size) == ((), 0, 1)


def test_key_arrays_are_not_numbers():
    key = seeded(0)
    with pytest.raises(TypeError, match="holds keys, not numbers"):
        np.asarray(key)
    with pytest.raises(TypeError, match="add"):
        mjax.lax.add(key, key)
    with pytest.raises(TypeError, match="keys are not numbers"):
        mjax.lax.convert_element_type(key, np.float32)
    with pytest.raises(TypeError):
        float(key)


@each_impl
def test_key_arrays_are_copied_pickled_and_shown(impl):
    keys = K.random_split_p.bind(seeded(5, impl), shape=(2,))
    for same in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys), mjax.device_get([keys])[0]):
        assert isinstance(same, mjax.Array)
        assert same.aval is keys.aval
        np.testing.assert_array_equal(data(same), data(keys))
    assert repr(keys) == f"Array((2,), dtype=key<{impl.tag}>) overlaying:\n{data(keys)}"
    assert f"{keys}" == str(keys) == repr(keys)
    keys.delete()
    assert "deleted" in repr(keys)
    with pytest.raises(RuntimeError, match="has been deleted"):
        pickle.dumps(keys)


@each_impl
def test_equality_of_keys(impl):
    lax = mjax.lax
    keys = K.random_split_p.bind(seeded(5, impl), shape=(3,))
    key = lax.unstack(keys)[1]
    for f, truth in ((lax.eq, lambda x, y: (x == y).all(-1)),
                     (lax.ne, lambda x, y: (x != y).any(-1))):
        for x, y in ((keys, lax.rev(keys, (0,))), (key, key), (keys, key), (key, keys)):
            expected = truth(data(x), data(y))
            for out in (f(x, y), mjax.jit(f)(x, y)):
                assert (out.shape, out.dtype) == (expected.shape, np.bool_)
                np.testing.assert_array_equal(np.asarray(out), expected)
        np.testing.assert_array_equal(np.asarray(mjax.vmap(f, (0, None))(keys, key)),
                                      truth(data(keys), data(key)))
    with pytest.raises(TypeError, match="same dtypes"):
        lax.eq(key, np.uint32(1))
    with pytest.raises(TypeError, match="lt does not accept dtype key"):
        lax.lt(key, key)


def test_keys_of_one_number():
    dtype = K.KeyType(threefry_prng)
    full = lambda: mjax.lax.full((3,), 7, dtype)
    for f in (full, mjax.jit(full),
              lambda: mjax.lax.full_like(K.random_split_p.bind(seeded(0), shape=(3,)), 7)):
        assert f().dtype is dtype
        np.testing.assert_array_equal(data(f()), np.full((3, 2), 7))


def test_printed_jaxpr():
    jaxpr = mjax.make_jaxpr(lambda s: K.unwrap(K.random_split_p.bind(
        K.random_seed_p.bind(s, impl=threefry_prng), shape=(2,))))(np.int32(0))
    assert str(jaxpr).splitlines()[1:] == [
        "    b:key<fry>[] = random_seed[impl=fry] a",
        "    c:key<fry>[2] = random_split[shape=(2,)] b",
        "    d:u32[2,2] = random_unwrap c",
        "  in (d,) }"]


# ---- primitives on keys ----------------------------------------------------------------

OPERATIONS = {
    "split": lambda k: K.random_split_p.bind(k, shape=(2, 3)),
    "bits8": lambda k: K.random_bits_p.bind(k, bit_width=8, shape=(5,)),
    "bits32": lambda k: K.random_bits_p.bind(k, bit_width=32, shape=(2, 3)),
    "bits of none": lambda k: K.random_bits_p.bind(k, bit_width=16, shape=(0, 2)),
    "fold_in": lambda k: K.random_fold_in_p.bind(k, np.uint32(3)),
    "wrap": lambda k: K.wrap(K.unwrap(k), threefry_prng),
    "clone": lambda k: K.random_clone_p.bind(k),
}


def plain(x):
    return data(x) if K.is_key_dtype(x.dtype) else np.asarray(x)


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_batches_of_keys_are_loops(name, partitionable):
    """In every position, nested, and natively on arrays of keys; eager and jitted."""
    f = OPERATIONS[name]
    with mjax.threefry_partitionable(partitionable):
        keys = K.random_split_p.bind(seeded(3), shape=(4, 2))
        each = mjax.lax.unstack(mjax.lax.reshape(keys, (8,)))
        loop = np.stack([plain(f(k)) for k in each])
        loop = loop.reshape(4, 2, *loop.shape[1:])
        np.testing.assert_array_equal(plain(f(keys)), loop)
        np.testing.assert_array_equal(plain(mjax.vmap(mjax.vmap(f))(keys)), loop)
        np.testing.assert_array_equal(plain(mjax.jit(mjax.vmap(f))(keys)), loop)
        np.testing.assert_array_equal(plain(mjax.vmap(f, in_axes=1, out_axes=1)(keys)), loop)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_fold_in_batches(axes):
    keys, numbers = K.random_split_p.bind(seeded(0), shape=(3,)), np.arange(3, dtype=np.uint32)
    f = K.random_fold_in_p.bind
    first = mjax.lax.unstack(keys)
    args = [keys if axes[0] == 0 else first[0], numbers if axes[1] == 0 else numbers[1]]
    expected = [data(f(first[i if axes[0] == 0 else 0], numbers[i if axes[1] == 0 else 1]))
                for i in range(3)]
    np.testing.assert_array_equal(data(mjax.vmap(f, in_axes=axes)(*args)), np.stack(expected))


@pytest.mark.parametrize("axes", [(None, 0), (0, None)])
def test_fold_in_batches_of_one_in_batches(axes):
    keys, numbers = K.random_split_p.bind(seeded(0), shape=(3, 1)), np.uint32([[5], [6], [7]])
    f = K.random_fold_in_p.bind
    one = mjax.lax.index_in_dim
    args = [keys if axes[0] == 0 else one(keys, 0, keepdims=False),
            numbers if axes[1] == 0 else numbers[0]]
    expected = [data(f(one(one(keys, i if axes[0] == 0 else 0, keepdims=False), 0, keepdims=False),
                       numbers[i if axes[1] == 0 else 0, 0])) for i in range(3)]
    found = mjax.jit(mjax.vmap(mjax.vmap(f), in_axes=axes))(*args)
    np.testing.assert_array_equal(data(found)[:, 0], np.stack(expected))


@each_impl
def test_unwrap_of_wrap_at_any_position(impl):
    raw = np.arange(2 * 3 * impl.key_shape[0], dtype=np.uint32).reshape(2, 3, *impl.key_shape)
    wrap = partial(K.wrap, impl=impl)
    for axis in (0, 1):
        keys = mjax.vmap(wrap, in_axes=axis, out_axes=axis)(raw)
        np.testing.assert_array_equal(data(keys), raw)


@each_impl
def test_seeds_in_batches(impl):
    seeds = np.array([[0, -1], [7, 2**31 - 1]], np.int32)
    f = partial(K.random_seed_p.bind, impl=impl)
    batch = data(f(seeds))
    np.testing.assert_array_equal(batch, data(mjax.vmap(mjax.vmap(f))(seeds)))
    np.testing.assert_array_equal(batch[1, 0], data(seeded(7, impl)))
    assert batch.shape == (2, 2, *impl.key_shape)


def test_seeds_of_64_bits():
    with mjax.enable_x64(True):
        key = K.random_seed_p.bind(np.int64(-3), impl=threefry_prng)
        np.testing.assert_array_equal(data(key), [2**32 - 1, 2**32 - 3])
    np.testing.assert_array_equal(data(seeded(-3)), [0, 2**32 - 3])


def test_other_generators_use_the_first_key_of_a_batch():
    keys = K.random_split_p.bind(seeded(0, rbg_prng), shape=(3,))
    bits = K.random_bits_p.bind(keys, bit_width=32, shape=(4,))
    first = mjax.lax.unstack(keys)[0]
    alone = K.random_bits_p.bind(first, bit_width=32, shape=(3, 4))
    np.testing.assert_array_equal(np.asarray(bits), np.asarray(alone))
    none = mjax.lax.slice(keys, (0,), (0,))
    assert K.random_bits_p.bind(none, bit_width=32, shape=(4,)).shape == (0, 4)


@each_impl
def test_keys_have_no_derivative(impl):
    def f(x):
        bits = K.random_bits_p.bind(seeded(0, impl), bit_width=32, shape=())
        return mjax.lax.mul(x, mjax.lax.convert_element_type(bits, np.float32))

    slope = mjax.grad(f)(1.0)
    assert float(slope) == float(f(1.0))


def test_old_mode_refuses_what_it_cannot_count():
    with mjax.threefry_partitionable(False), pytest.raises(
            ValueError, match="need the partitionable mode"):
        K.random_bits_p.bind(seeded(0), bit_width=32, shape=(2**16, 2**16))


def test_code_and_compile_time_are_linear_in_the_number_of_splits():
    """Hashes are not fused into one another: that would double the code with each split."""

    def chain(depth):
        def f(key):
            for _ in range(depth):
                key = mjax.lax.unstack(K.random_split_p.bind(key, shape=(2,)))[0]
            return key
        return f

    texts = [mjax.jit(chain(n)).lower(seeded(0)).compile().as_text() for n in (4, 8)]
    assert texts[1].count("\n") < 2.5 * texts[0].count("\n")


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: K.random_split_p.bind(np.zeros(2, np.uint32), shape=(2,)), TypeError,
     r"random_split needs an array of PRNG keys, got uint32\[2\]"),
    (lambda: K.random_bits_p.bind(seeded(0), bit_width=12, shape=()), TypeError, "8, 16, 32 or 64"),
    (lambda: K.random_fold_in_p.bind(seeded(0), np.int32(1)), TypeError, "of dtype uint32"),
    (lambda: K.wrap(np.zeros(3, np.uint32), threefry_prng), TypeError, r"ends with \(2,\), got"),
    (lambda: K.wrap(np.zeros(2, np.int32), threefry_prng), TypeError, "must have dtype uint32"),
    (lambda: K.wrap(np.uint32(0), threefry_prng), TypeError, r"ends with \(2,\)"),
    (lambda: K.random_seed_p.bind(1.5, impl=threefry_prng), TypeError, "must be an integer"),
    (lambda: K.unwrap(np.zeros(2, np.uint32)), TypeError, "random_unwrap needs an array of PRNG"),
    (lambda: K.resolve_impl("nothing"), ValueError,
     "Known ones: .*'rbg', 'threefry2x32', .*'unsafe_rbg'"),
    (lambda: K.resolve_impl(3), TypeError, "impl must be the name of a PRNG implementation"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# ---- generators of one's own -----------------------------------------------------------


def counting_prng(name="counting"):
    """A generator whose bits are its seed and the position."""
    lax = mjax.lax

    def split(keys, shape):
        return lax.add(keys, np.uint32(1)) if shape == () else mjax.lax.broadcast_in_dim(
            keys, (*keys.shape[:-1], *shape, 1),
            (*range(keys.ndim - 1), keys.ndim - 1 + len(shape)))

    def random_bits(keys, bit_width, shape):
        start = lax.reshape(keys, (*keys.shape[:-1], *(1,) * len(shape)))
        counts = lax.reshape(lax.iota(np.uint32, int(np.prod(shape))),
                             (*(1,) * (keys.ndim - 1), *shape))
        return lax.convert_element_type(lax.add(start, counts), f"uint{bit_width}")

    return K.PRNGImpl(
        (1,), lambda seeds: lax.expand_dims(
            lax.convert_element_type(seeds, np.uint32), (seeds.ndim,)),
        split, random_bits, lambda keys, number: lax.add(keys, lax.expand_dims(number, (
            number.ndim,))), name, "cnt", takes_batches=True)


def test_a_generator_of_ones_own():
    impl = counting_prng()
    key = seeded(40, impl)
    assert str(key.dtype) == "key<cnt>"
    np.testing.assert_array_equal(np.asarray(K.random_bits_p.bind(key, bit_width=8, shape=(3,))),
                                  [40, 41, 42])
    np.testing.assert_array_equal(data(K.random_fold_in_p.bind(key, np.uint32(2))), [42])
    seeds = np.array([1, 10], np.int32)
    f = mjax.vmap(lambda s: K.random_bits_p.bind(K.random_seed_p.bind(s, impl=impl), bit_width=16,
                                                 shape=(2,)))
    np.testing.assert_array_equal(np.asarray(f(seeds)), [[1, 2], [10, 11]])
    assert K.spec_of(impl) == K.PRNGSpec(impl) != K.spec_of(threefry_prng)
    assert K.resolve_impl(K.PRNGSpec(impl)) is K.resolve_impl(key.dtype) is impl
    assert len({K.PRNGSpec(impl), K.PRNGSpec(impl)}) == 1
    with pytest.raises((AttributeError, pickle.PicklingError), match="counting_prng.<locals>"):
        pickle.dumps(impl)  # functions are pickled by their names


def test_the_registry(monkeypatch):
    monkeypatch.setattr(K, "registry", dict(K.registry))
    impl = K.register_prng(counting_prng("mine"))
    assert K.resolve_impl("mine") is impl
    assert K.spec_of(impl) == "mine"
    assert K.register_prng(impl) is impl
    with pytest.raises(ValueError, match="'mine' is already registered"):
        K.register_prng(counting_prng("mine"))


# ---- XLA's generators ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("algorithm", RandomAlgorithm, ids=str)
def test_rng_bit_generator(algorithm, dtype):
    with mjax.enable_x64(True):
        key = np.array([3, 9], np.uint64)
        state, bits = rng_bit_generator(key, (1000,), dtype, algorithm)
        assert (state.shape, state.dtype) == ((2,), np.uint64)
        assert (bits.shape, bits.dtype) == ((1000,), np.dtype(dtype))
        again = rng_bit_generator(key, (1000,), dtype, algorithm)[1]
        np.testing.assert_array_equal(np.asarray(bits), np.asarray(again))
        after = rng_bit_generator(state, (1000,), dtype, algorithm)[1]
        assert not np.array_equal(np.asarray(after), np.asarray(bits))
        mean = np.asarray(bits).astype(float).mean() / 2.0 ** (8 * bits.dtype.itemsize)
        assert abs(mean - 0.5) < 0.05


def test_rng_bit_generator_key_of_four_words():
    with mjax.enable_x64(True):
        wide = rng_bit_generator(np.array([1 + (2 << 32), 3 + (4 << 32)], np.uint64), (5,))
        narrow = rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (5,))
        np.testing.assert_array_equal(np.asarray(wide[1]), np.asarray(narrow[1]))
        np.testing.assert_array_equal(np.asarray(wide[0]).view(np.uint32), np.asarray(narrow[0]))


def test_rng_bit_generator_gives_a_tuple():
    key, f = np.arange(4, dtype=np.uint32), lambda k: rng_bit_generator(k, (2,))
    assert {type(g(key)) for g in (f, mjax.jit(f))} == {type(mjax.vmap(f)(key[None]))} == {tuple}


def test_rng_bit_generator_batches():
    keys = np.arange(12, dtype=np.uint32).reshape(3, 4)
    state, bits = mjax.vmap(lambda k: rng_bit_generator(k, (5,)))(keys)
    one_state, one_bits = rng_bit_generator(keys[0], (3, 5))
    np.testing.assert_array_equal(np.asarray(bits), np.asarray(one_bits))
    np.testing.assert_array_equal(np.asarray(state), [np.asarray(one_state), *keys[1:]])


def test_rng_bit_generator_of_an_empty_batch():
    keys = np.zeros((0, 4), np.uint32)
    for f in (lambda k: rng_bit_generator(k, (5,), np.uint8), mjax.jit(
            lambda k: rng_bit_generator(k, (5,), np.uint8))):
        state, bits = mjax.vmap(f)(keys)
        assert (state.shape, state.dtype) == ((0, 4), np.uint32)
        assert (bits.shape, bits.dtype) == ((0, 5), np.uint8)


def test_rng_uniform():
    out = np.asarray(rng_uniform(np.float32(2), np.float32(5), (1000,)))
    assert out.dtype == np.float32
    assert 2 <= out.min() < 2.1 < 4.9 < out.max() < 5
    ints = np.asarray(rng_uniform(np.int32(0), np.int32(3), (100,)))
    assert set(ints.tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="one dtype, got float32 and int32"):
        rng_uniform(0.0, 1, (3,))
    with pytest.raises(ValueError, match=r"scalars, got shapes \(2,\) and \(\)"):
        rng_uniform(np.zeros(2, np.float32), np.float32(1), (3,))


def test_rng_bit_generator_errors():
    with pytest.raises(TypeError, match=r"uint32\[4\] or uint64\[2\], got uint32\[2\]"):
        rng_bit_generator(np.zeros(2, np.uint32), (3,))
    with pytest.raises(TypeError, match="unsigned integers of 8, 16, 32 or 64 bits, not int32"):
        rng_bit_generator(np.zeros(4, np.uint32), (3,), np.int32)
