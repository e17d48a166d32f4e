"""Reductions over windows: values against loops, every rule, extremes, shapes, refusals."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.arithmetic import ge_p, gt_p, le_p
from mjax._engine.primitives.reductions import highest, lowest
from tests.engine.primitives import sliding
from tests.engine.primitives.harness import Case, normal, primitive_names, table
from tests.marks import some

F32 = np.dtype(np.float32)


def params(window, strides=None, padding=None, base=None, step=None):
    """The params of windows."""
    ones = (1,) * len(window)
    return {"window_dimensions": window, "window_strides": strides or ones,
            "padding": padding or ((0, 0),) * len(window), "base_dilation": base or ones,
            "window_dilation": step or ones}


#: label, types of operands, types of sources, params
SHAPES = [
    ("plain", "T[6]; T[1]; T[0]; T[2]", params((3,))),
    ("strides", "T[7]; T[8]", params((2,), (3,))),
    ("padding", "T[3]; T[1]", params((4,), None, ((2, 3),))),
    ("cut", "T[6]", params((2,), None, ((-1, -2),))),
    ("two axes", "T[4,5]; T[4,0]", params((2, 3), (1, 2), ((0, 1), (1, -1)))),
    ("no axes", "T[]", params(())),
    ("empty windows' places", "T[2,3]", params((3, 1))),
]
HOLES = [
    ("holes", "T[5]; T[1]", params((4,), (2,), ((1, 2),), (3,))),
    ("windows with holes", "T[7]; T[2]", params((3,), None, ((1, 1),), None, (2,))),
    ("all at once", "T[4,3]", params((2, 3), (2, 1), ((1, 1), (2, 1)), (2, 1), (3, 2))),
]
NUMBERS = "f32 f64 bf16 f16 c64 c128 i32 i8 i16 i64 u32 u8 u16 u64"
ORDERED = NUMBERS.replace("c64 c128 ", "") + " bool"


def reduced(name, combine, init, kwargs):
    primitive = getattr(lax, f"reduce_window_{name}_p")
    return (partial(primitive.bind, **kwargs),
            lambda x: sliding.reduce_window(x, init(x.dtype), combine, *kwargs.values()))


def without(kwargs, *names):
    return {name: value for name, value in kwargs.items() if name not in names}


CASES = [
    *[Case("reduce_window_sum", *reduced("sum", np.sum, lambda dtype: 0, kwargs), types,
           T=NUMBERS if i == 0 else "f32", label=label, linear=[(0,)])
      for i, (label, types, kwargs) in enumerate([*SHAPES, *HOLES])],
    *[Case(f"reduce_window_{name}", *reduced(name, combine, init, kwargs), types,
           T=ORDERED if i == 0 else "f32", label=label)
      for name, combine, init in [("max", np.max, lowest), ("min", np.min, highest)]
      for i, (label, types, kwargs) in enumerate([*SHAPES, *HOLES])],
    *[Case("select_and_gather_add",
           partial(lax.select_and_gather_add_p.bind, select_prim=select, **kwargs),
           lambda t, x, select=select, kwargs=kwargs: sliding.select_and_gather(
               t, x, select is ge_p, *kwargs.values()),
           "; ".join(f"{t} {t}" for t in types.split(";")), label=f"{label}, {select}",
           T="f32 f64 bf16" if i == 0 else "f32", linear=[(0,)])
      for select in (ge_p, le_p)
      for i, (label, types, kwargs) in enumerate([*SHAPES, HOLES[0]])],
    *[Case("select_and_scatter_add",
           partial(lax.select_and_scatter_add_p.bind, select_prim=select,
                   **without(kwargs, "base_dilation", "window_dilation")),
           lambda s, x, select=select, kwargs=kwargs: sliding.select_and_scatter(
               s, x, select is ge_p, *list(kwargs.values())[:3]),
           types, label=f"{label}, {select}", T="f32 f64 bf16" if i == 0 else "f32", linear=[(0,)])
      for select in (ge_p, le_p)
      for i, (label, types, kwargs) in enumerate([
          ("plain", "T[4] T[6]; T[1] T[3]; T[0] T[2]", params((3,))),
          ("strides", "T[2] T[7]", params((2,), (3,))),
          ("padding", "T[5] T[3]", params((4,), None, ((2, 3),))),
          ("cut", "T[2] T[6]", params((2,), None, ((-1, -2),))),
          ("no axes", "T[] T[]", params(())),
          ("two axes", "T[4,2] T[4,5]", params((2, 3), (1, 2), ((0, 1), (1, -1))))])],
]


@table(CASES)
def test_windows(check, sample):
    check(sample)


# ---- extremes --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_infinities_and_ties(dtype):
    x = np.array([1, np.nan, 3, 3, -np.inf, -np.inf, 2], dtype)
    out = lax.reduce_window(x, -np.inf, lax.max, (2,))
    np.testing.assert_array_equal(out, np.array([np.nan, np.nan, 3, 3, -np.inf, 2], dtype))
    # The first of those that are equal has the derivative.
    y = np.array([3, 3, 1, 1, 3], dtype)
    grad = mjax.grad(lambda y: lax.reduce_window(y, -np.inf, lax.max, (3,)).sum())(y)
    np.testing.assert_array_equal(grad, [1, 1, 0, 0, 1])
    _, tangents = mjax.jvp(lambda y: lax.reduce_window(y, -np.inf, lax.max, (3,)), (y,),
                           (np.arange(5).astype(dtype),))
    np.testing.assert_array_equal(tangents, [0, 1, 4])


def test_complex_extrema_compare_real_parts_first():
    x = np.array([1 + 2j, 1 + 3j, 9j, -1 - 1j], np.complex64)
    np.testing.assert_array_equal(lax.reduce_window(x, complex(-np.inf, -np.inf), lax.max, (2,)),
                                  [1 + 3j, 1 + 3j, 9j])


@pytest.mark.parametrize("kwargs", some([params((2,), (2,), ((1, 0),), (3,)), params((3,)),
                                         params((3,), None, ((1, 1),), None, (2,))], 3))
@pytest.mark.parametrize(("function", "init"), [(lax.max, -np.inf), (lax.min, np.inf)])
def test_derivatives_of_extrema_forward_and_backward_agree_on_ties(function, init, kwargs):
    x = np.float32([2, 1, 2, 2, 1, 1, 2, 2])
    f = lambda x: lax.reduce_window(x, init, function, **kwargs)
    forward = np.asarray(mjax.jacfwd(f)(x))
    np.testing.assert_array_equal(forward, mjax.jacrev(f)(x))
    # One row of tangents for each element.
    columns = {name: (*values, (0, 0) if name == "padding" else 1)
               for name, values in kwargs.items()}
    np.testing.assert_array_equal(forward, sliding.select_and_gather(
        np.eye(len(x), dtype=F32), np.stack([x] * len(x), 1), function is lax.max,
        *columns.values()))


def test_integer_windows_have_no_tangents():
    x = np.arange(5)
    for f, init in ((lax.add, 0), (lax.max, np.iinfo(np.int32).min)):
        _, tangent = mjax.jvp(lambda x, f=f, init=init: lax.reduce_window(x, init, f, (2,)), (x,),
                              (np.zeros(5, mjax.dtypes.float0),))
        assert tangent.dtype == mjax.dtypes.float0


# ---- what the rules are made of --------------------------------------------------------


def names(f, *args):
    return primitive_names(mjax.make_jaxpr(f)(*args))


def test_gradients_are_few_equations():
    x = np.zeros((8, 8), F32)
    average = lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2))
    greatest = lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2))
    ct = np.ones((4, 4), F32)
    assert names(lambda x, ct: mjax.vjp(average, x)[1](ct), x, ct) == [
        "reduce_window_sum", "pad", "reduce_window_sum"]
    assert names(lambda x, ct: mjax.vjp(greatest, x)[1](ct), x, ct) == [
        "reduce_window_max", "select_and_scatter_add"]
    assert names(lambda x: mjax.jvp(greatest, (x,), (x,)), x) == [
        "reduce_window_max", "select_and_gather_add"]
    assert names(mjax.vmap(average), np.zeros((3, 8, 8), F32)) == ["reduce_window_sum"]


def test_pooling_of_the_usual_kind():
    rng = np.random.default_rng(0)
    x = normal(rng, (2, 6, 6, 3), F32)
    blocks = x.reshape(2, 3, 2, 3, 2, 3)
    window = (1, 2, 2, 1)
    np.testing.assert_array_equal(
        lax.reduce_window(x, -np.inf, lax.max, window, window, "SAME"), blocks.max((2, 4)))
    np.testing.assert_allclose(
        lax.reduce_window(x, 0.0, lax.add, window, window, "SAME"), blocks.sum((2, 4)), rtol=1e-5)
    grad = mjax.grad(lambda x: (lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID")
                                ** 2).sum())(x)
    np.testing.assert_allclose(grad, np.where(np.repeat(np.repeat(
        blocks.max((2, 4)), 2, 1), 2, 2) == x, 2 * x, 0))


@pytest.mark.parametrize(("padding", "pairs"), [("SAME", (1, 2)), ("SAME_LOWER", (2, 1))])
def test_padding_by_name_counts_holes(padding, pairs):
    jaxpr = mjax.make_jaxpr(lambda x: lax.reduce_window(
        x, 0.0, lax.add, (2, 2), None, padding, (2, 2), (3, 3)))(np.zeros((5, 6), F32))
    assert jaxpr.eqns[0].params["padding"] == (pairs, pairs)
    assert jaxpr.out_avals[0].shape == (9, 11)


def test_shape_tuple():
    assert lax.reduce_window_shape_tuple((5, 6), (3, 2), (2, 1), [(0, 0), (1, 1)]) == (2, 7)
    assert lax.reduce_window_shape_tuple((5, 6), (3, 2), (2, 1), [(0, 0), (1, 1)], (2, 1), (1, 2)
                                         ) == (4, 6)


# ---- refusals --------------------------------------------------------------------------

X = np.ones((5, 6), F32)


@pytest.mark.parametrize(("args", "error", "text"), [
    (((2,),), TypeError, "window_dimensions (2,) must hold one number for each of the 2 axes"),
    (((0, 2),), TypeError, "reduce_window: window_dimensions (0, 2) must be positive."),
    (((2, 2), (0, 1)), TypeError, "window_strides (0, 1) must be positive."),
    (((2, 2), (1,)), TypeError, "window_strides (1,) must hold one number"),
    (((2, 2), None, "FOO"), ValueError, "padding must be 'SAME', 'SAME_LOWER' or 'VALID', got "
                                        "'FOO'."),
    (((2, 2), None, [(0, 0)]), TypeError, "padding ((0, 0),) must hold one pair for each"),
    (((2, 2), None, [(-3, -3), (0, 0)]), ValueError, "takes more elements away than there are"),
    (((2, 2), None, "VALID", (0, 1)), TypeError, "base_dilation (0, 1) must be positive."),
    (((2, 2), None, "VALID", None, (0, 1)), TypeError, "window_dilation (0, 1) must be positive."),
    (((2.5, 2),), TypeError, "window_dimensions must be a sequence of integers, got (2.5, 2)."),
])
def test_windows_that_do_not_fit(args, error, text):
    with pytest.raises(error, match=re.escape(text)):
        lax.reduce_window(X, 0.0, lax.add, *args)


def test_wrong_operands_of_selections():
    kwargs = params((2, 2))
    gather = partial(lax.select_and_gather_add_p.bind, **kwargs)
    scatter = partial(lax.select_and_scatter_add_p.bind, select_prim=ge_p, window_strides=(1, 1),
                      window_dimensions=(2, 2), padding=((0, 0), (0, 0)))
    with pytest.raises(TypeError, match="tangents and operand of one shape"):
        gather(X, X[1:], select_prim=ge_p)
    with pytest.raises(TypeError, match="operands of one dtype, got float32 and int32"):
        gather(X, X.astype(np.int32), select_prim=ge_p)
    with pytest.raises(TypeError, match="select_prim must be ge_p or le_p, got gt"):
        gather(X, X, select_prim=gt_p)
    with pytest.raises(TypeError, match="does not accept dtype complex64"):
        gather(X.astype(np.complex64), X.astype(np.complex64), select_prim=ge_p)
    with pytest.raises(TypeError, match=re.escape("so be of shape (4, 5), got (5, 6).")):
        scatter(X, X)
    with pytest.raises(NotImplementedError, match="cannot be transposed for dilated windows"):
        mjax.linear_transpose(lambda t: lax.select_and_gather_add_p.bind(
            t, X, select_prim=ge_p, **params((2, 2), None, None, None, (2, 1))), X)(X[2:, 1:])
