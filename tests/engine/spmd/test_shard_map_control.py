"""Control flow, and functions with rules, in the body of shard_map: each way of transforming the
whole against the same program on one device."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.tracing.primitive import Primitive

from .mapped import WAYS, P, check, same, sharded

RNG = np.random.default_rng(0)
W = RNG.normal(size=3).astype("float32")
X = RNG.normal(size=(8, 3)).astype("float32")
CUT, WHOLE = P("i"), P()


def scan_widening(w, x):
    """The carry starts out the same on all devices and is not after one iteration."""
    def step(c, row):
        return jnp.sin(c * w) + row, c.sum()

    return lax.scan(step, jnp.zeros(3), jnp.stack([x[0], x[1], x[0]]))


def scan_two_carries(w, x):
    """One of two carries needs one more iteration to vary."""
    def step(c, _):
        a, b, n = c
        return (a * 0.5 + b, b * w + x[0], n + 1.0), a

    (a, b, n), ys = lax.scan(step, (w, w, jnp.ones(3)), None, length=3)
    return (a, b, ys), n


def scan_calls(w, x):
    """Primitives inside of the body have jaxprs of their own."""
    inner = mjax.jit(lambda c, w: jnp.tanh(c) * w)

    def step(c, row):
        c = lax.cond(row.sum() > 0, lambda c: inner(c, w), lambda c: c * 2.0, c)
        return mjax.checkpoint(lambda c: inner(jnp.sin(c), w) + row)(c), None

    return lax.scan(step, w, jnp.concatenate([x, x]))[0]


def scan_of_invariant(w, x):
    """A loop that is the same on all devices stays so."""
    c, ys = lax.scan(lambda c, _: (jnp.sin(c * w), c), w, None, length=3)
    return c, ys, x * c


def fori(w, x):
    return lax.fori_loop(0, 3, lambda i, c: c * w + x[i % 2], w)


def cond_varying(w, x):
    """Devices take different branches; what both give is the same on all devices of a branch."""
    return lax.cond(x[0, 0] > 0, lambda w: jnp.sin(w), lambda w: w * 2.0, w)


def cond_invariant(w, x):
    return lax.cond(w[0] > 0, lambda w, x: w * x, lambda w, x: x + 1.0, w, x)


def cond_one_varies(w, x):
    """A result varies in one branch alone, of a predicate that is the same on all devices."""
    return lax.cond(w[0] > 0, lambda: w, lambda: w + x[0])


def cond_closing(w, x):
    return lax.cond(x.sum() > 0, lambda: (w * x[0], w), lambda: (jnp.ones(3), jnp.sin(w)))


def switch(w, x):
    i = lax.axis_index("i")
    return lax.switch(i, [lambda w, x: w + x, lambda w, x: w * x, lambda w, x: x * 2.0,
                          lambda w, x: jnp.zeros_like(x)], w, x)


def nested_cond(w, x):
    def outer(c):
        return lax.cond(x[1, 1] > 0, lambda c: lax.scan(
            lambda c, r: (c * r, None), c, x)[0], lambda c: c + w, c)

    return lax.cond(w[1] > 5.0, lambda c: c, outer, w)


@mjax.custom_jvp
def f_jvp(w, x):
    return jnp.sin(w) * x


@f_jvp.defjvp
def _f_jvp(primals, tangents):
    (w, x), (dw, dx) = primals, tangents
    return f_jvp(w, x), 3.0 * jnp.cos(w) * x * dw + jnp.sin(w) * dx


def custom_jvp(w, x):
    return f_jvp(w, x), f_jvp(w, w), f_jvp(x, 2.0)


@mjax.custom_vjp
def f_vjp(a, b):
    return jnp.sin(a) * b


def _fwd(a, b):
    return f_vjp(a, b), (a, b)


def _bwd(residuals, ct):
    a, b = residuals
    return 3.0 * jnp.cos(a) * b * ct, jnp.sin(a) * ct


f_vjp.defvjp(_fwd, _bwd)


def custom_vjp(w, x):
    """Its rules need operands that vary alike here."""
    w = jnp.broadcast_to(w, x.shape) + 0.0 * x
    return f_vjp(w, x), f_vjp(x, x)


def rule_in_scan(w, x):
    def step(c, row):
        return f_jvp(c, row), f_vjp(c + row, row * 2.0)

    return lax.scan(step, w, x)


def remat(w, x):
    f = mjax.checkpoint(lambda w, x: jnp.sin(jnp.sin(w) * x), policy=
                        mjax.checkpoint_policies.dots_saveable)
    return f(w, x), mjax.checkpoint(jnp.sin)(w)


def jitted(w, x):
    inner = mjax.jit(lambda w, x: (jnp.sin(w) * x).sum())
    return mjax.grad(lambda x: inner(w, x))(x) * w, mjax.vmap(lambda r: r * w)(x)


def linear_solve(w, x):
    """Only the matrix varies, or the right-hand side too."""
    a = jnp.exp(x[0])
    matvec = lambda y: a * y
    solve = lambda _, b: b / a
    return (lax.custom_linear_solve(matvec, w, solve, symmetric=True),
            lax.custom_linear_solve(matvec, x[1], solve, symmetric=True))


def associative(w, x):
    return lax.associative_scan(lambda a, b: a * w + b, x), jnp.cumsum(x * w, 0)


def keys(w, x):
    key = mjax.random.key(0)
    mine = mjax.random.fold_in(key, lax.axis_index("i"))
    return mjax.random.normal(key, (3,)) * w, mjax.random.uniform(mine, x.shape) * x


def nonlinear_out(w, x):
    return jnp.sort(x, 1), jnp.argmax(x, 1).astype("float32") + w[0], jnp.where(x > w, x, 0.0)


PROGRAMS = {
    "scan widening": (scan_widening, (CUT, CUT)),
    "scan two carries": (scan_two_carries, (CUT, WHOLE)),
    "scan calls": (scan_calls, CUT),
    "scan of invariant": (scan_of_invariant, (WHOLE, WHOLE, CUT)),
    "fori": (fori, CUT),
    "cond varying": (cond_varying, CUT),
    "cond invariant": (cond_invariant, CUT),
    "cond one varies": (cond_one_varies, CUT),
    "cond closing": (cond_closing, CUT),
    "switch": (switch, CUT),
    "nested cond": (nested_cond, CUT),
    "custom_jvp": (custom_jvp, (CUT, WHOLE, CUT)),
    "custom_vjp": (custom_vjp, CUT),
    "rule in scan": (rule_in_scan, CUT),
    "remat": (remat, (CUT, WHOLE)),
    "jitted": (jitted, CUT),
    "linear solve": (linear_solve, CUT),
    "associative": (associative, CUT),
    "keys": (keys, (WHOLE, CUT)),
    "nonlinear": (nonlinear_out, CUT),
}
#: custom_vjp has no forward mode.
NOT = {(p, w) for p in ("custom_vjp", "rule in scan") for w in ("jvp", "jvp of one", "linearize")}
FAST = [(p, "grad jit") for p in [*PROGRAMS][::2]]
SLOW = [pytest.param(p, w, marks=pytest.mark.slow) for p in PROGRAMS for w in WAYS
        if (p, w) not in NOT and (p, w) not in FAST]


@pytest.mark.parametrize(("program", "way"), [*FAST, *SLOW])
def test_against_one_device(program, way):
    f, out_specs = PROGRAMS[program]
    check(way, f, (WHOLE, CUT), out_specs, (W, X))


# ---- loops that end when a condition says ------------------------------------------------


def while_same(w, x):
    """As many iterations on all devices; a carry comes to vary."""
    def body(c):
        n, a = c
        return n + 1, jnp.sin(a) * w + x[0]

    return lax.while_loop(lambda c: c[0] < 3, body, (0, w))[::-1]


def while_different(w, x):
    """As many iterations as a device's own values say: what the loop gives varies, all of it."""
    def body(c):
        n, a = c
        return n + 1, a * 0.5

    n, a = lax.while_loop(lambda c: jnp.abs(c[1]).sum() > jnp.abs(x).sum() * 0.1, body, (0, w))
    return a * x, n[None]


def while_inside(w, x):
    def body(i, c):
        return lax.while_loop(lambda c: jnp.abs(c).max() > 1.0, lambda c: c * 0.5, c * 3.0 + x[0])

    return lax.fori_loop(0, jnp.argmax(w) + 1, body, w)


WHILES = {"same": (while_same, (CUT, WHOLE)), "different": (while_different, (CUT, CUT)),
          "inside": (while_inside, CUT)}


@pytest.mark.parametrize(("program", "way"), [
    (p, w) if w == "jvp" else pytest.param(p, w, marks=pytest.mark.slow)
    for p in WHILES for w in ("jvp", "value", "vmap", "vmap of one", "linearize")])
def test_while(program, way):
    f, out_specs = WHILES[program]
    check(way, f, (WHOLE, CUT), out_specs, (W, X))


# ---- collectives in loops and branches ---------------------------------------------------


def test_a_sum_of_a_carry_that_comes_to_vary_is_a_sum():
    """When the body is staged the carry is the same on all devices, whose sum is a product."""
    def f(w, x):
        return lax.scan(lambda c, row: (lax.pmean(c, "i") * 0.5 + row, lax.psum(c, "i")), w, x)

    check("grad jit", f, (WHOLE, CUT), (CUT, WHOLE), (W, X))
    check("value", lambda w, x: lax.fori_loop(
        0, 3, lambda i, c: lax.pmax(c, "i") + x[0], w), (WHOLE, CUT), CUT, (W, X))


def test_where_all_devices_take_one_branch_they_may_communicate():
    def f(w, x):
        return lax.cond(w[0] > 0, lambda x: lax.psum(x, "i"), lambda x: lax.pmax(x, "i"), x)

    check("value", f, (WHOLE, CUT), WHOLE, (W, X))

    def g(w, x):
        """The predicate differs along another axis than the one that is summed over."""
        return lax.cond(lax.axis_index("j") > 0, lambda x: lax.psum(x, "i"), lambda x: x * 2.0, x)

    check("value", g, (WHOLE, CUT), P(("i", "j")), (W, X))


@pytest.mark.parametrize("f", [
    lambda x: lax.cond(x[0, 0] > 0, lambda x: lax.psum(x, "i"), lambda x: x, x),
    lambda x: lax.cond(x[0, 0] > 0, mjax.jit(lambda x: lax.scan(
        lambda c, r: (lax.all_gather(c, "i")[0], r), x[0], x)[1]), lambda x: x, x),
    lambda x: lax.while_loop(lambda c: c.sum() > 0, lambda c: lax.ppermute(
        c, "i", [(0, 1)]), x),
    lambda x: lax.while_loop(lambda c: lax.pmax(c.sum(), "i") > x[0, 0], lambda c: c - 1.0, x),
])
def test_communication_that_some_would_wait_for_is_refused(f):
    with pytest.raises(ValueError, match=r"(cond|while): .* at .*test_shard_map_control.* "
                                         r"communicates over the mesh axis 'i', along which the"):
        sharded(f, CUT, CUT)(X)


def test_branches_that_differ_are_refused_where_authors_write_casts():
    def f(w, x):
        return lax.cond(w[0] > 0, lambda w, x: w, lambda w, x: x[0], w, x)

    sharded(f, (WHOLE, CUT), CUT)(W, X)
    with pytest.raises(TypeError, match=r"result 0 of the branches of cond varies along different "
                                        r"mesh axes: it has the types float32\[3\]\{V:i\}, float"):
        sharded(f, (WHOLE, CUT), CUT, check_vma="explicit")(W, X)


def test_a_cotangent_of_a_rule_that_varies_more_than_its_operand_is_refused():
    """Operands of functions with rules are not cast: the rule says what is summed."""
    def g(w, x):
        return mjax.grad(lambda w: f_vjp(w, x[0]).sum())(w)

    with pytest.raises(ValueError, match=(
            r"output\[0\] of the bwd rule _bwd at .*test_shard_map_control.py:\d+ of .*f_vjp.* is "
            r"of type float32\[3\]\{V:i\}, and the argument of type float32\[3\]\..* along 'i', so "
            r"its cotangent is the sum .*: return mjax.lax.psum\(ct, 'i'\)\. Or cast the operand")):
        sharded(g, (WHOLE, CUT), CUT)(W, X)

    @mjax.custom_vjp
    def summed(a, b):
        return jnp.sin(a) * b

    summed.defvjp(lambda a, b: (summed(a, b), (a, b)), lambda res, ct: (
        lax.psum(jnp.cos(res[0]) * res[1] * ct, "i"), jnp.sin(res[0]) * ct))
    found = mjax.grad(lambda w: sharded(
        lambda w, x: summed(w, x[0]), (WHOLE, CUT), CUT)(w, X).sum())(W)
    same(found, np.cos(W) * X[::2].sum(0), 1e-4, 1e-4)


def test_a_cotangent_that_is_not_summed_is_refused_however_the_rule_is_called():
    """In batches, where some outputs or arguments are not used, and in a linear transpose."""
    @mjax.custom_vjp
    def scaled(tree, b):
        return tree["a"] * b, b

    scaled.defvjp(lambda tree, b: (scaled(tree, b), b),
                  lambda b, cts: ({"a": cts[0] * b}, cts[1]))

    def inner(w, x):
        return scaled({"a": w}, x)[0]

    text = r"output\[0\]\['a'\] of the bwd rule .* is of type .*\{V:i\}.*lax.psum\(ct, 'i'\)"
    for f in [lambda w, x: mjax.grad(lambda w: inner(w, x[0]).sum())(w),
              lambda w, x: mjax.grad(lambda w: mjax.jit(inner)(w, x[0]).sum())(w),
              lambda w, x: mjax.grad(lambda w: mjax.vmap(inner, (None, 0))(w, x).sum())(w),
              lambda w, x: mjax.linear_transpose(lambda w: inner(w, x[0]), w)(x[0])[0]]:
        with pytest.raises(ValueError, match=text):
            sharded(f, (WHOLE, CUT), WHOLE)(W, X)


def test_a_transpose_rule_that_does_not_sum_is_refused():
    p = Primitive("scaled_by_second")
    p.def_abstract_eval(lambda a, b: b)
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), p.bind(tangents[0], primals[1])))
    p.def_transpose(lambda ct, a, b: [p.bind(ct, b), None])
    p.own_varying = True
    with pytest.raises(TypeError, match=(
            r"a cotangent of type float32\[3\]\{V:i\} for an operand of type float32\[3\].* "
            r"return mjax.lax.psum\(ct, 'i'\)")):
        sharded(lambda w, x: mjax.grad(lambda w: p.bind(w, x[0]).sum())(w), (WHOLE, CUT), WHOLE)(
            W, X)


def of_rule(kind, function, given):
    """A function whose rule gives something else as its output, which is the same on all devices
    by its type, or is not; its derivative is that of `3 * x`."""
    f = getattr(mjax, kind)(function)
    if kind == "custom_jvp":
        f.defjvp(lambda primals, tangents: (given(*primals), 3.0 * tangents[0]))
    else:
        f.defvjp(lambda x: (given(x), None), lambda _, ct: (3.0 * ct,))
    return f


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_what_a_rule_gives_varies_as_what_the_function_gives(kind):
    """Or cotangents would be summed over devices."""
    f = of_rule(kind, lambda x: 0.0 * x, jnp.zeros_like)
    for g in (f, mjax.jit(f), mjax.vmap(f), mjax.checkpoint(f)):
        def h(x, g=g):
            return g(x) * x + x

        found = mjax.grad(lambda x, h=h: (sharded(h, CUT, CUT)(x) * X).sum())(X)
        same(found, X * (3.0 * X + 1.0), 1e-5, 1e-5)
        found = sharded(mjax.grad(lambda x, h=h: (h(x) * x).sum()), CUT, CUT)(X)
        same(found, 3.0 * X * X + 2.0 * X, 1e-5, 1e-5)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_a_rule_gives_nothing_that_varies_more_than_what_the_function_gives(kind):
    f = of_rule(kind, lambda x: {"s": lax.psum(x, "i")}, lambda x: {"s": x})
    if kind == "custom_jvp":
        f.defjvp(lambda primals, tangents: ({"s": primals[0]}, {"s": tangents[0]}))
    text = (r"the (fwd|jvp) rule of custom_.* function .* gives an output\['s'\] of type "
            r"float32\[2,3\]\{V:i\}, which may differ between devices along 'i'; that of the "
            r"function has type float32\[2,3\]\.")
    with pytest.raises(TypeError, match=text):
        mjax.grad(lambda x: sharded(lambda x: f(x)["s"], CUT, WHOLE)(x).sum())(X)
    with pytest.raises(TypeError, match=text):
        sharded(mjax.grad(lambda x: f(x)["s"].sum()), CUT, CUT)(X)


def test_what_a_rule_of_vmap_gives_varies_as_what_the_function_gives():
    def mapped(function, rule, out_spec):
        f = mjax.custom_batching.custom_vmap(function)
        f.def_vmap(lambda size, batched, x: (rule(x), True))
        return mjax.vmap(sharded(f, CUT, out_spec))

    xs = np.stack([X, -X])
    zeros = mapped(lambda x: x * 0.0, jnp.zeros_like, CUT)
    same(zeros(xs), 0.0 * xs)
    same(mjax.grad(lambda x: (zeros(x) * x).sum())(xs), 0.0 * xs)
    with pytest.raises(TypeError, match=(
            r"the vmap rule of custom_vmap function .* gives an output 0 of type "
            r"float32\[2,2,3\]\{V:i\}, which may differ between devices")):
        mapped(lambda x: lax.psum(x, "i"), lambda x: x, WHOLE)(xs)
