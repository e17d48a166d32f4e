"""Small helpers, and the cache that forgets."""

import threading

import numpy as np
import pytest

from mjax._engine.base.util import (
    BoundedCache,
    canonicalize_axes,
    canonicalize_axis,
    merge_lists,
    partition_list,
    split_list,
)


def test_split_list():
    assert split_list([1, 2, 3, 4], [1, 2]) == [[1], [2, 3], [4]]
    assert split_list((1, 2), []) == [[1, 2]] and split_list([], [0]) == [[], []]


@pytest.mark.parametrize("falses, trues", [([], [1]), ([0], []), ([0, 0], [1]), ([0], [1, 1])])
def test_lists_of_other_lengths_are_not_merged(falses, trues):
    text = f"1 true flags, but there are {len(falses)} `falses` and {len(trues)} `trues`"
    with pytest.raises(ValueError, match=text):
        merge_lists([False, True], falses, trues)
    with pytest.raises(ValueError, match="partition_list: which has 1 entry for 2 values"):
        partition_list([True], [1, 2])


def test_partition_and_merge_are_inverse():
    which, values = [True, False, False, True], list("abcd")
    falses, trues = partition_list(which, values)
    assert (falses, trues) == (["b", "c"], ["a", "d"])
    assert merge_lists(which, falses, trues) == values


@pytest.mark.parametrize(("axis", "ndim", "expected"), [
    (0, 1, 0), (-1, 3, 2), (-3, 3, 0), (np.int64(1), 2, 1), (True, 2, 1),
])
def test_canonicalize_axis(axis, ndim, expected):
    result = canonicalize_axis(axis, ndim)
    assert result == expected and type(result) is int


@pytest.mark.parametrize(("axis", "ndim"), [(0, 0), (3, 3), (-4, 3), (-1, 0)])
def test_canonicalize_axis_out_of_range(axis, ndim):
    with pytest.raises(ValueError, match=f"axis {axis} .*dimension {ndim}"):
        canonicalize_axis(axis, ndim)


@pytest.mark.parametrize("axis", [1.0, "0", None])
def test_canonicalize_axis_takes_integers_only(axis):
    with pytest.raises(TypeError):
        canonicalize_axis(axis, 3)


def test_canonicalize_axes():
    assert canonicalize_axes(None, 3) == (0, 1, 2)
    assert canonicalize_axes(-1, 3) == (2,)
    assert canonicalize_axes([2, -3], 3) == (2, 0)
    assert canonicalize_axes((), 3) == ()
    with pytest.raises(ValueError, match=r"duplicate value in axis: \(0, -3\)"):
        canonicalize_axes((0, -3), 3)


def test_cache_forgets_the_older_half():
    cache = BoundedCache(4)
    for i in range(4):
        assert cache.put(i, str(i)) == str(i)
    assert list(cache) == [0, 1, 2, 3]
    cache.put(4, "4")
    assert list(cache) == [2, 3, 4] and cache.get(0) is None and cache.get(4) == "4"


def test_cache_of_one():
    cache = BoundedCache(1)
    for i in range(5):
        cache.put(i, i)
        assert cache == {i: i}


def test_replacing_an_entry_of_a_full_cache_forgets_nothing():
    cache = BoundedCache(4)
    for i in range(4):
        cache.put(i, i)
    cache.put(3, "new")
    assert cache == {0: 0, 1: 1, 2: 2, 3: "new"}


def test_cache_under_threads():
    cache, failures, barrier = BoundedCache(64), [], threading.Barrier(8)

    def work(seed):
        try:
            barrier.wait()
            for i in range(5000):
                key = (i * 7 + seed * 13) % 200
                known = cache.get(key)
                if known is None:
                    known = cache.put(key, key + 1)
                if known != key + 1:
                    failures.append((key, known))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and len(cache) <= 64 + 8
