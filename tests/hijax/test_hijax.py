"""Types and primitives of authors, through every transformation; NumPy and loops are the oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental import hijax
from mjax_ext.core import Effect, EffectPolicy, ShapedArray, check_jaxpr
from tests.hijax.families import family

F = family(mjax, hijax, hijax.MappingSpec)
X = np.array([[1.0, -2.0, 4.0], [0.5, 3.0, -1.0]], np.float32)
Y = np.array([[2.0, 1.0, 0.5], [-1.0, 2.0, 3.0]], np.float32)
q = F.quantize(X)
pair, part = F.pack, F.part


def near(found, wanted, tolerance=1e-6):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def rounded(x):
    scale = np.abs(x).max(1, keepdims=True) / 127
    return np.round(x / scale) * scale


# ---- values ----------------------------------------------------------------------------


def test_values_are_objects_outside_of_programs():
    assert type(q) is F.Quantized and mjax.typeof(q) == F.QuantizedType((2, 3))
    near(F.dequantize(q), rounded(X))
    made = mjax.jit(F.quantize)(X)
    assert type(made) is F.Quantized and made.numbers.dtype == np.int8
    near(made.scale, q.scale)
    near(mjax.jit(F.dequantize)(made), rounded(X))
    for _ in range(2):  # also from the cache
        tree = mjax.jit(lambda d: {"q": d["q"], "sum": F.dequantize(d["q"]) + d["x"]})(
            {"q": q, "x": X})
        assert type(tree["q"]) is F.Quantized
        near(tree["sum"], rounded(X) + X)
    host = F.Quantized(np.asarray(q.numbers), np.asarray(q.scale))
    near(mjax.jit(F.dequantize)(host), rounded(X))


def test_values_closed_over():
    near(mjax.jit(lambda y: F.dequantize(q) + y)(Y), rounded(X) + Y)
    near(mjax.jit(mjax.jit(lambda y: lax.cond(y[0, 0] > 0, F.dequantize, lambda _: y, q)))(Y),
         rounded(X))
    near(mjax.grad(lambda y: (F.dequantize(q) * y).sum())(Y), rounded(X))


def test_values_are_traced_as_a_whole():
    jaxpr = mjax.make_jaxpr(lambda x: F.dequantize(F.quantize(x)))(X)
    check_jaxpr(jaxpr)
    assert [e.primitive.name for e in jaxpr.eqns] == ["to rows", "of rows"]
    assert mjax.eval_shape(F.quantize, X) == F.QuantizedType((2, 3))

    def bad(x):
        return F.dequantize(F.Quantized(x.astype(np.int8), x[:, 0]))

    with pytest.raises(TypeError, match="Quantized of type .* holds values that were being traced"):
        mjax.jit(bad)(X)
    near(mjax.jit(lambda t: part(t, 0))(F.Tuple((q, X))).scale, q.scale)  # types of types


def test_keys_and_weak_types_are_parts():
    key = mjax.random.key(1)
    t = mjax.jit(lambda t: pair(part(t, 0), part(t, 1) + 1))(F.Tuple((key, 2.0)))
    assert mjax.random.key_data(t.parts[0]).tolist() == mjax.random.key_data(key).tolist()
    assert t.parts[1] == 3.0


def test_attributes_of_traced_values():
    def f(t):
        assert t.count == 2
        return t.part(0) * t.part(1)

    near(mjax.jit(f)(F.Tuple((X, Y))), X * Y)
    near(mjax.vmap(lambda x, y: f(pair(x, y)))(X, Y), X * Y)
    with pytest.raises(AttributeError, match="does not have the attribute 'prat'"):
        mjax.jit(lambda t: t.prat(0))(F.Tuple((X, Y)))


def test_donated_values():
    given = mjax.jit(F.quantize)(X)
    out = mjax.jit(lambda v: F.quantize(F.dequantize(v)), donate_argnums=0)(given)
    assert given.numbers.is_deleted() and given.scale.is_deleted()
    near(F.dequantize(out), rounded(X), 1e-2)


def test_programs_compiled_ahead_of_time():
    swap = mjax.jit(lambda t, x: {"t": pair(part(t, 1), part(t, 0)), "x": x + 1})
    t = F.Tuple((X, Y))
    lowered = swap.lower(t, 1.0)
    assert lowered.in_avals[0][0] == mjax.typeof(t)
    compiled = lowered.compile()
    for _ in range(2):
        out = compiled(F.Tuple((2 * X, Y)), 2.0)
        near(out["t"].parts, (Y, 2 * X))
        assert out["x"] == 3.0
    (of_t, of_x), _ = compiled.input_shardings
    assert len(of_t) == 2 and of_x in of_t and len(compiled.output_formats["t"]) == 2
    assert mjax.jit(lambda t: part(t, 0)).lower(mjax.typeof(t)).compile()(t).shape == X.shape
    with pytest.raises(TypeError, match="differ from those it was compiled for"):
        compiled(F.Tuple((X[0], Y)), 2.0)


# ---- derivatives and control flow ------------------------------------------------------


def product(t):
    return part(t, 0) * part(t, 1)


def by_carry(t):
    def step(c, _):
        return pair(part(c, 1), part(c, 0)), part(c, 0)

    return product(lax.scan(step, t, None, length=3)[0])


def by_slices(t):
    """Slices of a value, and values stacked."""
    total, stacked = lax.scan(lambda c, row: (c, pair(part(row, 1), part(row, 0))), 0.0, t,
                              length=2)
    return total + product(stacked)


def by_while(t):
    return product(lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, pair(
        part(c[1], 1), part(c[1], 0))), (0, t))[1])


def by_cond(t):
    return product(lax.cond(part(t, 0)[0, 0] > 0, lambda t: pair(part(t, 1), part(t, 0)),
                            lambda t: t, t))


@mjax.custom_jvp
def by_custom_jvp(t):
    return product(t)


by_custom_jvp.defjvp(lambda primals, tangents: (
    product(primals[0]), part(primals[0], 0) * part(tangents[0], 1)
    + part(primals[0], 1) * part(tangents[0], 0)))


@mjax.custom_vjp
def by_custom_vjp(t):
    return product(t)


by_custom_vjp.defvjp(lambda t: (product(t), t), lambda t, ct: (
    pair(ct * part(t, 1), ct * part(t, 0)),))

WAYS = {"plain": product, "jit": mjax.jit(product), "remat": mjax.checkpoint(product),
        "carry": by_carry, "slices": by_slices, "while": by_while, "cond": by_cond,
        "custom_jvp": by_custom_jvp, "custom_vjp": by_custom_vjp}


@pytest.mark.parametrize("name", WAYS)
def test_tuples(name):
    f, t = WAYS[name], F.Tuple((X, Y))
    check_jaxpr(mjax.make_jaxpr(lambda x, y: f(pair(x, y)))(X, Y))
    near(f(t), X * Y)
    near(mjax.jit(f)(t), X * Y)
    if name != "custom_vjp":
        near(mjax.jvp(mjax.jit(f), (t,), (F.Tuple((Y, X)),))[1], X * X + Y * Y)
    if name != "while":
        total = lambda t: f(t).sum()
        for gradient in (mjax.grad(total)(t), mjax.jit(mjax.grad(total))(t)):
            near(gradient.parts, (Y, X))
        near(mjax.grad(mjax.checkpoint(lambda x: total(pair(x, 2 * x))))(X), 4 * X)


@pytest.mark.parametrize("name", ["plain", "jit", "remat", "carry", "while", "custom_jvp",
                                  "custom_vjp"])
def test_vmap_of_tuples(name):
    f, twice = WAYS[name], np.stack([X, 2 * X])
    near(mjax.vmap(lambda x, y: f(pair(x, y)))(twice, np.stack([Y, Y])), [X * Y, 2 * X * Y])
    if name in ("carry", "while"):
        return
    wanted = [Y, Y], [X, 2 * X]
    found = mjax.jit(mjax.vmap(mjax.grad(lambda x, y: f(pair(x, y)).sum(), (0, 1))))(
        twice, np.stack([Y, Y]))
    near(found, wanted)


def test_vmap_over_values():
    spec = F.TupleSpec((0, 1))
    near(mjax.vmap(product, in_axes=spec, axis_size=2)(F.Tuple((X, Y.T))), X * Y)
    near(mjax.vmap(lambda a, t: a * part(t, 1), in_axes=(0, spec))(X, F.Tuple((X, Y.T))), X * Y)
    out = mjax.jit(mjax.vmap(pair, out_axes=F.TupleSpec((0, 0))))(X, Y)
    assert type(out) is F.Tuple
    near(out.parts, (X, Y))
    swapped = mjax.vmap(lambda t: pair(part(t, 1), part(t, 0)), in_axes=spec, axis_size=2,
                        out_axes=F.TupleSpec((1, 0)))(F.Tuple((X, Y.T)))
    near(swapped.parts[0], Y.T)
    near(swapped.parts[1], X)
    near(mjax.vmap(lambda _, t: product(t), in_axes=(0, None), out_axes=0)(
        np.arange(2), F.Tuple((X, Y))), [X * Y, X * Y])


def test_gradients_of_quantized_values():
    loss = lambda q: (F.dequantize(q) ** 2).sum()
    near(mjax.grad(loss)(q), 2 * rounded(X))
    near(mjax.jit(mjax.grad(lambda x: loss(F.quantize(x))))(X), 2 * rounded(X))
    value, pull = mjax.vjp(mjax.jit(loss), q)
    near(pull(jnp.float32(1))[0], 2 * rounded(X))
    near(mjax.jvp(F.dequantize, (q,), (Y,))[1], Y)
    near(mjax.linearize(lambda x: F.dequantize(F.quantize(x)) ** 2, X)[1](Y), 2 * rounded(X) * Y)


def test_what_loops_stack_is_not_batched():
    """A type does not say where the second of two leading axes is."""
    twice = np.stack([X, 2 * X])
    for f in (by_slices, mjax.grad(lambda t: by_carry(t).sum())):
        with pytest.raises(ValueError, match="of which a loop stacks one for each iteration"):
            mjax.vmap(lambda x, f=f: f(pair(x, x)), (0,), F.TupleSpec((0, 0)))(twice)


# ---- VJPHiPrimitive --------------------------------------------------------------------


@pytest.mark.parametrize("power", [F.pulled, F.linearized])
def test_powers(power):
    cube = lambda x: power(x, 3)
    x = np.array([1.0, -2.0, 0.5], np.float32)
    near(cube(x), x ** 3)
    near(mjax.jit(cube)(x), x ** 3)
    total = lambda x: cube(x).sum()
    near(mjax.grad(total)(x), 3 * x ** 2)
    near(mjax.jit(mjax.grad(mjax.checkpoint(total)))(x), 3 * x ** 2)
    near(mjax.vmap(mjax.grad(cube))(x), 3 * x ** 2)
    near(mjax.grad(lambda x: mjax.vmap(mjax.vmap(cube), 1, 1)(x).sum())(X), 3 * X ** 2)
    near(mjax.linearize(cube, x)[1](x), 3 * x ** 3)
    near(mjax.jacrev(cube)(x), np.diag(3 * x ** 2))
    near(mjax.jacfwd(cube)(x), np.diag(3 * x ** 2))
    near(mjax.grad(lambda x: lax.scan(lambda c, _: (cube(c), None), x, None, length=2)[0].sum())(x),
         9 * x ** 8, 1e-4)
    if power is F.pulled:
        near(mjax.jvp(mjax.vmap(cube), (x,), (x,))[1], 3 * x ** 3)
        near(mjax.hessian(total)(x), np.diag(6 * x))
        near(mjax.grad(mjax.grad(lambda x: cube(x)))(2.0), 12.0)
    else:
        with pytest.raises(NotImplementedError, match="Linearized does not define jvp"):
            mjax.jvp(cube, (x,), (x,))


def test_several_operands_and_results():
    w = np.float32(3)
    both = lambda w, x: F.weighted(w, x)[0].sum() + 2 * F.weighted(w, x)[1].sum()
    near(both(w, X), 3 * X.sum() + 2 * X.sum(), 1e-5)
    for f in (both, mjax.jit(both)):
        near(mjax.grad(f, (0, 1))(w, X[0])[0], X[0].sum())
        near(mjax.grad(f, (0, 1))(w, X[0])[1], np.full(3, 5.0))
    mapped = lambda w, x: sum(map(jnp.sum, mjax.vmap(F.weighted, (None, 0))(w, x)))
    near(mapped(w, X), 4 * X.sum(), 1e-5)
    near(mjax.grad(mapped, (0, 1))(w, X)[0], X.sum(), 1e-5)  # summed over the batch
    near(mjax.grad(mapped, (0, 1))(w, X)[1], np.full((2, 3), 4.0))


def test_equations_show_and_compare_operations():
    jaxpr = mjax.make_jaxpr(lambda x: F.pulled(x, 3))(X)
    eqn, = jaxpr.eqns
    assert "call_hi_primitive[_prim=Pulled[{'n': 3}]]" in str(jaxpr)
    again = mjax.make_jaxpr(lambda x: F.pulled(x, 3))(X).eqns[0].params["_prim"]
    other = mjax.make_jaxpr(lambda x: F.pulled(x, 2))(X).eqns[0].params["_prim"]
    assert again == eqn.params["_prim"] != other and hash(again) == hash(eqn.params["_prim"])


def test_dead_operations_are_dropped():
    from mjax_ext.interpreters import partial_eval as pe

    jaxpr = mjax.make_jaxpr(lambda x: (F.weighted(x, x)[0], x))(X)
    assert len(jaxpr.eqns) == 1
    assert not pe.dce_jaxpr(jaxpr, [False, True])[0].eqns
    assert len(pe.dce_jaxpr(jaxpr, [True, False])[0].eqns) == 1


def test_transposed_operations():
    near(mjax.linear_transpose(lambda x, y: part(pair(x, y), 1), X, Y)(X), (0 * X, X))


def test_staging_and_effects():
    seen = []

    class Noted(Effect):
        policy = EffectPolicy(lowerable=True, kept_by_dce=True)

    noted = Noted()

    class Identity(hijax.VJPHiPrimitive):
        effects = frozenset({noted})

        def __init__(self, x):
            self.in_avals, self.out_aval, self.params = (x,), x, {}
            super().__init__()

        def check(self, x):
            assert x.shape

        def expand(self, x):
            return x

        def staging(self, trace, source_info, x):
            seen.append(x.aval)
            return super().staging(trace, source_info, x)

    for _ in range(2):
        jaxpr = mjax.make_jaxpr(lambda x: Identity(mjax.typeof(x))(x))(X)
    assert jaxpr.effects == {noted} and len(seen) == 2
    near(mjax.jit(lambda x: Identity(mjax.typeof(x))(x))(X), X)


# ---- refusals --------------------------------------------------------------------------


@dataclass(frozen=True)
class Bare:
    x: object


@dataclass(frozen=True)
class BareType(hijax.HiType):
    shape: tuple


hijax.register_hitype(Bare, lambda b: BareType(b.x.shape))


@dataclass(frozen=True)
class Flags:
    x: object


@dataclass(frozen=True)
class FlagsType(hijax.HiType):
    shape: tuple

    def to_tangent_aval(self):
        return ShapedArray(self.shape, mjax.dtypes.float0)


hijax.register_hitype(Flags, lambda f: FlagsType(f.x.shape))


class Silent(hijax.VJPHiPrimitive):
    def __init__(self, x):
        self.in_avals, self.out_aval, self.params = (x,), x, {}
        super().__init__()

    def expand(self, x):
        return x


silent = lambda x: Silent(mjax.typeof(x))(x)


@pytest.mark.parametrize(("f", "error", "match"), [
    (lambda: mjax.jit(lambda b: b)(Bare(X)), TypeError, r"BareType does not define lower_val"),
    (lambda: mjax.grad(lambda b: 1.0)(Bare(X)), TypeError, r"does not define to_tangent_aval\(\)"),
    (lambda: mjax.grad(lambda b: 1.0)(Flags(X)), TypeError,
     "argument 0 of <lambda> is of type .*FlagsType.*, whose values do not have tangents"),
    (lambda: mjax.grad(lambda x: silent(x).sum())(X), NotImplementedError,
     "Silent does not define vjp_fwd, which is needed for reverse mode"),
    (lambda: mjax.jvp(silent, (X,), (X,)), NotImplementedError, "does not define jvp"),
    (lambda: mjax.vmap(silent)(X), NotImplementedError, "batch_dim_rule.* for vmap"),
    (lambda: mjax.vmap(F.quantize)(X[None]), NotImplementedError, "'to rows' has no batching"),
    (lambda: Silent(mjax.typeof(X))(Y[0]), TypeError,
     r"Silent.* is for operands of types float32\[2,3\], but was applied to float32\[3\]"),
    (lambda: Silent(mjax.typeof(X))(X, Y), TypeError, "the operands have the structure"),
    (lambda: mjax.vmap(pair, out_axes=F.TupleSpec((0, 1)))(X, Y), ValueError,
     "batched along .*TupleSpec.*needed along .*TupleSpec"),
    (lambda: mjax.vmap(lambda x: pair(1.0, 2.0), out_axes=F.TupleSpec((0, 0)))(X), ValueError,
     "is the same for all elements"),
    (lambda: mjax.vmap(jnp.sin, in_axes=F.TupleSpec((0,)), axis_size=2)(X), TypeError,
     "in_axes has .*TupleSpec.* for a value of type"),
    (lambda: mjax.vmap(jnp.sin, out_axes=F.TupleSpec((0,)))(X), TypeError, "out_axes has"),
    (lambda: lax.scan(lambda c, t: (c, None), 0.0, F.Tuple((X, Y))), ValueError,
     "the type of xs does not tell their number; say the number of iterations by length"),
    (lambda: hijax.register_hitype(3, lambda x: x), TypeError, "takes a class, got"),
    (lambda: hijax.register_hitype(Bare, 3), TypeError, "from an object to its type, got"),
    (lambda: jnp.sin(q), TypeError, "Quantized")])
def test_refusals(f, error, match):
    with pytest.raises(error, match=match):
        f()


def test_mistakes_in_classes():
    class NoTypes(hijax.VJPHiPrimitive):
        def __init__(self):
            super().__init__()

    class Twice(Silent):
        def vjp_bwd(self, res, ct, accum):
            pass

        def vjp_bwd_retval(self, res, ct):
            pass

    class Wrong(Silent):
        def expand(self, x):
            return x, x

        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, ct):
            return (ct[0],)

    class Mistyped(Silent):
        def expand(self, x):
            return x[0]

        def vjp_fwd(self, nzs_in, x):
            return x[0], None

        def jvp(self, primals, tangents):
            return primals[0][0], tangents[0][0]

        def batch(self, axis_data, args, dims):
            return args[0], 1

    class Nothing(hijax.HiType):
        pass

    with pytest.raises(AttributeError, match=r"NoTypes.__init__ must set self\.in_avals"):
        NoTypes()
    with pytest.raises(AttributeError, match="two forms of one rule"):
        Twice(mjax.typeof(X))
    with pytest.raises(TypeError, match="Wrong: the results of expand have the structure"):
        Wrong(mjax.typeof(X))(X)
    with pytest.raises(TypeError, match=r"a cotangent of type float32\[3\] .*float32\[2,3\]"):
        mjax.vjp(Wrong(mjax.typeof(X)), X)[1](jnp.asarray(X))
    mistyped = lambda x: Mistyped(mjax.typeof(x))(x)
    for ask, method in ((mistyped, "expand"), (mjax.jit(mistyped), "expand"),
                        (lambda x: mjax.vjp(mistyped, x), "vjp_fwd"),
                        (lambda x: mjax.jvp(mistyped, (x,), (x,)), "jvp"),
                        (lambda x: mjax.vmap(mistyped)(x[None]), "batch")):
        with pytest.raises(TypeError, match=rf"Mistyped\.{method} gave results of types float32"):
            ask(X)
    with pytest.raises(TypeError, match="Nothing does not define __hash__"):
        hash(Nothing())
    for ask in (lambda t: t == t, lambda t: t.lo_ty(), lambda t: t.vspace_add(1, 2),
                lambda t: t.vspace_zero(), lambda t: t.leading_axis_spec(),
                lambda t: t.dec_rank(2, 0), lambda t: t.raise_val(1)):
        with pytest.raises(TypeError, match="Nothing does not define"):
            ask(Nothing())


def test_arrays_answer_as_parts_of_types():
    a = ShapedArray((2, 3), "float32")
    assert a.lo_ty() == [a] and a.lower_val(1) == [1] and a.raise_val(1) == 1
    assert a.dec_rank(2, 0) is ShapedArray((3,), "float32") and a.dec_rank(2, None) is a
    assert a.inc_rank(4, 1) is ShapedArray((2, 4, 3), "float32") and a.inc_rank(4, None) is a
    assert a.leading_axis_spec() == 0 and a.normalize() is a is a.to_ct_aval()
    near(a.vspace_zero(), 0 * X)
    near(a.vspace_add(X, Y), X + Y)


@pytest.mark.parametrize(("lower_val", "text"), [
    (lambda self, value: [value.x], "gave a list of 1"),
    (lambda self, value: [value.x] * 3, "gave a list of 3"),
    (lambda self, value: [value.x, value.x.astype(np.int32)], r"ndarray of type int32\[2, 3\]"),
    (lambda self, value: [value.x, value.x[:1]], r"ndarray of type float32\[1, 3\]"),
    (lambda self, value: iter([value.x] * 2), "iterator"), (lambda self, value: None, "None"),
    (lambda self, value: [value.x, None], "None"),
    (lambda self, value: [value.x, np.float64(2) * value.x], None)])
def test_values_have_the_arrays_of_their_type(lower_val, text):
    @dataclass(frozen=True)
    class Twice(hijax.HiType):
        def lo_ty(self):
            return [ShapedArray(X.shape, np.dtype(np.float32))] * 2

        def raise_val(self, x, y):
            return x

    class Value:
        x = X

    Twice.lower_val = lower_val
    hijax.register_hitype(Value, lambda value: Twice())
    for _ in range(2):
        if text is None:
            near(mjax.jit(lambda value: value)(Value()), X)
        else:
            with pytest.raises(TypeError, match=f"Twice.lower_val .*test_hijax.*{text}.* types of "
                               r"lo_ty: float32\[2,3\], float32\[2,3\]"):
                mjax.jit(lambda value: value)(Value())


def test_types_have_arrays():
    @dataclass(frozen=True)
    class Wrong(hijax.HiType):
        def lo_ty(self):
            return [X.shape]

        def lower_val(self, value):
            return [X]

    class Value:
        pass

    hijax.register_hitype(Value, lambda value: Wrong())
    with pytest.raises(TypeError, match="Wrong.lo_ty .*must give a list of types of arrays"):
        mjax.jit(lambda value: value)(Value())


def test_what_a_computation_on_objects_raises_is_named():
    class Failing(hijax.HiPrimitive):
        def abstract_eval(self, x):
            return ShapedArray(x.shape, x.dtype), set()

        def to_lojax(self, x):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        mjax.jit(Failing("failing").bind)(X)
    assert caught.value.__notes__[0].startswith("Raised in the lowering of primitive 'failing' (")
    assert "test_hijax.py" in caught.value.__notes__[0]


class Half(hijax.HiPrimitive):
    """Some of its rules are left out."""

    def abstract_eval(self, x, *, times):
        return x, set()


class Halved(Half):
    def to_lojax(self, x, *, times):
        return x / 2**times

    def jvp(self, primals, tangents, *, times):
        return self.bind(*primals, times=times), self.bind(*tangents, times=times)


@pytest.mark.parametrize("make, use, says", [
    (Half, mjax.jit, r"it in Half, as in:\s+def to_lojax\(self, x, \*, times\):"),
    (Half, mjax.grad, r"it in Half, as in:\s+def jvp\(self, primals, tangents, \*, times\):"),
    (Halved, mjax.grad, r"Mend these.*it in Halved, as in:\s+def transpose\(self, cotangent"),
])
def test_missing_methods_have_templates(make, use, says):
    p = make(f"halves of a test {make.__name__} {use.__name__}")
    with pytest.raises(mjax.errors.MissingRuleError, match=f"(?s){says}"):
        use(lambda x: p.bind(x, times=1))(2.0)


def test_an_attribute_that_a_traced_value_lacks():
    with pytest.raises(AttributeError, match=(
            r"QuantizedType\(.* does not have the attribute 'numbers' in programs.*"
            "Define QuantizedType.numbers by hijax.aval_property")):
        mjax.jit(lambda q: q.numbers)(q)
    assert mjax.jit(lambda q: 0 if hasattr(q, "numbers") else 1)(q) == 1


def test_an_axis_number_for_values_of_several_arrays():
    @dataclass(frozen=True)
    class PlainType(hijax.HiType):
        def lo_ty(self):
            return [ShapedArray((2,), np.float32)]

        def lower_val(self, plain):
            return [X[0, :2]]

        def raise_val(self, numbers):
            return Plain()

    Plain = type("Plain", (), {})
    hijax.register_hitype(Plain, lambda plain: PlainType())
    with pytest.raises(TypeError, match=(
            r"vmap of <lambda>: argument 0 \(plain\) is a value of type .*PlainType\(\), which is "
            "not an array and has no axis 0. Give a MappingSpec .* in in_axes, and axis_size")):
        mjax.vmap(lambda plain: plain)(Plain())
    PlainType.shape = (2,)
    with pytest.raises(TypeError, match="vmap maps them by a MappingSpec in in_axes and out_axes"):
        mjax.vmap(lambda plain: plain)(Plain())


@pytest.mark.parametrize("type_of, says", [
    (lambda value: 3, r"the type of a Value, by .*test_hijax.py.*, must be a HiType, got 3"),
    (lambda value: dataclass(type("Loose", (hijax.HiType,), {}))(),
     r"by .*test_hijax.py.* is .*Loose\(\), which is not hashable.*make Loose a frozen dataclass"),
])
def test_what_is_not_a_type_of_objects(type_of, says):
    Value = type("Value", (), {})
    hijax.register_hitype(Value, type_of)
    with pytest.raises(TypeError, match=says):
        mjax.jit(lambda value: value)(Value())
