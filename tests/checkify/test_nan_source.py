"""`nan_source` in each kind of program."""

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.debug import nan_source


@mjax.custom_jvp
def _custom(x):
    return x * 2.0


@_custom.defjvp
def _(primals, tangents):
    return _custom(*primals), lax.log(primals[0]) * tangents[0]


XS = np.array([1.0, 2.0, -3.0, 0.0], np.float32)


@pytest.mark.parametrize("f, primitive", [
    (lambda xs: jnp.sqrt(xs) / xs, "sqrt"),
    (lambda xs: xs[3] / xs[3] + lax.log(xs[2]), "div"),
    (mjax.jit(lambda xs: mjax.jit(lax.log)(xs)), "log"),
    (lambda xs: lax.scan(lambda c, x: (c + lax.rsqrt(x), c), 0.0, xs)[0], "rsqrt"),
    (lambda xs: lax.fori_loop(0, 4, lambda i, c: c + lax.sqrt(xs[i]), 0.0), "sqrt"),
    (lambda xs: lax.while_loop(lambda c: lax.log(c) < 1.0, lambda c: c - 3.0, xs[2]), "log"),
    (lambda xs: lax.cond(xs[0] > 0, lambda x: lax.log(x), lambda x: lax.asin(x), xs), "log"),
    (lambda xs: lax.switch(1, [lax.log, lambda x: lax.acosh(x + 1.0)], xs), "acosh"),
    (lambda xs: mjax.vmap(lambda x: lax.sqrt(x))(xs), "sqrt"),
    (lambda xs: mjax.grad(lambda x: jnp.where(x > 0, lax.sqrt(x), 0.0))(xs[3]), "mul"),
    (lambda xs: mjax.grad(_custom)(xs[2]), "log"),
    (mjax.checkpoint(lambda xs: jnp.inf * xs), "mul"),
    (lambda xs: mjax.new_ref(lax.log(xs))[...], "log"),
    (lambda xs: jnp.linalg.cholesky(-jnp.eye(2) + xs[3]), "cholesky"),
    (lambda xs: lax.custom_linear_solve(
        lambda y: 2.0 * y, xs, lambda matvec, b: lax.fori_loop(
            0, 2, lambda i, c: c + lax.log(b), b)), "log"),
    (lambda xs: lax.custom_root(lambda y: y - xs, xs, lambda f, y: lax.log(f(y) + xs),
                                lambda g, y: y), "log"),
], ids=["eager", "order", "jit", "scan", "fori", "condition", "cond", "switch", "vmap", "grad",
        "custom_jvp", "checkpoint", "reference", "cholesky", "linear_solve", "root"])
def test_the_first_equation(f, primitive):
    found = nan_source(f, jnp.asarray(XS))
    assert found.primitive == primitive
    assert "test_nan_source.py" in found.line


def test_what_it_says():
    def f(x, *, scale):
        y = x * scale
        return lax.log(y)  # the line

    found = nan_source(f, jnp.ones(3), scale=-1.0)
    line = f.__code__.co_firstlineno + 2
    assert found.operands == ("float32[3]",) and f"test_nan_source.py:{line}" in found.line


def test_numbers_constants_and_arguments_make_none():
    assert nan_source(lambda x: lax.scan(lambda c, x: (c + lax.log(x), c), 0.0, x), XS[:2]) is None
    assert nan_source(lambda x: jnp.where(x > 0, x, jnp.nan), XS) is None
    assert nan_source(lambda x: lax.log(x), np.float32(np.nan)) is None
    assert nan_source(lambda x: x // 2, np.arange(3)) is None
    with pytest.raises(TypeError, match="nan_source expects a function"):
        nan_source(3)


def test_inside_of_devices():
    mesh = mjax.make_mesh((1,), ("i",))
    spec = mjax.sharding.PartitionSpec("i")
    f = mjax.shard_map(lambda x: lax.log(x) + 1.0, mesh=mesh, in_specs=spec, out_specs=spec)
    assert nan_source(f, XS).primitive == "log"
