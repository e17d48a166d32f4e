"""mjax_ext.interpreters.ad: wrong objects are refused by the names of function and argument."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad

PRODUCT = mjax.make_jaxpr(lax.mul)(1.0, 1.0)
UNKNOWN = ad.UndefinedPrimal(mjax.typeof(1.0))
VECTOR = np.ones(3, np.float32)
CLOSED = core.primitives.closed_call_p


def pulled(*cts):
    return ad.vjp(lambda x: [x], [1.0])[1](*cts)


def called(params=None, args=(UNKNOWN, 1.0), ct=(1.0,), primitive=CLOSED):
    return ad.call_transpose(primitive, {} if params is None else params, PRODUCT, args, ct)


def backward(primals, cts, jaxpr=PRODUCT):
    return ad.backward_pass(jaxpr, False, [], primals, cts)


def scaled(rules=(None, None), primals=(1.0, 2.0), tangents=(1.0, 2.0), primitive=lax.mul_p):
    return ad.standard_jvp(rules, primitive, primals, tangents)


def flattened(flags, *args):
    return ad.f_jvp_traceable(ad.jvpfun(lambda x, y: [x], False), flags)[0].call_wrapped(*args)


NO_LIST = "a function of flat values must return a list of its results, but"


@pytest.mark.parametrize("call, error, text", [
    (lambda: ad.jvp(lambda x: x, 1.0, [1.0]), TypeError, "jvp: primals must be a list, got 1.0"),
    (lambda: ad.jvp(lambda x: x, [1.0], 1.0), TypeError, "jvp: tangents must be a list, got 1.0"),
    (lambda: ad.jvp(lambda x: x, [1.0], [1.0], instantiate=[True] * 2), ValueError,
     "jvp: instantiate has 2 entries for 1 result"),
    (lambda: ad.jvp(lambda x: x, [1.0], [1.0], instantiate=3), TypeError,
     "jvp: instantiate must be a bool"),
    (lambda: ad.jvp(lambda x: x).call_wrapped([1.0], [1.0]), TypeError, f"{NO_LIST} <lambda>"),
    (lambda: ad.jvp(lambda x: [x]).call_wrapped(1.0, 1.0), TypeError, "jvp: primals must be a l"),
    (lambda: ad.vjp(lambda x: [x], 1.0), TypeError, "vjp: primals must be a list, got 1.0"),
    (lambda: ad.vjp(lambda x: x, [1.0]), TypeError, f"{NO_LIST} <lambda> returned JVPTracer"),
    (lambda: ad.vjp(lambda x: [x], [1.0], has_aux=True), TypeError, "vjp: the function must retu"),
    (lambda: pulled(), ValueError, "function of cotangents: cts has 0 entries for 1 result"),
    (lambda: pulled(VECTOR), TypeError, r"cts\[0\] has type float32\[3\], .* expects ~float32\[\]"),
    (lambda: pulled("a"), TypeError, r"cts\[0\]: 'a' of type str is not a valid array"),
    (lambda: backward(1.0, [1.0]), TypeError, "backward_pass: primals_in must be a list, got 1.0"),
    (lambda: backward([UNKNOWN, 1.0], [VECTOR]), TypeError, r"cts_in\[0\] has type float32\[3\]"),
    (lambda: backward([UNKNOWN, VECTOR], [1.0]), TypeError, r"primals_in\[1\] has type float32"),
    (lambda: backward([ad.UndefinedPrimal(3), 1.0], [1.0]), TypeError, r"in\[0\] has type 3"),
    (lambda: called(primitive=3), TypeError, "3 of type int is not an mjax_ext.core.Primitive"),
    (lambda: called(params=[]), TypeError, "call_transpose: params must be a dict, got a list"),
    (lambda: called(args=3), TypeError, "call_transpose: args must be a list, got 3"),
    (lambda: called(args=[UNKNOWN]), ValueError, "call_transpose: args has 1 entry for 2 inputs"),
    (lambda: called(ct=1.0), TypeError, "call_transpose: ct must be a list, got 1.0"),
    (lambda: called(ct=[]), ValueError, "call_transpose: ct has 0 entries for 1 result"),
    (lambda: called(ct=[VECTOR]), TypeError, r"call_transpose: ct\[0\] has type float32\[3\]"),
    (lambda: ad.rearrange_binders(PRODUCT, 1, 1, [1], [0]), TypeError, "of inputs must be a list"),
    (lambda: ad.rearrange_binders(PRODUCT, [3], [-1], [1], [0]), TypeError, "at least 0, got"),
    (lambda: ad.get_primitive_transpose(3), TypeError, "3 of type int is not an"),
    (lambda: ad.zeros_like_aval(3), TypeError, "zeros are made of a type, .* got 3 of type int"),
    (lambda: ad.instantiate_zeros(ad.Zero(3)), TypeError, "zeros are made of a type, .* got 3"),
    (lambda: ad.zero_jvp(lax.floor_p, 1.0, 1.0), TypeError, "zero_jvp: primals must be a list"),
    (lambda: ad.zero_jvp(3, [1.0], [1.0]), TypeError, "3 of type int is not an"),
    (lambda: ad.linear_jvp(lax.neg_p, 1.0, 1.0), TypeError, "linear_jvp: primals must be a list"),
    (lambda: scaled(rules=3), TypeError, "standard_jvp: jvprules must be a list, got 3"),
    (lambda: scaled(primals=1.0), TypeError, "standard_jvp: primals must be a list, got 1.0"),
    (lambda: scaled(tangents=[1.0]), ValueError, "standard_jvp: tangents has 1 entry for 2 prim"),
    (lambda: scaled(primitive=3), TypeError, "3 of type int is not an"),
    (lambda: ad.bilinear_transpose(None, None, 1.0, 2.0, 3.0), TypeError,
     "bilinear_transpose: one operand must be an ad.UndefinedPrimal; got 2.0 and 3.0"),
    (lambda: ad.jvp_jaxpr(3, [True], False), TypeError, "jvp_jaxpr takes a jaxpr, .*; got 3"),
    (lambda: ad.jvp_jaxpr(PRODUCT, True, False), TypeError, "nonzeros must be a list of bools"),
    (lambda: ad.jvp_jaxpr(PRODUCT, [True] * 2, 3), TypeError, "instantiate must be a list of bool"),
    (lambda: ad.linearize_jaxpr(3, [True]), TypeError, "linearize_jaxpr takes a jaxpr"),
    (lambda: ad.linearize_jaxpr(PRODUCT, True), TypeError, "nonzeros must be a list of bools"),
    (lambda: ad.transpose_jaxpr(3, [True], [True]), TypeError, "transpose_jaxpr takes a jaxpr"),
    (lambda: ad.transpose_jaxpr(PRODUCT, True, [True]), TypeError, "undefined must be a list of b"),
    (lambda: ad.jvp_subtrace(lambda x: x, core.TraceTag()).call_wrapped([1.0], [1.0]), TypeError,
     f"{NO_LIST} <lambda>"),
    (lambda: ad.jvp_subtrace_aux(lambda x: [x], core.TraceTag())[0].call_wrapped([1.0], [1.0]),
     TypeError, "jvp_subtrace_aux: the function must return a pair"),
    (lambda: flattened((True, True), 1.0, 2.0, 3.0), ValueError, "there are 3 values"),
    (lambda: flattened((True, False), 1.0, 2.0, 3.0, 4.0), ValueError, "there are 4 values"),
    (lambda: flattened(True), TypeError, "f_jvp_traceable: nonzeros must be a list, got True"),
    (lambda: ad.traceable(lambda x: x, 3), TypeError, "traceable: in_tree must be the structure"),
    (lambda: ad.traceable(lambda x: x, mjax.tree.structure(([1, 1], [1])))[0].call_wrapped(1, 1, 1),
     ValueError, "traceable: the list of tangents in in_tree has 1 entry for 2 primals"),
    (lambda: ad.nonzero_outputs(lambda: 3)[0].call_wrapped(), TypeError,
     "nonzero_outputs: the result of the function must be a list, got 3"),
    (lambda: ad.nonzero_tangent_outputs(lambda: 3)[0].call_wrapped(), TypeError,
     "nonzero_tangent_outputs: the function must return a pair"),
])
def test_wrong_objects_are_refused_by_name(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_absent_cotangents_are_zeros():
    assert [type(c) for c in called(ct=[None])] == [ad.Zero, type(None)]
    outs = ad.jvp(lambda x: x, [1.0], [1.0], instantiate=np.bool_(True))
    assert list(map(float, outs)) == [1.0, 1.0]
