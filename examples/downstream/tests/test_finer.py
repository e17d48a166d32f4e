import mjax
import numpy as np
from mjax import lax

from leaky_sums import at_finer_steps, leaky_sum

PULSE = np.array([1, 0, 0, 0, 0], np.float32)


def test_a_pulse_decays_as_slowly_as_asked():
    f = lambda x: {"sum": leaky_sum(x, 0.25), "x": x}
    out = at_finer_steps(f, 2)(PULSE)
    np.testing.assert_allclose(out["sum"], 0.5 ** np.arange(5))
    np.testing.assert_array_equal(out["x"], PULSE)


def test_sums_in_loops_branches_and_compiled_functions_are_found():
    def f(x):
        x = lax.fori_loop(0, 1, lambda i, x: leaky_sum(x, 0.25), x)
        x = lax.cond(x[0] > 0, lambda x: leaky_sum(x, 0.0), lambda x: 0 * x, x)
        return mjax.jit(lambda x: 2 * leaky_sum(x, 0.0))(x)

    np.testing.assert_allclose(at_finer_steps(f, 2)(PULSE), 2 * 0.5 ** np.arange(5))


def test_it_composes():
    f = lambda decay: leaky_sum(PULSE, decay)[2]  # decay**2, and decay with two steps for one
    finer = at_finer_steps(f, 2)
    assert mjax.jit(mjax.grad(finer))(0.25) == 1
    np.testing.assert_allclose(mjax.vmap(finer)(PULSE[:2] / 2), PULSE[:2] / 2)
