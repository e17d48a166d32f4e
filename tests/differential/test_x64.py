"""x64 switched inside of what is transformed, around it, and both: as jax has it."""

import pickle

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree

# jax says so where it makes 32 bits of 64.
#: Both libraries warn.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Explicitly requested dtype", "ignore:.*was asked for, but 64-bit types are off")
X = np.arange(3, dtype=np.float32) + np.float32(0.5)


def with_custom_vjp(m, x):
    f = m.custom_vjp(lambda y: m.numpy.sin(y) * 2.0)
    f.defvjp(lambda y: (m.numpy.sin(y) * 2.0, y), lambda y, ct: (ct * m.numpy.cos(y),))
    return f(x.astype(float))


def with_custom_jvp(m, x):
    f = m.custom_jvp(lambda y: m.numpy.sin(y) * y)
    f.defjvp(lambda primals, tangents: (f(*primals), primals[0] * tangents[0]))
    return f(x.astype(float))


def operations(m, x):
    y = x.astype(float) * 1.5 + np.float64(2) + np.arange(3, dtype=np.float64) + 2
    y = y + m.numpy.zeros(3).at[m.numpy.arange(2)].set(x[:2])
    y = y + m.numpy.mean(x) * m.numpy.linspace(0, 1, 3)
    return y + m.jit(lambda y: m.numpy.sin(y.astype(float)) * 2.5)(x) + with_custom_jvp(m, x)


def loops(m, x):
    wide = x.astype(float)
    y, z = m.lax.scan(lambda c, i: (c * 2.0, c + m.numpy.arange(3).sum()), wide, m.numpy.arange(2))
    y = y + m.lax.while_loop(lambda c: m.numpy.sum(c) < 30, lambda c: c * 2.0 + 1,
                             m.lax.stop_gradient(wide))
    y = y + m.lax.cond(x[0] > 0, lambda y: y.astype(float) * 2.0, lambda y: y.astype(float) + 1, x)
    return y + z[1] + m.checkpoint(lambda y: m.numpy.sin(m.numpy.sin(y * 1.5)))(wide)


def gradient(m, x):
    return m.grad(lambda y: m.numpy.sum(m.numpy.sin(y.astype(float)) * 2.5))(x)


#: Programs that run with x64 switched.
BODIES = {"operations": operations, "loops": loops, "gradient": gradient}


def total(m, f):
    return lambda x: m.numpy.sum(f(x))


def replicated(m, f):
    spec, mesh = m.sharding.PartitionSpec(), m.make_mesh((1,), ("i",))
    return m.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)


def types(avals):
    return [np.zeros(a.shape, a.dtype) for a in avals]


TRANSFORMATIONS = {
    "jit": lambda m, f, x: f(x),
    "grad": lambda m, f, x: m.grad(total(m, f))(x),
    "grad of jit": lambda m, f, x: m.grad(m.jit(total(m, f)))(x),
    "jvp": lambda m, f, x: m.jvp(f, (x,), (x,)),
    "linearize": lambda m, f, x: m.linearize(f, x)[1](x),
    "vmap": lambda m, f, x: m.vmap(f)(m.numpy.stack([x, x])),
    "vmap of grad": lambda m, f, x: m.vmap(m.grad(total(m, f)))(m.numpy.stack([x, x])),
    "hessian": lambda m, f, x: m.hessian(total(m, f))(x),
    "grad of scan": lambda m, f, x: m.grad(lambda x: m.numpy.sum(
        m.lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1]))(x),
    "cond": lambda m, f, x: m.lax.cond(x[0] > 0, f, f, x),
    "grad of checkpoint": lambda m, f, x: m.grad(m.checkpoint(total(m, f)))(x),
    "shard_map": lambda m, f, x: replicated(m, f)(x),
}
#: Transformed programs also run eagerly, operation by operation.
MODES = [pytest.param(True, id="jit"), pytest.param(False, id="eager", marks=pytest.mark.slow)]


@pytest.mark.parametrize("compiled", MODES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("body", BODIES)
def test_on_inside(body, transformation, compiled):
    def program(m, x):
        def f(x):
            with m.enable_x64(True):
                return BODIES[body](m, x)

        def whole(x):
            return TRANSFORMATIONS[transformation](m, f, x)

        return (m.jit(whole) if compiled else whole)(m.numpy.asarray(x))

    assert_agree(program, X)


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_off_inside_and_on_around(transformation):
    def program(m, x):
        def f(x):
            with m.enable_x64(False):
                return m.numpy.sin(x) * x

        with m.enable_x64(True):
            return m.jit(lambda x: TRANSFORMATIONS[transformation](m, f, x))(x)

    assert_agree(program, X.astype(np.float64))


def test_results_known_by_type():
    def program(m, x):
        def f(x):
            with m.enable_x64(True):
                return BODIES["operations"](m, x), BODIES["loops"](m, x)

        return types(m.tree_util.tree_leaves(m.eval_shape(f, x))), types(
            m.make_jaxpr(f)(x).out_avals)

    assert_agree(program, X)


@pytest.mark.parametrize("inside", ["custom_vjp", "call"])
def test_grad_of_a_custom_vjp(inside):
    """Of its call, or of it and of what is around."""
    def program(m, x):
        def f(x):
            with m.enable_x64(True):
                out = with_custom_vjp(m, x)
                return m.numpy.sum(out) if inside == "call" else out

        return m.grad(f if inside == "call" else total(m, f))(x)

    assert_agree(program, X)


def test_symbolic_zeros_of_another_width_are_refused():
    for m in (mjax, jax):
        def bwd(_, ct, m=m):
            with m.enable_x64(True):
                zero = m.numpy.zeros((), "float64")
            return (m.custom_derivatives.SymbolicZero.from_primal_value(zero),)

        f = m.custom_vjp(lambda x: x * 2.0)
        f.defvjp(lambda x: (x * 2.0, None), bwd)
        with pytest.raises(ValueError, match="float64|f64"):
            m.grad(f)(np.float32(1))


@pytest.mark.parametrize("x", [1.0, np.float64(1), np.float32(1)], ids=["Python", "f64", "f32"])
def test_scalar_arguments_keep_the_type_they_came_with(x):
    def program(m):
        def f(x):
            with m.enable_x64(True):
                return m.numpy.sin(x)

        return m.grad(f)(x)

    assert_agree(program)


def test_operands_of_64_bits_with_x64_off():
    operations = {
        "sin": lambda m, x: m.numpy.sin(x), "x * x": lambda m, x: x * x,
        "x + 1": lambda m, x: x + 1,
        "x + f32": lambda m, x: x + X, "zeros_like": lambda m, x: m.numpy.zeros_like(x),
        "full_like": lambda m, x: m.lax.full_like(x, 2), "sum": lambda m, x: m.numpy.sum(x),
        "mean": lambda m, x: m.numpy.mean(x), "var": lambda m, x: m.numpy.var(x),
        "dot": lambda m, x: m.numpy.dot(x, x), "interp": lambda m, x: m.numpy.interp(x, x, x),
        "x ** 2": lambda m, x: x**2, "linspace": lambda m, x: m.numpy.linspace(x[0], x[1], 3),
        "x[i]": lambda m, x: x[m.numpy.argsort(x)],
    }

    def program(m):
        with m.enable_x64(True):
            x = m.numpy.asarray(X.astype(np.float64))
        return {name: f(m, x) for name, f in operations.items()}

    assert_agree(program)


def test_pickles_read_with_x64_off():
    def program(m):
        with m.enable_x64(True):
            text = pickle.dumps(m.numpy.arange(3) * 1.5)
            wide = pickle.loads(text)
        return pickle.loads(text), wide

    assert_agree(program)


def over_devices(m, f):
    """The function on each of 8 devices, as a shard_map and as a pmap with a sum over them."""
    spec, mesh = m.sharding.PartitionSpec("i"), m.sharding.Mesh(np.array(m.devices("cpu")), "i")

    def g(x):
        y = f(x)
        return y - m.lax.psum(y, "i")

    return (m.shard_map(g, mesh=mesh, in_specs=spec, out_specs=spec),
            lambda x: m.pmap(g, "i")(x.reshape(8, -1)))


def switched(m, inside, x):
    with m.enable_x64(inside):
        return m.numpy.sin(x.astype(float)) * 2.5 + m.numpy.arange(x.shape[0])


@pytest.mark.parametrize("form", [0, 1], ids=["shard_map", "pmap"])
@pytest.mark.parametrize(("around", "inside"), [(False, True), (True, False), (True, True)])
def test_over_several_devices(form, around, inside):
    def program(m):
        f = over_devices(m, lambda x: switched(m, inside, x))[form]
        with m.enable_x64(around):
            return np.asarray(m.jit(f)(m.numpy.linspace(0, 1, 16)))

    assert_agree(program)


@pytest.mark.slow
@pytest.mark.parametrize("form", [0, 1], ids=["shard_map", "pmap"])
@pytest.mark.parametrize("transformation", ["grad", "jvp", "linearize", "eager"])
def test_derivatives_over_several_devices(form, transformation):
    def program(m):
        f = over_devices(m, lambda x: switched(m, True, x))[form]
        x = m.numpy.linspace(0, 1, 16)
        return m.tree_util.tree_map(np.asarray, {
            "eager": lambda: f(x), "grad": lambda: m.grad(total(m, f))(x),
            "jvp": lambda: m.jvp(f, (x,), (x,)), "linearize": lambda: m.linearize(f, x)[1](x),
        }[transformation]())

    assert_agree(program)


def test_types_of_literals_are_checked_with_x64_as_it_was():
    for m in (mjax, jax):
        with m.enable_checks(True):
            assert m.jit(lambda a, m=m: _plus_two(m, a))(np.int32(1)) == 3


def _plus_two(m, a):
    with m.enable_x64(True):
        return 2 + a
