"""NumPy arrays and scalars as arguments of short calls: staging buffers, and when they are free."""

import functools
import threading
import warnings

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.runtime.dispatch import host_arguments
from mjaxlib_shim import arrays as shim

X = np.arange(3, dtype=np.float32)


@pytest.fixture
def transfers(monkeypatch):
    """The values that jaxlib was given to transfer."""
    values, put = [], shim._device_put

    def counted(aval, sharding, xs, *others):
        values.extend(xs)
        return put(aval, sharding, xs, *others)

    monkeypatch.setattr(shim, "_device_put", counted)
    return values


def heavy(m):
    for _ in range(4):
        m = lax.mul(m @ m, np.float32(1e-3))
    return m


# ---- results ---------------------------------------------------------------------------


FUNCTIONS = {
    "identity": lambda x: x, "twice": lambda x: (x, x), "reshape": lambda x: x.reshape(1, -1),
    "parts": lambda x: [x[:2], {"a": x}], "sum": lambda x: x + 1, "pair": lambda x: (lax.neg(x), 1)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_keep_their_values_when_arguments_change(name):
    f = FUNCTIONS[name]
    compiled, x, results = mjax.jit(f), X.copy(), []
    for i in range(8):
        x[:] = i
        results.append((mjax.tree.leaves(compiled(x)), np.full(3, i, np.float32)))
    for leaves, was in results:
        for ours, theirs in zip(leaves, mjax.tree.leaves(f(was)), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_results_in_containers_of_the_user_are_left_alone():
    """A container may hold other values than the arrays it is made from."""
    class Cell:
        def __init__(self, value):
            self.value = value

    flattened = []
    mjax.tree_util.register_pytree_node(
        Cell, lambda cell: (flattened.append(cell), ((cell.value,), None))[1],
        lambda _, values: Cell(values[0].tolist() if type(values[0]) is type(jnp.zeros(()))
                               else values[0]))
    # Texts are not generated for nests this deep.
    for build in (Cell, lambda x: functools.reduce(lambda tree, _: [tree], range(60), Cell(x))):
        f = mjax.jit(lambda x, y: build(x + y))  # noqa: B023
        for i in range(5):
            deep = f(X + i, 0.5 * i)
            while type(deep) is list:
                deep, = deep
            assert deep.value == [1.5 * i, 1.5 * i + 1, 1.5 * i + 2]
            if i == 1:
                flattened.clear()
        assert not flattened


def test_scalars_of_all_kinds():
    f = mjax.jit(lambda x, y: (x, y))
    columns = [[True, False, True, False], [1, -(2**31), 2**31 - 1, 0], [0.5, -0.0, np.inf, np.nan],
               np.float32([1, 2, 3, 4]), np.int8([-128, 3, 127, 0]), np.float64([1, -0.0, 1e30, 2]),
               np.bool_([True, False, True, True]), np.float16([1, 2, -0.0, 4])]
    for wide in (False, True):
        with mjax.enable_x64(wide):
            for column in columns:
                for value in [*column, *column]:
                    x, y = f(X, value)
                    np.testing.assert_array_equal(x, X)
                    expected = jnp.asarray(value)
                    assert y.aval == expected.aval
                    assert np.asarray(y).tobytes() == np.asarray(expected).tobytes()
            for value in (2**31, -(2**31) - 1, 5):
                if wide or value == 5:
                    assert int(f(X, value)[1]) == value
                else:
                    with pytest.raises(OverflowError):
                        f(X, value)


def test_integers_too_large_for_the_dtype_wrap_around():
    """As their transfer has it: NumPy refuses to assign them."""
    f = mjax.jit(lambda x: x)
    for value in np.int64([1, 2, 3, 2**40 + 3, -(2**40), 2**40 + 3]):
        assert int(f(value)) == int(value.astype(np.int32)) == int(f(np.full((), value)))


def test_floats_too_large_are_infinite_without_a_warning():
    f, many = mjax.jit(lambda x, y: x * y), mjax.jit(lambda x, y: [x * y] * 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value, expected in ((1.0, X + 1), (1e300, [np.inf] * 3), (-1e300, [-np.inf] * 3)) * 3:
            np.testing.assert_array_equal(f(X + 1, value), expected)
    for g in (f, lambda x, y: many(x, y)[0]):
        for i, value in enumerate([1.0, 2.0, *5 * [1e300, np.nan, -1e301, 1e-300, 0.1]]):
            with warnings.catch_warnings():
                # As in jax, only the long way warns.
                warnings.simplefilter("error" if i > 1 else "ignore")
                np.testing.assert_array_equal(g(X + 1, np.float64(value)), g(X + 1, value))


def test_arrays_of_many_kinds():
    f = mjax.jit(lambda x: x)
    views = [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(5)[::-1], np.zeros((0, 3)),
             np.float32(3)[None], np.ones((100, 100)), np.arange(3, dtype=">i4"),
             np.array([1j, 2]), np.array([True, False]), np.arange(4, dtype=jnp.bfloat16),
             np.arange(4, dtype=jnp.int4)]
    for value in views:
        for _ in range(4):
            ours = f(value)
            np.testing.assert_array_equal(np.asarray(ours, value.dtype), value)
            value = value.copy() if value.size else value
            value[...] = value + value if value.dtype != bool else ~value


def test_the_caller_may_change_an_array_while_a_program_runs():
    f = mjax.jit(lambda x, m: (heavy(m)[0, 0] * 0 + x, heavy(m)))
    m = jnp.asarray(np.ones((300, 300), np.float32))
    x, results = X.copy(), []
    for i in range(20):
        x[:] = i
        results.append(f(x, m)[0])
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(3, i, np.float32))


def test_threads_do_not_share_a_buffer():
    f, wrong = mjax.jit(lambda x, y: x + y), []

    def work(n):
        x = X.copy()
        for i in range(300):
            x[:] = n * 1000 + i
            out = np.asarray(f(x, float(n)))
            if not (out == n * 1001 + i).all():
                wrong.append((n, i, out))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- transfers -------------------------------------------------------------------------


def test_calls_write_one_buffer_again_and_again(transfers):
    f, x = mjax.jit(lambda x, y, z: x + y + z), jnp.asarray(X)
    for i in range(4):
        f(X, 0.5 + i, x)
    before = len(transfers)
    for i in range(10):
        np.testing.assert_array_equal(f(X + i, 0.25 * i, x), 2 * X + 1.25 * i)
    assert len(transfers) == before


def test_large_arrays_are_transferred(transfers):
    f = mjax.jit(lambda x, y: x + y)
    large = np.zeros(host_arguments._MOST_BYTES // 4 + 1, np.float32)
    for i in range(6):
        np.testing.assert_array_equal(f(large, float(i)), large + i)
    assert sum(x is large for x in transfers) == 6


def test_values_are_transferred_if_there_are_many_results_to_ask(transfers):
    for count, expected in ((8, range(3)), (40, [10])):
        f = mjax.jit(lambda x: [x + i for i in range(count)])  # noqa: B023
        f(X)
        before = len(transfers)
        for i in range(10):
            for n, result in enumerate(f(X + i)):
                np.testing.assert_array_equal(result, X + i + n)
        assert len(transfers) - before in expected


def test_a_buffer_that_may_still_be_read_is_not_written(monkeypatch):
    """The result says when, and a program that is never done gets new buffers."""
    written = []
    monkeypatch.setattr(type(jnp.asarray(X)._buffer), "is_ready", lambda buffer: False)
    monkeypatch.setattr(host_arguments, "writable_view", lambda *args: written.append(args))
    f = mjax.jit(lambda x: x + 1)
    for i in range(5):
        np.testing.assert_array_equal(f(X + i), X + i + 1)
    assert not written


def test_guards_apply_to_arrays_in_staging_buffers():
    f = mjax.jit(lambda x, y: x * y)
    for _ in range(4):
        f(X, 2.0)
    with mjax.transfer_guard("disallow"), pytest.raises(Exception, match="[Dd]isallowed"):
        f(X, 2.0)
    g = mjax.jit(lambda x: x * 2)
    for i in range(4):
        g(float(i))
    with mjax.transfer_guard("disallow"):  # scalars are exempt
        assert float(g(7.0)) == 14


def test_calls_are_right_after_failed_ones():
    f = mjax.jit(lambda x, y: x + y)
    x = jnp.asarray(X)
    for i in range(4):
        f(x, float(i))
    gone = jnp.asarray(X)
    gone.delete()
    for i in range(3):
        with pytest.raises(RuntimeError, match="deleted"):
            f(gone, float(i))
        np.testing.assert_array_equal(f(x, 10.0 + i), X + 10 + i)
