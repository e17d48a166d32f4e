"""Interpreters of one's own, through core.Interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.errors import TracerBoolConversionError, UnexpectedTracerError
from mjax_ext import core
from mjax_ext.core import primitives

X = np.array([0.5, 1.0, 2.0], np.float32)


# ---- final style -------------------------------------------------------------------------


INCREASING = (primitives.add_p, primitives.add_jaxvals_p, primitives.exp_p, primitives.tanh_p,
              primitives.reduce_sum_p)


class Intervals(core.Interpreter):
    """Interval arithmetic: a value carries a lower and an upper bound."""

    def lift(self, value):
        return value, value

    def aval(self, carried):
        return mjax.typeof(carried[0])

    def apply(self, primitive, carried, params):
        if primitive in INCREASING:
            return tuple(primitive.bind(*bounds, **params) for bounds in zip(*carried, strict=True))
        if primitive is primitives.neg_p:
            ((low, high),) = carried
            return lax.neg(high), lax.neg(low)
        if primitive is primitives.sub_p:
            a, b = carried
            return lax.sub(a[0], b[1]), lax.sub(a[1], b[0])
        if primitive is primitives.mul_p:
            products = [lax.mul(a, b) for a in carried[0] for b in carried[1]]
            low = high = products[0]
            for product in products[1:]:
                low, high = lax.min(low, product), lax.max(high, product)
            return low, high
        raise NotImplementedError(f"no interval rule for {primitive}")


def f(x, y):
    return lax.sub(lax.mul(x, lax.tanh(y)), lax.exp(lax.mul(x, -0.5)))


def bounds(xl, xh, yl, yh):
    return Intervals().run(f, (xl, xh), (yl, yh))


def test_final_style_interpreter_bounds_what_it_should():
    low, high = map(np.asarray, bounds(X, X + 1, -X, X))
    rng = np.random.default_rng(0)
    for _ in range(100):
        x, y = X + rng.random(3, np.float32), X * (2 * rng.random(3, np.float32) - 1)
        value = np.asarray(f(x, y))
        assert (low <= value + 1e-5).all() and (value <= high + 1e-5).all()
    tight = bounds(X, X, X, X)
    np.testing.assert_allclose(tight[0], f(X, X), rtol=1e-6)
    np.testing.assert_allclose(tight[1], f(X, X), rtol=1e-6)


def test_it_composes_with_every_transformation():
    args = (X, X + 1, -X, X)
    expected = bounds(*args)
    np.testing.assert_allclose(mjax.jit(bounds)(*args), expected, rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(bounds)(*args), expected, rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.jit(bounds)))(*args), expected, rtol=1e-6)

    def width(xl, xh):
        low, high = Intervals().run(lambda x: lax.reduce_sum(f(x, X), (0,)), (xl, xh))
        return lax.sub(high, low)

    eps = 1e-2
    grad = mjax.grad(width, argnums=1)(X, X + 1)
    for i in range(3):
        step = eps * np.eye(3, dtype=np.float32)[i]
        numeric = (float(width(X, X + 1 + step)) - float(width(X, X + 1 - step))) / (2 * eps)
        np.testing.assert_allclose(np.asarray(grad)[i], numeric, rtol=2e-2)


def test_transformations_inside_are_interpreted():
    inside = Intervals().run(lambda x: mjax.grad(lambda x: lax.mul(x, x))(x),
                             (np.float32(1), np.float32(2)))
    np.testing.assert_allclose(inside, (2, 4))
    batched = Intervals().run(lambda x: mjax.vmap(lambda e: lax.mul(e, e))(x), (X, X + 1))
    np.testing.assert_allclose(batched, (X * X, (X + 1) ** 2))


def test_jit_inside_is_looked_through():
    low, high = Intervals().run(mjax.jit(mjax.jit(lax.neg)), (X, X + 1))
    np.testing.assert_array_equal(low, -X - 1)
    np.testing.assert_array_equal(high, -X)


class Counting(core.Interpreter):
    """Counts applications; values carry themselves."""

    def __init__(self):
        self.counts = {}

    def apply(self, primitive, carried, params):
        self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1
        return primitive.bind(*carried, **params)


def test_interpreter_that_carries_nothing_more():
    count = Counting()
    out = count.run(lambda x: {"a": lax.sin(lax.sin(x)), "b": lax.add(x, lax.cos(1.0)), "c": 3}, X)
    np.testing.assert_allclose(out["a"], np.sin(np.sin(X)), rtol=1e-6)
    assert out["c"] == 3
    assert count.counts == {"sin": 2, "add": 1}  # cos of a constant is not interpreted


def test_nested_runs():
    outer, inner = Counting(), Counting()
    outer.run(lambda x: inner.run(lambda y: lax.add(lax.neg(y), lax.sin(x)), x), X)
    assert inner.counts == {"neg": 1, "add": 1}  # sin(x) is a constant to it
    assert outer.counts == {"neg": 1, "sin": 1, "add": 1}


def test_jit_can_be_kept():
    class Kept(Counting):
        def call(self, jaxpr, carried, params):
            self.counts["calls"] = self.counts.get("calls", 0) + 1
            return primitives.jit_p.bind(*carried, **params)

    kept = Kept()
    np.testing.assert_array_equal(kept.run(mjax.jit(lax.neg), X), -X)
    assert kept.counts == {"calls": 1}


def test_multiple_results():
    split = core.Primitive("halve", multiple_results=True)
    split.def_impl(lambda x: [x / 2, x / 2])
    out = Counting().run(lambda x: split.bind(x), X)
    assert isinstance(out, list) and len(out) == 2

    class Wrong(core.Interpreter):
        def apply(self, primitive, carried, params):
            return carried[0]

    with pytest.raises(TypeError, match=r"Wrong\.apply returned .* for primitive 'halve', which"):
        Wrong().run(split.bind, X)


def test_values_are_known_by_type_only_and_end_with_the_run():
    with pytest.raises(TracerBoolConversionError, match="while Counting traces"):
        Counting().run(lambda x: 1 if x else 2, np.float32(1))
    leaked = []
    Counting().run(lambda x: leaked.append(lax.neg(x)) or x, X)
    with pytest.raises(UnexpectedTracerError):
        lax.neg(leaked[0])
    assert isinstance(leaked[0], core.Tracer)
    assert isinstance(leaked[0], mjax.Array)


def test_apply_must_be_written():
    with pytest.raises(NotImplementedError, match=r"Empty\.apply\(primitive, carried, params\)"):
        type("Empty", (core.Interpreter,), {})().run(lax.neg, X)


class _Boxed:
    """Carries something, and is not an array."""


@pytest.mark.parametrize(("methods", "carried", "text"), [
    ({"apply": lambda self, p, values, params: None}, 1.0, "Mine.apply returned None for .*'sin'"),
    ({}, {"a": 1.0}, r"Mine carries \{'a': 1.0\}.*one value, not a tree .*: Mine\.on_trees\(f\) t"),
    ({}, _Boxed(), r"Mine carries <.*_Boxed.*define Mine.aval\(carried\)"),
    ({"aval": lambda self, carried: None}, 1.0, "aval returned None for 1.0; it must return"),
])
def test_mistakes_in_interpreters_name_class_and_method(methods, carried, text):
    cls = type("Mine", (core.Interpreter,), {
        "apply": lambda self, p, values, params: p.bind(*values, **params), **methods})
    with pytest.raises(TypeError, match=text):
        cls().run(lax.sin, carried)


# ---- trees, programs, functions with rules, named axes ------------------------------------


class Pair:
    """Two values of one: `apply` does everything to both. Arrays stay arrays."""

    def __init__(self, low, high):
        self.low, self.high = low, high


mjax.tree_util.register_pytree_node(
    Pair, lambda p: ((p.low, p.high), None), lambda _, xs: Pair(*xs))


class Pairs(core.Interpreter):
    """Interprets with pairs of values, and enters programs."""

    def aval(self, carried):
        return mjax.typeof(carried.low if isinstance(carried, Pair) else carried)

    def array(self, carried):
        return carried.low if isinstance(carried, Pair) else carried

    def widen(self, carried, tree):
        return Pair(carried, carried)

    def apply(self, primitive, carried, params):
        if primitive.frame is not None:
            return self.enter(primitive, carried, params)
        if not any(isinstance(c, Pair) for c in carried):
            return primitive.bind(*carried, **params)
        outs = [primitive.bind(*(getattr(c, side) if isinstance(c, Pair) else c for c in carried),
                               **params) for side in ("low", "high")]
        return list(map(Pair, *outs)) if primitive.multiple_results else Pair(*outs)


def both(f, *args):
    """The results of a function for both values, by themselves."""
    return [f(*(getattr(a, side) if isinstance(a, Pair) else a for a in args))
            for side in ("low", "high")]


def compare(found, expected, **tolerance):
    """Compares trees that hold pairs with two trees."""
    for side, tree in zip(("low", "high"), expected, strict=True):
        mine = mjax.tree.map(lambda p: getattr(p, side) if isinstance(p, Pair) else p, found,  # noqa: B023
                             is_leaf=lambda p: isinstance(p, Pair))
        for a, b in zip(mjax.tree.leaves(mine), mjax.tree.leaves(tree), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, **tolerance)


XS = Pair(X, X + 1)


def summed(x):
    """A loop with a const, two carries of which one becomes a pair, slices and stacked results."""
    def step(carry, e):
        total, count = carry
        return (total + e * x[0], count + 1), lax.sin(e)

    return lax.scan(step, (0.0, 0), x)


def halved(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x[0]), (0, 1.0))


HELD = {
    "scan": summed,
    "while": halved,
    "cond": lambda x: lax.cond(x[0] > 0, lambda y: (lax.sin(y), y), lambda y: (y, 2.0 * y), x),
    "cond of constants": lambda x: lax.cond(x[0] > 0, lambda y: 1.0, lambda y: y[0], x),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x),
    "remat": lambda x: mjax.checkpoint(lambda y: lax.sin(y) * y)(x),
    "jit": lambda x: mjax.jit(lambda y: lax.sin(y) * y)(x),
    "nested": lambda x: lax.scan(lambda c, e: ((c[0] + 1, mjax.jit(lambda y: lax.cond(
        c[0] > 1, lax.sin, lax.cos, y))(c[1])), c[1] + e), (0, x), x),
}


@pytest.mark.parametrize("name", HELD)
def test_programs_are_entered(name):
    f = HELD[name]
    found = Pairs().run(f, XS)
    expected = both(f, XS)
    if name == "cond of constants":  # the branch that is taken by the first value
        expected = [1.0, 1.0]
    compare(found, expected)
    compare(mjax.jit(lambda p: Pairs().run(f, p))(XS), expected)


def test_programs_that_are_entered_are_transformed():
    def total(run, p):
        leaves = mjax.tree.leaves(run(p))
        return sum(lax.reduce_sum(y, tuple(range(np.ndim(y)))) for y in leaves
                   if mjax.typeof(y).inexact)

    interpreted = lambda p: Pairs().run(summed, p)
    own = mjax.jit(mjax.grad(lambda x: total(summed, x)))
    compare(mjax.jit(mjax.grad(lambda p: total(interpreted, p)))(XS), [own(X), own(X + 1)])
    batch = Pair(np.stack([X, 2 * X]), np.stack([X + 1, X]))
    own = mjax.jit(mjax.vmap(summed))
    compare(mjax.jit(mjax.vmap(interpreted))(batch), [own(batch.low), own(batch.high)])


def test_compiled_calls_are_kept_if_the_interpreter_enters_them():
    class Keeping(Pairs):
        def call(self, jaxpr, carried, params):
            return self.enter(primitives.jit_p, carried, params)

    jaxpr = mjax.make_jaxpr(lambda p: Keeping().run(HELD["jit"], p))(XS)
    assert [e.primitive for e in jaxpr.eqns] == [primitives.jit_p]
    assert len(jaxpr.eqns[0].invars) == len(jaxpr.eqns[0].outvars) == 2


def test_frames_of_users_are_entered():
    region_p = core.Primitive("region", multiple_results=True)
    core.Frame(region_p, "jaxpr")
    region_p.def_impl(lambda *args, jaxpr: core.eval_jaxpr(jaxpr, jaxpr.consts, *args))
    body = mjax.make_jaxpr(lambda x, y: (lax.sin(x) * y, y))(X, 2.0)
    compare(Pairs().run(lambda x: region_p.bind(x, 2.0, jaxpr=body), XS),
            both(lambda x: [np.sin(x) * 2, 2.0], XS))


class Rigid(Pairs):
    def widen(self, carried, tree):
        return core.Interpreter.widen(self, carried, tree)


class Growing(Pairs):
    """Gives a result of another type than its type says."""

    def apply(self, primitive, carried, params):
        out = super().apply(primitive, carried, params)
        return Pair(out.low, np.zeros(7)) if primitive is primitives.mul_p else out


@pytest.mark.parametrize(("cls", "f", "carried", "text"), [
    (Rigid, halved, XS, r"Rigid carries .* in the place of data of the structure .*: *|"
                        r"Rigid carries .*Define Rigid.widen\(carried, tree\)"),
    (Growing, HELD["fori"], XS, r"Growing.enter\(.*\): the data of a carry has different types"),
    (type("Odd", (Pairs,), {"array": lambda self, c: None}), HELD["cond"], XS,
     "Odd.array returned None; it must return an array"),
    (type("Bad", (Pairs,), {"widen": lambda self, c, tree: c}), halved, XS,
     r"Bad.widen returned the tree .*; it must have the structure"),
    (type("Boxes", (Pairs,), {"aval": lambda self, c: mjax.typeof(1.0)}), lambda x: lax.cond(
        True, lambda y: y, lambda y: y, x), object(), r"Boxes.enter\(.*a tree of arrays, but"),
    (type("Eager", (Pairs,), {"apply": Pairs.enter}), lax.sin, XS,
     r"Eager.enter\(sin\): this primitive does not hold programs: interpret it in apply\(\)"),
])
def test_mistakes_in_data_that_enters_programs(cls, f, carried, text):
    with pytest.raises(TypeError, match=text):
        cls().run(f, carried)


def test_an_interpreter_that_holds_traced_values_cannot_enter():
    class Scaling(Pairs):
        def __init__(self, by):
            self.by = by

        def apply(self, primitive, carried, params):
            out = super().apply(primitive, carried, params)
            return Pair(out.low * self.by, out.high) if primitive is primitives.sin_p else out

    f = lambda x: lax.fori_loop(0, 2, lambda i, c: lax.sin(c), x)
    compare(Scaling(2.0).run(f, XS), [2 * np.sin(2 * np.sin(X)), np.sin(np.sin(X + 1))])
    with pytest.raises(TypeError, match="uses a traced value of type .* that is not data of an"):
        mjax.jit(lambda by: Scaling(by).run(f, XS))(2.0)


def test_functions_of_trees_are_interpreted():
    def f(tree, scale, *, mode):
        return {mode: tree["a"] * scale, "text": mode, "constant": jnp.ones(2)}, [tree["n"]]

    run = Pairs().on_trees(f, is_leaf=lambda x: isinstance(x, Pair))
    out, (n,) = run({"a": XS, "n": None}, np.float32(2), mode="m")
    compare(out["m"], both(lambda x: 2 * x, XS))
    assert out["text"] == "m" and n is None and out["constant"].shape == (2,)
    count = Counting()
    doubled = count.on_trees(lambda xs: [2.0 * x for x in xs])
    np.testing.assert_allclose(doubled([X, X]), [2 * X, 2 * X])
    assert count.counts == {"mul": 2}
    # The tuple of the arguments is not asked: here it would pass for data.
    run = Twofold().on_trees(lambda x, y: x * y, is_leaf=lambda x: isinstance(x, tuple))
    assert run((1.0, 2.0), y=(3.0, 5.0)) == (3.0, 10.0)


class Twofold(core.Interpreter):
    """Two values in the place of one: a tuple, of which `lift` forgets constants."""

    def aval(self, carried):
        return mjax.typeof(carried[0])

    def apply(self, primitive, carried, params):
        return tuple(primitive.bind(*half, **params) for half in zip(*carried, strict=True))


def test_errors_of_methods_name_the_interpreter_and_the_primitive():
    with pytest.raises(TypeError) as caught:
        Twofold().run(lambda x: lax.neg(x) * 2.0, (1.0, 2.0))
    (note, *_) = caught.value.__notes__
    assert note.startswith("Raised while Twofold interpreted primitive 'mul'.\nIt was applied at\n")
    assert "test_custom_interpreter.py" in note
    # An interpreter around it does not say so again.
    with pytest.raises(TypeError) as caught:
        Pairs().run(lambda x: Twofold().run(lambda y: y * 2.0, (x, x))[0], XS)
    assert [n.startswith("Raised ") for n in caught.value.__notes__].count(True) == 1


@mjax.custom_jvp
def ruled(x, y):
    return lax.sin(x) * y


ruled.defjvp(lambda p, t: (ruled(*p), 100.0 * t[0] * p[1] + t[1]))


@mjax.custom_vjp
def pulled(x, y):
    return lax.sin(x) * y


pulled.defvjp(lambda x, y: (lax.sin(x) * y, (x, y)),
              lambda res, ct: (100.0 * ct * res[1], jnp.sum(ct)))


class Ruled(Pairs):
    """Keeps the rules, which it interprets too."""

    def custom(self, function, rules, carried):
        if "jvp" in rules:
            f = mjax.custom_jvp(lambda *data: self.run(function, *data))

            @f.defjvp
            def rule(data, tangents):
                found = self.run(rules["jvp"], *data, *tangents)
                return found[:len(found) // 2], found[len(found) // 2:]

            return f(*carried)
        f = mjax.custom_vjp(lambda *data: self.run(function, *data))
        plain = lambda ct, c: ct.low + ct.high if isinstance(ct, Pair) and not isinstance(
            c, Pair) else ct
        f.defvjp(lambda *data: self.run(rules["fwd"], *data),
                 lambda residuals, cts: tuple(map(
                     plain, self.backward(rules["bwd"], residuals, cts), carried)))
        return f(*carried)

    def backward(self, bwd, residuals, cts):
        n = len(residuals)
        return self.run(lambda *values: bwd(list(values[:n]), list(values[n:])), *residuals, *cts)


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("f", [ruled, pulled], ids=["jvp", "vjp"])
def test_functions_with_rules(f, wrap):
    g = wrap(f)

    @mjax.jit
    def results(p):
        total = lambda p: sum(lax.reduce_sum(y, (0,)) for y in mjax.tree.leaves(p))
        run = lambda cls: cls().run(lambda x: g(x, 2.0), p)
        grad = lambda cls: mjax.grad(lambda p: total(cls().run(lambda x: g(x, 2.0), p)))(p)
        batch = Ruled().run(mjax.vmap(lambda e: g(e, 2.0)), p)
        return [run(Pairs), run(Ruled), batch], grad(Pairs), grad(Ruled)

    values, plain, rule = results(XS)
    for value in values:
        compare(value, both(lambda x: 2 * np.sin(x), XS))
    # Without `custom` the derivative is that of the operations.
    compare(plain, both(lambda x: 2 * np.cos(x), XS))
    compare(rule, both(lambda x: np.full(3, 200), XS))
    # Rules inside of the interpretation run, and their operations are interpreted.
    inside = Pairs().run(mjax.grad(lambda x: lax.reduce_sum(f(lax.sin(x), 2.0), (0,))), XS)
    compare(inside, both(lambda x: 200 * np.cos(x), XS))


def test_rules_of_constants_and_of_values_closed_over():
    def g(scale):
        f = mjax.custom_jvp(lambda x: x * scale)
        f.defjvp(lambda p, t: (p[0] * scale, 100.0 * t[0]))
        return f(3.0)

    compare(Pairs().run(g, XS), both(lambda s: 3 * s, XS))
    # Applied to constants alone, the rule is kept for the transformation around.
    grad = mjax.grad(lambda y: lax.reduce_sum(Pairs().run(lambda x: ruled(y, 2.0) + x, X), (0,)))
    np.testing.assert_allclose(grad(1.0), 3 * 200)


def test_custom_returns_a_list():
    cls = type("Lost", (Pairs,), {"custom": lambda self, *args: None})
    with pytest.raises(TypeError, match="Lost.custom returned None .* function ruled; it must"):
        cls().run(lambda x: ruled(x, 2.0), XS)
    jaxpr = mjax.make_jaxpr(lambda x: ruled(x, 2.0))(X)
    with pytest.raises(TypeError, match="Lost.custom returned None for primitive 'custom_jvp_call"):
        cls().run(core.jaxpr_as_fun(jaxpr), XS)


def test_custom_need_not_run_the_function():
    cls = type("Known", (Pairs,), {"custom": lambda self, *args: [XS]})
    compare(cls().run(lambda x: ruled(x, 2.0) * 2.0, XS), both(lambda x: 2 * x, XS))
    cls = type("Known", (Pairs,), {"custom": lambda self, *args: [XS, XS]})
    with pytest.raises(TypeError, match="Known.custom returned .* its results are 1"):
        cls().run(lambda x: ruled(x, 2.0), XS)


class Mapped(core.Interpreter):
    """Maps over a named axis: a value carries all elements, along the first axis."""

    def __init__(self, size):
        self.size = size

    def named_axes(self):
        return {"i": self.size}

    def lift(self, value):
        return jnp.stack([value] * self.size)

    def aval(self, carried):
        return core.mapped_aval(self.size, 0, mjax.typeof(carried))

    def apply(self, primitive, carried, params):
        if primitive is primitives.psum_p:
            total, others = jnp.sum(carried[0], 0), [a for a in params["axes"] if a != "i"]
            return jnp.stack([lax.psum(total, others) if others else total] * self.size)
        if primitive is primitives.axis_index_p:
            return jnp.arange(self.size)
        return jnp.stack([primitive.bind(*(c[i] for c in carried), **params)
                          for i in range(self.size)])


def test_named_axes_are_interpreted():
    f = lambda x: lax.psum(x, "i") * x + lax.axis_index("i") + lax.psum(1.0 + lax.sin(2.0), "i")
    out = Mapped(3).run(f, X)
    np.testing.assert_allclose(out, mjax.vmap(f, axis_name="i")(X), rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(lambda x: Mapped(3).run(f, x))(X), out, rtol=1e-6)
    nested = mjax.vmap(lambda x: Mapped(3).run(lambda y: lax.psum(y, ("i", "j")), x), axis_name="j")
    np.testing.assert_allclose(nested(np.stack([X, X]))[0], 1.0 * np.full(3, 2 * np.sum(X)))
    with pytest.raises(NameError, match="'i'"):
        Counting().run(f, X)


@pytest.mark.parametrize("change", [lambda outs: [*outs, outs[0]], lambda outs: outs[1:]],
                         ids=["too many", "too few"])
def test_a_result_for_each_of_the_primitives(change):
    class Wrong(core.Interpreter):
        def apply(self, primitive, values, params):
            return change(primitive.bind(*values, **params))

        def call(self, jaxpr, values, params):
            return change(values)

    split = lambda x: lax.split(x, [1, 1])[0]
    with pytest.raises(TypeError, match=r"Wrong.apply returned .*'split', which has 2 results"):
        Wrong().run(split, np.ones(2))
    loop = lambda x: lax.fori_loop(0, 3, lambda i, x: 2.0 * x, x)
    with pytest.raises(TypeError, match=r"Wrong.apply returned .* 'scan', which has 2 results"):
        Wrong().run(loop, 1.0)
    with pytest.raises(TypeError, match=r"Wrong.call returned .* primitive 'jit', which has 1 res"):
        Wrong().run(mjax.jit(lax.sin), 1.0)


@pytest.mark.parametrize("returned, says", [
    (NotImplemented, "apply returned NotImplemented for primitive 'sin'; .* NotImplementedError"),
    (None, "apply returned None for primitive 'sin'; .* return statement missing"),
    ("text", "carries 'text', whose type is not known")])
def test_wrong_results_name_the_primitive(returned, says):
    class Wrong(core.Interpreter):
        def apply(self, primitive, values, params):
            return returned

    with pytest.raises(TypeError, match=says) as caught:
        Wrong().run(lax.sin, 1.0)
    assert any("interpreted primitive 'sin'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("method", ["run", "on_trees"])
def test_it_interprets_functions(method):
    with pytest.raises(TypeError, match=f"Counting.{method} expects a function, got 3 of type int"):
        getattr(Counting(), method)(3)


def test_what_aval_raises_names_it():
    class Pairs(core.Interpreter):
        def aval(self, carried):
            return mjax.typeof(carried[0])

    with pytest.raises(TypeError) as caught:
        Pairs().run(lax.sin, 1.0)
    assert "Raised in Pairs.aval for 1.0." in caught.value.__notes__


@pytest.mark.parametrize(("change", "text"), [
    (lambda values, params: (values, {}), "'jaxpr', 'length', 'reverse', .* are missing"),
    (lambda values, params: (values[1:], params),
     r"Some.enter\(scan\): the primitive takes 2 operands, and is given data of 1")])
def test_enter_takes_what_the_primitive_takes(change, text):
    class Some(core.Interpreter):
        def apply(self, primitive, values, params):
            return self.enter(primitive, *change(values, params))

    with pytest.raises(TypeError, match=text):
        Some().run(lambda x: lax.fori_loop(0, 3, lambda i, x: 2.0 * x, x), 1.0)
