"""where, select, piecewise, clip, nonzero; fused functions; whole-array comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._numpy.fused import fused

X = np.array([[0.0, -2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)


def close(ours: Any, theirs: Any) -> None:
    assert isinstance(ours, mjax.Array) and ours.shape == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)


def test_where() -> None:
    row = np.arange(3)
    for args in ((X > 0, X, 0), (X, row, -1.5), (row, X, X), (True, X, row), (X > 0, 1, 2)):
        close(jnp.where(*args), np.where(*[a != 0 if i == 0 else a for i, a in enumerate(args)]))
        close(mjax.jit(jnp.where)(*args), jnp.where(*args))
    close(mjax.vmap(jnp.where, in_axes=(0, None, 0))(X > 0, 1.0, X), np.where(X > 0, 1.0, X))
    np.testing.assert_array_equal(mjax.grad(lambda x: jnp.where(x > 0, x, 0).sum())(X), X > 0)
    with pytest.raises(ValueError, match=r"where got .*\(2, 3\), \(2,\), \(\)"):
        jnp.where(X, np.ones(2), 0)
    with pytest.raises(TypeError, match="position 2"):
        jnp.where(X, X, None)
    with pytest.raises(ValueError, match="size and fill_value"):
        jnp.where(X, X, X, size=3)


def test_select_and_piecewise() -> None:
    conditions, choices = [X > 1, X > 0], [X, 10 * X]
    close(jnp.select(conditions, choices, 7), np.select(conditions, choices, np.float32(7)))
    close(mjax.jit(lambda x: jnp.select([x > 1, x > 0], [x, 10 * x]))(X),
          np.select(conditions, choices, np.float32(0)))
    functions = [lambda x: -x, 5.0, lambda x: x + 1]
    close(jnp.piecewise(X, [X < -1, X > 2], functions),
          np.piecewise(X, [X < -1, X > 2], functions))
    close(jnp.piecewise(X, [X < -1], [lambda x, k: k * x], 3),
          np.piecewise(X, [X < -1], [lambda x, k: k * x], 3))
    with pytest.raises(ValueError, match="2 conditions and 1 choices"):
        jnp.select(conditions, choices[:1])
    with pytest.raises(ValueError, match="1 conditions need 1 functions or one more, got 3"):
        jnp.piecewise(X, [X < 0], functions)


def test_select_takes_arrays_apart() -> None:
    conditions, choices = np.array([[True, False], [False, True]]), np.arange(4).reshape(2, 2)
    for convert in (np.asarray, jnp.asarray):
        np.testing.assert_array_equal(jnp.select(convert(conditions), convert(choices), 7), [0, 3])
    np.testing.assert_array_equal(mjax.jit(jnp.select)(conditions, choices), [0, 3])
    with pytest.raises(ValueError, match="as many choices as conditions, and at least one"):
        jnp.select(jnp.zeros((0, 2), bool), jnp.zeros((0, 2)))


def test_clip() -> None:
    for bounds in ((-1, 1), (None, 1), (-1.5, None), (X[0] - 1, 2), (2, -2)):
        close(jnp.clip(X, *bounds), np.clip(X, *bounds))
    close(jnp.clip(np.arange(5), 1, 3), np.clip(np.arange(5), 1, 3))
    assert jnp.clip(jnp.arange(5), 1, 3).dtype == np.int32
    assert jnp.clip(jnp.arange(5), 0.5).dtype == np.float32
    np.testing.assert_array_equal(mjax.grad(lambda x: jnp.clip(x, -1.5, 1).sum())(X),
                                  (X > -1.5) & (X < 1))


def test_nonzero() -> None:
    for ours, theirs in zip(jnp.nonzero(X), np.nonzero(X), strict=True):
        close(ours, theirs)
    close(jnp.argwhere(X), np.argwhere(X))
    close(jnp.flatnonzero(X), np.flatnonzero(X))
    close(jnp.where(X)[1], np.where(X)[1])
    assert jnp.argwhere(3.0).shape == (1, 0) and jnp.argwhere(0).shape == (0, 0)
    with pytest.raises(ValueError, match="scalar"):
        jnp.nonzero(3)


@pytest.mark.parametrize("size", [0, 2, 4, 7])
def test_nonzero_of_given_size(size: int) -> None:
    rows, columns = np.nonzero(X)
    expected = [np.concatenate([i[:size], np.full(max(size - 4, 0), fill)])
                for i, fill in ((rows, -1), (columns, 9))]
    for f in (jnp.nonzero, mjax.jit(jnp.nonzero, static_argnames=("size", "fill_value"))):
        for ours, theirs in zip(f(X, size=size, fill_value=(-1, 9)), expected, strict=True):
            close(ours, theirs)
    close(mjax.vmap(lambda x: jnp.flatnonzero(x, size=2))(X), [[1, 2], [0, 2]])
    close(jnp.nonzero(np.zeros((0, 2)), size=1)[0], [0])


def test_nonzero_under_jit_asks_for_a_size() -> None:
    for f in (jnp.nonzero, jnp.argwhere, jnp.flatnonzero, jnp.where):
        with pytest.raises(mjax.errors.ConcretizationTypeError, match="size=n"):
            mjax.jit(f)(X)


def test_comparisons_of_arrays() -> None:
    assert jnp.array_equal(X, X) and not jnp.array_equal(X, X[0])
    assert jnp.array_equal([1, 2], (1, 2)) and jnp.array_equiv(X, X) and jnp.array_equiv([1, 1], 1)
    assert not jnp.array_equiv([1, 2], [1, 2, 3])
    nan = np.array([1.0, np.nan])
    assert not jnp.array_equal(nan, nan) and jnp.array_equal(nan, nan, equal_nan=True)
    assert jnp.allclose(X, X * (1 + 1e-6)) and not jnp.allclose(X, X + 1e-2)
    assert jnp.allclose(X, X + 1e-2, atol=0.1) and jnp.allclose(nan, nan, equal_nan=True)
    np.testing.assert_array_equal(jnp.isclose(
        np.uint8([250, 5]), np.uint8([5, 250]), atol=10), [False, False])
    np.testing.assert_array_equal(jnp.isclose(np.array([1, 2]), np.array([1, 3])), [True, False])
    assert mjax.jit(jnp.array_equal)(X, X)


# ---- fused -----------------------------------------------------------------------------


def test_fused_functions_run_as_one_program_and_trace_as_many() -> None:
    traces = []

    @fused(static_argnames=("flag",))
    def f(x: Any, ys: Any, *, flag: bool = False) -> Any:
        """Adds them up."""
        traces.append(type(x))
        return {"sum": x + sum(ys), "flag": jnp.array(flag)}

    for _ in range(3):
        out = f(jnp.ones(2), [1.0, jnp.ones(2)], flag=True)
        close(out["sum"], [3.0, 3.0])
        assert out["flag"]
    assert len(traces) == 1
    f(jnp.ones(2), [1.0, jnp.ones(2)], flag=False)
    f(jnp.ones(3), [1.0, jnp.ones(3)], flag=True)
    assert len(traces) == 3
    assert str(mjax.make_jaxpr(f)(1.0, [2.0, 3.0])).count("add") == 3
    # Few equations are traced one by one; many are one call, traced once.
    assert "jit" not in str(mjax.make_jaxpr(lambda x: jnp.mean(x))(X))
    first, second = mjax.make_jaxpr(lambda x: jnp.var(x) + jnp.var(x))(X).eqns[:2]
    assert [first.params["name"], second.primitive.name] == ["var", "jit"]
    assert first.params["jaxpr"] is second.params["jaxpr"]


def test_calls_of_fused_functions_in_a_trace_keep_values_of_scalars() -> None:
    @fused
    def f(x: Any, n: Any) -> Any:
        for _ in range(n if type(n) is int else 0):
            x = x * x
        return x

    for n in (5, 7, 5):
        assert str(mjax.make_jaxpr(lambda x, n=n: f(x, n))(2.0)).count("mul") == n
    assert str(mjax.make_jaxpr(lambda x: f(x, np.int32(4)))(2.0)).count("mul") == 0


def test_equations_of_a_short_function_belong_to_the_line_that_calls() -> None:
    def g(x: Any) -> Any:
        y = jnp.mean(x)
        return y, jnp.mean(x)

    text = mjax.make_jaxpr(g)(X).pretty_print(source_info=True)
    lines = {line.rsplit(":", 1)[1].split()[0] for line in text.splitlines()
             if "reduce_sum" in line}
    assert len(lines) == 2


def test_fused_functions_see_settings_devices_and_static_types() -> None:
    @fused(static_argnames=("n",))
    def f(x: Any, n: Any) -> Any:
        return x * n

    assert f(jnp.array(2), 2).dtype == np.int32
    assert f(jnp.array(2), 2.0).dtype == np.float32
    assert f(jnp.array(2), True).dtype == np.int32
    with mjax.enable_x64(True):
        assert f(jnp.array(2), 2).dtype == np.int64
    device = mjax.devices()[0]
    assert f(mjax.device_put(jnp.array(2), device), 2).committed
    mjax.clear_caches()
    assert f(jnp.array(2), 2) == 4


def test_results_that_are_arguments_do_not_share_what_is_cached() -> None:
    x = jnp.positive(3.0)
    x.delete()
    assert jnp.positive(3.0) == 3.0 and jnp.ones(()) * 3.0 == 3.0
    assert isinstance(jnp.positive(np.ones(2)), mjax.Array)
    assert isinstance(mjax.jit(lambda: jnp.abs(np.uint8([1])).astype(int))(), mjax.Array)
