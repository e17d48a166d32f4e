"""Params that only compare equal are told apart by every cache, and a NaN is found again."""

import math

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.util import exact
from mjax._numpy.fused import fused
from mjax_ext.core import Primitive, ShapedArray
from mjax_ext.interpreters import mlir

X = np.ones(2, np.float32)
#: Values that compare equal, or to themselves only.
ALIKE = [
    (1, 1.0, True, np.int32(1), np.float32(1), 1 + 0j),
    (0.0, -0.0, 0, False, complex(0.0, -0.0), complex(-0.0, 0.0), np.float32(-0.0)),
    ((1, 2), (1.0, 2), (True, 2)),
    (((0.0,),), ((-0.0,),), ((0,),)),
    (frozenset({1}), frozenset({1.0}), frozenset({True})),
]


@pytest.mark.parametrize("values", ALIKE, ids=repr)
def test_exact_tells_apart_what_compares_equal(values):
    assert len({exact(v) for v in values}) == len(values)
    assert [exact(v) for v in values] == [exact(v) for v in values]


def test_exact_knows_a_nan_again():
    assert exact((float("nan"),)) == exact((float("nan"),))
    assert exact(np.float32("nan")) == exact(np.float32("nan"))


def scaling(lowering=None):
    """A user's primitive whose result has the dtype of its param; counts evaluations of types."""
    p = Primitive("scale")
    p.evaluations = 0

    @p.def_abstract_eval
    def type_of(x, *, factor):
        p.evaluations += 1
        number = factor[0] if isinstance(factor, tuple) else factor
        return ShapedArray(x.shape, mjax.typeof(number).dtype)

    def scale(x, *, factor):
        number = factor[0] if isinstance(factor, tuple) else factor
        return lax.full(x.shape, number)

    mlir.register_lowering(p, mlir.lower_fun(scale, multiple_results=False))
    return p


APPLIED = {
    "eager": lambda f: f(X),
    "jit": lambda f: mjax.jit(f)(X),
    "vmap": lambda f: mjax.vmap(f, axis_size=2, in_axes=None)(X),
}


@pytest.mark.parametrize("how", APPLIED)
@pytest.mark.parametrize("values", [(1, 1.0, True, 1 + 0j), (1.0, 1, True),
                                    ((1,), (1.0,), (True,))], ids=repr)
def test_a_param_of_another_type_is_another_param(how, values):
    p = scaling()
    for value in values * 2:
        out = APPLIED[how](lambda x: p.bind(x, factor=value))  # noqa: B023
        number = value[0] if isinstance(value, tuple) else value
        assert out.dtype == mjax.typeof(number).dtype
        assert np.all(np.asarray(out) == number)


@pytest.mark.parametrize("how", APPLIED)
def test_zeros_of_either_sign(how):
    p = scaling()
    for value in (0.0, -0.0, (0.0,), (-0.0,)) * 2:
        out = APPLIED[how](lambda x: p.bind(x, factor=value))  # noqa: B023
        sign = math.copysign(1, value[0] if isinstance(value, tuple) else value)
        assert np.all(np.signbit(np.asarray(out)) == (sign < 0))


def test_a_nan_is_compiled_for_once():
    p = scaling()
    for _ in range(3):
        assert np.isnan(np.asarray(p.bind(X, factor=float("nan")))).all()
    assert len(p.executables) == 2 and p.evaluations == 1  # the call, and its traced lowering


@pytest.mark.parametrize("values", [(0.0, -0.0, 0), (0, -0.0, 0.0, False)])
def test_fill_values_of_gather(values):
    x = mjax.device_put(X)
    for value in values:
        out = np.asarray(x.at[np.array([5])].get(mode="fill", fill_value=value))
        assert np.signbit(out)[0] == (math.copysign(1, value) < 0)
        index = np.array([[5]])
        numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        out = lax.gather(x, index, numbers, (1,), mode="fill", fill_value=value)
        assert np.signbit(np.asarray(out))[0] == (math.copysign(1, value) < 0)


def test_params_that_are_not_hashable_are_refused_by_name():
    for value in ([1], ([1],), {"a": 1}):
        with pytest.raises(TypeError, match="Parameter 'factor' of primitive 'scale' is not hash"):
            scaling().bind(X, factor=value)
        with pytest.raises(TypeError, match="Parameter 'factor' of primitive 'scale' is not hash"):
            mjax.jit(lambda x: scaling().bind(x, factor=value))(X)  # noqa: B023


def test_static_arguments_of_jit():
    traced = []

    def f(x, n):
        traced.append(n)
        return lax.mul(x, np.float32(n[0] if isinstance(n, tuple) else n))

    jitted = mjax.jit(f, static_argnums=1)
    for n in (0.0, -0.0, (0.0,), (-0.0,), 0):
        out = np.asarray(jitted(X, n))
        assert np.signbit(out).all() == (str(n).find("-") >= 0)
    assert len(traced) == 5
    for _ in range(3):
        assert np.isnan(np.asarray(jitted(X, float("nan")))).all()
        mjax.make_jaxpr(lambda x: jitted(x, float("nan")))(X)
    assert len(traced) == 6


def test_static_arguments_of_fused_functions():
    calls = []

    @fused(static_argnames=("n",))
    def f(x, n):
        calls.append(n)
        return lax.mul(x, np.float32(n[0]))

    x = mjax.device_put(X)
    for n in ((1,), (True,), (-0.0,), (0.0,), (float("nan"),), (float("nan"),)):
        np.testing.assert_array_equal(np.asarray(f(x, n)), X * np.float32(n[0]))
    assert len(calls) == 5
