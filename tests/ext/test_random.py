"""Generators of one's own: in all of mjax.random, transformations, pickles; and their checker."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
import mjax_ext.random as ext
from mjax import lax, random
from mjax_ext.check import WrongRulesError
from mjax_ext.random import threefry_prng_impl as fry

# A generator by a linear congruence: a reference for it is a line of NumPy.
A, C = np.uint32(1664525), np.uint32(1013904223)


def mixed(x):
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def seed(seed):
    assert seed.shape == ()
    return jnp.stack([seed.astype("uint32"), jnp.uint32(77)])[None]


def words(key, count):
    assert key.shape == (1, 2)
    at = jnp.arange(count, dtype="uint32") * A + C
    return mixed(mixed(at ^ key[0, 0]) + key[0, 1])


def split(key, shape):
    count = int(np.prod(shape))
    return jnp.stack([words(key, count), words(key ^ np.uint32(5), count)], -1).reshape(
        *shape, 1, 2)


def random_bits(key, bit_width, shape):
    count = int(np.prod(shape))
    if bit_width == 64:
        high, low = (words(key ^ np.uint32(n), count).astype("uint64") for n in (1, 2))
        return ((high << np.uint8(32)) | low).reshape(shape)
    bits = words(key, count) >> np.uint32(32 - bit_width)
    return bits.astype(f"uint{bit_width}").reshape(shape)


def fold_in(key, data):
    assert data.shape == () and data.dtype == jnp.uint32
    return key.at[0, 0].set(mixed(key[0, 0] + mixed(data + C)))


FIELDS = {"key_shape": (1, 2), "seed": seed, "split": split, "random_bits": random_bits,
          "fold_in": fold_in, "name": "mixer", "tag": "mix"}
IMPL = ext.define_prng_impl(**FIELDS)


def reference(key, count):
    at = np.arange(count, dtype=np.uint32) * A + C
    return mixed(mixed(at ^ key[0, 0]) + key[0, 1])


def test_bits():
    key = random.key(3, impl=IMPL)
    assert str(key.dtype) == "key<mix>" and key.shape == ()
    assert repr(key).splitlines()[0] == "Array((), dtype=key<mix>) overlaying:"
    data = np.array([[3, 77]], np.uint32)
    np.testing.assert_array_equal(random.key_data(key), data)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(random.bits(key, (5,)), reference(data, 5))
        children = reference(data, 2), reference(data ^ np.uint32(5), 2)
    np.testing.assert_array_equal(random.key_data(random.split(key)),
                                  np.stack(children, -1)[:, None])
    assert random.key_impl(key) == IMPL and random.key_dtype(IMPL) == key.dtype


@pytest.mark.slow
def test_all_of_mjax_random():
    key = random.key(3, impl=IMPL)
    many = random.uniform(key, (4000,))
    assert abs(float(many.mean()) - 0.5) < 0.03 and 0 <= float(many.min()) < float(many.max()) < 1
    assert abs(float(random.normal(key, (4000,)).std()) - 1) < 0.05
    assert sorted(np.asarray(random.permutation(key, 9))) == list(range(9))
    for f in (lambda k: random.gamma(k, 2.0, (3,)), lambda k: random.randint(k, (3,), 0, 9),
              lambda k: random.choice(k, 5, (2,)), lambda k: random.poisson(k, 3.0, (2,)),
              lambda k: random.categorical(k, jnp.zeros(4)),
              lambda k: random.bits(k, (2,), "uint8"),
              random.split, lambda k: random.clone(k), lambda k: random.fold_in(k, 7)):
        once, again = f(key), mjax.jit(f)(key)
        assert once.dtype == again.dtype
        np.testing.assert_array_equal(*[random.key_data(x) if "key" in str(x.dtype) else x
                                        for x in (once, again)])
    with mjax.enable_x64(True):
        assert random.bits(key, (2,), "uint64").dtype == np.uint64


def test_transformations_and_trees():
    keys = random.split(random.key(3, impl=IMPL), 4)
    f = lambda k: {"x": random.normal(k, (2,)), "key": random.fold_in(k, 1)}
    batch = mjax.vmap(f)(keys)
    single = [f(k) for k in keys]
    np.testing.assert_array_equal(batch["x"], np.stack([s["x"] for s in single]))
    for i in range(4):
        np.testing.assert_array_equal(random.key_data(batch["key"][i]),
                                      random.key_data(single[i]["key"]))
    nested = mjax.vmap(mjax.vmap(lambda k, n: random.fold_in(k, n)))(
        keys.reshape(2, 2), np.arange(4, dtype=np.uint32).reshape(2, 2))
    np.testing.assert_array_equal(random.key_data(nested[1, 0]),
                                  random.key_data(random.fold_in(keys[2], 2)))
    same = mjax.vmap(random.fold_in, in_axes=(0, None))(keys, 3)
    np.testing.assert_array_equal(random.key_data(same[1]), random.key_data(random.fold_in(
        keys[1], 3)))
    last, drawn = mjax.jit(lambda k: lax.scan(
        lambda k, _: (random.split(k)[0], random.bits(k)), k, length=3))(keys[0])
    key, expected = keys[0], []
    for _ in range(3):
        expected.append(random.bits(key))
        key = random.split(key)[0]
    np.testing.assert_array_equal(drawn, expected)
    assert last == key and mjax.tree.leaves({"k": keys})[0] is keys
    assert mjax.grad(lambda x, k: x * random.normal(k))(2.0, key) == random.normal(key)


def test_equal_definitions_are_one_generator():
    again = ext.define_prng_impl(**FIELDS)
    assert again == IMPL and hash(again) == hash(IMPL)
    assert random.key(0, impl=again).dtype is random.key(0, impl=IMPL).dtype
    assert ext.define_prng_impl(**FIELDS | {"tag": "other"}) != IMPL
    for protocol in range(2, 6):
        for value in IMPL, random.key(5, impl=IMPL), random.key_dtype(IMPL), fry:
            same = pickle.loads(pickle.dumps(value, protocol))
            assert same == value if hasattr(value, "shape") is False else bool(same == value)
    assert pickle.loads(pickle.dumps(IMPL)) == IMPL
    with mjax.default_prng_impl(IMPL):
        assert random.PRNGKey(3).shape == (1, 2)
        np.testing.assert_array_equal(random.bits(random.PRNGKey(3)), random.bits(
            random.key(3, impl=IMPL)))


def test_seeds_and_storage():
    impl = ext.PRNGImpl(*[FIELDS[f] for f in ("key_shape", "seed", "split", "random_bits",
                                              "fold_in", "name", "tag")])
    keys = ext.random_seed(np.arange(6).reshape(2, 3), impl)
    assert keys.shape == (2, 3) and keys[1, 2] == random.key(5, impl=IMPL)
    assert ext.seed_with_impl(impl, 5) == ext.random_seed(5, IMPL) == keys[1, 2]
    data = ext.random_unwrap(keys)
    assert data.shape == (2, 3, 1, 2) and bool((ext.random_wrap(data, impl=impl) == keys).all())
    for wrong in (lambda: ext.random_unwrap(np.zeros(2, "uint32")),
                  lambda: ext.random_wrap(data[..., 0], impl=impl),
                  lambda: ext.random_seed(1.5, impl), lambda: ext.random_seed(1, 3),
                  lambda: ext.PRNGImpl((2,), 3, split, random_bits, fold_in),
                  lambda: ext.PRNGImpl((2.5,), seed, split, random_bits, fold_in)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(AttributeError, match="immutable"):
        impl.tag = "x"


@pytest.mark.parametrize("field, f, call, text", [
    ("seed", lambda s: s, lambda k: k(), r"the seed .*'wrong' must .*uint32\[1,2\], but"),
    ("split", lambda k, shape: k, lambda k: random.split(k()), r"the split .*uint32\[2,1,2\]"),
    ("random_bits", lambda k, w, s: jnp.zeros(s), lambda k: random.bits(k()),
     r"random_bits .* uint32\[\], but gave .* of type float32\[\]"),
    ("fold_in", lambda k, d: None, lambda k: random.fold_in(k(), 1), r"the fold_in .*gave None"),
])
def test_functions_that_give_something_else_are_named(field, f, call, text):
    impl = ext.define_prng_impl(**FIELDS | {field: f, "name": "wrong"})
    with pytest.raises(TypeError, match=text):
        call(lambda: random.key(0, impl=impl))


@pytest.mark.parametrize("field, call", [
    ("seed", lambda key: key()), ("split", lambda key: random.split(key())),
    ("random_bits", lambda key: mjax.jit(random.uniform)(key())),
    ("fold_in", lambda key: mjax.vmap(random.fold_in)(key()[None], jnp.arange(1)))])
@pytest.mark.parametrize("takes_batches", [False, True])
def test_functions_that_raise_are_named(field, call, takes_batches):
    def broken(*args):
        raise RuntimeError("broken")

    fields = {**{name: getattr(fry, name) for name in FIELDS}, field: broken, "name": "wrong"}
    impl = ext.PRNGImpl(**fields, takes_batches=takes_batches)
    with pytest.raises(RuntimeError, match="broken") as caught:
        call(lambda: random.key(0, impl=impl))
    note = caught.value.__notes__[0]
    assert re.match(rf"Raised in the {field} of the generator 'wrong' \(.*test_random.py:\d+\)\.\n"
                    r"It was applied at\n  .*test_random.py", note), note


def test_shapes_of_keys_that_are_refused():
    for shape in ("2", None, (2.5,), (-1,)):
        with pytest.raises(TypeError, match="the key_shape of the generator 'made': shapes must"):
            ext.define_prng_impl(**FIELDS | {"key_shape": shape, "name": "made"})


def test_the_hash():
    key, count = np.array([1, 2], np.uint32), np.arange(7, dtype=np.uint32)
    out = ext.threefry_2x32(key, count)
    left, right = ext.threefry2x32_p.bind(*key, count[:4], np.append(count[4:], np.uint32(0)))
    np.testing.assert_array_equal(out, np.concatenate([left, right])[:7])


# ---- the checker ---------------------------------------------------------------------------------


def test_right_generators():
    for impl in IMPL, fry:
        report = ext.check_prng_impl(impl, raise_for_findings=True)
        assert report.ok and report.findings == [] and "no findings" in str(report)


def lazy(key, shape):
    return jnp.broadcast_to(key, (*shape, *key.shape))


def counted(key, bit_width, shape):
    start = key[0, 0] + jnp.arange(int(np.prod(shape)), dtype="uint32").reshape(shape)
    return start.astype(f"uint{bit_width}")


def stateful(key, bit_width, shape):
    return np.random.default_rng().integers(0, 200, shape).astype(f"uint{bit_width}")


@pytest.mark.parametrize("field, f, rule, verdict", [
    ("split", lazy, "split", "several children of a key are the same key"),
    ("split", lambda k, shape: k, "split", r"gives uint32\[1, 2\] in place of uint32\[1, 1, 2\]"),
    ("seed", lambda s: jnp.zeros((1, 2), "uint32"), "seed", "different seeds give the same key"),
    ("fold_in", lambda k, d: k + (d & np.uint32(255)), "fold_in", "different numbers give"),
    ("random_bits", lambda k, w, s: jnp.zeros(s, "uint32"), "random_bits", "uint8"),
    ("random_bits", stateful, "determinism", "twice, gives different results"),
    ("random_bits", counted, "independence", "of the bits of a child of a key|successive words"),
    ("random_bits", lambda k, w, s: 1 / 0, "random_bits", "raises ZeroDivisionError"),
])
def test_faults_are_named(field, f, rule, verdict):
    report = ext.check_prng_impl(ext.define_prng_impl(**FIELDS | {field: f, "name": "faulty"}))
    found = [finding for finding in report.findings if finding.rule == rule]
    assert found, report
    assert re.search(verdict, found[0].verdict), found[0]
    assert found[0].consequence and found[0].remedy and ":" in found[0].where
    text = str(report)
    assert "'faulty'" in text and f"{rule:<15}WRONG" in text
    assert str(found[0]).startswith(f"generator 'faulty', rule {rule}: {found[0].verdict}")
    assert {*report.checked, *report.not_checked, *(f.rule for f in report.findings)} == {
        "seed", "split", "fold_in", "random_bits", "determinism", "batch", "independence"}
    with pytest.raises(WrongRulesError, match="faulty") as raised:
        report.raise_for_findings()
    assert raised.value.report is report


def test_a_seed_that_raises_is_one_fault():
    """All other functions start with a key."""
    report = ext.check_prng_impl(ext.define_prng_impl(**FIELDS | {
        "seed": lambda seed: seed, "name": "seedless"}))
    assert [finding.rule for finding in report.findings] == ["seed"], report
    assert "split" in report.not_checked


def test_a_bit_that_is_always_set():
    report = ext.check_prng_impl(ext.define_prng_impl(**FIELDS | {
        "random_bits": lambda key, width, shape: random_bits(key, width, shape)
        | np.array(4, f"uint{width}"), "name": "biased"}))
    (finding,) = report.findings
    assert finding.verdict == "bit 2 of the words of random_bits is 1 in 100.0% of them."
    assert "test_random.py" in finding.where


@pytest.mark.slow
def test_a_batch_that_is_not_mapped():
    report = ext.check_prng_impl("rbg")
    assert [f.rule for f in report.findings] == ["batch"]
    assert "vmap of random_bits gives other results" in report.findings[0].verdict
    with pytest.raises(AssertionError, match="'rbg'"):
        ext.check_prng_impl("rbg", raise_for_findings=True)
    for seeds in ((1,), (1, 1)):
        with pytest.raises(ValueError, match="two or more different seeds"):
            ext.check_prng_impl(IMPL, seeds=seeds)


def test_seeds_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="seeds are integers of 32 bits, got"):
        ext.check_prng_impl("threefry2x32", seeds=(0, 2**32))
