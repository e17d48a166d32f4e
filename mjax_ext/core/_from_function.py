"""Primitives whose rules all derive from a traceable implementation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import selected
from mjax._engine.control.calls.jit import call
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, jaxprs_in_params, named_axes
from mjax._engine.ir.schema import Examples, Schema
from mjax._engine.ir.types import is_array_value, typeof
from mjax._engine.primitives.tangents import with_zeros
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value, where
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import pvary_p
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, element_type
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.discharge import without_references
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import backward_pass


def primitive_from_function(name: str, f: Callable[..., Any], *, multiple_results: bool = False,
                            params: Mapping[str, Any] | Schema | None = None,
                            examples: Examples = ()) -> Primitive:
    """A primitive from a traceable function: one equation, whose rules all derive from it.

    - **Rules.** Types, lowering (for all platforms), jvp, linearization, transpose and batching
      derive from the program of `f` for the operands' types and the params, which is traced once
      for each. A rule that the author defines replaces the derived one; rules that derive from
      others follow it. With an implementation or a lowering of the author's, results stay
      equations of the primitive under differentiation; otherwise one call computes them with the
      tangents or residuals. In partial evaluation, rematerialization and dead-code elimination the
      equation is one whole.
    - **Operands and results** are arrays: one result, or a list or tuple of them with
      `multiple_results`. Pytrees are refused; flatten them in a function around `bind`.
    - **Params** are the keyword-only arguments of `f`, static and hashable. All are given in each
      application; defaults of `f` are not used. Programs (`Jaxpr`s) and functions may be among
      them, which `f` evaluates.
    - **Effects.** The equation has those of `f`'s program, and transformations ask their policies.
      `f` may make references, but none can be an operand.
    - `f` may close over arrays. It must not close over traced values, nor name axes of `vmap` or
      `shard_map`: collectives belong in the function that applies the primitive.

    Args:
      name: the primitive's name.
      f: `(*arrays, **params) -> array`, in terms of functions that can be traced.
      multiple_results: whether `f` gives a list or tuple of arrays.
      params: the schema (see `Primitive.def_schema`); by default from the keyword-only arguments
        of `f` and their annotations, or none if it takes any (`**params`).
      examples: operands and params of some applications, for `python -m mjax_ext check`.

    Returns:
      The primitive.

    Raises:
      TypeError: `f` is not a function, or there are examples and the params are not known. When
        the primitive is applied: `f` gives something else than arrays, closes over traced values,
        or names axes.

    Example:
      >>> from mjax_ext import core
      >>> def horner(x, *, coefficients: tuple[float, ...]):
      ...     y = 0.0 * x
      ...     for c in coefficients:
      ...         y = y * x + c
      ...     return y
      >>> horner_p = core.primitive_from_function("horner", horner)
      >>> square = lambda x: horner_p.bind(x, coefficients=(1.0, 0.0, 0.0))
      >>> float(square(3.0)), float(mjax.grad(square)(3.0))
      (9.0, 6.0)
      >>> print(mjax.make_jaxpr(square)(3.0))
      { lambda  ; a:~f32[]. let
          b:~f32[] = horner[coefficients=(1.0, 0.0, 0.0)] a
        in (b,) }
    """
    if not callable(f):
        msg = f"primitive_from_function({name!r}, f): f must be a function, not {f!r}."
        raise TypeError(msg)
    primitive = Primitive(name, params=_schema(f) if params is None else params, examples=examples,
                          multiple_results=multiple_results, exact_params=True)
    rules = _Derived(primitive, f)
    for field in ("abstract_eval", "jvp", "linearize", "transpose", "axis_batch"):
        primitive.define(field, getattr(rules, field), derived=True)
    primitive.def_lowering(rules.lowering)
    return primitive


def _names(jaxpr: Jaxpr) -> set[Any]:
    """The axes that a function names: the engine names those of casts."""
    found = set[Any]()
    for eqn in jaxpr.eqns:
        if eqn.primitive is not pvary_p:
            found |= named_axes({key: eqn.params[key] for key in ("axes", "axis_name")
                                 if key in eqn.params})
        found.update(*map(_names, jaxprs_in_params(eqn.params)))
    return found


def _schema(f: Callable[..., Any]) -> dict[str, Any] | None:
    """Names and types of the keyword-only arguments; None if they are not known."""
    try:
        signature = inspect.signature(f, eval_str=True)
    except NameError:  # annotations of names that exist for type checkers only
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return None
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds.values():
        return None
    return {p.name: Any if p.annotation is p.empty or isinstance(p.annotation, str)
            else p.annotation for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}


class _Derived:
    """The rules that follow from an implementation."""

    def __init__(self, primitive: Primitive, f: Callable[..., Any]):
        self.applied = primitive
        self.f = f
        self.programs = ProgramCache()
        self.lowering = traced(self.evaluate, multiple_results=True)

    def program(self, avals: Sequence[Any], params: dict[str, Any]) -> Jaxpr:
        """The jaxpr of an application."""
        key = (thread.settings, thread.axis_env, *avals, *self.applied.params_key(params))
        known = self.programs.get(key)
        return self.programs.put(key, self._trace(avals, params)) if known is None else known

    def _trace(self, avals: Sequence[Any], params: dict[str, Any]) -> Jaxpr:
        several, who = self.applied.multiple_results, self._who()

        def flat(*args: Any) -> list[Any]:
            try:
                out = self.f(*args, **params)
            except Exception as error:
                error.add_note(f"Raised in {who[:-1]}.")
                raise
            outs = out if several else [out]
            if not isinstance(outs, (list, tuple)) or not all(map(is_array_value, outs)):
                raise LazyTypeError(lambda: (
                    f"{who} returned {describe_value(out)}; it must return "
                    + ("a list or tuple of arrays" if several else "one array (or be made with "
                       "multiple_results=True)")
                    + ". Flatten pytrees in a function around bind."))
            return list(outs)

        jaxpr = trace_to_jaxpr(flat, avals, DebugInfo("primitive_from_function", self.applied.name))
        if any(isinstance(c, Tracer) for c in jaxpr.consts):
            raise LazyTypeError(lambda: (
                f"{who} closes over a value that is being traced; give it as an operand."))
        if named := {axis.name for axis in thread.axis_env} & _names(jaxpr):
            raise LazyTypeError(lambda: (
                f"{who} names the axes {', '.join(map(str, named))}. Collectives belong in the "
                "function that applies the primitive."))
        return without_references(jaxpr)

    def _who(self) -> str:
        return (f"the implementation of primitive {self.applied.name!r} ({where(self.f)}), made by "
                "primitive_from_function,")

    def _given(self, outs: Sequence[Any]) -> Any:
        return list(outs) if self.applied.multiple_results else outs[0]

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        """The results, equation by equation."""
        jaxpr = self.program(list(map(typeof, args)), params)
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """Types and effects of the program."""
        jaxpr = self.program(avals, params)
        return self._given(jaxpr.out_avals), jaxpr.effects

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        """A call of the program's jvp."""
        jaxpr = self.program(list(map(typeof, primals)), params)
        nonzeros = [type(t) is not Zero for t in tangents]
        pushed, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, False)
        n, given = len(jaxpr.outvars), [*primals, *selected(nonzeros, tangents)]
        outs = self._results_and_more(pushed, n, given, len(primals), params)
        return self._given(outs[:n]), self._given(
            with_zeros(nonzero_outs, outs[n:], jaxpr.out_avals))

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        """A call that also gives residuals, and one that is linear.

        Programs may hold functions whose rules pull cotangents back, which `jvp` refuses.
        """
        jaxpr, name = self.program(list(map(typeof, primals)), params), self.applied.name
        parts = linearize_jaxpr(jaxpr, nonzeros)
        n = len(jaxpr.outvars)
        outs = self._results_and_more(parts.known, n, primals, len(primals), params)

        def linear(residuals: Sequence[Any], *tangents: Any) -> Any:
            moved = call(parts.unknown, name, [*residuals, *selected(nonzeros, tangents)])
            return self._given(with_zeros(parts.unknown_outs, moved, jaxpr.out_avals))

        return (self._given(outs[:n]), self._given(parts.unknown_outs),
                parts.residuals(primals, outs), linear)

    def _results_and_more(self, jaxpr: Jaxpr, n: int, given: Sequence[Any], count: int,
                          params: dict[str, Any]) -> list[Any]:
        """The results of a program that begins with the `n` of the primitive, on `count` operands.

        If an author says how they are computed, these are those of an application.
        """
        p = self.applied
        if p.impl is None and list(p.lowerings.values()) == [self.lowering]:
            return call(jaxpr, p.name, given)
        out = p.bind(*given[:count], **params)
        pruned, used = dce_jaxpr(jaxpr, [False] * n + [True] * (len(jaxpr.outvars) - n))
        return [*(out if p.multiple_results else [out]),
                *call(pruned, p.name, selected(used, given))]

    def transpose(self, cotangent: Any, *args: Any, **params: Any) -> list[Any]:
        """The program's transpose."""
        jaxpr = self.program([a.aval if type(a) is UndefinedPrimal else typeof(a) for a in args],
                             params)
        cts = cotangent if self.applied.multiple_results else [cotangent]
        return backward_pass(jaxpr, jaxpr.consts, args, cts)

    def axis_batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None],
                   **params: Any) -> Any:
        """A call of the program for a batch."""
        avals = [typeof(a) if d is None else element_type(typeof(a), d)
                 for a, d in zip(args, dims, strict=True)]
        batched, out_dims = batch_jaxpr(self.program(avals, params), axis, tuple(dims))
        outs = call(batched, self.applied.name, args)
        return self._given(outs), self._given(out_dims)
