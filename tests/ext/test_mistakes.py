"""Mistakes of authors of primitives, and the messages for them.

The rows marked (measured) are those that JAX 0.4.38 to 0.12.0.1 was measured on: there five gave
errors that named neither primitive nor rule, and six none at all. Three of the six are purely
numerical (a jvp rule wrong by a factor, an implementation that computes something else than the
lowering, a dropped weak type); they are for a checker that compares rules by running them.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad, mlir
from tests.ext.mistakes import (
    XX,
    X,
    cut,
    effectful,
    evaluated_in_part,
    grad,
    grad_of_first,
    half_type,
    hlo,
    jit,
    jvp,
    jvp_in_x,
    linearized,
    make_jaxpr,
    of_a_program,
    prune,
    run,
    scale,
    scale_p,
    scale_type,
    two_results,
    two_types,
    two_values,
    vmap,
    wide_type,
    without_dead_code,
)


def test_without_a_mistake():
    f = scale()
    for value in (run(f), jit(f), f(X, X), mjax.vmap(f)(X[None], X[None])[0]):
        np.testing.assert_allclose(value, X * X)
    np.testing.assert_allclose(jvp(f)[1], 2 * X * X)
    np.testing.assert_allclose(grad(f), X)
    np.testing.assert_allclose(vmap(f), XX * XX)


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
        r"lowering of .*returned tensor<3xf32>.*says float32\[9\]"),
    "abstract eval: wrong dtype (measured)": (
        lambda: scale(abstract_eval=half_type), jit,
        r"lowering of .*returned tensor<3xf32>.*says float16\[3\]"),
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
        lambda: scale(lowering=two_results), jit, "lowering of .*returned tensor.*, tensor"),
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
        lambda: scale(lowering=lambda ctx, x, y: []), jit, "lowering of .*returned no values"),
    "lowering: wrong type, eagerly": (
        lambda: scale(without=("impl",), abstract_eval=wide_type), run,
        "lowering of .*tensor<3xf32>"),
    "lower_fun: one value for a list": (
        lambda: scale(lowering=mlir.lower_fun(lax.mul)), jit,
        "lowering of .*marked with multiple_results=False"),
    "lower_fun: a list for one value": (
        lambda: scale(lowering=mlir.lower_fun(lambda x, y: [lax.mul(x, y)], False)), jit,
        "lowering of .* must return one array, or be marked with multiple_results=True"),
    "lower_fun: wrong type": (
        lambda: scale(lowering=mlir.lower_fun(lambda x, y: lax.reduce_sum(x, (0,)),
                                              multiple_results=False)), jit,
        r"lowering of .*returned tensor<f32>"),
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
    "jvp: gives a Zero to a function of arrays": (
        lambda: scale(jvp=lambda ps, ts: (scale_p(*ps), jnp.stack(ts)[0])), jvp_in_x,
        r"a tangent known to be zero.*instantiate_zeros.*jvp rule of primitive 'scale'"),
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
    "transpose: a class": (
        lambda: scale(transpose=lambda ct, x, y: [ad.Zero, None]), grad,
        r"transpose rule.*returned the class Zero for an operand"),
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
    "dce: as many results as before, by its params": (
        lambda: without_dead_code(lambda used, eqn: (
            [True, True], eqn.replace(outvars=eqn.outvars[:1]))), prune,
        "dce rule.*an equation with 1 result, float32.*, but .* gives 2 results.*Give it params"),
    "dce: a result of another type": (
        lambda: without_dead_code(lambda used, eqn: ([True, False], core.new_jaxpr_eqn(
            eqn.invars[:1], eqn.outvars[:1], core.primitives.reduce_sum_p, {"axes": (0,)},
            core.no_effects))), prune,
        r"dce rule.*returned an equation with 1 result, float32.*, but .* float32\[\]"),
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
    assert "mistakes" in said


@pytest.mark.parametrize(("rules", "use", "name"), [
    ({"jvp": lambda ps, ts: (scale_p(*ps), ps[0] * ts[1].astype(np.float32))}, jvp_in_x,
     "'Zero' object has no attribute 'astype': a tangent known to be zero.*instantiate_zeros"),
    ({"transpose": lambda ct, x, y: [np.zeros(x.shape, np.float32), None]}, grad,
     "'UndefinedPrimal' object has no attribute 'shape': an operand without a value.*its .aval")])
def test_attributes_of_what_is_not_an_array(rules, use, name):
    with pytest.raises(AttributeError, match=name) as caught:
        use(scale(**rules))
    assert "rule of primitive 'scale'" in caught.value.__notes__[0]


@pytest.mark.parametrize("zero", [ad.Zero(mjax.typeof(X)), ad.UndefinedPrimal(mjax.typeof(X))])
def test_zeros_are_copied(zero):
    for same in copy.copy(zero), pickle.loads(pickle.dumps(zero)):
        assert type(same) is type(zero) and same.aval is zero.aval
    assert not hasattr(zero, "shape") and not hasattr(zero, "__jax_array__")


def test_a_rule_may_make_the_zero_of_an_array():
    f = scale(jvp=lambda ps, ts: (scale_p(*ps), ad.Zero(ps[0])))
    for _ in range(2):
        np.testing.assert_array_equal(jvp(f)[1], 0 * X)
