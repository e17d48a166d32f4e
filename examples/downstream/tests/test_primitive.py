import mjax
import mjax.numpy as jnp
import numpy as np
import pytest

from leaky_sums import leaky_sum, leaky_sum_p

X = np.array([[1, 2, 4, 8], [0, 1, 0, -3]], np.float32)
DECAY = np.array([0.5, 0.25], np.float32)


def loop(x, decay, reverse=False):
    """The sums, one number after another."""
    x = x[..., ::-1] if reverse else x
    out, total = np.zeros_like(x), np.zeros_like(x[..., 0])
    for t in range(x.shape[-1]):
        out[..., t] = total = decay * total + x[..., t]
    return out[..., ::-1] if reverse else out


@pytest.mark.parametrize("reverse", [False, True])
def test_sums(reverse):
    for f in (leaky_sum, mjax.jit(leaky_sum, static_argnames="reverse")):
        np.testing.assert_allclose(f(X, DECAY, reverse=reverse), loop(X, DECAY, reverse))
    assert leaky_sum(X[:, :0], 0.5).shape == (2, 0)


def test_the_rules_are_right(check_primitive):
    check_primitive(leaky_sum_p, X, DECAY, reverse=False)


def test_the_rules_are_right_backwards(check_primitive):
    check_primitive(leaky_sum_p, X[0], DECAY[0], reverse=True)


def test_transformations_compose():
    last = lambda x, decay: leaky_sum(x, decay)[..., -1]
    np.testing.assert_allclose(mjax.grad(last)(X[0], 0.5), [0.125, 0.25, 0.5, 1])
    # 1 d^3 + 2 d^2 + 4 d + 8, and its derivative
    np.testing.assert_allclose(mjax.grad(last, 1)(X[0], 0.5), 3 * 0.25 + 4 * 0.5 + 4)
    each = mjax.jit(mjax.vmap(mjax.grad(last, 1)))(X, DECAY)
    np.testing.assert_allclose(each, [mjax.grad(last, 1)(x, d) for x, d in zip(X, DECAY)])


def test_integers_become_numbers_that_decay():
    assert leaky_sum([1, 1], 0.5).dtype == jnp.float32
    np.testing.assert_allclose(leaky_sum([1, 1], 0.5), [1, 1.5])


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="a decay for each series"):
        leaky_sum_p.bind(X, DECAY[:1], reverse=False)
