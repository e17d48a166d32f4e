"""Exceptions of rules, and wrong results that show where others use them."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.interpreters import ad, mlir
from tests.ext.mistakes import (
    XX,
    X,
    current,
    cut,
    evaluated_in_part,
    grad,
    grad_of_first,
    hlo,
    jit,
    linearized,
    make_jaxpr,
    prune,
    run,
    scale,
    scale_jvp,
    scale_p,
    scale_type,
    total,
    without_dead_code,
)


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


@pytest.mark.parametrize(("function", "error"), [
    (lambda x, y: 1 / 0, ZeroDivisionError), (lambda x, y: np.sin(x), TypeError),
    (lambda x, y: None, TypeError), (lambda x: x, TypeError)])
def test_exception_inside_a_function_that_is_lowered_says_where(function, error):
    f = scale(lowering=mlir.lower_fun(function, multiple_results=False))
    with pytest.raises(error) as caught:
        jit(f)
    (note,) = (note for note in caught.value.__notes__ if note.startswith("Raised "))
    assert note.startswith("Raised in the lowering of primitive 'scale' (")
    assert "test_mistakes_raised.py" in note and "It was applied at" in note


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
    assert "primitive 'scale' (" in note and note.count("mistakes") >= 2
    assert caller in note


@pytest.mark.parametrize(("make", "use", "says"), [
    (lambda f: scale(impl=f), run, "wherever it applies 'scale' to such values itself."),
    (lambda f: evaluated_in_part(lambda trace, *args: f(*args)), cut,
     "interpreter.default_process_primitive(primitive, operands, params) records the equation"),
])
def test_a_rule_that_calls_itself_without_end(make, use, says):
    with pytest.raises(RecursionError) as caught:
        use(make(lambda x, y: scale_p(x, y)))
    assert any(note.startswith("Raised in the ") and says in note
               for note in caught.value.__notes__)


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
        with pytest.raises(TypeError, match=r"jvp rule of primitive 'scale' \(.*mistakes.*"
                           r"computed from tangents(.|\n)*mistakes"):
            how(f)


@pytest.mark.parametrize("wrong", ["abc", None, {"a": 1}], ids=repr)
def test_operands_that_are_not_arrays(wrong):
    p = core.Primitive("pair")
    p.def_impl(lambda x, y: x)
    p.def_abstract_eval(lambda x, y: x)
    apply = lambda x: p.bind(x, wrong)
    times = lambda x: primitives.mul_p.bind(x, wrong)
    for call in (apply, mjax.jit(apply), mjax.make_jaxpr(apply), times, mjax.jit(times),
                 mjax.vmap(times), lambda x: mjax.jvp(times, (x,), (x,))):
        with pytest.raises(TypeError, match="^operand 1 of primitive '(pair|mul)' is not a valid"):
            call(X)


def test_the_number_of_operands_of_an_operation():
    for call in (lambda x: primitives.add_p.bind(x), lambda x: primitives.add_p.bind(x, x, x)):
        for transform in (lambda f: f, mjax.jit):
            with pytest.raises(TypeError, match=r"^add takes 2 operands, got [13]"):
                transform(call)(X)


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
