"""Primitives as users write them, with rules by hand, for `benchmarks.checks`."""

from __future__ import annotations

from typing import Any

import mjax
from mjax import lax
from mjax._engine.tracing.primitive import Primitive
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir


def scaling(name: str) -> Primitive:
    """A primitive with a schema, and all rules by helpers."""
    p = Primitive(name, params={"by": float})
    p.def_abstract_eval(lambda x, *, by: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, by: lax.mul(x, by), False))
    ad.deflinear(p, lambda ct, *, by: [p.bind(ct, by=by)])
    batching.defvectorized(p)
    return p


def linear(name: str) -> Primitive:
    """One operand, and the shortest rules that can be written."""
    p = Primitive(name, params={"by": float})
    p.def_abstract_eval(lambda x, *, by: x)

    def jvp(primals: Any, tangents: Any, *, by: float) -> Any:
        return p.bind(*primals, by=by), p.bind(*tangents, by=by)

    def batch(args: Any, dims: Any, *, by: float) -> Any:
        return p.bind(*args, by=by), dims[0]

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = lambda ct, x, *, by: [p.bind(ct, by=by)]
    batching.primitive_batchers[p] = batch
    return p


def product(name: str) -> Primitive:
    """Two operands, no params, bilinear."""
    p = Primitive(name, params={})
    p.def_abstract_eval(lambda x, y: x)

    def jvp(primals: Any, tangents: Any) -> Any:
        x, y = primals
        dx, dy = map(ad.instantiate_zeros, tangents)
        return p.bind(x, y), lax.add(p.bind(dx, y), p.bind(x, dy))

    def transpose(ct: Any, x: Any, y: Any) -> Any:
        if ad.is_undefined_primal(x):
            return [p.bind(ct, y), None]
        return [None, p.bind(x, ct)]

    def batch(args: Any, dims: Any) -> Any:
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        x, y = (batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True))
        return p.bind(x, y), 0

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = batch
    return p


def rotation(name: str) -> Primitive:
    """Two operands and two results, linear in both."""
    p = Primitive(name, multiple_results=True, params={"angle": float})
    p.def_abstract_eval(lambda x, y, *, angle: [x, y])

    def jvp(primals: Any, tangents: Any, *, angle: float) -> Any:
        dots = map(ad.instantiate_zeros, tangents)
        return p.bind(*primals, angle=angle), p.bind(*dots, angle=angle)

    def transpose(cts: Any, x: Any, y: Any, *, angle: float) -> Any:
        return p.bind(*map(ad.instantiate_zeros, cts), angle=-angle)

    def batch(args: Any, dims: Any, *, angle: float) -> Any:
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        moved = [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return p.bind(*moved, angle=angle), [0, 0]

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = batch
    return p


def squaring(name: str) -> Primitive:
    """A nonlinear one with a rule `linearize`; its slope has a rule `dce`."""
    p = Primitive(name, params={})
    p.def_abstract_eval(lambda x: x)

    @p.def_linearize
    def linearize(nonzeros: Any, x: Any) -> Any:
        return p.bind(x), True, lax.mul(x, x), lambda slope, dot: scaled.bind(slope, dot)

    scaled = product(f"slope of {name}")

    @scaled.def_dce
    def dce(used: Any, eqn: Any) -> Any:
        return ([True, True], eqn) if used[0] else ([False, False], None)

    return p


def unrolled(name: str) -> Primitive:
    """The linear one with a rule `partial_eval`, by which another one stands for it."""
    p, other = linear(name), linear(f"other {name}")

    @p.def_partial_eval
    def partial_eval(interp: Any, x: Any, *, by: float) -> Any:
        return other.bind(x, by=by)

    return p


class Boxed(core.Tracer):
    """A value of the parent, and nothing else."""

    __slots__ = ("value",)

    def __init__(self, trace: Any, value: Any):
        super().__init__(trace, mjax.typeof(value))
        self.value = value


class Boxing(core.Trace):
    """A trace that runs everything by its parent."""

    def __init__(self, parent: Any):
        super().__init__()
        self.parent_trace = parent

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        values = [t.value if type(t) is Boxed and t._trace is self else t for t in tracers]
        out = primitive.bind_with_trace(self.parent_trace, values, params)
        return [Boxed(self, o) for o in out] if primitive.multiple_results else Boxed(self, out)


def boxed(f: Any) -> Any:
    """The function under such a trace."""

    def call(*args: Any) -> Any:
        with core.take_current_trace() as parent:
            trace = Boxing(parent)
            with core.set_current_trace(trace):
                return f(*[Boxed(trace, x) for x in args]).value

    return call


def applied(p: Primitive, count: int, **params: Any) -> Any:
    """A function of that many applications to its operands; the results are the next operands."""

    def f(*xs: Any) -> Any:
        for _ in range(count):
            out = p.bind(*xs, **params)
            xs = (*out,) if p.multiple_results else (out, *xs[1:])
        return xs[0]

    return f
