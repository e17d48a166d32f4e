"""reduce, reduce_window, select_and_scatter: values against loops, every rule, refusals."""

from __future__ import annotations

import doctest
import gc
import re
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.primitives.reductions import all_ones
from tests.engine.primitives import sliding
from tests.engine.primitives.harness import Case, normal, primitive_names, table

F32 = np.dtype(np.float32)
LEAST = np.iinfo(np.int32).min


def growth(a, b):
    """Compound rates: associative and commutative, identity 0."""
    return a + b + a * b


def grown(x, axes):
    return np.prod(1 + x, axes) - 1


def after(a, b):
    """The affine map `b` after `a`: associative, not commutative, identity (1, 0)."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def mapped(slopes, offsets):
    """The maps of a matrix's rows, composed along each column."""
    slope, offset = np.ones_like(slopes[0]), np.zeros_like(offsets[0])
    for m, c in zip(slopes, offsets, strict=True):
        slope, offset = slope * m, m * offset + c
    return slope, offset


WINDOW = {"window_dimensions": (3, 2), "window_strides": (2, 1), "padding": ((1, 1), (0, 2)),
          "base_dilation": (1, 2), "window_dilation": (2, 1)}


def slid(combine, x, init):
    return sliding.reduce_window(x, init, combine, *WINDOW.values())


CASES = [
    *[Case("reduce", lambda x, axes=axes: lax.reduce(x, 0, growth, axes),
           lambda x, axes=axes: grown(x, axes), types, T=T, label=str(axes))
      for types, axes, T in [
          ("T[5,2]; T[1,2]; T[0,2]; T[2,0]; T[8,2]", (0,), "f32 f64 c64 c128 i32 u8 i64"),
          ("T[2,3,3]", (2, 0), "f32"), ("T[3]", (), "f32"), ("T[]", (), "f32")]],
    Case("reduce", lambda x, init: lax.reduce(x, init, growth, (0,)),
         lambda x, init: (1 + grown(x, 0)) * (1 + init) - 1, "T[3,2] T[]; T[0,2] T[]",
         label="initial value"),
    Case("reduce", lambda m, c: lax.reduce((m, c), (1, 0), after, (0,)), mapped,
         "T[5,2] T[5,2]; T[2,2] T[2,2]", T="f32 c64 i32", label="two operands"),
    Case("reduce", lambda x, i: lax.reduce((x, i), (-np.inf, -1), lambda a, b: (
        jnp.maximum(a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])), (1,)),
         lambda x, i: (x.max(1), np.take_along_axis(i, x.argmax(1)[:, None], 1)[:, 0]),
         "T[2,5] i32[2,5]", label="of two dtypes", result="T i32"),
    *[Case("reduce_window", lambda x: lax.reduce_window(x, 0, growth, **WINDOW),
           lambda x: slid(lambda w: grown(w, 0), x, 0), types, T=T)
      for types, T in [("T[5,3]; T[5,1]; T[1,3]; T[0,3]", "f32 f64 c64 i32"), ("T[5,0]", "f32")]],
    Case("reduce_window", lambda x, init: lax.reduce_window(x, init, growth, (2, 2)),
         lambda x, init: (1 + sliding.reduce_window(
             x, init, lambda w: grown(w, 0), (2, 2), (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)))
         * (1 + init) - 1, "T[3,2] T[]", label="initial value"),
    Case("reduce_window", lambda m, c: lax.reduce_window((m, c), (1, 0), after, (3,), (2,)),
         lambda m, c: [np.stack(out) for out in zip(*[mapped(m[i : i + 3], c[i : i + 3])
                                                      for i in (0, 2)], strict=True)],
         "T[6] T[6]", label="two operands"),
    Case("reduce_window", lambda x: lax.reduce_window(x, 1, lax.mul, (2, 2), None, "SAME"),
         lambda x: sliding.reduce_window(x, 1, np.prod, (2, 2), (1, 1), ((0, 1),) * 2, (1, 1),
                                         (1, 1)), "T[3,4]", label="product"),
]


@table(CASES)
def test_reductions_by_functions(check, sample):
    check(sample)


# ---- operations that a primitive reduces by --------------------------------------------


def names(f, *args):
    return primitive_names(mjax.make_jaxpr(f)(*args))


X, N = np.ones((2, 3), F32), np.ones((2, 3), np.int32)


@pytest.mark.parametrize(("x", "function", "init", "primitive"), [
    (X, lax.add, 0.0, "reduce_sum"), (X, lax.add, 0, "reduce_sum"), (N, jnp.add, 0, "reduce_sum"),
    (X, lambda a, b: b + a, np.float32(0), "reduce_sum"), (X, lax.mul, 1.0, "reduce_prod"),
    (X, lax.max, -np.inf, "reduce_max"), (X, jnp.minimum, jnp.float32(np.inf), "reduce_min"),
    (N, lax.max, LEAST, "reduce_max"), (N > 0, lax.max, False, "reduce_max"),
    (N > 0, lax.bitwise_and, True, "reduce_and"), (N, lax.bitwise_and, -1, "reduce_and"),
    (N, lax.bitwise_or, 0, "reduce_or"), (N > 0, lax.bitwise_xor, False, "reduce_xor"),
    (X, lax.add, 1.0, "reduce"), (X, lax.max, 0.0, "reduce"), (X, lax.mul, 0.0, "reduce"),
    (X, lambda a, b: a + a, 0.0, "reduce"), (X, lambda a, b: a, 0.0, "reduce"),
    (N, lax.max, 0, "reduce"), (N > 0, lax.bitwise_and, False, "reduce")])
def test_known_operations(x, function, init, primitive):
    assert names(lambda x: lax.reduce(x, init, function, (0,)), x) == [primitive]


@pytest.mark.parametrize(("x", "function", "init", "primitive"), [
    (X, lax.add, 0.0, "reduce_window_sum"), (X, lax.max, -np.inf, "reduce_window_max"),
    (N, lax.min, np.iinfo(np.int32).max, "reduce_window_min"),
    (X, lax.mul, 1.0, "reduce_window"), (X, lax.add, 1.0, "reduce_window"),
    (N > 0, lax.bitwise_or, False, "reduce_window")])
def test_known_operations_on_windows(x, function, init, primitive):
    assert names(lambda x: lax.reduce_window(x, init, function, (2, 2)), x) == [primitive]


def test_initial_values_that_are_traced_are_not_looked_at():
    assert names(lambda x, i: lax.reduce(x, i, lax.add, (0,)), X, F32.type(0)) == ["reduce"]
    out = mjax.jit(lambda x, i: lax.reduce(x, i, lax.add, (0,)))(X, F32.type(3))
    np.testing.assert_array_equal(out, [5, 5, 5])


def test_all_ones():
    assert [int(all_ones(np.dtype(d))) for d in ("i1", "u2", bool)] == [-1, 65535, 1]


# ---- functions, trees, orders ----------------------------------------------------------


def test_trees():
    out = lax.reduce({"a": X, "b": [2 * X]}, {"a": 0.0, "b": [1.0]}, lambda x, y: {
        "a": x["a"] + y["a"], "b": [x["b"][0] * y["b"][0]]}, (0, 1))
    assert (float(out["a"]), float(out["b"][0])) == (6, 64)
    one, = lax.reduce_window([X], [0.0], lambda x, y: [x[0] + y[0] * 1.0], (2, 3))
    assert float(one[0, 0]) == 6


def test_functions_may_use_constants_and_jit():
    half = jnp.float32(0.5)
    out = lax.reduce(X, 0.0, lambda a, b: a + b + half * 0, (0,))
    np.testing.assert_array_equal(out, [2, 2, 2])
    compiled = mjax.jit(lambda a, b: jnp.logaddexp(a, b))
    np.testing.assert_allclose(lax.reduce(X, -np.inf, compiled, (0, 1)), 1 + np.log(6), rtol=1e-6)
    np.testing.assert_allclose(mjax.grad(lambda x: lax.reduce(x, -np.inf, compiled, (0, 1)))(X),
                               np.full((2, 3), 1 / 6), rtol=1e-6)


def powers_of_two(a, b):
    """A product, by a loop that is one."""
    return lax.while_loop(lambda state: state[1] > 1, lambda state: (state[0] * 2, state[1] / 2),
                          (a, b))[0]


@pytest.mark.slow
def test_functions_that_xla_cannot_compile_within_a_reduction():
    x = np.float32([[2, 4, 1], [8, 2, 1]])
    for f in (powers_of_two, lambda a, b: lax.cond(a > b, lax.mul, lambda a, b: b * a, a, b),
              lambda a, b: jnp.prod(jnp.stack([a, b])), lambda a, b: a * b + lax.igamma(1.0, 0 * a),
              mjax.jit(powers_of_two)):
        for fast in (lambda g: g, mjax.jit, mjax.vmap):
            axes = (0,) if fast is mjax.vmap else (1,)
            np.testing.assert_array_equal(
                fast(lambda x, f=f, axes=axes: lax.reduce(x, 1.0, f, axes))(x), [8, 16])
        np.testing.assert_array_equal(lax.reduce_window(x, 1.0, f, (2, 2)), [[128, 8]])


def test_functions_are_traced_once():
    calls = []

    def f(a, b):
        calls.append(a)
        return growth(a, b)

    for _ in range(3):
        lax.reduce(X, 0.0, f, (0,))
        mjax.grad(lambda x: lax.reduce(x, 0.0, f, (0, 1)))(X)
        lax.reduce_window(X, 0.0, f, (2, 2))
    assert len(calls) == 2  # for reduce and for reduce_window


def test_functions_are_not_kept():
    def f(a, b):
        return growth(a, b)

    lax.reduce(X, 0.0, f, (0,))
    ref = weakref.ref(f)
    del f
    gc.collect()
    assert ref() is None


def test_gradient_of_a_product_with_zeros():
    x = np.float32([2, 0, 3, 0, 5, 7])
    product = lambda x: lax.reduce_window(x, 1.0, lax.mul, (4,)).sum()
    np.testing.assert_array_equal(mjax.grad(product)(x), [0, 0, 0, 105, 0, 0])
    np.testing.assert_array_equal(mjax.hessian(product)(x)[1], [0, 0, 0, 6 + 15, 0, 0])


def test_derivatives_take_one_step_forwards_and_about_log_n_backwards():
    def count(n):
        return len(names(mjax.grad(lambda x: lax.reduce(x, 0.0, growth, (0,))), np.zeros(n, F32)))

    assert count(1024) - count(512) == count(512) - count(256)
    f = lambda x: lax.reduce(x, 0.0, growth, (0,))
    assert names(lambda x: mjax.jvp(f, (x,), (x,)), np.zeros(9, F32))[-1:] == ["reduce"]


#: Functions that are not monoids, of a sum and of the initial value 0.5.
NO_MONOIDS = {"a-b": lambda a, b: a - b, "b-a": lambda a, b: b - a, "a+b+1": lambda a, b: a + b + 1,
              "max": lambda a, b: -lax.max(a, b), "ab+a": lambda a, b: a * b + a}


def _column(x, f):
    total = 0.5
    for value in x:
        total = f(np.float64(total), np.float64(value))
    return total


@pytest.mark.parametrize("f", NO_MONOIDS.values(), ids=NO_MONOIDS)
def test_derivatives_of_what_is_no_monoid_are_those_of_its_values(f):
    # Reductions in the order of the elements, by forward mode, reverse mode and batches.
    x, v = np.float32([[1, 5], [3, 4], [2, -2]]), np.float32([[1, 2], [-1, 3], [4, 0.5]])
    g = f if f is not NO_MONOIDS["max"] else lambda a, b: -np.maximum(a, b)
    window = lambda x, init=0.5: lax.reduce_window(x, init, f, (2, 1), (1, 1), ((1, 0), (0, 0)))
    whole = lambda x, init=0.5: lax.reduce(x, init, f, (0,))
    padded = lambda x: np.stack([_column(x[max(i - 1, 0) : i + 1], g) for i in range(3)])
    plain = lambda x: _column(x, g)
    for fun, oracle in ((window, padded), (whole, plain)):
        expected = (oracle(x + 1e-3 * v) - oracle(x - 1e-3 * v)) / 2e-3
        out, tangent = mjax.jvp(fun, (x,), (v,))
        np.testing.assert_allclose(out, oracle(x), rtol=1e-5)
        np.testing.assert_allclose(tangent, expected, rtol=1e-2, atol=1e-2)
        many = mjax.vmap(fun, (None, 0))(x, np.float32([0.5, 0.5]))
        np.testing.assert_allclose(many, [oracle(x)] * 2, rtol=1e-5)
    expected = (padded(x + 1e-3 * v) - padded(x - 1e-3 * v)) / 2e-3
    np.testing.assert_allclose(mjax.linearize(window, x)[1](v), expected, rtol=1e-2, atol=1e-2)


def test_weak_initial_values_take_the_dtype_of_the_operand():
    out = lax.reduce(X.astype(np.float16), 1, growth, (0,))
    assert (out.dtype, out.weak_type) == (np.float16, False)
    assert lax.reduce(2.0, 0.0, growth, ()).weak_type


# ---- select_and_scatter ----------------------------------------------------------------


def selection(operand, source, init, window, strides, padding, select=lax.ge, scatter=lax.add):
    scalar = mjax.ShapeDtypeStruct((), operand.dtype)
    return lax.select_and_scatter_p.bind(
        operand, source, init, select_jaxpr=mjax.make_jaxpr(select)(scalar, scalar),
        scatter_jaxpr=mjax.make_jaxpr(scatter)(scalar, scalar), window_dimensions=window,
        window_strides=strides, padding=padding)


def test_select_and_scatter():
    rng = np.random.default_rng(0)
    x, s = normal(rng, (4, 5), F32), normal(rng, (4, 2), F32)
    window = (2, 3), (1, 2), ((0, 1), (1, 0))
    out = selection(x, s, F32.type(0), *window)
    np.testing.assert_allclose(out, sliding.select_and_scatter(s, x, True, *window), rtol=1e-6)
    start = F32.type(2)
    product = selection(x, s, start, *window, scatter=lax.mul)
    assert np.sum(np.asarray(product) != 2) <= s.size
    least = selection(x, s, F32.type(0), *window, select=lax.le)
    np.testing.assert_allclose(least, sliding.select_and_scatter(s, x, False, *window), rtol=1e-6)


@pytest.mark.slow
def test_batches_of_select_and_scatter():
    rng = np.random.default_rng(0)
    xs, ss = normal(rng, (3, 6), F32), normal(rng, (3, 3), F32)
    f = lambda x, s: selection(x, s, F32.type(0), (2,), (2,), ((0, 0),))
    for axes, args in [((0, 0), (xs, ss)), ((None, 0), (xs[0], ss)), ((1, None), (xs.T, ss[0]))]:
        rows = [f(xs[i if axes[0] is not None else 0], ss[i if axes[1] is not None else 0])
                for i in range(3)]
        np.testing.assert_array_equal(mjax.vmap(f, axes)(*args), np.stack(rows))
    at = lambda x, i: selection(x, ss[0], i, (2,), (2,), ((0, 0),))
    for axes, args in [((None, 0), (xs[0], ss[0])), ((0, 0), (xs, ss[0]))]:
        rows = [at(xs[i if axes[0] is not None else 0], ss[0][i]) for i in range(3)]
        np.testing.assert_array_equal(mjax.vmap(at, axes)(*args), np.stack(rows))


def test_wrong_select_and_scatter():
    x = np.ones(4, F32)
    with pytest.raises(TypeError, match=re.escape("so be of shape (2,), got (4,).")):
        selection(x, x, F32.type(0), (2,), (2,), ((0, 0),))
    with pytest.raises(TypeError, match="a scalar initial value of one dtype"):
        selection(x, x[:2], np.int32(0), (2,), (2,), ((0, 0),))
    with pytest.raises(TypeError, match="select_jaxpr must go from .* to bool"):
        selection(x, x[:2], F32.type(0), (2,), (2,), ((0, 0),), select=lax.add)
    with pytest.raises(TypeError, match="scatter_jaxpr must go from"):
        selection(x, x[:2], F32.type(0), (2,), (2,), ((0, 0),), scatter=lax.ge)
    with pytest.raises(TypeError, match="scatter_jaxpr must be made of operations on scalars"):
        selection(x, x[:2], F32.type(0), (2,), (2,), ((0, 0),), scatter=powers_of_two)


# ---- refusals --------------------------------------------------------------------------


def add_pairs(a, b):
    return a[0] + b[0], a[1] + b[1]


@pytest.mark.parametrize(("args", "error", "text"), [
    ((X, np.int32(1), growth, (0,)), TypeError,
     "an initial value must be a scalar of its operand's dtype, got int32[] for an operand of type "
     "float32[2,3]."),
    ((X, 1j, growth, (0,)), TypeError, "must be a scalar of its operand's dtype, got"),
    ((X, np.ones(2, F32), growth, (0,)), ValueError, "scalars, got values of types float32[2]"),
    ((X, np.ones(1, F32), lax.add, (0,)), ValueError, "scalars, got values of types float32[1]"),
    ((X, 0.0, growth, (2,)), ValueError, "reduce: axes (2,) must be distinct axes of an operand"),
    ((X, 0.0, growth, (0, 0)), ValueError, "reduce: axes (0, 0)"),
    ((X, 0.0, growth, (-1,)), ValueError, "reduce: axes (-1,)"),
    ((X, 0.0, lax.add, (2,)), ValueError, "reduce_sum: axes (2,)"),
    (((), (), growth, (0,)), TypeError, "reduce needs at least one operand."),
    (((X, X), (0.0,), add_pairs, (0,)), ValueError, "must be nested alike, got"),
    (([X, X], (0.0, 0.0), add_pairs, (0,)), ValueError, "must be nested alike"),
    (((X, X[:1]), (0.0, 0.0), add_pairs, (0,)), TypeError,
     "requires operands of one shape, got (2, 3), (1, 3)."),
    ((X, 0.0, 3, (0,)), TypeError, "reduce expects a function, got 3"),
    (((X, X), (0.0, 0.0), lambda a, b: a[0], (0,)), TypeError,
     "must return a scalar of the type of each operand."),
    ((X, 0.0, lambda a, b: jnp.stack([a, b]), (0,)), TypeError,
     "the value: float32[] in the operands, float32[2] in the result"),
    ((X, 0.0, lambda a, b: (a + b).astype(np.int32), (0,)), TypeError,
     "the value: float32[] in the operands, int32[] in the result; cast with .astype('float32')"),
    (((X, X), (0.0, 0.0), lambda a, b: (a[0], a[1] > 0), (0,)), TypeError,
     "[1]: float32[] in the operands, bool[] in the result"),
    ((X, 0.0, lambda a, b: a + b + jnp.sum(jnp.asarray(X)) * jnp.asarray(X)[0, 0], (0,)),
     TypeError, "uses arrays or traced values from outside; it can use its arguments and"),
])
def test_what_does_not_fit_is_refused(args, error, text):
    with pytest.raises(error, match=re.escape(text)):
        lax.reduce(*args)


def test_functions_that_close_over_traced_values():
    for f in (lambda x, c: lax.reduce(x, 0.0, lambda a, b: a + b * c, (0,)),
              lambda x, c: lax.reduce_window(x, 0.0, lambda a, b: a + b * c, (2, 2))):
        for transformed in (mjax.jit(f), mjax.grad(lambda x, c, f=f: f(x, c).sum(), 1)):
            with pytest.raises(TypeError, match="Give what it needs as one more operand."):
                transformed(X, 2.0)


def test_the_message_names_the_function_and_its_line():
    def mine(a, b):
        return a > b

    with pytest.raises(TypeError, match=r"reduce_window: mine at .*test_reduce.py:\d+ must return"):
        lax.reduce_window(X, 0.0, mine, (2, 2))


@pytest.mark.parametrize("f", [lax.reduce, lax.reduce_window])
def test_examples_run(f):
    examples = doctest.DocTestParser().get_doctest(f.__doc__, {"lax": lax, "jnp": jnp},
                                                   f.__name__, None, None)
    assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)
