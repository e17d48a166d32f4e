"""Mistakes of authors of primitives, and the messages for them.

The rows marked (measured) are those that JAX 0.4.38 to 0.12.0.1 was measured on: there five gave
errors that named neither primitive nor rule, and six none at all. Three of the six are purely
numerical (a jvp rule wrong by a factor, an implementation that computes something else than the
lowering, a dropped weak type); they are for a checker that compares rules by running them.
"""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

X = np.arange(3, dtype=np.float32)
XX = np.arange(15, dtype=np.float32).reshape(5, 3)
hlo = mlir.hlo


def scale_type(x, y, **params):
    return core.ShapedArray(x.shape, x.dtype)


def scale_jvp(primals, tangents, **params):
    x, y = primals
    dx, dy = map(ad.instantiate_zeros, tangents)
    return scale_p(x, y), lax.add(scale_p(dx, y), scale_p(x, dy))


RULES = {
    "impl": lambda x, y, **params: np.asarray(x) * np.asarray(y),
    "abstract_eval": scale_type,
    "lowering": lambda ctx, x, y, **params: hlo.MulOp(x, y).results,
    "jvp": scale_jvp,
    "transpose": lambda ct, x, y: [lax.mul(ct, y), None] if ad.is_undefined_primal(x) else [
        None, lax.mul(x, ct)],
    "batch": lambda args, dims, **params: (scale_p(*args), dims[0]),
}
current = []


def scale_p(x, y):
    return current[-1].bind(x, y)


def scale(multiple_results=False, without=(), **rules):
    """A function of the primitive `scale` (x * y) with some rules replaced or left out."""
    p = core.Primitive("scale", multiple_results=multiple_results)
    rules = {k: v for k, v in (RULES | rules).items() if k not in without}
    for table, field in ((ad.primitive_jvps, "jvp"), (ad.primitive_transposes, "transpose"),
                         (batching.primitive_batchers, "batch")):
        if field in rules:
            table[p] = rules[field]
    if "impl" in rules:
        p.def_impl(rules["impl"])
    if "abstract_eval" in rules:
        p.def_abstract_eval(rules["abstract_eval"])
    if "lowering" in rules:
        mlir.register_lowering(p, rules["lowering"])
    current[:] = [p]
    return p.bind


def total(f):
    return lambda *args: lax.reduce_sum(f(*args), (0,))


def run(f):
    return f(X, X)


def jit(f):
    return mjax.jit(lambda x, y: f(x, y))(X, X)


def jvp(f):
    return mjax.jvp(f, (X, X), (X, X))


def jvp_in_x(f):
    return mjax.jvp(lambda x: f(x, X), (X,), (X,))


def grad(f):
    return mjax.grad(total(f))(X, X)


def vmap(f):
    return mjax.vmap(f)(XX, XX)


def linearized(rule):
    """A primitive with two results and this linearize rule."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    ad.primitive_linearizations[current[-1]] = rule
    return f


def evaluated_in_part(rule):
    """A primitive with two results and this rule for operands of which some are unknown."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    partial_eval.custom_partial_eval_rules[current[-1]] = rule
    return f


def without_dead_code(rule):
    """A primitive with two results and this rule for results of which some are unused."""
    f = scale(multiple_results=True, impl=two_values, abstract_eval=two_types)
    partial_eval.dce_rules[current[-1]] = rule
    return f


def effectful(rule):
    """The primitive with this effectful abstract evaluation."""
    f = scale(without=("abstract_eval",))
    current[-1].def_effectful_abstract_eval(rule)
    return f


def of_a_program(impl):
    """A primitive whose types follow from a program, with this implementation."""
    p = core.Primitive("scale", multiple_results=True, types_cacheable=False)
    p.def_abstract_eval(two_types)
    p.def_impl(impl)
    current[:] = [p]
    return p.bind


def grad_of_first(f):
    return mjax.grad(lambda x, y: lax.reduce_sum(f(x, y)[0], (0,)))(X, X)


def cut(f):
    jaxpr = mjax.make_jaxpr(lambda x, y: f(x, y)[0])(X, X)
    return partial_eval.partial_eval_jaxpr(jaxpr, [False, True])


def prune(f):
    jaxpr = mjax.make_jaxpr(f)(X, X)
    return partial_eval.dce_jaxpr(jaxpr, [True, False])


def make_jaxpr(f):
    return mjax.make_jaxpr(f)(X, X)


def test_without_a_mistake():
    f = scale()
    for value in (run(f), jit(f), f(X, X), mjax.vmap(f)(X[None], X[None])[0]):
        np.testing.assert_allclose(value, X * X)
    np.testing.assert_allclose(jvp(f)[1], 2 * X * X)
    np.testing.assert_allclose(grad(f), X)
    np.testing.assert_allclose(vmap(f), XX * XX)


MISSING = {
    "impl": (lambda: scale(without=("impl", "abstract_eval", "lowering")), run,
             "no implementation, which evaluation", "@scale_p.def_impl\n    def scale_impl(x, y)"),
    "abstract_eval": (lambda: scale(without=("abstract_eval",)), make_jaxpr,
                      "no abstract evaluation, which staging",
                      "@scale_p.def_abstract_eval\n    def scale_abstract_eval(x, y):"),
    "lowering": (lambda: scale(without=("lowering",)), jit,
                 "no lowering for platform cpu, which compilation",
                 "mlir.register_lowering(scale_p, scale_lowering)"),
    "jvp": (lambda: scale(without=("jvp",)), jvp, "no jvp rule, which differentiation",
            "ad.primitive_jvps[scale_p] = scale_jvp"),
    "transpose": (lambda: scale(without=("transpose",)), grad,
                  "no transpose rule, which transposition",
                  "def scale_transpose(cotangent, x, y):"),
    "batch": (lambda: scale(without=("batch",)), vmap, "no batching rule, which vectorization",
              "batching.primitive_batchers[scale_p] = scale_batch"),
}


@pytest.mark.parametrize("rule", MISSING)
def test_missing_rule(rule):
    """(measured) Names primitive, transformation and the user's line, and shows what to write."""
    make, use, who, spelling = MISSING[rule]
    f = make()
    with pytest.raises(MissingRuleError) as caught:
        use(f)
    text = str(caught.value)
    assert text.startswith(f"Primitive 'scale' has {who}")
    assert spelling in text
    assert "test_mistakes.py:" in text and f"({use.__name__})" in text
    assert isinstance(caught.value, NotImplementedError)


def test_missing_rule_shows_the_parameters():
    p = core.Primitive("cut-off", multiple_results=True)
    with pytest.raises(MissingRuleError) as caught:
        p.bind(X, axis=0, limit=2)
    assert "def cut_off_impl(x, *, axis, limit):" in str(caught.value)
    with pytest.raises(MissingRuleError) as caught:
        mjax.make_jaxpr(lambda *xs: p.bind(*xs))(*[X] * 6)
    assert "def cut_off_abstract_eval(*operands):" in str(caught.value)
    assert "return [ShapedArray(shape, dtype), ...]" in str(caught.value)


def test_text_of_a_missing_rule_is_built_when_it_is_shown():
    f = scale(without=("jvp",))
    try:
        jvp(f)
    except MissingRuleError as error:
        assert callable(error._text)
        assert "jvp" in str(error)


def two_results(ctx, x, y):
    return hlo.MulOp(x, y).result, hlo.MulOp(x, y).result


def wide_type(x, y):
    return core.ShapedArray((9,), x.dtype)


def half_type(x, y):
    return core.ShapedArray(x.shape, np.float16)


def two_types(x, y):
    return [scale_type(x, y), scale_type(x, y)]


def two_values(x, y):
    return [np.asarray(x), np.asarray(y)]


#: what -> (the primitive, how it is used, what the text says).
MISTAKES = {
    # abstract evaluation
    "abstract eval: tuple for one result (measured)": (
        lambda: scale(abstract_eval=lambda x, y: (scale_type(x, y),)), make_jaxpr,
        "abstract evaluation.*must return one type, or .* multiple_results=True"),
    "abstract eval: one type for a list (measured)": (
        lambda: scale(multiple_results=True), make_jaxpr,
        "abstract evaluation.*since multiple_results=True it must return a list of types"),
    "abstract eval: a shape": (
        lambda: scale(abstract_eval=lambda x, y: x.shape), make_jaxpr,
        r"abstract evaluation.*returned a tuple of 1 \(3\)"),
    "abstract eval: None": (
        lambda: scale(abstract_eval=lambda x, y: None), make_jaxpr,
        "abstract evaluation.*returned None"),
    "abstract eval: wrong shape (measured)": (
        lambda: scale(abstract_eval=wide_type), jit,
        r"lowering of .*returned 1 results of types tensor<3xf32>.*says float32\[9\]"),
    "abstract eval: wrong dtype (measured)": (
        lambda: scale(abstract_eval=half_type), jit,
        r"lowering of .*returned 1 results of types tensor<3xf32>.*says float16\[3\]"),
    # implementation
    "impl: another shape than the abstract eval (measured)": (
        lambda: scale(impl=lambda x, y: np.zeros(9, np.float32)), run,
        r"implementation.*returned float32\[9\], but its abstract evaluation says float32\[3\]"),
    "impl: another dtype": (
        lambda: scale(impl=lambda x, y: np.zeros(3, np.int32)), run,
        r"implementation.*returned int32\[3\]"),
    "impl: tuple for one result": (
        lambda: scale(impl=lambda x, y: (x, y)), run, "implementation.*returned a tuple of 2"),
    "impl: None": (lambda: scale(impl=lambda x, y: None), run, "implementation.*returned None"),
    "impl: one value for a list": (
        lambda: scale(multiple_results=True, abstract_eval=two_types), run,
        "implementation.*multiple_results=True it must return a list of values, 2 for 2"),
    "impl: too many values": (
        lambda: scale(multiple_results=True, impl=two_values,
                      abstract_eval=lambda x, y: [scale_type(x, y)]), run,
        "implementation.*a list of values, 1 for 1"),
    # lowering
    "lowering: two results (measured)": (
        lambda: scale(lowering=two_results), jit, "lowering of .*returned 2 results"),
    "lowering: None (measured)": (
        lambda: scale(lowering=lambda ctx, x, y: None), jit,
        "lowering of .*returned None; it must return a list of ir.Values"),
    "lowering: a list of None": (
        lambda: scale(lowering=lambda ctx, x, y: [None]), jit,
        r"lowering of .*returned a list of 1 \(None\)"),
    "lowering: the operation": (
        lambda: scale(lowering=lambda ctx, x, y: hlo.MulOp(x, y)), jit,
        r"lowering of .*such as the .results"),
    "lowering: no results": (
        lambda: scale(lowering=lambda ctx, x, y: []), jit, "lowering of .*returned 0 results"),
    "lowering: wrong type, eagerly": (
        lambda: scale(without=("impl",), abstract_eval=wide_type), run,
        "lowering of .*tensor<3xf32>"),
    "lower_fun: one value for a list": (
        lambda: scale(lowering=mlir.lower_fun(lax.mul)), jit,
        "lowering of .*marked with multiple_results=False"),
    "lower_fun: wrong type": (
        lambda: scale(lowering=mlir.lower_fun(lambda x, y: lax.reduce_sum(x, (0,)),
                                              multiple_results=False)), jit,
        r"lowering of .*returned 1 results of types tensor<f32>"),
    # jvp
    "jvp: tangent of another shape (measured)": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), np.zeros(9, np.float32))), jvp,
        r"jvp rule.*returned a tangent of type float32\[9\] for a result of type float32\[3\]"),
    "jvp: tangent of another dtype": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), np.zeros(3, np.int32))), jvp,
        r"jvp rule.*returned a tangent of type int32\[3\]"),
    "jvp: primal of another type": (
        lambda: scale(jvp=lambda ps, ts: (np.zeros(9, np.float32), ad.Zero(mjax.typeof(X)))), jvp,
        r"jvp rule.*returned a primal of type float32\[9\], but .* evaluation says float32\[3\]"),
    "jvp: no pair": (
        lambda: scale(jvp=lambda ps, ts: scale_p(*ps)), jvp,
        r"jvp rule.*it must return a pair: a primal and a tangent"),
    "jvp: an array of length two for a pair": (
        lambda: scale(jvp=lambda ps, ts: np.zeros(2, np.float32)), jvp,
        r"jvp rule.*returned ndarray of type float32\[2\]; it must return a pair"),
    "jvp: tangent None": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), None)), jvp,
        r"jvp rule.*the tangent None; both must be arrays"),
    "jvp: uses a Zero as an array": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), lax.add(scale_p(ts[0], ps[1]),
                                                                scale_p(ps[0], ts[1])))),
        jvp_in_x, r"a tangent known to be zero.*used as if it were an array.*instantiate_zeros"
        r".*jvp rule of primitive 'scale'"),
    "jvp: computes with a Zero": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), ps[0] * ts[1])), jvp_in_x,
        r"a tangent known to be zero.*jvp rule of primitive 'scale'"),
    "jvp: gives a Zero to NumPy": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), np.multiply(ps[0], ts[1]))), jvp_in_x,
        r"a tangent known to be zero.*jvp rule of primitive 'scale'"),
    "jvp: single results for lists": (
        lambda: scale(multiple_results=True, impl=two_values, abstract_eval=two_types,
                      jvp=lambda ps, ts: (ps[0], ts[0])), jvp,
        "jvp rule.*must return a list of primals and one of tangents, 2 for 2 results"),
    "jvp: too few tangents": (
        lambda: scale(multiple_results=True, impl=two_values, abstract_eval=two_types,
                      jvp=lambda ps, ts: (ps, ts[:1])), jvp,
        "jvp rule.*must return a list of primals and one of tangents, 2 for 2 results"),
    # transpose
    "transpose: a bare cotangent": (
        lambda: scale(transpose=lambda ct, x, y: ct), grad,
        r"transpose rule.*it must return a list of 2, one cotangent or None per operand"),
    "transpose: too few": (
        lambda: scale(transpose=lambda ct, x, y: [ct]), grad,
        r"transpose rule.*returned a list of 1 .*it must return a list of 2"),
    "transpose: None": (
        lambda: scale(transpose=lambda ct, x, y: None), grad, r"transpose rule.*returned None"),
    "transpose: cotangent of another shape": (
        lambda: scale(transpose=lambda ct, x, y: [np.zeros(9, np.float32), None]), grad,
        r"transpose rule.*a cotangent of type float32\[9\] for an operand of type float32\[3\]"),
    "transpose: no array": (
        lambda: scale(transpose=lambda ct, x, y: [[1.0, 2.0, 3.0], None]), grad,
        r"transpose rule.*returned a list of 3"),
    "transpose: computes with an undefined primal": (
        lambda: scale(transpose=lambda ct, x, y: [x * ct, None]), grad,
        r"an operand without a value.*transpose rule of primitive 'scale'"),
    "transpose: uses an undefined primal": (
        lambda: scale(transpose=lambda ct, x, y: [lax.mul(ct, x), None]), grad,
        r"an operand without a value.*used as if it were an array.*transpose rule of primitive "
        r"'scale'"),
    # batching
    "batch: dim out of range (measured)": (
        lambda: scale(batch=lambda args, dims: (scale_p(*args), 2)), vmap,
        r"batching rule.*batch dimension 2; that axis must exist and have size 5"),
    "batch: wrong dim (measured)": (
        lambda: scale(batch=lambda args, dims: (scale_p(*args), 1)), vmap,
        r"batching rule.*shape \(5, 3\) with batch dimension 1; that axis must exist and have"),
    "batch: negative dim": (
        lambda: scale(batch=lambda args, dims: (scale_p(*args), -2)), vmap,
        r"batching rule.*batch dimension -2"),
    "batch: forgotten dim": (
        lambda: scale(batch=lambda args, dims: (scale_p(*args), None)), vmap,
        r"batching rule.*returned float32\[5,3\] with batch dimension None.*says float32\[3\]"),
    "batch: value only": (
        lambda: scale(batch=lambda args, dims: scale_p(*args)), vmap,
        r"batching rule.*it must return a pair: the result and its batch dimension"),
    "batch: other elements": (
        lambda: scale(batch=lambda args, dims: (lax.reduce_sum(args[0], (1,)), 0)), vmap,
        r"batching rule.*returned float32\[5\] with batch dimension 0, that is float32\[\] for"),
    "batch: no array": (
        lambda: scale(batch=lambda args, dims: (None, 0)), vmap, "batching rule.*returned None"),
    "batch: one value for a list": (
        lambda: scale(multiple_results=True, impl=two_values, abstract_eval=two_types,
                      batch=lambda args, dims: (args[0], 0)), vmap,
        "batching rule.*a list of results and one of batch dimensions, 2 for 2"),
    # without an abstract evaluation
    "impl: one value for a list, types unknown": (
        lambda: scale(multiple_results=True, without=("abstract_eval",)), run,
        "implementation.*multiple_results=True it must return a list of values"),
    "jvp: single results for lists, types unknown": (
        lambda: scale(multiple_results=True, impl=two_values, without=("abstract_eval",),
                      jvp=lambda ps, ts: (1.0, 1.0)), jvp,
        "jvp rule.*returned 1.0 and 1.0; .*a list of primals and one of tangents"),
    "jvp: too few tangents, types unknown": (
        lambda: scale(multiple_results=True, impl=two_values, without=("abstract_eval",),
                      jvp=lambda ps, ts: (ps, ts[:1])), jvp,
        "jvp rule.*a list of primals and one of tangents, 2 for 2 results"),
    "batch: one value for a list, types unknown": (
        lambda: scale(multiple_results=True, impl=two_values, without=("abstract_eval",),
                      batch=lambda args, dims: (1.0, 0)), vmap,
        "batching rule.*a list of results and one of batch dimensions"),
    # linearize
    "linearize: one value for a list": (
        lambda: linearized(lambda nz, x, y: (x, [True, True], (), None)), grad_of_first,
        "linearize rule.*a list of results and one that says which have a tangent"),
    "linearize: one boolean for a list": (
        lambda: linearized(lambda nz, x, y: ([x, y], True, (), None)), grad_of_first,
        "linearize rule.*and True; .*one that says which have a tangent, 2 for 2"),
    "linearize: no function": (
        lambda: linearized(lambda nz, x, y: ([x, y], [True, True], (), None)), grad_of_first,
        r"linearize rule.*returned None in the last place; it must be a function"),
    "linearize: result of another type": (
        lambda: linearized(lambda nz, x, y: ([x[0], y], [True, True], (), lambda _, t, u: [t, u])),
        grad_of_first, r"linearize rule.*returned a primal of type float32\[\], but .* says flo"),
    "linearize: tangent of another type": (
        lambda: linearized(lambda nz, x, y: ([x, y], [True, True], (), lambda _, t, u: [t[0], t])),
        grad_of_first, r"linearize rule.*returned a tangent of type float32\[\] for a result of"),
    "linearize: uses a Zero as an array": (
        lambda: linearized(lambda nz, x, y: ([x, y], [True, True], (),
                                             lambda _, t, u: [lax.mul(t, u), t])),
        grad_of_first, r"a tangent known to be zero.*linearize rule of primitive 'scale'"),
    "linearize: one tangent for a list": (
        lambda: linearized(lambda nz, x, y: ([x, y], [True, True], (), lambda _, t, u: t)),
        grad_of_first, "linearize rule.*a function that gives a list of tangents, 2 for 2"),
    # partial evaluation, dead code
    "partial_eval: one value for a list": (
        lambda: evaluated_in_part(lambda interp, x, y: x), cut,
        "partial_eval rule.*it must return a list of results"),
    "partial_eval: too few": (
        lambda: evaluated_in_part(lambda interp, x, y: [x]), cut,
        "partial_eval rule.*it must return a list of results, 2 for 2"),
    "partial_eval: no array": (
        lambda: evaluated_in_part(lambda interp, x, y: [x, None]), cut,
        "partial_eval rule.*returned None for an array"),
    "partial_eval: another type": (
        lambda: evaluated_in_part(lambda interp, x, y: [x[0], y]), cut,
        r"partial_eval rule.*a result of type float32\[\], but the abstract evaluation says float"),
    "dce: an equation only": (
        lambda: without_dead_code(lambda used, eqn: eqn), prune,
        "dce rule.*which operands are used, and the new equation or None"),
    "dce: a boolean for a list": (
        lambda: without_dead_code(lambda used, eqn: (True, eqn)), prune,
        "dce rule.*returned True to say .* a list of 2 booleans"),
    "dce: what is not an equation": (
        lambda: without_dead_code(lambda used, eqn: ([True, True], eqn.primitive)), prune,
        "dce rule.*returned scale for the new equation; it must be a mjax_ext.core.JaxprEqn"),
    "dce: without a used result": (
        lambda: without_dead_code(lambda used, eqn: (
            [True, True], eqn.replace(outvars=eqn.outvars[1:]))), prune,
        "dce rule.*returned an equation without result 0, which is used"),
    "dce: None for a used equation": (
        lambda: without_dead_code(lambda used, eqn: ([True, True], None)), prune,
        "dce rule.*returned None for the new equation, but result 0 is used"),
    "dce: reads what is unused": (
        lambda: without_dead_code(lambda used, eqn: ([True, False], eqn)), prune,
        "dce rule.*returned an equation that reads operands which it says are unused"),
    "abstract_eval: no effect": (
        lambda: effectful(lambda x, y: (scale_type(x, y), {"log"})), make_jaxpr,
        "abstract evaluation.*returned 'log' among the effects; they must be instances of"),
    "abstract_eval: a class of effects": (
        lambda: effectful(lambda x, y: (scale_type(x, y), {core.Effect})), make_jaxpr,
        "abstract evaluation.*class .* among the effects; they must be instances of"),
    "impl: None among results, types by a program": (
        lambda: of_a_program(lambda x, y: [None]), run, "implementation.*returned None for an arr"),
    "batch: what is not a dim": (
        lambda: scale(batch=lambda args, dims: (scale_p(*args), "0")), vmap,
        "batching rule.*returned the batch dimension '0'; it must be an axis of the result"),
    "batch: too few results": (
        lambda: scale(multiple_results=True, impl=two_values, abstract_eval=two_types,
                      batch=lambda args, dims: (args[:1], dims)), vmap,
        "batching rule.*a list of results and one of batch dimensions, 2 for 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake):
    """The error names the primitive, the rule, where the rule is, and the user's line."""
    make, use, text = MISTAKES[mistake]
    f = make()
    with pytest.raises(TypeError, match=f"(?s){text}") as caught:
        use(f)
    said = str(caught.value)
    assert "primitive 'scale'" in said
    assert "test_mistakes.py:" in said


def test_unhashable_parameter():
    """(measured)"""
    for use in (lambda p: p.bind(X, X, axes=[1]),
                lambda p: mjax.make_jaxpr(lambda x: p.bind(x, x, axes=[1]))(X)):
        scale()
        with pytest.raises(TypeError, match="Parameter 'axes' of primitive 'scale' is not hash"):
            use(current[-1])


def test_effectful_abstract_evaluation_without_effects():
    p = core.Primitive("scale")
    p.def_effectful_abstract_eval(scale_type)
    with pytest.raises(TypeError, match="a pair of types and a set of effects"):
        mjax.make_jaxpr(p.bind)(X, X)


def test_linearize_rule_that_gives_too_little():
    f = scale()
    ad.primitive_linearizations[current[-1]] = lambda nonzeros, x, y: (scale_p(x, y), True)
    with pytest.raises(TypeError, match=r"linearize rule of primitive 'scale'.*return results"):
        grad(f)


def test_wrong_lowering_in_the_middle_of_a_program():
    """Its consumer takes any type, so that the module would verify."""
    f = scale(lowering=lambda ctx, x, y: hlo.MulOp(
        hlo.ConvertOp(mlir.ir.RankedTensorType.get((3,), mlir.dtype_to_ir_type(np.float16)), x),
        hlo.ConvertOp(mlir.ir.RankedTensorType.get((3,), mlir.dtype_to_ir_type(np.float16)), y),
    ).results)
    with pytest.raises(TypeError, match=r"lowering of primitive 'scale'.*tensor<3xf16>"):
        mjax.jit(lambda x: lax.convert_element_type(f(x, x), np.int32))(X)


def test_exception_inside_a_lowering_says_where():
    def broken(ctx, x, y):
        raise ZeroDivisionError("no luck")

    with pytest.raises(ZeroDivisionError, match="no luck") as caught:
        jit(scale(lowering=broken))
    assert any("the lowering of primitive 'scale'" in note for note in caught.value.__notes__)


#: Rule -> how to make a primitive whose rule is this, a use of it, and who calls the rule.
RAISING = {
    "impl": (lambda f: scale(impl=f), run, "called by evaluation."),
    "abstract_eval": (lambda f: scale(abstract_eval=f), make_jaxpr, "called by staging (jit, "),
    "lowering": (lambda f: scale(lowering=f), jit, "called by compilation (jit, "),
    "jvp": (lambda f: scale(jvp=f), lambda f: mjax.jit(mjax.vmap(lambda x: jvp_of(f, x)))(XX),
            "called by differentiation (jvp, linearize, grad) inside of vmap, jit."),
    "transpose": (lambda f: scale(transpose=f), grad, "called by transposition (grad, "),
    "batch": (lambda f: scale(batch=f), lambda f: mjax.jit(mjax.vmap(f))(XX, XX),
              "called by vectorization (vmap) inside of jit."),
    "linearize": (lambda f: linearized(f), grad_of_first, "called by linearization (linearize, "),
    "partial_eval": (lambda f: evaluated_in_part(f), cut, "called by partial evaluation (lineari"),
    "dce": (lambda f: without_dead_code(f), prune, "called by dead-code elimination (jit, grad)."),
}


def jvp_of(f, x):
    return mjax.jvp(f, (x, x), (x, x))[1]


@pytest.mark.parametrize("rule", RAISING)
@pytest.mark.parametrize("error", [ZeroDivisionError, TypeError], ids=["users", "engines"])
def test_what_rules_raise_carries_their_names(rule, error):
    """Also errors of functions that the rule calls, which do not name it themselves."""
    def broken(*args, **params):
        if error is TypeError:
            lax.add(np.ones(3), np.ones(4))
        raise error("no luck")

    make, use, caller = RAISING[rule]
    with pytest.raises(error) as caught:
        use(make(broken))
    (note,) = (n for n in caught.value.__notes__ if n.startswith("Raised in the "))
    assert "primitive 'scale' (" in note and note.count("test_mistakes.py") >= 2
    assert caller in note


def test_what_the_linear_part_raises_carries_the_name():
    def linear(residuals, *tangents):
        raise ZeroDivisionError("no luck")

    with pytest.raises(ZeroDivisionError) as caught:
        grad_of_first(linearized(lambda nz, x, y: ([x, y], [True, True], (), linear)))
    assert any("the linearize rule of primitive 'scale'" in n for n in caught.value.__notes__)


def test_what_a_printing_rule_raises_carries_the_name():
    f = scale()
    current[-1].def_pretty(lambda params: None)
    with pytest.raises(TypeError) as caught:
        str(make_jaxpr(f))
    assert any("the pretty rule of primitive 'scale'" in n for n in caught.value.__notes__)


@pytest.mark.parametrize(("rule", "wrong", "use", "text"), [
    ("recompute", lambda saveable, used, eqn: (None, eqn),
     lambda f: mjax.grad(lambda x: lax.sin(total(mjax.checkpoint(f))(x, X)))(X),
     "recompute rule.*returned None; it must return a pair: the equation that saves"),
    ("cast_varying", lambda varying: [], lambda f: mjax.shard_map(
        f, mesh=mjax.make_mesh((1,), ("i",)), in_specs=mjax.P("i"), out_specs=mjax.P("i"))(X, X),
     "cast_varying rule.*it must return a pair: the axes of each operand, and the params"),
    ("cast_varying", lambda varying: (varying[:1], {}), lambda f: mjax.shard_map(
        f, mesh=mjax.make_mesh((1,), ("i",)), in_specs=mjax.P("i"), out_specs=mjax.P("i"))(X, X),
     "cast_varying rule.*it must return a list of 2 frozensets of axes"),
])
def test_results_of_rules_for_few(rule, wrong, use, text):
    f = scale()
    current[-1].define(rule, wrong)
    with pytest.raises(TypeError, match=f"(?s){text}"):
        use(f)


def test_results_of_discharge_rules():
    p = core.Primitive("scale")
    p.takes_references = True
    p.def_effectful_abstract_eval(lambda ref: (ref.inner_aval, {Reading(0)}))
    for wrong, text in ((lambda x: x, "it must return a pair: the result, and the new contents"),
                        (lambda x: (x, [x]), "for the new contents; it must be a dict from numb"),
                        (lambda x: (x, {1: x}), "for the new contents; it must be a dict")):
        p.def_discharge(wrong)
        with pytest.raises(TypeError, match=f"(?s)discharge rule of primitive 'scale'.*{text}"):
            mjax.jit(lambda x: p.bind(mjax.new_ref(x)))(X)


class Reading(core.OperandEffect):
    """Reads a reference."""


def test_operations_that_do_not_fit_together_inside_a_lowering():
    wide = scale(lowering=lambda ctx, x, y: hlo.MulOp(
        x, mlir.ir_constant(np.zeros(4, np.float32))).results)
    with pytest.raises(Exception, match="Operation creation failed") as caught:
        jit(wide)
    assert "'scale'" in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def test_results_of_the_jvp_rule_in_the_wrong_order():
    f = scale(jvp=lambda ps, ts: tuple(reversed(scale_jvp(ps, ts))))
    for how in (grad, lambda f: mjax.grad(lambda x: mjax.jit(lambda x: f(x, x) + 1)(x).sum())(X)):
        with pytest.raises(TypeError, match=r"jvp rule of primitive 'scale' \(.*test_mistakes.py:.*"
                           r"computed from tangents(.|\n)*test_mistakes.py"):
            how(f)


def test_operands_that_an_implementation_cannot_take():
    p = core.Primitive("halve")
    p.def_impl(lambda x: np.divide(x, 2))
    assert p.bind(3.0) == 1.5
    for value in ("abc", object()):
        with pytest.raises(TypeError, match="^operand 0 of primitive 'halve' is not a valid array"):
            p.bind(value)


def test_jvp_rule_that_multiplies_tangents():
    f = scale(jvp=lambda ps, ts: (scale_p(*ps), lax.mul(*map(ad.instantiate_zeros, ts))))
    with pytest.raises(TypeError, match=r"'mul' is applied to .* a jvp rule multiplies"):
        mjax.grad(total(f), argnums=(0, 1))(X, X)


def test_jvp_rule_that_is_not_linear():
    f = scale(jvp=lambda ps, ts: (scale_p(*ps), lax.sin(ts[0])))
    with pytest.raises(MissingRuleError, match=r"a tangent by a jvp rule.*\n.*if 'sin' is not"):
        grad(f)


def test_lowering_for_another_platform_only():
    f = scale(without=("lowering",))
    mlir.register_lowering(current[-1], RULES["lowering"], platform="tpu")
    with pytest.raises(MissingRuleError, match=r"for platform cpu \(only for tpu\)"):
        jit(f)


def region(**options):
    """A primitive that holds a program, without a rule."""
    p = core.Primitive("region", **options)
    body = mjax.make_jaxpr(lax.sin)(X)
    return p, lambda x: p.bind(x, body=body)


@pytest.mark.parametrize("declared", [True, False])
def test_missing_rules_of_primitives_that_hold_programs(declared):
    """The template is a frame. For the two rules that it lacks, the program is evaluated."""
    p, f = region(**{"params": {"body": core.Jaxpr}} if declared else {})
    with pytest.raises(MissingRuleError) as caught:
        mjax.make_jaxpr(f)(X)
    text = str(caught.value)
    assert "Its param 'body' holds a program. A frame derives this rule" in text
    assert "region_p = core.Primitive('region', multiple_results=True)" in text
    assert "core.Frame(region_p, 'body')" in text
    with pytest.raises(MissingRuleError) as caught:
        f(X)
    assert "return core.eval_jaxpr(body, body.consts, *operands)" in str(caught.value)
    p.def_abstract_eval(lambda x, *, body: x)
    for use in (lambda: mjax.jvp(f, (X,), (X,)), lambda: mjax.vmap(f)(X)):
        with pytest.raises(MissingRuleError, match=r"core\.Frame\(region_p, 'body'\)"):
            use()
    with pytest.raises(MissingRuleError, match=r"return ctx\.inline\(body, \*operands\)"):
        mjax.jit(f)(X)


def test_the_template_of_a_frame_works():
    p, f = region(multiple_results=True)
    core.Frame(p, "body")
    p.def_impl(lambda *operands, body: core.eval_jaxpr(body, body.consts, *operands))
    p.def_lowering(lambda ctx, *operands, body: ctx.inline(body, *operands))
    np.testing.assert_allclose(mjax.jit(mjax.grad(lambda x: f(x)[0].sum()))(X), np.cos(X))
