"""Short calls of jitted functions: no two calls that differ share a program."""

import threading

import numpy as np
import pytest

import mjax
from mjax._engine.runtime.dispatch.jit import Jitted

X = np.arange(3, dtype=np.float32)


@pytest.mark.slow
def test_short_calls_of_every_form_give_what_the_first_call_gave():
    """Later calls go the short way; calls that differ in one thing must not share a key."""
    def f(*args, **kwargs):
        leaves = mjax.tree.leaves((args, kwargs))
        return sum(i * leaf for i, leaf in enumerate(leaves, len(args) + 10 * len(kwargs)))

    x, y, z = (mjax.device_put(X + i) for i in range(3))
    calls = [((x,), {}), ((x, y), {}), ((x, y, z), {}), ((x, y, z, x), {}), ((), {"k": x}),
             ((x,), {"k": y}), ((x,), {"l": y}), ((x,), {"k": y, "l": z}), ((x,), {"l": z, "k": y}),
             ((x,), {"a": z, "k": y}), ((x, y), {"k": z}), ((X, 2.0), {}), ((x, 2.0), {}),
             ((2.0, x), {}), ((X,), {}), ((x, X), {}), ((2.0,), {"k": X}), ((np.float32(3), x), {}),
             (({"a": x, "b": y},), {}), (({"a": x, "c": y},), {}), (([x, (y, z)], x), {}),
             (((x,), {}), {}), (((x,), {"k": y}), {}), ((x,), {"k": {"b": z, "a": y}}), ((), {}),
             (([x, 2.0],), {}), (([X, 2],), {"k": 1.5}), ((x, None), {}), ((1j,), {})]
    g = mjax.jit(f)
    for _ in range(3):
        for args, kwargs in calls:
            np.testing.assert_allclose(g(*args, **kwargs), f(*args, **kwargs))


@pytest.mark.slow
def test_short_calls_with_static_arguments():
    def f(x, n=3, *rest, k=1, **more):
        return x * (2 if n is None else n if isinstance(n, int) else len(n)) + k + sum(rest)

    x = mjax.device_put(X)
    for options in ({"static_argnums": 1}, {"static_argnames": "n"},
                    {"static_argnames": ("n", "k")},
                    {"static_argnums": (1,), "static_argnames": ("n", "k")}):
        g = mjax.jit(f, **options)
        for _ in range(3):
            for args, kwargs in [((x,), {}), ((x, 2), {}), ((x, True), {}), ((x, 1), {}),
                                 ((x,), {"n": 2}), ((x,), {"n": None}), ((x,), {"k": 2}),
                                 ((x, "abc"), {}), ((x, ("a",)), {"k": 5}), ((X, 2), {}),
                                 ((2.0, 4), {}), ((x, 2, x), {}), ((), {"x": x, "n": 2})]:
                np.testing.assert_allclose(g(*args, **kwargs), f(*args, **kwargs))
        for _ in range(2):
            with pytest.raises(ValueError, match="not hashable"):
                g(x, [1])
    h = mjax.jit(lambda n, x: x * len(n), static_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(h("ab", x), X * 2)
        np.testing.assert_array_equal(h("a", x), X)


def test_short_calls_follow_the_settings():
    f = mjax.jit(lambda t, n: (t["a"] * 2, n), static_argnums=1)
    g = mjax.jit(lambda x, y: x + y)
    tree = {"a": np.arange(3)}
    for _ in range(2):
        for wide in (False, True):
            with mjax.enable_x64(wide):
                kind = np.int64 if wide else np.int32
                assert f(tree, 2)[0].dtype == g(tree["a"], 1).dtype == kind
        with mjax.disable_jit():
            assert type(f(tree, 2)[1]) is int


def test_arguments_deleted_or_donated_on_the_short_way_are_named():
    x, y, z = (mjax.device_put(X) for _ in range(3))
    f = mjax.jit(lambda a, b, *, c: a + b + c)
    f(x, y, c=z)
    f(x, y, c=z)
    z.delete()
    with pytest.raises(RuntimeError, match="argument c of type"):
        f(x, y, c=z)
    g = mjax.jit(lambda t, n: t["b"] * n, static_argnums=1, donate_argnums=0)
    for _ in range(3):
        tree = {"b": mjax.device_put(X)}
        np.testing.assert_array_equal(g(tree, 2), X * 2)
        assert tree["b"].is_deleted()
    with pytest.raises(RuntimeError, match=r"argument t\['b'\] of type"):
        g(tree, 2)
    for _ in range(3):
        np.testing.assert_array_equal(f(X, x, c=y), X * 3)
    y.delete()
    with pytest.raises(RuntimeError, match="argument c of type"):  # NumPy's are not deleted
        f(X, x, c=y)


def test_short_calls_of_another_thread_follow_the_settings_of_the_process():
    f, host, kinds = mjax.jit(lambda x: x + 1), np.arange(3), []
    turns = threading.Barrier(2, timeout=60)

    def work():
        for _ in range(3):
            turns.wait()
            kinds.append([f(host).dtype for _ in range(3)][-1])
            turns.wait()

    other = threading.Thread(target=work)
    other.start()
    try:
        for wide in (False, True, False):
            mjax.config.update("enable_x64", wide)
            turns.wait()
            turns.wait()
    finally:
        mjax.config.update("enable_x64", False)
    other.join()
    assert kinds == [np.int32, np.int64, np.int32]


def test_threads_that_trace_stage_their_own_calls_only():
    """The interpreter in force is one of the thread, also in threads that never traced."""
    f = mjax.jit(lambda x: x + 1)
    x = f(X)
    found = []

    def traced(y):
        other = threading.Thread(target=lambda: found.append(f(x)))
        other.start()
        other.join()
        return f(x) + y

    jaxpr = mjax.make_jaxpr(traced)(X)
    assert "jit" in str(jaxpr)
    np.testing.assert_array_equal(found[0], X + 2)


def test_short_calls_tell_a_static_number_from_a_static_name():
    f = mjax.jit(lambda x, n=1, *, k=1: x * n + k, static_argnums=1, static_argnames="k")
    g = mjax.jit(lambda x, *rest: x * rest[0], static_argnums=1)
    x = mjax.device_put(X)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, 3), X * 3 + 1)
        np.testing.assert_array_equal(f(x, k=3), X + 3)
        np.testing.assert_array_equal(f(x, 3, k=4), X * 3 + 4)
        np.testing.assert_array_equal(g(x, 3), X * 3)


def test_short_calls_that_donate_one_of_several_arguments():
    step = mjax.jit(lambda tree, x, n: {"a": tree["a"] + x, "b": tree["b"] * n}, donate_argnums=0)
    state, x = {"a": mjax.device_put(X), "b": mjax.device_put(X)}, mjax.device_put(X)
    for turn in range(1, 4):
        before = state
        state = step(state, x, x)
        assert before["a"].is_deleted() and before["b"].is_deleted() and not x.is_deleted()
        np.testing.assert_allclose(state["a"], X * (turn + 1), rtol=1e-6)
    for tree in ({"a": x, "b": mjax.device_put(X)}, dict.fromkeys("ab", mjax.device_put(X))):
        with pytest.raises(RuntimeError, match="one array was given as argument tree"):
            step(tree, x, x)
        assert not tree["a"].is_deleted() and not x.is_deleted()
    # One that is not donated may be given twice.
    np.testing.assert_allclose(step(state, x, x)["a"], X * 5, rtol=1e-6)


@pytest.fixture
def long_calls(monkeypatch):
    """The names of the functions whose calls went the long way since the list was emptied."""
    seen: list[str] = []
    evaluated = Jitted.evaluated

    def watched(self, *args):
        seen.append(self.name)
        return evaluated(self, *args)

    monkeypatch.setattr(Jitted, "evaluated", watched)
    return seen


def test_calls_are_short_once_they_are_known(long_calls):
    x, y, many = mjax.device_put(X), mjax.device_put(X + 1), [mjax.device_put(X)] * 210
    calls = [
        (mjax.jit(lambda *xs: xs[0] + xs[3]), (x, y, x, y), {}, X * 2 + 1),  # two are not read
        (mjax.jit(lambda x, unread: y * x), (x, X), {}, X * (X + 1)),  # one is closed over
        (mjax.jit(lambda: y), (), {}, X + 1), (mjax.jit(lambda d: d["b"][0]), (
            {"b": (y, None), "a": 2.0},), {}, X + 1),
        (mjax.jit(lambda xs: xs[2] + xs[209]), (many,), {}, X * 2),
        (mjax.jit(lambda x, *, k, n: x * n + k, static_argnames="n"), (x,), {"k": y, "n": 3},
         X * 4 + 1),
        (mjax.jit(lambda d: d[1] + d[2]), ({2: x, 1: y},), {}, X * 2 + 1),
        (mjax.jit(lambda x, s: x * len(s), static_argnums=1), (x, ("a", 1.5)), {}, X * 2)]
    for f, args, kwargs, expected in 2 * calls:  # a function is written at the second call
        np.testing.assert_array_equal(f(*args, **kwargs), expected)
    long_calls.clear()
    for f, args, kwargs, expected in calls:
        np.testing.assert_array_equal(f(*args, **kwargs), expected)
    assert not long_calls


def test_calls_that_donate_and_take_scalars_are_short(long_calls):
    step = mjax.jit(lambda s, rate, *, k: {"w": s["w"] * rate, "n": s["n"] + 1, "k": k + 1},
                    donate_argnums=0, donate_argnames="k")
    last = mjax.jit(lambda rate, w: w * rate, donate_argnums=-1)
    for turn in range(4):
        state = {"w": mjax.device_put(X), "n": 3}
        out = step(state, 2.0, k=3)
        np.testing.assert_array_equal(out["w"], X * 2)
        assert int(out["n"]) == 4 and int(out["k"]) == 4 and state["w"].is_deleted()
        w = mjax.device_put(X)
        np.testing.assert_array_equal(last(2.0, w), X * 2)
        assert w.is_deleted() and float(last(3.0, 2.0)) == 6.0
        assert int(mjax.lax.add(3, 3)) == 6 and float(mjax.lax.add(2.0, 2.0)) == 4.0
        if turn < 2:
            long_calls.clear()
    assert not long_calls


def test_calls_with_numpy_scalars_are_short(long_calls):
    f = mjax.jit(lambda x, y: (x + y).dtype.itemsize + y)
    kinds = (np.bool_, np.int8, np.int64, np.uint32, np.float16, np.float64)
    for wide in (False, True):
        with mjax.enable_x64(wide):
            expected = [f(X, kind(1)) for kind in kinds]
            for turn in range(3):
                out = [f(X, kind(1)) for kind in kinds]
                if turn == 0:
                    long_calls.clear()
                assert [o.aval for o in out] == [e.aval for e in expected]
                np.testing.assert_array_equal([*map(float, out)], [*map(float, expected)])
    assert not long_calls


def test_calls_under_alternating_settings_stay_short(long_calls):
    f = mjax.jit(lambda x, n: x + n, static_argnums=1)
    host = np.arange(3)
    for turn in range(4):
        for wide, kind in ((False, np.int32), (True, np.int64)):
            with mjax.enable_x64(wide):
                assert f(host, 2).dtype == kind
        if turn < 2:
            long_calls.clear()
    assert not long_calls


def test_calls_of_more_forms_than_are_kept_give_the_same():
    f = mjax.jit(lambda *xs, **more: sum(xs) + sum(more.values()))
    x = mjax.device_put(X)
    for _ in range(2):
        for n in range(1, 7):
            np.testing.assert_array_equal(f(*[x] * n), X * n)
            np.testing.assert_array_equal(f(x, **dict.fromkeys("abcdefg"[:n], x)), X * (n + 1))
    g = mjax.jit(lambda x, n, k=1: x * len(n) + k, static_argnums=1, static_argnames="k")
    for n in range(12):
        for _ in range(2):
            np.testing.assert_array_equal(g(x, (n,) * n, k=float(n)), X * n + n)
            np.testing.assert_array_equal(g([2.0, x][n % 2], "n" * n), [2.0, X][n % 2] * n + 1)


def test_array_of_a_callback_is_taken_when_it_is_there():
    f = mjax.jit(lambda x: mjax.pure_callback(lambda v: np.asarray(v) + 1, x, x))
    g = mjax.jit(lambda d, y: d["a"] + y)
    for _ in range(3):
        np.testing.assert_array_equal(g({"a": f(X)}, mjax.device_put(X)), X * 2 + 1)
