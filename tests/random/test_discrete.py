"""Categories, permutations, choices: distributions, shapes, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import mjax
from mjax import random
from tests.random.statistics import check_discrete

KEY = random.key(5)
P = np.float32([0.1, 0.2, 0.0, 0.3, 0.4])


# ---- categorical -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "low", "high"])
def test_categorical(mode):
    logits = np.log(np.float32([0.1, 0.2, 0.3, 0.4])) + 7
    out = random.categorical(KEY, logits, shape=(4000,), mode=mode)
    assert out.dtype == np.int32
    check_discrete(out, np.exp(logits - 7))


def test_categorical_never_takes_the_impossible():
    logits = np.float32([-np.inf, 0, -np.inf, 1])
    check_discrete(random.categorical(KEY, logits, shape=(3000,)), [0, 1, 0, np.e])


def test_categorical_along_axes():
    logits = np.float32([[0, 50, 0], [50, 0, 0]])
    assert np.asarray(random.categorical(KEY, logits)).tolist() == [1, 0]
    assert np.asarray(random.categorical(KEY, logits, 1)).tolist() == [1, 0]
    columns = np.asarray(random.categorical(KEY, logits, 0, (200, 3)))
    assert (columns[:, 0] == 1).all()
    assert (columns[:, 1] == 0).all()
    assert set(columns[:, 2].tolist()) == {0, 1}
    rows = np.asarray(random.categorical(KEY, logits, axis=-1, shape=(5, 4, 2)))
    assert rows.shape == (5, 4, 2)
    assert (rows == [1, 0]).all()
    assert random.categorical(KEY, logits[:1], shape=(7, 6)).shape == (7, 6)


def test_categorical_without_replacement():
    logits = np.log(np.float32([[0.1, 0.2, 0.3, 0.4]] * 3000))
    out = np.asarray(random.categorical(KEY, logits, shape=(3, 3000), replace=False))
    assert out.shape == (3, 3000)
    assert all(len(set(column)) == 3 for column in out.T.tolist())
    check_discrete(out[0], [1, 2, 3, 4])
    pairs = out[0] * 4 + out[1]
    p = np.array([1, 2, 3, 4]) / 10
    expected = [0 if i == j else p[i] * p[j] / (1 - p[i]) for i in range(4) for j in range(4)]
    check_discrete(pairs, expected)


def test_categorical_under_vmap_and_jit():
    logits = np.float32([[0, 50], [50, 0]])
    f = mjax.jit(mjax.vmap(random.categorical))
    assert np.asarray(f(random.split(KEY), logits)).tolist() == [1, 0]


# ---- permutation -----------------------------------------------------------------------


def test_permutation_of_a_range():
    out = np.asarray(random.permutation(KEY, 1000))
    assert out.dtype == np.int32
    assert sorted(out.tolist()) == list(range(1000))
    assert abs(stats.spearmanr(out, np.arange(1000)).statistic) < 0.1
    for n in (0, 1, np.int64(2), np.array(3)):
        assert sorted(np.asarray(random.permutation(KEY, n)).tolist()) == list(range(int(n)))
    with mjax.enable_x64(True):
        assert random.permutation(KEY, 3).dtype == np.int64


def test_all_orders_are_equally_probable():
    keys = random.split(KEY, 6000)
    for f in (lambda k: random.permutation(k, 4), lambda k: random.choice(k, 4, (4,), False)):
        orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
        out = np.asarray(mjax.vmap(f)(keys)).tolist()
        check_discrete(np.array([orders[tuple(row)] for row in out]), np.ones(24))


def test_permutation_of_arrays():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.asarray(random.permutation(KEY, x))
    assert {tuple(row) for row in out} == {tuple(row) for row in x}
    out = np.asarray(random.permutation(KEY, x, axis=1))
    assert {tuple(column) for column in out.T} == {tuple(column) for column in x.T}
    big = np.arange(400).reshape(4, 100)
    out = np.asarray(random.permutation(KEY, big, axis=-1, independent=True))
    assert [sorted(row) for row in out.tolist()] == big.tolist()
    assert len({tuple(row % 100) for row in out}) == 4


# ---- choice ----------------------------------------------------------------------------


def test_choice():
    check_discrete(random.choice(KEY, 5, (3000,)), np.ones(5))
    check_discrete(random.choice(KEY, 5, (3000,), p=P), P)
    check_discrete(random.choice(KEY, 5, (3000,), p=10 * P), P)
    assert random.choice(KEY, 5).shape == ()
    values = np.float32([1, 10, 100])
    assert set(np.asarray(random.choice(KEY, values, (100,))).tolist()) == {1, 10, 100}


def test_choice_without_replacement():
    out = np.asarray(random.choice(KEY, 10, (2, 4), replace=False)).ravel()
    assert len(set(out.tolist())) == 8
    keys = random.split(KEY, 3000)
    pairs = np.asarray(mjax.vmap(lambda k: random.choice(k, 5, (2,), False, P))(keys))
    assert (pairs[:, 0] != pairs[:, 1]).all()
    check_discrete(pairs[:, 0], P)
    assert sorted(np.asarray(random.choice(KEY, 4, (4,), False, np.ones(4))).tolist()) == [
        0, 1, 2, 3]


def test_choice_from_an_array_along_an_axis():
    x = np.arange(12).reshape(3, 4)
    out = np.asarray(random.choice(KEY, x, (5, 2), axis=1))
    assert out.shape == (3, 5, 2)
    assert {tuple(c) for c in out.reshape(3, 10).T} <= {tuple(c) for c in x.T}
    out = np.asarray(random.choice(KEY, x, (2,), replace=False))
    assert out.shape == (2, 4)
    assert {tuple(row) for row in out} < {tuple(row) for row in x}
    out = np.asarray(random.choice(KEY, x, (2,), False, np.float32([0.5, 0, 0.5])))
    assert {tuple(row) for row in out} == {(0, 1, 2, 3), (8, 9, 10, 11)}
    assert random.choice(KEY, x, axis=-1).shape == (3,)
    assert random.choice(KEY, np.zeros((0, 4)), (0,)).shape == (0, 4)
    assert random.choice(KEY, 0, (0,)).shape == (0,)


def test_choice_with_probabilities_that_are_traced():
    f = mjax.jit(lambda p: random.choice(KEY, 5, (20,), p=p))
    np.testing.assert_array_equal(np.asarray(f(P)), np.asarray(random.choice(KEY, 5, (20,), p=P)))


# ---- geometric -------------------------------------------------------------------------


def test_geometric():
    out = np.asarray(random.geometric(KEY, 0.3, (3000,)))
    assert out.dtype == np.int32
    capped = np.minimum(out - 1, 9)
    probabilities = stats.geom(0.3).pmf(np.arange(1, 10))
    check_discrete(capped, [*probabilities, 1 - probabilities.sum()])
    assert random.geometric(KEY, P[:2], dtype="int16").dtype == np.int16
    assert np.asarray(random.geometric(KEY, 1.0, (5,))).tolist() == [1] * 5


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: random.categorical(KEY, np.arange(3)), ValueError, "logits of a float dtype"),
    (lambda: random.categorical(KEY, np.float32(3)), ValueError, "axis -1 is out of bounds"),
    (lambda: random.categorical(KEY, np.ones((3, 4), np.float32), 2), ValueError, "out of bounds"),
    (lambda: random.categorical(KEY, np.ones((3, 4), np.float32), shape=(2,)), ValueError,
     r"logits of shape \(3, 4\), without axis 1, do not broadcast to the shape \(2,\)"),
    (lambda: random.categorical(KEY, np.ones((3, 4), np.float32), shape=(5, 3), replace=False),
     ValueError, "5 samples without replacement cannot be taken from 4 categories"),
    (lambda: random.categorical(KEY, np.ones(3, np.float32), mode="x"), ValueError, "got 'x'"),
    (lambda: random.permutation(KEY, 2.5), TypeError, "permutation takes an integer or an array"),
    (lambda: random.permutation(KEY, np.arange(3), axis=1), ValueError, "out of bounds"),
    (lambda: mjax.jit(lambda n: random.permutation(KEY, n))(3), TypeError, "size .* is traced"),
    (lambda: random.permutation(KEY, np.ones(3), axis=[0]), TypeError, "axis must be an integer"),
    (lambda: random.choice(KEY, 0), ValueError, "nothing to choose 1 samples from"),
    (lambda: random.choice(KEY, 5, (6,), False), ValueError, "6 samples without replacement"),
    (lambda: random.choice(KEY, 5, p=np.ones(4)), ValueError, r"shape \(5,\), got \(4,\)"),
    (lambda: random.choice(KEY, 2, p=[0.5, 0.5]), TypeError, "got <class 'list'> at argument 'p'"),
    (lambda: random.choice(KEY, 2.5), TypeError, "choice takes an integer or an array"),
    (lambda: random.choice(KEY, np.ones((2, 2)), axis=2), ValueError, "out of bounds"),
    (lambda: random.geometric(KEY, 0.5, dtype="float32"), ValueError, "must be an int dtype"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
