"""Random programs on both libraries: evaluated, jitted, transformed, and as jaxprs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import (
    assert_agree,
    assert_equal_results,
    assert_same_equations,
)
from tests.differential.composition import Composition
from tests.differential.operations import LAX, NUMPY

# The default conversions of both libraries warn of imaginary parts that are lost.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Casting complex values", "ignore:Casting from complex")

#: The two may differ in rounding, and so where a function is discontinuous.
ROUGH = {"numpy.floor_divide", "x // y", "x % y", "numpy.remainder", "numpy.fmod", "rem"}
#: Dtypes of few digits, and functions without a derivative.
NOT_SMOOTH = {"to f16", "to bf16", "to f32", "astype f16", "lax.nextafter", "bits", "argmax",
              "lax.population_count"}
SMOOTH = {"lax": [op for op in LAX if op.name not in NOT_SMOOTH],
          "numpy": [op for op in NUMPY if op.name not in NOT_SMOOTH | ROUGH]}


@pytest.mark.parametrize("seed", range(60))
def test_lax(seed):
    program = Composition(LAX, seed)
    with_program(program, assert_agree)
    with_program(program, assert_same_equations)
    with_program(program, lambda f, *args: assert_agree(lambda m, *xs: jitted(m, f)(*xs), *args))


@pytest.mark.parametrize("seed", range(60))
def test_numpy(seed):
    program = Composition(NUMPY, seed)
    with_program(program, assert_agree)
    with_program(program, lambda f, *args: assert_agree(lambda m, *xs: jitted(m, f)(*xs), *args))


def with_program(program, check):
    try:
        check(program, *program.arguments)
    except BaseException as error:
        error.add_note(str(program))
        raise


def jitted(m, program):
    return m.jit(lambda *xs: program(m, *xs))


def loss(m, program, args):
    """The sum of all results as a function of the first three arguments, which are floats."""

    def f(*floats):
        outs = program(m, *floats, *args[3:])
        total = m.lax.mul(floats[2], 0.0)
        for out in outs:
            if getattr(out, "dtype", np.dtype(bool)).kind in "fc":
                real = m.lax.real(out) if out.dtype.kind == "c" else out
                real = m.lax.convert_element_type(real, np.float64)
                total = m.lax.add(total, m.lax.reduce_sum(real, tuple(range(out.ndim))))
        return total

    return f


def stacked(m, args):
    return [m.lax.full((2, *np.shape(x)), 1.0, np.float64) * x for x in args]


ALL = (0, 1, 2)
TRANSFORMS = {
    "grad": lambda m, f, xs: m.grad(f, ALL)(*xs),
    "jit of grad": lambda m, f, xs: m.jit(m.grad(f, ALL))(*xs),
    "grad of jit": lambda m, f, xs: m.grad(m.jit(f), ALL)(*xs),
    "jvp": lambda m, f, xs: m.jvp(f, tuple(xs), tuple(xs)),
    "linearize": lambda m, f, xs: m.linearize(f, *xs)[1](*xs),
    "jvp of grad": lambda m, f, xs: m.jvp(m.grad(f, ALL), tuple(xs), tuple(xs)),
    "grad of jvp": lambda m, f, xs: m.grad(lambda x: m.jvp(f, (x, *xs[1:]), tuple(xs))[1])(xs[0]),
    "hessian": lambda m, f, xs: m.hessian(f)(*xs),
    "jacfwd": lambda m, f, xs: m.jacfwd(f, ALL)(*xs),
    "vmap": lambda m, f, xs: m.vmap(f, (None, 0, None))(xs[0], stacked(m, xs)[1], xs[2]),
    "vmap of grad": lambda m, f, xs: m.vmap(m.grad(f, ALL))(*stacked(m, xs)),
    "jit of vmap of jvp": lambda m, f, xs: m.jit(m.vmap(
        lambda x: m.jvp(f, (x, *xs[1:]), tuple(xs))))(stacked(m, xs)[0]),
    "grad of vmap": lambda m, f, xs: m.grad(
        lambda x: m.lax.reduce_sum(m.vmap(lambda y: f(y, *xs[1:]))(x), (0,)))(stacked(m, xs)[0]),
}


@pytest.mark.parametrize("front", ["lax", "numpy"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformed(transform, seed, front):
    seed = 1000 + 10 * list(TRANSFORMS).index(transform) + seed
    with jax.enable_x64(True), mjax.enable_x64(True):
        program = Composition(SMOOTH[front], seed, dtype=np.float64)

        def transformed(m, *args):
            return TRANSFORMS[transform](m, loss(m, program, args), args[:3])

        with_program(program, lambda _, *args: assert_agree(transformed, *args, tolerance=1e-7))


@pytest.mark.parametrize("seed", range(30))
def test_what_jax_refuses_is_refused(seed):
    program = Composition(LAX, seed, length=12)
    accepted = []
    for step in program.refused:
        if max(step.operands, default=0) < len(program.arguments):
            xs = [program.arguments[i] for i in step.operands]
            try:
                mjax.eval_shape(lambda *xs, f=step.operation: f.apply(mjax, *xs), *xs)
            except (TypeError, ValueError, AttributeError, IndexError):
                pass
            else:
                accepted.append((step.operation.name, xs))
    assert not accepted


def test_the_comparison_can_fail():
    with pytest.raises(AssertionError):
        assert_equal_results(mjax.lax.add(1, 2), jax.lax.add(np.int32(1), np.int32(2)))
    with pytest.raises(AssertionError):
        assert_equal_results(mjax.lax.sin(1.0), jax.lax.cos(1.0))
    with pytest.raises(AssertionError):
        assert_equal_results((mjax.lax.sin(1.0),), [jax.lax.sin(1.0)])
