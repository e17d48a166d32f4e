"""Functions with rules of their own, and what they are compared with.

Each rule gives the derivative times two, so that a rule that got lost is seen at any order:
`doubled(f)` has the same values and the same derivatives without any rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.pytree import tree_leaves, tree_map
from mjax.custom_derivatives import CustomVJPPrimal, SymbolicZero

RNG = np.random.default_rng(7)
X, Y, DX, DY = RNG.normal(size=(4, 3)).astype("float32")
XS, YS = RNG.normal(size=(2, 4, 3)).astype("float32")
C = np.array([0.5, -1.0, 2.0], "float32")


def doubled(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same values, and twice the derivatives, of every order."""

    def g(*args: Any) -> Any:
        out = f(*args)
        return tree_map(lambda o: 2 * o - lax.stop_gradient(o), out)

    return g


class Pair(NamedTuple):
    """A function of two arrays that calls one with a rule, and the same without."""

    custom: Callable[..., Any]
    plain: Callable[..., Any]


def product(x, y):
    return jnp.sin(x) * y


def product_tangent(x, y, dx, dy):
    return 2 * (jnp.cos(x) * dx * y + jnp.sin(x) * dy)


# ---- custom_jvp ------------------------------------------------------------------------


def simple() -> Pair:
    f = mjax.custom_jvp(product)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), product_tangent(*primals, *tangents)

    return Pair(lambda x, y: f(x, y) + x, lambda x, y: doubled(product)(x, y) + x)


def by_argument() -> Pair:
    f = mjax.custom_jvp(product)
    f.defjvps(lambda dx, out, x, y: 2 * jnp.cos(x) * dx * y,
              lambda dy, out, x, y: 2 * jnp.sin(x) * dy)
    return Pair(f, doubled(product))


def of_trees() -> Pair:
    """A dict, None, a default, an integer argument and an integer result."""

    def g(d, n, scale=3.0):
        return {"out": d["x"] * d["y"][0] ** 2 * scale, "n": n + 1}

    f = mjax.custom_jvp(g)

    @f.defjvp
    def f_jvp(primals, tangents):
        (d, n, scale), (dd, dn, _) = primals, tangents
        assert dn.dtype == mjax.dtypes.float0 and dd["none"] is None
        (y,), (dy,) = d["y"], dd["y"]
        tangent = 2 * scale * (dd["x"] * y ** 2 + d["x"] * 2 * y * dy)
        return f(d, n, scale), {"out": tangent, "n": dn}

    def custom(x, y):
        out = f(n=4, d={"x": x, "y": (y,), "none": None})
        return out["out"] * out["n"]

    def plain(x, y):
        return doubled(lambda x, y: x * y ** 2 * 3.0)(x, y) * 5

    return Pair(custom, plain)


def of_functions() -> Pair:
    f = mjax.custom_jvp(lambda g, x, h, y: g(x) * h(y), nondiff_argnums=(0,),
                        nondiff_argnames="h")

    @f.defjvp
    def f_jvp(g, h, primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        _, tangent = mjax.jvp(lambda x, y: g(x) * h(y), (x, y), (dx, dy))
        return f(g, x, h, y), 2 * tangent

    return Pair(lambda x, y: f(jnp.sin, x, jnp.cos, y),
                lambda x, y: doubled(lambda x, y: jnp.sin(x) * jnp.cos(y))(x, y))


def told_of_zeros() -> Pair:
    f = mjax.custom_jvp(product)

    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        terms = []
        if type(dx) is not SymbolicZero:
            terms.append(2 * jnp.cos(x) * dx * y)
        if type(dy) is not SymbolicZero:
            terms.append(2 * jnp.sin(x) * dy)
        return f(x, y), functools.reduce(jnp.add, terms)

    f.defjvp(f_jvp, symbolic_zeros=True)
    return Pair(f, doubled(product))


def around_jit() -> Pair:
    f = mjax.custom_jvp(mjax.jit(product))
    f.defjvp(mjax.jit(lambda p, t: (f(*p), product_tangent(*p, *t))))
    return Pair(mjax.jit(lambda x, y: f(x, f(x, y))),
                lambda x, y: doubled(product)(x, doubled(product)(x, y)))


def several_results() -> Pair:
    """One of them is dropped, one is a constant, one an argument."""

    def g(x, y):
        return x * y, jnp.sin(y), C, y

    f = mjax.custom_jvp(g)

    @f.defjvp
    def f_jvp(primals, tangents):
        outs, ts = mjax.jvp(g, primals, tangents)
        return f(*primals), tree_map(lambda t: 2 * t, ts)

    def use(outs):
        return outs[0] * outs[2] + outs[3]

    return Pair(lambda x, y: use(f(x, y)), lambda x, y: use(doubled(g)(x, y)))


def closing_over_constants() -> Pair:
    f = mjax.custom_jvp(lambda x, y: product(x, y) * C)
    f.defjvp(lambda p, t: (f(*p), product_tangent(*p, *t) * C))
    return Pair(f, doubled(lambda x, y: product(x, y) * C))


# ---- custom_vjp ------------------------------------------------------------------------


def simple_vjp() -> Pair:
    f = mjax.custom_vjp(product)
    f.defvjp(lambda x, y: (f(x, y), (x, y)),
             lambda r, ct: (2 * jnp.cos(r[0]) * r[1] * ct, 2 * jnp.sin(r[0]) * ct))
    return Pair(lambda x, y: f(x, y) + x, lambda x, y: doubled(product)(x, y) + x)


def trees_vjp() -> Pair:
    """Zeros as None, of an argument and of a part; integers; residuals in a tree."""

    def g(d, n, unused):
        return {"out": d["x"] * d["y"][0] ** 2 * n, "n": n}

    f = mjax.custom_vjp(g)

    def fwd(d, n, unused):
        return f(d, n, unused), {"d": d, "n": [n]}

    def bwd(r, ct):
        d, (n,), ct = r["d"], r["n"], ct["out"]
        y, none = d["y"]
        assert none is None
        x_ct, y_ct = 2 * ct * y ** 2 * n, 2 * ct * d["x"] * 2 * y * n
        return {"x": x_ct, "y": (y_ct, None), "constant": None}, None, None

    f.defvjp(fwd, bwd)

    def custom(x, y):
        return f({"x": x, "y": (y, None), "constant": x}, 3, (x, y))["out"]

    return Pair(custom, doubled(lambda x, y: x * y ** 2 * 3))


def functions_vjp() -> Pair:
    f = mjax.custom_vjp(lambda x, g, y: g(x) * y, nondiff_argnums=(1,))

    def bwd(g, r, ct):
        _, pull = mjax.vjp(lambda x, y: g(x) * y, *r)
        return tuple(2 * c for c in pull(ct))

    f.defvjp(lambda x, g, y: (f(x, g, y), (x, y)), bwd)
    return Pair(lambda x, y: f(x, jnp.sin, y), doubled(product))


def told_of_zeros_vjp() -> Pair:
    f = mjax.custom_vjp(lambda x, y: (jnp.sin(x) * y, jnp.cos(x)))

    def fwd(x, y):
        assert type(x) is type(y) is CustomVJPPrimal
        out = f(x.value, y.value)
        return out, (x.value, y.value if x.perturbed else None)

    def bwd(r, cts):
        (x, y), (a, b) = r, cts
        x_ct = None if y is None else 0 * x
        if y is not None and type(a) is not SymbolicZero:
            x_ct += 2 * jnp.cos(x) * y * a
        if y is not None and type(b) is not SymbolicZero:
            x_ct -= 2 * jnp.sin(x) * b
        return x_ct, None if type(a) is SymbolicZero else 2 * jnp.sin(x) * a

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return Pair(lambda x, y: f(x, y)[0], doubled(product))


def optimized_vjp() -> Pair:
    f = mjax.custom_vjp(product)
    f.defvjp(lambda x, y: (f(x, y), (jnp.cos(x) * y, jnp.sin(x))),
             lambda r, ct: (2 * r[0] * ct, 2 * r[1] * ct), optimize_remat=True)
    return Pair(f, doubled(product))


def gradient() -> Pair:
    @mjax.custom_gradient
    def f(x, y):
        # Its output is differentiated at second order.
        s = jnp.sin(x)
        return doubled(product)(x, y), lambda ct: (2 * jnp.cos(x) * y * ct, 2 * s * ct)

    return Pair(f, doubled(product))


JVP = {f.__name__: f for f in (simple, by_argument, of_trees, of_functions, told_of_zeros,
                               around_jit, several_results, closing_over_constants)}
VJP = {f.__name__: f for f in (simple_vjp, trees_vjp, functions_vjp, told_of_zeros_vjp,
                               optimized_vjp, gradient)}


def total(out: Any) -> Any:
    return functools.reduce(jnp.add, [jnp.sum(jnp.square(o)) for o in tree_leaves(out)])


def scanned(f):
    return lambda x, y: lax.scan(lambda c, y: (f(c, y), c), x, jnp.stack([y, x, y]))


def branch(f):
    return lambda x, y: lax.cond(x[0] > 0, f, lambda x, y: f(y, x), x, y)


#: Each takes a function of two arrays.
REVERSE = {
    "eval": lambda f: f(X, Y),
    "jit": lambda f: mjax.jit(f)(X, Y),
    "vjp": lambda f: mjax.vjp(f, X, Y)[1](DX),
    "jit of vjp": lambda f: mjax.jit(lambda x, y: mjax.vjp(f, x, y)[1](DX))(X, Y),
    "vjp of jit": lambda f: mjax.vjp(mjax.jit(f), X, Y)[1](DX),
    "grad in the first": lambda f: mjax.grad(lambda x, y: total(f(x, y)))(X, Y),
    "grad in the second": lambda f: mjax.grad(lambda x, y: total(f(x, y)), 1)(X, Y),
    "vmap": lambda f: mjax.vmap(f)(XS, YS),
    "vmap of the first": lambda f: mjax.vmap(f, (0, None))(XS, Y),
    "vmap of the second": lambda f: mjax.vmap(f, (None, 0))(X, YS),
    "vmap along another axis": lambda f: mjax.vmap(f, (1, None), 1)(XS.T, Y),
    "jit of vmap": lambda f: mjax.jit(mjax.vmap(f))(XS, YS),
    "vmap of jit": lambda f: mjax.vmap(mjax.jit(f), (0, None))(XS, Y),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)))(XS, YS),
    "vmap of grad of jit": lambda f: mjax.vmap(mjax.grad(mjax.jit(
        lambda x, y: total(f(x, y))), (0, 1)), (None, 0))(X, YS),
    "grad of vmap": lambda f: mjax.grad(
        lambda x, y: total(mjax.vmap(f)(x, y)), (0, 1))(XS, YS),
    "grad of vmap of the first": lambda f: mjax.grad(
        lambda x, y: total(mjax.vmap(f, (0, None))(x, y)), (0, 1))(XS, Y),
    "grad of vmap of the second": lambda f: mjax.grad(
        lambda x, y: total(mjax.vmap(f, (None, 0))(x, y)), (0, 1))(X, YS),
    "jit of grad of vmap": lambda f: mjax.jit(mjax.grad(
        lambda x, y: total(mjax.vmap(f, (0, None))(x, y)), (0, 1)))(XS, Y),
    "grad of jit of vmap": lambda f: mjax.grad(mjax.jit(
        lambda x, y: total(mjax.vmap(f, (0, None))(x, y))), (0, 1))(XS, Y),
    "vmap of grad of vmap": lambda f: mjax.vmap(mjax.grad(
        lambda x, y: total(mjax.vmap(f, (None, 0))(x, y)), (0, 1)), (0, None))(XS, YS),
    "jacrev": lambda f: mjax.jacrev(f, (0, 1))(X, Y),
    "reverse over reverse": lambda f: mjax.jacrev(mjax.grad(
        lambda x, y: total(f(x, y)), (0, 1)))(X, Y),
    "third order": lambda f: mjax.jacrev(mjax.jacrev(mjax.grad(
        lambda x: total(f(x, Y)))))(X),
    "third order of jit": lambda f: mjax.jit(mjax.jacrev(mjax.jit(mjax.jacrev(mjax.grad(
        mjax.jit(lambda x: total(f(x, Y))))))))(X),
    "grad of remat": lambda f: mjax.grad(
        lambda x, y: total(mjax.checkpoint(f)(x, y)), (0, 1))(X, Y),
    "grad of remat of jit": lambda f: mjax.jit(mjax.grad(
        lambda x, y: total(mjax.checkpoint(mjax.jit(f))(x, y)), (0, 1)))(X, Y),
    "second order of remat": lambda f: mjax.jacrev(mjax.grad(
        lambda x, y: total(mjax.checkpoint(f)(x, y)), (0, 1)))(X, Y),
    "remat of grad": lambda f: mjax.checkpoint(mjax.grad(
        lambda x, y: total(f(x, y)), (0, 1)))(X, Y),
    "grad of remat of grad": lambda f: mjax.grad(lambda x, y: total(mjax.checkpoint(mjax.grad(
        lambda x, y: total(f(x, y)), (0, 1)))(x, y)))(X, Y),
    "scan": lambda f: scanned(f)(X, Y),
    "grad of scan": lambda f: mjax.grad(lambda x, y: total(scanned(f)(x, y)), (0, 1))(X, Y),
    "grad of scan of remat": lambda f: mjax.grad(
        lambda x, y: total(scanned(mjax.checkpoint(f))(x, y)), (0, 1))(X, Y),
    "second order of scan": lambda f: mjax.jacrev(mjax.grad(
        lambda x: total(scanned(f)(x, Y))))(X),
    "vmap of grad of scan": lambda f: mjax.vmap(mjax.grad(
        lambda x, y: total(scanned(f)(x, y)), (0, 1)), (0, None))(XS, Y),
    "grad of vmap of scan": lambda f: mjax.grad(lambda x, y: total(
        mjax.vmap(scanned(f), (None, 0))(x, y)), (0, 1))(X, YS),
    "grad of cond": lambda f: mjax.grad(lambda x, y: total(branch(f)(x, y)), (0, 1))(X, Y),
    "grad of vmap of cond": lambda f: mjax.grad(lambda x, y: total(
        mjax.vmap(branch(f))(x, y)), (0, 1))(XS, YS),
    "scan of cond": lambda f: mjax.jit(mjax.grad(
        lambda x, y: total(scanned(branch(f))(x, y)), (0, 1)))(X, Y),
}
FORWARD = {
    "jvp": lambda f: mjax.jvp(f, (X, Y), (DX, DY)),
    "jvp of jit": lambda f: mjax.jvp(mjax.jit(f), (X, Y), (DX, DY)),
    "jit of jvp": lambda f: mjax.jit(lambda *args: mjax.jvp(f, args[:2], args[2:]))(X, Y, DX, DY),
    "jvp in one": lambda f: mjax.jvp(lambda y: f(X, y), (Y,), (DY,)),
    "linearize": lambda f: mjax.linearize(f, X, Y)[1](DX, DY),
    "linearize of jit": lambda f: mjax.linearize(mjax.jit(f), X, Y)[1](DX, DY),
    "transpose of linearize": lambda f: mjax.linear_transpose(
        mjax.linearize(f, X, Y)[1], X, Y)(DX),
    "vmap of jvp": lambda f: mjax.vmap(lambda x, t: mjax.jvp(f, (x, Y), (t, DY)))(XS, YS),
    "jvp of vmap": lambda f: mjax.jvp(mjax.vmap(f, (0, None)), (XS, Y), (YS, DY)),
    "jvp of jit of vmap": lambda f: mjax.jvp(mjax.jit(mjax.vmap(f)), (XS, YS), (YS, XS)),
    "jacfwd": lambda f: mjax.jacfwd(f, (0, 1))(X, Y),
    "hessian": lambda f: mjax.hessian(lambda x, y: total(f(x, y)), (0, 1))(X, Y),
    "grad of jvp": lambda f: mjax.grad(lambda x: total(mjax.jvp(f, (x, Y), (DX, DY))))(X),
    "jvp of jvp of jvp": lambda f: mjax.jvp(lambda x: mjax.jvp(lambda x: mjax.jvp(
        lambda x: f(x, Y), (x,), (DX,))[1], (x,), (DY,))[1], (X,), (DX,)),
    "jvp of scan": lambda f: mjax.jvp(scanned(f), (X, Y), (DX, DY)),
    "jvp of while": lambda f: mjax.jvp(lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], Y)), (0, x))[1], (X,), (DX,)),
    "jvp of remat": lambda f: mjax.jvp(mjax.checkpoint(f), (X, Y), (DX, DY)),
    "jvp of cond": lambda f: mjax.jvp(branch(f), (X, Y), (DX, DY)),
}


def assert_same(actual: Any, expected: Any) -> None:
    ours, theirs = tree_leaves(actual), tree_leaves(expected)
    assert len(ours) == len(theirs)
    for a, e in zip(ours, theirs, strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=2e-4, atol=2e-4 * max(1, np.abs(e).max()))


def same(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, where others are transformed."""
    return f


def with_rule(rule: Callable[..., Any], f: Callable[..., Any] = lambda x: x * 2, **options: Any
              ) -> Any:
    """A function with a rule for its tangents."""
    g = mjax.custom_jvp(f, **options)
    g.defjvp(rule)
    return g


def with_rules(fwd: Callable[..., Any], bwd: Callable[..., Any],
               f: Callable[..., Any] = lambda x: x * 2, symbolic_zeros: bool = False,
               **options: Any) -> Any:
    """A function with rules for its cotangents."""
    g = mjax.custom_vjp(f, **options)
    g.defvjp(fwd, bwd, symbolic_zeros)
    return g


#: Places to apply a function of a scalar that change neither its value nor its derivatives.
INSIDE = {
    "jit": lambda f: mjax.jit(lambda x: f(x)), "checkpoint": mjax.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0],
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
    "vmap": lambda f: lambda x: mjax.vmap(lambda _, x: f(x), (0, None))(X, x)[1],
    "jit of vmap": lambda f: mjax.jit(lambda x: mjax.vmap(lambda _, x: f(x), (0, None))(X, x)[1]),
}
