"""Real programs with loops: values and gradients are NumPy's.

The programs are in benchmarks/programs, where they are timed side by side with jax;
tests/differential compares their results with jax's.
"""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from benchmarks.programs import PROGRAMS
from benchmarks.programs.kalman import filtered, filtered_states, kalman_args
from benchmarks.programs.newton import kepler, kepler_args
from tests.engine.control.loop_programs import compiled
from tests.programs.python import PYTHON, differences


def arguments(program, seed=0):
    return program.args(np.random.default_rng(seed), 1)


def along(program, args, direction):
    """The program along a line through its differentiated arguments."""
    def f(t):
        moved = list(args)
        for i, d in zip(program.differentiated, direction, strict=True):
            moved[i] = mjax.tree_util.tree_map(lambda x, d: x + t * d, args[i], d)
        return program.run(PYTHON, *moved)

    return f


@pytest.fixture(autouse=True)
def x64():
    with mjax.enable_x64(True):
        yield


SLOW = "transformer", "ODE with adjoint", "Kalman filter in parallel"


@pytest.mark.parametrize("program", [
    pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name in SLOW else [])
    for p in PROGRAMS])
def test_values_and_gradients(program):
    args = arguments(program)
    rng = np.random.default_rng(1)
    value, slopes = compiled(mjax.value_and_grad(
        lambda *args: program.run(mjax, *args), program.differentiated))(*args)
    np.testing.assert_allclose(value, program.run(PYTHON, *args), 1e-7, 1e-8)
    # Along lines that move every element of every differentiated argument.
    for _ in range(3):
        direction = [mjax.tree_util.tree_map(lambda x: rng.normal(size=x.shape), args[i])
                     for i in program.differentiated]
        expected = differences(along(program, args, direction), np.zeros(()), 1e-4)
        found = sum(np.sum(s * d) for s, d in zip(
            *map(mjax.tree_util.tree_leaves, (slopes, direction)), strict=True))
        np.testing.assert_allclose(found, expected, 2e-6, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_without_jit_and_in_batches(program):
    args = arguments(program)
    run = lambda *args: program.run(mjax, *args)
    expected = run(*args)
    np.testing.assert_allclose(expected, program.run(PYTHON, *args), 1e-7, 1e-8)
    many = [arguments(program, seed) for seed in range(2)]
    stacked = mjax.tree_util.tree_map(lambda *xs: np.stack(xs), *many)
    slopes = compiled(mjax.vmap(mjax.grad(run)))(*stacked)
    for i, one in enumerate(many):
        single = compiled(mjax.grad(run))(*one)
        for a, b in zip(*map(mjax.tree_util.tree_leaves, (slopes, single)), strict=True):
            np.testing.assert_allclose(a[i], b, 1e-5, 1e-7)


@pytest.mark.slow
def test_the_filter_in_parallel_is_the_filter():
    noises, observations = kalman_args(np.random.default_rng(2), 4)
    one, other = compiled(lambda *args: (filtered(mjax, *args), filtered_states(mjax, *args)))(
        noises, observations)
    assert one.shape == (28, 2)
    np.testing.assert_allclose(one, other, 1e-9)
    np.testing.assert_allclose(one, filtered(PYTHON, noises, observations), 1e-9)


def test_roots_have_the_derivatives_of_the_implicit_function():
    mean, e = kepler_args(np.random.default_rng(3), 2)
    x = mean
    for _ in range(300):
        x = mean + e * np.sin(x)
    slopes = compiled(mjax.grad(lambda *args: kepler(mjax, *args), (0, 1)))(mean, e)
    np.testing.assert_allclose(slopes[0], -np.sin(x) / (1 - e * np.cos(x)), 1e-9, 1e-9)
    np.testing.assert_allclose(slopes[1], -np.sin(x) ** 2 / (1 - e * np.cos(x)) - 1, 1e-9)
    # Forward mode and second derivatives go the same way.
    _, forward = mjax.jvp(lambda m: kepler(mjax, m, e), (mean,), (np.ones(10),))
    np.testing.assert_allclose(forward, np.sum(slopes[0]), 1e-9)
    twice = compiled(mjax.grad(lambda m: mjax.numpy.sum(mjax.grad(
        lambda m: kepler(mjax, m, e))(m))))(mean)
    step = 1e-6
    shifted = [mjax.grad(lambda m: kepler(mjax, m, e))(mean + s) for s in (step, -step)]
    np.testing.assert_allclose(twice, (shifted[0] - shifted[1]) / (2 * step), 1e-5, 1e-6)
