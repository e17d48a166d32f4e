"""Generators of one's own, in mjax and in jax."""

from __future__ import annotations

import importlib

import jax
import jax.extend.random
import numpy as np
import pytest

import mjax
import mjax_ext.random

LIBRARIES = {"jax": jax, "mjax": mjax}
EXTENSIONS = {"jax": jax.extend.random, "mjax": mjax_ext.random}


def implementation(name):
    """A generator of the library's own functions, with other bits."""
    ext, np_ = EXTENSIONS[name], importlib.import_module(f"{name}.numpy")
    fry = ext.threefry_prng_impl
    return ext.define_prng_impl(
        key_shape=(3,), name="opposite", tag="opp",
        seed=lambda seed: np_.append(fry.seed(seed), np_.uint32(7)),
        split=lambda key, shape: np_.concatenate([
            fry.split(key[:2], shape), np_.full((*shape, 1), key[2])], -1),
        random_bits=lambda key, width, shape: ~fry.random_bits(key[:2], width, shape),
        fold_in=lambda key, data: np_.append(fry.fold_in(key[:2], data), key[2]))


PROGRAMS = {
    "bits": lambda lib, key: [lib.random.bits(key, (3,), f"uint{n}") for n in (8, 16, 32)],
    "uniform": lambda lib, key: lib.random.uniform(key, (2, 3)),
    "split": lambda lib, key: lib.random.key_data(lib.random.split(key, (2, 2))),
    "fold_in": lambda lib, key: lib.random.key_data(lib.random.fold_in(key, 3)),
    "permutation": lambda lib, key: lib.random.permutation(key, 10),
    "batch": lambda lib, key: lib.vmap(lambda k: lib.random.randint(k, (2,), 0, 100))(
        lib.random.split(key, 3)),
    "batch of folds": lambda lib, key: lib.random.key_data(lib.vmap(lib.random.fold_in)(
        lib.random.split(key, 3), np.arange(3, dtype=np.uint32))),
    "jit": lambda lib, key: lib.jit(lambda k: lib.random.bernoulli(k, 0.3, (5,)))(key),
    "scan": lambda lib, key: lib.lax.scan(
        lambda k, _: (lib.random.split(k)[0], lib.random.bits(k)), key, length=3)[1],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program):
    theirs, ours = (lib.tree.map(np.asarray, PROGRAMS[program](lib, lib.random.key(
        5, impl=implementation(name)))) for name, lib in LIBRARIES.items())
    jax.tree.map(np.testing.assert_array_equal, theirs, ours)


def test_functions():
    key, count = np.array([1, 2], np.uint32), np.arange(7, dtype=np.uint32)
    np.testing.assert_array_equal(EXTENSIONS["jax"].threefry_2x32(key, count),
                                  EXTENSIONS["mjax"].threefry_2x32(key, count))
    for seeds in (3, np.arange(4), np.int8(-1), np.uint32(2**32 - 1)):
        data = []
        for name, lib in LIBRARIES.items():
            ext = EXTENSIONS[name]
            for impl in ext.threefry_prng_impl, ext.rbg_prng_impl, ext.unsafe_rbg_prng_impl:
                keys = ext.random_seed(seeds, impl)
                data.append(np.asarray(lib.random.key_data(keys)))
                again = ext.seed_with_impl(impl, seeds)
                assert bool((keys == again).all())
        for theirs, ours in zip(data[:3], data[3:], strict=True):
            np.testing.assert_array_equal(theirs, ours)


def test_names():
    for name, lib in LIBRARIES.items():
        impl = implementation(name)
        key = lib.random.key(0, impl=impl)
        assert str(key.dtype) == "key<opp>" and repr(lib.random.key_impl(key)) == repr(impl)
        assert repr(key).startswith("Array((), dtype=key<opp>) overlaying:")
