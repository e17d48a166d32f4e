"""vmap as users call it: axes of arguments and results, sizes, nesting, errors.

The oracle is a Python loop with NumPy.
"""

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(3, dtype=np.float32)
T = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def loop(f, in_axes, out_axis, *args):
    """The meaning of vmap of a function of arrays with one result."""
    size = next(a.shape[i] for a, i in zip(args, in_axes) if i is not None)
    rows = [np.asarray(f(*[a if i is None else np.take(a, n, axis=i)
                           for a, i in zip(args, in_axes)])) for n in range(size)]
    return np.stack(rows, axis=out_axis)



@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out", [0, 1, 2, -1, -3])
def test_axes_of_one_argument(axis, out):
    f = lambda x: x[:, ::-1] * 2
    got = mjax.vmap(f, in_axes=axis, out_axes=out)(T)
    np.testing.assert_array_equal(got, loop(f, [axis], out, T))


@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (1, -1), (-2, 0), [0, None]])
def test_axes_of_two_arguments(in_axes):
    x, y = A if in_axes[0] is not None else B, np.arange(6, dtype=np.float32)
    size = 1 if in_axes[0] is None else x.shape[in_axes[0]]
    y = y[:size] if in_axes[0] is not None else y
    f = lambda x, y: jnp.sum(x) * y
    got = mjax.vmap(f, in_axes=in_axes)(x, y)
    expected = [np.sum(x if in_axes[0] is None else np.take(x, n, in_axes[0]))
                * (y if in_axes[1] is None else y[n]) for n in range(len(got))]
    np.testing.assert_allclose(got, expected)


def test_trees_of_input_axes():
    f = lambda d, t: d["a"] + d["b"] * t[0]
    got = mjax.vmap(f, in_axes=({"a": 0, "b": None}, (None, 0)))(
        {"a": A, "b": B}, (np.float32(3), A))
    np.testing.assert_array_equal(got, A + B * 3)
    np.testing.assert_array_equal(mjax.vmap(f)({"a": A, "b": A}, (A,)), A + A * A)
    got = mjax.vmap(lambda t: t[0] + t[1], in_axes=((0, None),))((A, B))
    np.testing.assert_array_equal(got, A + B)


def test_trees_of_output_axes():
    f = lambda x: {"same": x, "both": (x * 2, x + 1), "const": 3.0}
    out = mjax.vmap(f, out_axes={"same": 1, "both": (0, -1), "const": None})(A)
    np.testing.assert_array_equal(out["same"], A.T)
    np.testing.assert_array_equal(out["both"][0], A * 2)
    np.testing.assert_array_equal(out["both"][1], (A + 1).T)
    assert out["const"] == 3.0
    a, (b, c) = mjax.vmap(lambda x: (x, (x, x)), out_axes=(0, 1))(A)
    assert a.shape == (2, 3) and b.shape == c.shape == (3, 2)


def test_results_that_do_not_depend_on_the_argument_are_repeated():
    ones, number = mjax.vmap(lambda x: (jnp.ones(4), 7), out_axes=(1, 0))(A)
    assert ones.shape == (4, 2)
    np.testing.assert_array_equal(number, [7, 7])


def test_keyword_arguments_are_mapped_along_axis_0():
    got = mjax.vmap(lambda x, *, y: x + y, in_axes=(None,))(1.0, y=B)
    np.testing.assert_array_equal(got, B + 1)
    np.testing.assert_array_equal(mjax.vmap(lambda *, y: y * 2)(y=B), B * 2)
    np.testing.assert_array_equal(mjax.vmap(lambda x, y=2.0: x * y)(B), B * 2)
    np.testing.assert_array_equal(mjax.vmap(lambda x, y=2.0: x * y, in_axes=1)(A, y=B), (A * B).T)


def test_axis_size():
    np.testing.assert_array_equal(mjax.vmap(lambda: 2.0, axis_size=3)(), [2, 2, 2])
    np.testing.assert_array_equal(mjax.vmap(lambda x: x, None, axis_size=2)(1.0), [1, 1])
    assert mjax.vmap(lambda x: x, axis_size=2)(A).shape == (2, 3)
    assert mjax.vmap(lambda: jnp.ones(2), axis_size=0)().shape == (0, 2)


def test_empty_batch():
    doubled, sums = mjax.vmap(lambda x: (x * 2, jnp.sum(x)))(np.zeros((0, 3), np.float32))
    assert doubled.shape == (0, 3) and sums.shape == (0,) and sums.dtype == np.float32
    assert mjax.vmap(mjax.grad(lambda x: jnp.sum(x * x)))(np.zeros((0, 3), np.float32)).shape == (
        0, 3)


def test_none_in_arguments_and_results():
    x, none = mjax.vmap(lambda x, n: (x, n), in_axes=(0, 0))(A, None)
    assert x.shape == (2, 3) and none is None


def test_types_of_results():
    assert mjax.vmap(lambda x: x * 2)(np.arange(3)).dtype == np.int32
    assert mjax.vmap(lambda x: x > 1)(B).dtype == np.bool_
    out = mjax.vmap(lambda x: 1.0)(A)
    assert out.dtype == np.float32 and out.weak_type and out.shape == (2,)


def test_nested():
    table = mjax.vmap(mjax.vmap(lambda x, y: 10 * x + y, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(table(B[:2], B), 10 * B[:2, None] + B)
    swapped = mjax.vmap(mjax.vmap(lambda x: x, out_axes=-1), out_axes=-1)(T)
    np.testing.assert_array_equal(swapped, np.moveaxis(T, (0, 1), (2, 1)))
    three = mjax.vmap(mjax.vmap(mjax.vmap(lambda x: x + 1)))(T)
    np.testing.assert_array_equal(three, T + 1)


def test_with_jit():
    f = lambda x, y: jnp.sin(x) @ y
    expected = np.sin(A) @ B
    np.testing.assert_allclose(mjax.vmap(mjax.jit(f), in_axes=(0, None))(A, B), expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(f, in_axes=(0, None)))(A, B), expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.jit(f), (0, None)))(A, B), expected,
                               rtol=1e-5)


def test_with_derivatives():
    f = lambda x: jnp.sum(jnp.sin(x) * x)
    expected = np.cos(A) * A + np.sin(A)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(A), expected, rtol=1e-5)
    np.testing.assert_allclose(mjax.grad(lambda x: jnp.sum(mjax.vmap(f)(x)))(A), expected,
                               rtol=1e-5)
    np.testing.assert_allclose(mjax.vmap(lambda x: mjax.jvp(f, (x,), (x,))[1])(A),
                               np.sum(expected * A, 1), rtol=1e-5)


def test_closed_over_values_are_not_mapped():
    f = lambda x: mjax.vmap(lambda y: y * x)(B)
    np.testing.assert_array_equal(mjax.vmap(f)(B), B[:, None] * B)
    np.testing.assert_array_equal(mjax.grad(lambda x: jnp.sum(f(x)))(2.0), 3.0)


def test_axis_names():
    got = mjax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(B + 1)
    np.testing.assert_allclose(got, (B + 1) / np.sum(B + 1), rtol=1e-6)


def test_decorator_and_names():
    @functools.partial(mjax.vmap, in_axes=(0, None))
    def scaled(x, y):
        """Says."""
        return x * y

    assert scaled.__name__ == "scaled" and scaled.__doc__.endswith("Says.")
    np.testing.assert_array_equal(scaled(B, 2.0), 2 * B)
    assert mjax.vmap(functools.partial(lax.add, 1.0))(B).shape == (3,)


def test_keys_are_mapped():
    from mjax import random
    keys = random.split(random.key(0), 3)
    draws = mjax.vmap(lambda k: random.normal(k, (2,)))(keys)
    expected = np.stack([random.normal(keys[n], (2,)) for n in range(3)])
    np.testing.assert_allclose(draws, expected, rtol=1e-6)


# ---- errors ----------------------------------------------------------------------------


def f_two(x, y):
    return x


@pytest.mark.parametrize("axes", ["a", 1.0, True, np.int64(0), (0, "b")])
def test_axes_are_ints_or_none(axes):
    for name in ("in_axes", "out_axes"):
        with pytest.raises(TypeError, match=f"vmap: {name} must be an int, None or a tree"):
            mjax.vmap(f_two, **{name: axes})


def test_arguments_by_keyword_have_no_axes():
    with pytest.raises(ValueError, match=r"1 positional .* do not have entries, .* along axis 0"):
        mjax.vmap(f_two, in_axes=(0, None))(A, y=A)


@pytest.mark.parametrize(("options", "args", "error", "text"), [
    ({"in_axes": (0,)}, (A, A), ValueError, "in_axes has 1 entries.*f_two.*2 positional"),
    ({"in_axes": ({"a": 0}, 0)}, ({"a": A, "b": A}, A), ValueError,
     r"in_axes must be a tree prefix.*f_two.*at \[0\] the keys \['a'\]"),
    ({"in_axes": ((0, 0), 0)}, (A, A), ValueError, r"tree prefix.*at \[0\] a tuple was expected"),
    ({"in_axes": (2, 0)}, (A, A), ValueError, r"argument 0 \(x\) has shape \(2, 3\).* no axis 2"),
    ({}, (A, 1.0), ValueError, r"argument 1 \(y\) has shape \(\), which has no axis 0"),
    ({"in_axes": None}, (A, A), ValueError, "f_two must have at least one mapped argument"),
    ({"in_axes": (None, None)}, (A, A), ValueError, "at least one mapped argument"),
    ({}, (A, T.swapaxes(0, 1)), ValueError,
     r"(?s)inconsistent sizes.*argument 0 \(x\) of shape \(2, 3\) has size 2 along axis 0.*"
     r"argument 1 \(y\) of shape \(3, 2, 4\) has size 3"),
    ({}, ({"k": [A]}, B), ValueError, r"argument 0\['k'\]\[0\] \(x\) of shape \(2, 3\)"),
    ({"axis_size": 4}, (A, A), ValueError, r"(?s)axis_size is 4.*argument 0 .* has size 2"),
    ({"out_axes": None}, (A, A), ValueError,
     r"mapped output but out_axes is None.*float32\[2,3\] of f_two"),
    ({"out_axes": 2}, (A, A), ValueError, r"out_axes 2 is out of range.*f_two with 2 axes"),
    ({"out_axes": (0, 0)}, (A, A), ValueError, r"out_axes \(0, 0\) is not a tree prefix"),
    ({}, (A, "text"), TypeError, r"vmap of f_two: argument 1 \(y\) is not a valid array: 'text'"),
])
def test_calls_that_do_not_fit(options, args, error, text):
    with pytest.raises(error, match=text):
        mjax.vmap(f_two, **options)(*args)


def test_arguments_that_are_not_mapped_are_passed_as_they_are():
    thing, inc = object(), lambda x: x + 1
    seen = []

    def f(x, how, rest):
        seen.append(rest[0])
        return how["f"](x) + how["w"] * len(rest[1])

    given = {"f": inc, "w": np.float32([1, 2])}
    axes = (0, {"f": None, "w": 0}, None)
    args = np.float32([0, 1]), given, (thing, "text")
    for g in (mjax.vmap(f, axes), lambda x, how, rest: mjax.jit(
            lambda x: mjax.vmap(f, axes)(x, how, rest))(x)):
        np.testing.assert_array_equal(g(*args), [5, 10])
    nested = mjax.vmap(mjax.vmap(lambda x, f: f(x), (0, None)), (0, None))
    np.testing.assert_array_equal(nested(np.ones((2, 3)), inc), np.full((2, 3), 2))
    assert seen == [thing] * 2
    assert mjax.vmap(lambda f: f(1.0), None, axis_size=3)(inc).tolist() == [2, 2, 2]
    for out_axes in (0, None):
        with pytest.raises(TypeError, match=r"vmap of <lambda>: result is not a valid array"):
            mjax.vmap(lambda x, f: f, (0, None), out_axes)(args[0], inc)


def test_keyword_arguments_are_named():
    with pytest.raises(ValueError, match=r"argument 'y' of shape \(2, 3\)"):
        mjax.vmap(f_two)(B, y=A)
    with pytest.raises(TypeError, match=r"argument 'y' is not a valid array.*None in in_axes"):
        mjax.vmap(f_two)(B, y="text")


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="vmap expects a function, got 3 of type int"):
        mjax.vmap(3)


def test_results_that_are_no_arrays_are_refused():
    with pytest.raises(TypeError, match="result is not a valid array: 'text' of type str"):
        mjax.vmap(lambda x: "text")(A)


def test_results_that_are_summed():
    """sum_match: None in out_axes for what is mapped."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def f(x, y):
        return x, y, {"more": x > 1}

    mapped = mjax.vmap(f, in_axes=(0, None), out_axes=(None, None, None), sum_match=True)
    total, same, counts = mapped(x, 3.0)
    np.testing.assert_array_equal(total, x.sum(0))
    assert same == 3.0
    np.testing.assert_array_equal(counts["more"], (x > 1).sum(0))
    assert counts["more"].dtype == np.int32
    first, _, _ = mjax.vmap(f, in_axes=(0, None), out_axes=(0, None, None), sum_match=True)(x, 3.0)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(mjax.vmap(lambda x: x, in_axes=1, out_axes=None, sum_match=True)(
        x), x.sum(1))
    with pytest.raises(ValueError, match="pass sum_match=True to sum over it"):
        mjax.vmap(lambda x: x, out_axes=None)(x)


def test_callable_objects_may_have_attributes_of_functions_that_are_none():
    class Twice:
        """Doubles."""

        def __init__(self):
            self.__name__ = self.__qualname__ = self.__annotations__ = None

        def __call__(self, x):
            return x * 2

    x = np.arange(3.0, dtype=np.float32)
    for transform in (mjax.vmap, mjax.jit, mjax.checkpoint, mjax.grad):
        f = transform(Twice())
        assert f.__name__ == "Twice" and "Doubles." in f.__doc__
        np.testing.assert_array_equal(f(x[2] if transform is mjax.grad else x),
                                      2 if transform is mjax.grad else x * 2)
