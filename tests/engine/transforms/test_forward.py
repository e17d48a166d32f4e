"""jvp and linearize as users call them: trees, integers, auxiliary results, errors."""

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.dtypes import float0

A = np.arange(6, dtype=np.float32).reshape(2, 3)
NO_TANGENT = np.zeros((), float0)


def both(f, primals, tangents):
    """Results and tangents by jvp and by linearize, which must agree."""
    out, tangent = mjax.jvp(f, primals, tangents)
    again, linear = mjax.linearize(f, *primals)
    mjax.tree.map(np.testing.assert_array_equal, out, again)
    mjax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6)
                  if np.asarray(a).dtype != float0 else None, tangent, linear(*tangents))
    return out, tangent


def test_against_finite_differences():
    f = lambda x: jnp.sum(jnp.sin(x) * jnp.exp(-x))
    x, t = A / 3, np.cos(A)
    _, tangent = both(f, (x,), (t,))
    g = lambda x: np.sum(np.sin(x.astype(float)) * np.exp(-x.astype(float)))
    np.testing.assert_allclose(tangent, (g(x + 1e-4 * t) - g(x - 1e-4 * t)) / 2e-4, rtol=1e-3)


def test_trees():
    f = lambda d, s: {"product": d["a"] * d["b"][0], "sum": (d["a"] + s, None)}
    out, tangent = both(f, ({"a": 2.0, "b": [3.0]}, 4.0), ({"a": 1.0, "b": [10.0]}, 0.5))
    assert out == {"product": 6.0, "sum": (6.0, None)}
    assert tangent == {"product": 23.0, "sum": (1.5, None)}


def test_primals_and_tangents_may_be_lists():
    assert mjax.jvp(lax.mul, [2.0, 3.0], [1.0, 0.0]) == (6.0, 3.0)
    assert mjax.jvp(lax.mul, (2.0, 3.0), (1.0, 0.0)) == (6.0, 3.0)


def test_auxiliary_results():
    f = lambda x: (x * x, {"input": x, "note": "text"})
    out, tangent, aux = mjax.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (out, tangent) == (9.0, 6.0) and aux == {"input": 3.0, "note": "text"}
    out, linear, aux = mjax.linearize(f, 3.0, has_aux=True)
    assert (out, linear(2.0)) == (9.0, 12.0) and aux == {"input": 3.0, "note": "text"}
    for call in (lambda f: mjax.jvp(f, (3.0,), (1.0,), has_aux=True),
                 lambda f: mjax.linearize(f, 3.0, has_aux=True)):
        with pytest.raises(TypeError, match=r"must return a pair .*<lambda> returned tuple of len"):
            call(lambda x: (x, x, x))


def test_integers_have_float0_tangents():
    _, tangent = both(lambda x, n: x * n, (2.0, 3), (1.0, NO_TANGENT))
    assert tangent == 3.0
    _out, tangent = both(lambda x, b: (x * 2, b, jnp.arange(3)), (2.0, True), (1.0, NO_TANGENT))
    assert [np.asarray(t).dtype for t in tangent] == [np.float32, float0, float0]
    assert [np.shape(t) for t in tangent] == [(), (), (3,)]


def test_results_that_do_not_depend_on_the_argument():
    _out, tangent = both(lambda x: (1.0, x, A), (2.0,), (1.0,))
    assert tangent[:2] == (0.0, 1.0)
    np.testing.assert_array_equal(tangent[2], np.zeros((2, 3)))


def test_complex_arguments():
    z = np.complex64(1 + 2j)
    _, tangent = both(lambda z: z * z, (z,), (np.complex64(1j),))
    assert tangent == 2 * z * 1j
    _, tangent = both(lambda z: jnp.real(z) * jnp.imag(z), (z,), (np.complex64(1 + 1j),))
    assert tangent == 3.0 and tangent.dtype == np.float32


def test_weak_types_do_not_matter():
    assert mjax.jvp(lambda x: x * x, (np.float32(2),), (1.0,))[1] == 4.0
    assert mjax.jvp(lambda x: x * x, (2.0,), (np.float32(1),))[1] == 4.0
    assert mjax.linearize(lambda x: x * x, np.float32(2))[1](1.0) == 4.0


def test_nesting_and_composition():
    f = lambda x: jnp.sin(x) * x
    second = mjax.jvp(lambda x: mjax.jvp(f, (x,), (1.0,))[1], (2.0,), (1.0,))[1]
    expected = 2 * np.cos(2) - 2 * np.sin(2)
    np.testing.assert_allclose(second, expected, rtol=1e-5)
    np.testing.assert_allclose(
        mjax.linearize(lambda x: mjax.linearize(f, x)[1](1.0), 2.0)[1](1.0), expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(lambda x: mjax.jvp(f, (x,), (1.0,))[1])(2.0),
                               np.cos(2) * 2 + np.sin(2), rtol=1e-6)


def test_perturbations_are_not_confused():
    # d/dx (x * d/dy (x + y)) is 1, and not 2.
    inner = lambda x: x * mjax.jvp(lambda y: x + y, (1.0,), (1.0,))[1]
    assert mjax.jvp(inner, (3.0,), (1.0,))[1] == 1.0


def test_linear_functions_are_evaluated_many_times():
    traced = []
    f = lambda x: (traced.append(1), jnp.sin(x))[1]
    _out, linear = mjax.linearize(f, A)
    for scale in range(3):
        np.testing.assert_allclose(linear(A * scale), np.cos(A) * A * scale, rtol=1e-5)
    assert len(traced) == 1
    columns = mjax.vmap(linear)(np.stack([A, 2 * A]))
    np.testing.assert_allclose(columns[1], 2 * np.cos(A) * A, rtol=1e-5)


def test_linear_functions_cross_jit():
    linear = mjax.jit(lambda x: mjax.linearize(jnp.sin, x)[1])(2.0)
    np.testing.assert_allclose(linear(1.0), np.cos(2), rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(lambda f, t: f(t))(linear, 3.0), 3 * np.cos(2), rtol=1e-6)
    assert [np.shape(leaf) for leaf in mjax.tree.leaves(linear)] == [()]


def test_linear_functions_can_be_transposed():
    _, linear = mjax.linearize(lambda x: jnp.sum(jnp.sin(x)), A)
    np.testing.assert_allclose(mjax.linear_transpose(linear, A)(2.0)[0], 2 * np.cos(A), rtol=1e-6)


@pytest.mark.parametrize(("primals", "tangents", "text"), [
    (2.0, 1.0, "jvp: primals and tangents must be tuples.*got float and float"),
    (((2.0,),), ([1.0],), "primals and tangents must have the same structure"),
    ((2.0,), (1.0, 1.0), "primals and tangents must have the same structure"),
    ((np.float32(2),), (np.float16(1),),
     r"tangent\[0\] has type float16\[\].*have type float32\[\]"),
    ((A,), (A[0],), r"tangent\[0\] has type float32\[3\].*float32\[2,3\]"),
    (({"k": A},), ({"k": A[0]},), r"tangent\[0\]\['k'\] has type float32\[3\]"),
    ((3,), (1.0,), r"tangent\[0\].*have type float0\[\].*numpy.zeros\(shape, mjax.dtypes.float0"),
    ((np.complex64(1),), (np.float32(1),), r"have type complex64\[\]"),
    ((A,), [A], "primals and tangents must have the same structure"),
    ([A], (A,), "primals and tangents must have the same structure"),
    (("text",), (1.0,), r"primals\[0\] is not a valid array"),
    ((1.0,), ("text",), r"tangents\[0\] is not a valid array"),
])
def test_jvp_of_what_does_not_fit(primals, tangents, text):
    # Shapes are values of a type, as in JAX.
    error = ValueError if "float32\\[3\\]" in text else TypeError
    with pytest.raises(error, match=text):
        mjax.jvp(lambda *args: args[0], primals, tangents)


@pytest.mark.parametrize(("tangents", "text"), [
    (((A,),), "must have the same structure"), ((A, A), "must have the same structure"),
    ((A[0],), r"has type float32\[3\], expected float32\[2,3\]"),
    ((A.astype(np.float16),), r"has type float16\[2,3\], expected float32\[2,3\]"),
])
def test_linear_functions_of_what_does_not_fit(tangents, text):
    with pytest.raises(TypeError if "structure" in text else ValueError, match=text):
        mjax.linearize(jnp.sin, A)[1](*tangents)


def test_what_is_no_function_or_array_is_refused():
    for call in (lambda: mjax.jvp(3, (1.0,), (1.0,)), lambda: mjax.linearize(3, 1.0)):
        with pytest.raises(TypeError, match="expects a function, got 3"):
            call()
    with pytest.raises(TypeError, match=r"linearize: argument\[0\] is not a valid array"):
        mjax.linearize(jnp.sin, "text")


@pytest.mark.parametrize("read", [lambda x: x.item(), lambda x: x.tolist(), np.asarray, float])
@pytest.mark.parametrize("x", [0.5, np.float32(0.5), np.full((), 0.5, np.float32)])
def test_values_behind_tracers(read, x):
    seen = []
    assert mjax.grad(lambda x: (seen.append(read(x)), x * x)[1])(x) == 1.0
    assert seen == [0.5]


def test_reprs_say_what_they_are():
    def step(w, n):
        return w * 2.0, n + 1

    _, derivative = mjax.linearize(step, np.ones(3, np.float32), 1)
    assert repr(derivative.func) == (
        "<derivative of step: (float32[3], float0[]) -> (float32[3], float0[])>")
    _, pullback = mjax.vjp(step, np.ones(3, np.float32), 1)
    assert repr(pullback.func) == (
        "<pullback of step: (float32[3], float0[]) -> (float32[3], float0[])>")
