"""A correct primitive, `x * y`, and the ways in which authors get such primitives wrong.

The 21 mistakes of JAX's authors that were tried on it, and the silent ones beside them. Each says
which rules may be reported: where two disagree, either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir

X = np.array([[1.5, -2.0, 0.5], [2.5, 1.0, -0.75]], np.float32)
Y = np.array([[-0.5, 3.0, 1.25], [0.25, -1.5, 2.0]], np.float32)
hlo = mlir.hlo


def product_type(x, y, **params):
    return core.ShapedArray(x.shape, x.dtype)


def product_batch(p):
    def batch(args, dims, **params):
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        args = [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return p.bind(*args, **params), 0

    return batch


def product_jvp(p):
    def jvp(primals, tangents, **params):
        (x, y), (dx, dy) = primals, tangents
        tangent = ad.Zero.from_primal_value(x)
        if not isinstance(dx, ad.Zero):
            tangent = p.bind(dx, y, **params)
        if not isinstance(dy, ad.Zero):
            tangent = ad.add_tangents(tangent, p.bind(x, dy, **params))
        return p.bind(x, y, **params), tangent

    return jvp


def product_transpose(p):
    def transpose(ct, x, y, **params):
        if ad.is_undefined_primal(x):
            return [p.bind(ct, y, **params), None]
        return [None, p.bind(x, ct, **params)]

    return transpose


def product(name: str = "product", without: tuple[str, ...] = (), **changes: Any) -> core.Primitive:
    """The primitive, with rules left out, or made by a function of the primitive."""
    p = core.Primitive(name)
    makers: dict[str, Callable[[Any], Any]] = {
        "impl": lambda p: lambda x, y, **params: np.asarray(x) * np.asarray(y),
        "abstract_eval": lambda p: product_type,
        "lowering": lambda p: lambda ctx, x, y, **params: hlo.MulOp(x, y).results,
        "jvp": product_jvp, "transpose": product_transpose, "batch": product_batch,
        **changes}
    for rule, make in makers.items():
        if rule not in without:
            getattr(p, f"def_{rule}")(make(p))
    return p


class Fault(NamedTuple):
    """A mistake.

    Attributes:
      rules: those that may be reported for it.
      make: the primitive.
      says: a pattern of the verdict.
      operands: the examples.
      params: the params of the application.
    """

    rules: tuple[str, ...]
    make: Callable[[], Any]
    says: str
    operands: tuple[Any, ...] = (X, Y)
    params: dict[str, Any] = {}  # noqa: RUF012


def changed(rule: str, change: Callable[..., Any]) -> Callable[[], Any]:
    """The primitive with `change(original rule, *arguments)` for a rule."""

    def make() -> Any:
        p = product()
        original = getattr(p, rule)
        getattr(p, f"def_{rule}")(lambda *args, **params: change(original, *args, **params))
        return p

    return make


def twice(jvp, primals, tangents):
    out, tangent = jvp(primals, tangents)
    return out, lax.add(tangent, tangent)


def long_tangent(jvp, primals, tangents):
    return jvp(primals, tangents)[0], np.zeros(9, np.float32)


def wrong_dim(batch, args, dims):
    return batch(args, dims)[0], 1


def on_square(batch, args, dims):
    """Silent where the batch is as large as the axis behind it."""
    out, dim = batch(args, dims)
    return out, 1 if out.shape[0] == out.shape[1] else dim


def without_second(transpose, ct, x, y):
    return [transpose(ct, x, y)[0], None]


def two_of_one_name():
    p = product("twin")
    twin = core.Primitive("twin")
    twin.def_impl(lambda x: x)
    p.keep = twin
    return p


def own_varying():
    """The tutorial's abstract evaluation, where the engine does not track devices."""
    p = core.Primitive("product", own_varying=True)
    p.def_abstract_eval(product_type)
    mlir.register_lowering(p, lambda ctx, x, y: hlo.MulOp(x, y).results)
    ad.primitive_jvps[p] = product_jvp(p)
    ad.primitive_transposes[p] = product_transpose(p)
    batching.primitive_batchers[p] = product_batch(p)
    return p


#: Those that were tried: 20 of custom primitives, and one of devices.
TRIED = {
    "missing implementation": Fault(
        ("impl",), lambda: product(without=("impl", "lowering")), "there is none"),
    "missing abstract evaluation": Fault(
        ("abstract_eval",), lambda: product(without=("abstract_eval",)), "there is none"),
    "missing lowering": Fault(
        ("lowering",), lambda: product(without=("lowering",)), "there is none"),
    "missing jvp": Fault(("jvp",), lambda: product(without=("jvp",)), "there is none"),
    "missing batching": Fault(("batch",), lambda: product(without=("batch",)), "there is none"),
    "missing transpose": Fault(
        ("transpose",), lambda: product(without=("transpose",)), "there is none"),
    "a tuple for one result": Fault(
        ("abstract_eval",), lambda: product(abstract_eval=lambda p: lambda x, y: (x,)),
        "must return one type"),
    "one result for a tuple": Fault(
        ("impl",), lambda: product(impl=lambda p: lambda x, y: (x, y)), "returned a tuple of 2"),
    "a param that is not hashable": Fault(
        ("params",), product, r"'axes' is not hashable", params={"axes": [1]}),
    "wrong shape of the abstract evaluation": Fault(
        ("abstract_eval", "impl", "lowering"), lambda: product(
            abstract_eval=lambda p: lambda x, y: core.ShapedArray((9,), x.dtype)), r"float32\[9\]"),
    "wrong dtype of the abstract evaluation": Fault(
        ("abstract_eval", "impl", "lowering"), lambda: product(
            abstract_eval=lambda p: lambda x, y: core.ShapedArray(x.shape, np.float16)),
        "float16"),
    "batch dimension out of range": Fault(
        ("batch",), lambda: product(batch=lambda p: lambda args, dims: (p.bind(*args), 7)),
        "batch dimension 7"),
    "two results of the lowering": Fault(
        ("lowering",), lambda: product(lowering=lambda p: lambda ctx, x, y: [x, y]),
        "returned tensor.*, tensor"),
    "no results of the lowering": Fault(
        ("lowering",), lambda: product(lowering=lambda p: lambda ctx, x, y: None),
        "returned None"),
    "implementation unlike the abstract evaluation": Fault(
        ("impl", "abstract_eval"), lambda: product(impl=lambda p: lambda x, y: np.zeros(9, "f4")),
        r"float32\[9\]"),
    "implementation unlike the lowering": Fault(
        ("impl", "lowering"), lambda: product(
            impl=lambda p: lambda x, y: np.sin(np.multiply(x, y))), "disagrees with the lowering"),
    "a derivative twice too large": Fault(("jvp",), changed("jvp", twice), "2 times what it"),
    "a tangent of another shape": Fault(
        ("jvp",), changed("jvp", long_tangent), r"tangent of type float(32|64)\[9\]"),
    "a wrong batch dimension": Fault(("batch",), changed("batch", wrong_dim), "batch dimension 1"),
    "a dropped weak type": Fault(
        ("abstract_eval",), product, "drops the weak type", (2.0, 3.0)),
    "an abstract evaluation that ignores devices": Fault(
        ("varying",), own_varying, "same on all devices, but it differs|vary"),
}
#: The silent ones that the others do not contain.
SILENT = {
    "a wrong batch dimension on a square": Fault(
        ("batch",), changed("batch", on_square), "vmap with in_axes"),
    "no cotangent for an operand that the result depends on": Fault(
        ("transpose",), changed("transpose", without_second), "gives nothing for operand 1"),
    "two primitives of one name": Fault(
        ("determinism",), two_of_one_name, "1 other primitive of the name 'twin'"),
}
