"""Functions with a user's pullback: `custom_vjp`, and `custom_vjp_call`.

Linearizing runs the forward pass and puts one `custom_lin` into the linear program. Its transpose
runs the backward pass. Forward mode is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mjax._engine.base.errors import LazyTypeError, LazyValueError, UnexpectedTracerError
from mjax._engine.base.folding import boundary, calling
from mjax._engine.base.signatures import P, R
from mjax._engine.base.util import selected
from mjax._engine.control.calls.static_arguments import Static
from mjax._engine.control.custom.as_functions import FunctionPrimitive, Pair
from mjax._engine.control.custom.custom_calls import Call, invariant, refuse_differentiated
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.custom.custom_lin import Backward, custom_lin_p, refuse_forward_mode
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.custom.symbolic_zeros import (
    CustomVJPPrimal,
    as_arrays,
    for_rule,
    from_rule,
)
from mjax._engine.control.held import Held, Params
from mjax._engine.control.references.primitives import cotangent_type, tangent_of
from mjax._engine.control.remat import remat_opt
from mjax._engine.control.trace_body import Body
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.promotion import result_type
from mjax._engine.ir.pytree import (
    keystr,
    prefix_pairs,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
)
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import ShapedArray, is_array_value, same_array_type, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.tangents import instantiate, with_zeros, zero_tangent
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.interpreter import Tracer, staging
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.transpose import backward_pass

custom_vjp_call_p: FunctionPrimitive = FunctionPrimitive("custom_vjp_call", params={
    "call_jaxpr": Jaxpr, "fwd_jaxpr_thunk": Any, "bwd": Any, "num_consts": int,
    "symbolic_zeros": bool})


class _VJPFrame(CustomFrame):
    """Linearized by the forward pass, transposed by the backward pass."""

    derives = (*(rule for rule in CustomFrame.derives if rule != "jvp"), "linearize")

    def close(self, held: Held) -> Params:
        return {**super().close(held), "bwd": held.rest[self.rule]}

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        rule = params[self.rule]
        refuse_differentiated(rule.custom, primals, nonzeros[:params["num_consts"]])
        outs, residuals, pull = rule.forward(nonzeros, primals)
        avals = [typeof(o).to_tangent() for o in outs]
        nonzero_outs = [a.inexact for a in avals]
        backward = Backward(rule, lambda residuals, cts: selected(nonzeros, pull(
            residuals, with_zeros(nonzero_outs, cts, avals))))

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            return with_zeros(nonzero_outs, custom_lin_p.bind(
                *residuals, *map(tangent_of, selected(nonzeros, tangents)),
                num_res=len(residuals), bwd=backward, in_zeros=tuple([not nz for nz in nonzeros]),
                out_avals=tuple(selected(nonzero_outs, avals)),
                symbolic_zeros=params["symbolic_zeros"]), avals)

        return outs, nonzero_outs, residuals, linear

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        """A linear function is its own derivative."""
        undefined, function = [type(a) is UndefinedPrimal for a in args], params[self.param]

        def derivative(*primals: Any) -> list[Any]:
            _, _, residuals, linear = self.linearize(undefined, *primals, **params)
            return list(map(instantiate, linear(residuals, *primals)))

        program = trace_to_jaxpr(derivative, function.in_avals, function.debug_info)
        return backward_pass(program, program.consts, args, cts)


@custom_jvp
def _written(after: Any, before: Any) -> Any:
    """Final contents of a reference, whose tangents are those of the first ones: the rules of the
    function that writes it say nothing of them."""
    return after


_written.defjvp(lambda primals, tangents: (primals[0], tangents[1]), symbolic_zeros=True)


custom_vjp_call_p.def_jvp(refuse_forward_mode)


class VJPCall(Call):
    """A call of a `custom_vjp` function, and its rules."""

    __slots__ = ()
    frame = _VJPFrame(custom_vjp_call_p, "fwd_jaxpr_thunk")

    def written(self, after: Any, before: Any) -> Any:
        return _written(after, before)

    # -- forward --

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]
                ) -> tuple[list[Any], list[Any], Any]:
        """Results, residuals, and the backward pass."""
        (outer, primals), (_, nonzeros) = self.split(primals), self.split(nonzeros)
        avals, custom = list(map(typeof, primals)), self.custom
        run = lambda *primals: self._run_forward(nonzeros, primals)
        key = tuple(nonzeros) if custom.symbolic_zeros else ()
        # References among the residuals could not be results of an equation.
        if custom.optimize_remat and staging() and not any(map(is_reference, [
                *avals, *map(typeof, outer)])):
            values, known = self._optimized(run, avals, primals, outer)
        else:
            values, known = self.traced("fwd", run, avals, primals, outer, key)
        self.out_tree, res_tree = known
        n = res_tree.num_leaves
        return (self.as_function("fwd rule", avals, values[n:]),
                [*outer, *values[:n]],
                functools.partial(self.backward, avals, res_tree, self.out_tree))

    def _run_forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]
                     ) -> tuple[list[Any], Any]:
        custom = self.custom
        if custom.symbolic_zeros:
            primals = [CustomVJPPrimal(p, nz) for p, nz in zip(primals, nonzeros, strict=True)]
        args = self.arguments(primals)
        outs, out_tree, result = self.pair(
            "fwd", "(output, residuals)", "output", f"all {len(args)} arguments", *args)
        check_arguments(lambda: f"the {custom.rule_name('fwd')}", result, "residual")
        leaves, res_tree = tree_flatten(result)
        if any(type(x) is bool for x in leaves):
            # They belong to the structure: bwd gets them as they are, and may branch on them.
            leaves, res_tree = tree_flatten(res_tree.unflatten(
                [Static(x) if type(x) is bool else x for x in leaves]))
        return [*leaves, *outs], (out_tree, res_tree)

    def _optimized(self, run: Callable[..., Any], avals: Sequence[Any], primals: Sequence[Any],
                   outer: Sequence[Any]) -> Any:
        trace = self.trace("fwd", run, avals, primals, outer)
        leading, params = (outer, self.frame.params(self, self.staged(avals).jaxpr, len(outer))
                           ) if self.outer else self.equation(avals)
        fallback = remat_opt.Fallback(self.frame, params)
        body = Body(trace.jaxpr, [*trace.consts, *outer], None)
        n = trace.known[1].num_leaves
        return remat_opt.forward(body, fallback, leading, n, primals), trace.known

    # -- backward --

    def backward(self, avals: Sequence[Any], res_tree: Any, out_tree: Any,
                 residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the operands, of these types; zeros for closed-over values."""
        n, m = len(self.outer), res_tree.num_leaves

        def run(*args: Any) -> tuple[list[Any], None]:
            return self._run_backward(avals, res_tree.unflatten(args[:m]), out_tree.unflatten(
                [for_rule(ct, self.custom.symbolic_zeros) for ct in args[m:]])), None

        found, _ = self.traced(
            "bwd", run, avals,
            [*residuals[n:], *(cts if self.custom.symbolic_zeros else as_arrays(cts))],
            residuals[:n], (res_tree, out_tree))
        return [*map(zero_tangent, residuals[:n]), *found]

    def _run_backward(self, avals: Sequence[Any], residuals: Any, cts: Any) -> list[Any]:
        """Runs the user's function and checks its results."""
        with calling(lambda: (f"The {self._name()} is given {len(self.static)} values of "
                              "nondiff_argnums, the residuals and the cotangent.")):
            result = self.custom.bwd(*self.static, residuals, cts)
        if isinstance(result, list):
            result = tuple(result)
        given = self._given(avals, result)
        return [self._cotangent(aval, i, given.get(i)) for i, aval in enumerate(avals)]

    def _given(self, avals: Sequence[Any], result: Any) -> dict[int, Any]:
        """The cotangents given, by the indices of their arguments' leaves."""
        try:
            if not isinstance(result, tuple):
                raise ValueError("no tuple")
            pairs = prefix_pairs(result, self.in_tree.unflatten(range(len(avals))),
                                 is_leaf=lambda x: x is None)
            # An argument that is None does not have a cotangent, whatever the rule returns.
            if any(ct is not None and not isinstance(place, int) and tree_leaves(place)
                   for ct, place in pairs):
                raise ValueError("deeper than the cotangent")
        except ValueError:
            expected = self.in_tree.unflatten(avals)
            raise LazyTypeError(lambda: (
                f"the {self._name()} must return a tuple with a cotangent for each argument, in "
                "the argument's tree structure (None for zeros):\n"
                f"{_tree_differences(expected, result)}")) from None
        return {place: ct for ct, place in pairs if ct is not None and isinstance(place, int)}

    def output(self, i: int) -> str:
        """The name of an output of the backward pass in messages."""
        return f"output{self.path(i - len(self.outer))} of the {self._name()}"

    def _name(self) -> str:
        return str(self.custom.rule_name("bwd"))

    def _cotangent(self, aval: Any, index: int, ct: Any) -> Any:
        """A checked cotangent; `Zero` for None and for arguments without one."""
        zero, ct = Zero(cotangent_type(aval)), from_rule(ct)
        if ct is None or not zero.aval.inexact:
            return zero
        actual: Any = (ct.aval if type(ct) is Zero else
                       typeof(ct) if is_array_value(ct) else None)
        # A weak type fits where a product with one would. With x64 off or on in the rule, unlike
        # where the argument was made, a type fits that differs in width alone.
        arrays = isinstance(actual, ShapedArray) and isinstance(zero.aval, ShapedArray)
        if arrays and type(ct) is not Zero and actual.dtype != zero.aval.dtype and (
                dtypes.narrow(actual.dtype) == dtypes.narrow(zero.aval.dtype)
                or (actual.weak_type and result_type(ct, zero.aval.dtype) == zero.aval.dtype)):
            ct = convert(ct, zero.aval.dtype)
            actual = typeof(ct)
        if actual is None or not same_array_type(actual, zero.aval):
            path = self.path(index)
            error = LazyTypeError if actual is None else LazyValueError
            raise error(lambda: (
                f"the {self._name()} must return cotangents of the types of its arguments, but "
                f"output{path} is {describe_value(ct) if actual is None else f'of type {actual}'}, "
                f"and the argument of type {invariant(aval)}."
                + (f" Cast with .astype({zero.aval.dtype.name!r})."
                   if arrays and actual.shape == zero.aval.shape else "")))
        return ct


# After the frame, whose rules would take it back.
custom_vjp_call_p.deviates("jvp", "Its user's rule is for reverse mode alone.")


def _tree_differences(expected: Any, given: Any) -> str:
    """The missing and the superfluous entries of a tuple of cotangents."""
    wanted = {keystr(path): aval for path, aval in tree_flatten_with_path(expected)[0]}
    found = {keystr(path): leaf for path, leaf in
             tree_flatten_with_path(given, lambda x: x is None)[0]}
    nothing = [path for path, leaf in found.items() if leaf is None]
    lines = [f"  output{path}: missing; the argument has type {aval}"
             for path, aval in wanted.items()
             if path not in found and not any(path.startswith(p) for p in nothing)]
    lines += [f"  output{path}: {describe_value(leaf)}, but no argument has this path"
              for path, leaf in found.items() if path not in wanted and leaf is not None]
    if not lines:
        lines = [f"  the arguments have the tree structure {tree_flatten(expected)[1]},",
                 f"  the results {tree_flatten(given)[1]}"]
    return "\n".join(lines)


# ---- public class ----------------------------------------------------------------------


class custom_vjp(Custom[P, R]):
    """A function with a pullback of its own, which `grad`, `vjp` and the others run.

    Use it as a decorator, and define the rules with `defvjp`. It does not support forward mode.

    Args:
      fun: a function of pytrees of arrays. The rules get keyword arguments by position, and
        defaults like given arguments.
      nondiff_argnums: positions of arguments that may be any Python values but traced ones,
        functions for one; `fwd` gets them in their places, `bwd` by themselves, in front.
      nondiff_argnames: the same by name.

    Raises:
      TypeError: `fun` is not callable; at calls: arguments without a position; an argument or
        output that is not an array; when differentiated: in forward mode; `fwd` does not give
        a pair, or not the function's output; `bwd` does not give a tuple of the arguments'
        structure.
      ValueError: an argument that `fun` does not have; when differentiated: `bwd` gives a
        cotangent of another shape or dtype than its argument.
      AttributeError: at calls: the rules are missing.
      UnexpectedTracerError: at calls: a traced value in a place of `nondiff_argnums`; `fun`
        closes over a value that is differentiated.

    Example:
      >>> @mjax.custom_vjp
      ... def clipped(x):
      ...   return x
      >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (lax.clamp(-1.0, ct, 1.0),))
      >>> float(mjax.grad(lambda x: lax.mul(5.0, clipped(x)))(2.0))
      1.0

    Source: JAX, `jax.custom_vjp`.
    """

    who: ClassVar[str] = "custom_vjp"
    definer: ClassVar[str] = "defvjp"
    kinds: ClassVar[dict[str, str]] = {"fwd": "fwd", "bwd": "bwd"}
    calls: ClassVar[type[Call]] = VJPCall
    symbolic_zeros: bool
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    optimize_remat: bool = False

    @boundary
    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any],
               symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Defines the rules.

        Args:
          fwd: takes the function's arguments, returns a pair of its output and residuals, a
            pytree of arrays.
          bwd: takes the residuals and the output's cotangent, after the values of
            `nondiff_argnums`; gives a tuple with the cotangent of each argument. None stands for
            zeros, of a whole argument or of a part.
          symbolic_zeros: whether `fwd` gets `mjax.custom_derivatives.CustomVJPPrimal`s as
            leaves, which mark differentiated ones, and `bwd` a `SymbolicZero` for a
            cotangent known to be zero.
          optimize_remat: whether `mjax.checkpoint` evaluates the function rather than `fwd` where
            it does not keep the residuals.

        Raises:
          TypeError: a rule is not callable.
          NotImplementedError: both options at once.
        """
        if symbolic_zeros and optimize_remat:
            msg = "defvjp: optimize_remat does not go together with symbolic_zeros."
            raise NotImplementedError(msg)
        self.ruled(fwd=fwd, bwd=bwd)
        self.symbolic_zeros, self.optimize_remat = bool(symbolic_zeros), bool(optimize_remat)

    def check_static(self, static: tuple[Any, ...]) -> None:
        """Refuses tracers among the arguments that are not differentiated."""
        given = zip(self.arguments.nondiff, static, strict=False)
        traced = [(place, leaf) for place, value in given for leaf in tree_leaves(value)
                  if isinstance(leaf, Tracer) and leaf.interp is not evaluation]
        if traced:
            place, leaf = traced[0]
            raise UnexpectedTracerError(lambda: (
                f"argument {place} of the {self.describe()} is one of its nondiff arguments, but "
                f"is or holds a traced value of type {leaf.aval}. They are for what can never be "
                "traced, such as functions. Pass arrays as ordinary arguments, and return None "
                "for their cotangents."))


def _of_functions(pair: Pair, params: dict[str, Any]) -> custom_vjp:
    """The function of flat values with rules of flat values.

    `fwd` takes each operand, and whether it is differentiated; it gives residuals that are not
    operands, then the results. `bwd` takes all residuals and the cotangents.
    """
    fun, fwd, bwd = pair.functions
    custom = custom_vjp(fun)

    def forward(*primals: CustomVJPPrimal) -> tuple[list[Any], list[Any]]:
        found = fwd(*(x for p in primals for x in (p.value, p.perturbed)))
        forwarded = params["out_trees"]()[2]
        given = iter(found)
        residuals = [next(given) if i is None else primals[i].value for i in forwarded]
        return list(given), residuals

    def backward(residuals: list[Any], cts: list[Any]) -> tuple[Any, ...]:
        if not params["symbolic_zeros"]:
            cts = [for_rule(from_rule(ct), False) for ct in cts]
        return tuple([None if type(ct) is Zero else ct for ct in bwd(*residuals, *cts)])

    custom.defvjp(forward, backward, symbolic_zeros=True)
    return custom


custom_vjp_call_p.of_functions = _of_functions

__all__ = ["custom_vjp", "custom_vjp_call_p"]
