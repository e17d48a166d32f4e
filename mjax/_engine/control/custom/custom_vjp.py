"""Functions whose pullback their users wrote: `custom_vjp`, and `custom_vjp_call`.

Linearizing runs the forward pass and puts one `custom_lin` into the linear program; transposing
that runs the backward pass. Pushing tangents forward is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import (
    LazyNotImplementedError,
    LazyTypeError,
    LazyValueError,
    UnexpectedTracerError,
)
from mjax._engine.base.folding import boundary, calling
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import merge_lists, partition_list, selected
from mjax._engine.control.custom.custom_calls import (
    Call,
    check_primal_output,
    invariant,
    refuse_differentiated,
)
from mjax._engine.control.custom.custom_frame import CustomFrame
from mjax._engine.control.custom.custom_lin import (
    Backward,
    custom_lin_p,
    refuse_forward_mode,
    refuse_unsummed,
)
from mjax._engine.control.custom.custom_rules import Custom
from mjax._engine.control.custom.symbolic_zeros import (
    CustomVJPPrimal,
    as_arrays,
    for_rule,
    from_rule,
)
from mjax._engine.control.held import Held, Params
from mjax._engine.control.remat import remat_opt
from mjax._engine.control.trace_body import Body
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import result_type
from mjax._engine.ir.pytree import (
    keystr,
    prefix_pairs,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
)
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import ShapedArray, same_array_type, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.tangents import with_zeros
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.interpreter import Tracer, staging
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at, describe_value
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, without_zeros
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr

custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True, types_cacheable=False,
                              own_varying=True)


class _VJPFrame(CustomFrame):
    """Linearized by the forward pass, transposed by the backward pass."""

    derives = (*CustomFrame.derives, "linearize")

    def close(self, held: Held) -> Params:
        return {**super().close(held), "bwd": held.rest[self.rule].backward}

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> NoReturn:
        refuse_forward_mode(params[self.rule].custom)

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        rule = params[self.rule]
        refuse_differentiated(rule.custom.describe(), primals, nonzeros[:params["num_consts"]])
        outs, residuals, info = rule.forward(nonzeros, primals)
        avals = [typeof(o).to_tangent() for o in outs]
        nonzero_outs = [a.inexact for a in avals]
        backward = Backward(rule, rule.names_in_scope, lambda residuals, cts: rule.backward(
            info, residuals, with_zeros(nonzero_outs, cts, avals)))
        in_zeros = tuple([not nz for nz in nonzeros])

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            return with_zeros(nonzero_outs, custom_lin_p.bind(
                *residuals, *without_zeros(tangents), num_res=len(residuals), bwd=backward,
                in_zeros=in_zeros, out_avals=tuple(selected(nonzero_outs, avals)),
                symbolic_zeros=params["symbolic_zeros"]), avals)

        return outs, nonzero_outs, residuals, linear

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        """A linear function: the backward pass, where its residuals depend on nothing linear."""
        rule, call_jaxpr = params[self.rule], params[self.param]
        undefined = [type(a) is UndefinedPrimal for a in args]
        known: list[Any] = []

        def forward(*primals: Any) -> list[Any]:
            _, residuals, info = rule.forward(undefined, primals)
            known.append(info)
            return residuals

        program = trace_to_jaxpr(forward, call_jaxpr.in_avals, call_jaxpr.debug_info)
        parts = partial_eval_jaxpr(program, undefined)
        if any(parts.unknown_outs):
            source = applied_at(thread.source or current_traceback())
            raise LazyNotImplementedError(lambda: (
                f"the {rule.custom.describe()} cannot be transposed as a linear function: its fwd "
                "rule gives residuals that depend on the arguments in which it is linear, and "
                f"these have no values here.\n{source}"))
        defined, linear = partition_list(undefined, args)
        residuals = eval_jaxpr(parts.known, parts.known.consts, *defined)
        found = rule.backward(known[0], residuals[:len(program.outvars)], cts)
        skip = len(args) - len(found)
        pulled = selected(undefined, [*[None] * skip, *found])
        places = selected(undefined, range(-skip, len(found)))
        for place, ct, operand in zip(places, pulled, linear, strict=True):
            refuse_unsummed(rule, place, ct, operand)
        return merge_lists(undefined, [None] * len(defined), pulled)


class Info(Record):
    """What a backward pass has to know: structures, and types of the operands."""

    res_tree: Any
    out_tree: Any
    avals: Sequence[Any]


class VJPCall(Call):
    """A call of a `custom_vjp` function, and its rules."""

    __slots__ = ()
    frame = _VJPFrame(custom_vjp_call_p, "fwd_jaxpr_thunk")

    # -- forward --

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]
                ) -> tuple[list[Any], list[Any], Info]:
        """Results, residuals, and what the backward pass has to know."""
        (outer, primals), (_, nonzeros) = self.split(primals), self.split(nonzeros)
        avals, custom = list(map(typeof, primals)), self.custom
        run = lambda *primals: self._run_forward(nonzeros, primals)
        key = tuple(nonzeros) if custom.symbolic_zeros else ()
        if custom.optimize_remat and staging():
            values, known = self._optimized(run, avals, primals, outer)
        else:
            values, known = self.traced("fwd", run, avals, primals, outer, key)
        self.out_tree, res_tree = known
        n = res_tree.num_leaves
        return (self.as_function("fwd rule", avals, primals, outer, values[n:]),
                [*outer, *values[:n]], Info(res_tree, self.out_tree, avals))

    def _run_forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]
                     ) -> tuple[list[Any], Any]:
        custom = self.custom
        if custom.symbolic_zeros:
            primals = [CustomVJPPrimal(p, nz) for p, nz in zip(primals, nonzeros, strict=True)]
        name = f"fwd rule {describe_function(custom.fwd)} of {custom.describe()}"
        args = custom.arguments.join(*self.take(primals))
        with calling(lambda: f"The {name} is given all {len(args)} arguments."):
            result = custom.fwd(*args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise LazyTypeError(lambda: (
                f"the {name} must return a pair (output, residuals), but returned "
                f"{describe_value(result)}."))
        outs, out_tree = tree_flatten(result[0])
        residuals, res_tree = tree_flatten(result[1])
        check_arguments(f"the {name}", result[0], "output")
        check_arguments(f"the {name}", result[1], "residual")
        check_primal_output(self, "fwd rule", out_tree, list(map(typeof, outs)))
        return [*residuals, *outs], (out_tree, res_tree)

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

    def backward(self, info: Info, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the arguments."""
        n, m = len(self.outer), info.res_tree.num_leaves
        return self.traced(
            "bwd", lambda *args: self._run_backward(info, args[:m], args[m:]), info.avals,
            [*residuals[n:], *(cts if self.custom.symbolic_zeros else as_arrays(cts))],
            residuals[:n], (info.res_tree, info.out_tree))[0]

    def _run_backward(self, info: Info, residuals: Sequence[Any], cts: Sequence[Any]
                      ) -> tuple[list[Any], None]:
        custom = self.custom
        ct_tree = info.out_tree.unflatten([for_rule(ct, custom.symbolic_zeros) for ct in cts])
        with calling(lambda: (f"The {self._name()} is given {len(self.static)} values of "
                              "nondiff_argnums, the residuals and the cotangent.")):
            result = custom.bwd(*self.static, info.res_tree.unflatten(residuals), ct_tree)
        if isinstance(result, list):
            result = tuple(result)
        found: list[Any] = [None] * len(info.avals)
        for i, ct in self._places(info, result):
            found[i] = ct
        return [self._cotangent(info, i, ct) for i, ct in enumerate(found)], None

    def _places(self, info: Info, result: Any) -> list[tuple[int, Any]]:
        """The cotangents given, with the indices of their arguments' leaves."""
        numbers = self.in_tree.unflatten(range(len(info.avals)))
        try:
            if not isinstance(result, tuple):
                raise ValueError("no tuple")
            pairs = prefix_pairs(result, numbers, is_leaf=lambda x: x is None)
        except ValueError:
            self._refuse_tree(info, result)
        for ct, place in pairs:
            # An argument that is None has no cotangent, whatever is given.
            if ct is not None and not isinstance(place, int) and tree_leaves(place):
                self._refuse_tree(info, result)
        return [(place, ct) for ct, place in pairs if ct is not None and isinstance(place, int)]

    def output(self, i: int) -> str:
        """How messages call an output of the backward pass."""
        return f"output{self.path(i)} of the {self._name()}"

    def _name(self) -> str:
        return f"bwd rule {describe_function(self.custom.bwd)} of {self.custom.describe()}"

    def _refuse_tree(self, info: Info, result: Any) -> NoReturn:
        expected = self.in_tree.unflatten(info.avals)
        raise LazyTypeError(lambda: (
            f"the {self._name()} must return a tuple with a cotangent for "
            "each argument, nested as the argument is (None for zeros):\n"
            f"{_tree_differences(expected, result)}"))

    def _cotangent(self, info: Info, index: int, ct: Any) -> Any:
        """A cotangent, checked; `Zero` for None and for arguments that have none."""
        zero, ct = Zero(info.avals[index].to_tangent()), from_rule(ct)
        if ct is None or not zero.aval.inexact:
            return zero
        try:
            actual = ct.aval if type(ct) is Zero else typeof(ct)
        except (TypeError, OverflowError):
            actual = None
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
                f"and the argument of type {invariant(info.avals[index])}."
                + (f" Cast with .astype({zero.aval.dtype.name!r})."
                   if arrays and actual.shape == zero.aval.shape else "")))
        return ct


def _tree_differences(expected: Any, given: Any) -> str:
    """What is missing in a tuple of cotangents, and what has no place in it."""
    wanted = {keystr(path): aval for path, aval in tree_flatten_with_path(expected)[0]}
    found = {keystr(path): leaf for path, leaf in
             tree_flatten_with_path(given, lambda x: x is None)[0]}
    nothing = [path for path, leaf in found.items() if leaf is None]
    lines = [f"  output{path}: missing; the argument has type {aval}"
             for path, aval in wanted.items()
             if path not in found and not any(path.startswith(p) for p in nothing)]
    lines += [f"  output{path}: {describe_value(leaf)}, where no argument is"
              for path, leaf in found.items() if path not in wanted and leaf is not None]
    if not lines:
        lines = [f"  the arguments are nested as {tree_flatten(expected)[1]},",
                 f"  what it returned as {tree_flatten(given)[1]}"]
    return "\n".join(lines)


# ---- what users call -------------------------------------------------------------------


class custom_vjp(Custom):
    """A function with a pullback of its own: `grad`, `vjp` and the like run it.

    Use it as a decorator, and give the rules with `defvjp`. Forward mode cannot go through it.

    Args:
      fun: a function of pytrees of arrays. Arguments that calls give by name are passed to
        the rules by position, and defaults as if they had been given.
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
      AttributeError: at calls: there are no rules.
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

    who = "custom_vjp"
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros: bool = False
    optimize_remat: bool = False

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def rules(self) -> dict[str, Any]:
        """The functions that were given as rules."""
        return {"fwd": self.fwd, "bwd": self.bwd}

    @boundary
    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any],
               symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Gives the rules.

        Args:
          fwd: takes the function's arguments, gives a pair of its output and of residuals, a
            pytree of arrays.
          bwd: takes the residuals and the output's cotangent, after the values of
            `nondiff_argnums`; gives a tuple with the cotangent of each argument. None stands for
            zeros, of a whole argument or of a part.
          symbolic_zeros: whether `fwd` gets `mjax.custom_derivatives.CustomVJPPrimal`s as
            leaves, which say what is differentiated, and `bwd` a `SymbolicZero` for a
            cotangent known to be zero.
          optimize_remat: whether `mjax.checkpoint` evaluates the function rather than `fwd` where
            it does not keep the residuals.

        Raises:
          TypeError: a rule is not callable.
          NotImplementedError: both options at once.
        """
        check_callable("defvjp", fwd)
        check_callable("defvjp", bwd)
        if symbolic_zeros and optimize_remat:
            msg = "defvjp: optimize_remat does not go together with symbolic_zeros."
            raise NotImplementedError(msg)
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = bool(symbolic_zeros), bool(optimize_remat)
        self.ruled()

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        if self.fwd is None:
            msg = (f"{self.describe()} has no rules yet: give it some with "
                   f"{self.__name__}.defvjp.")
            raise AttributeError(msg)
        return self.call(VJPCall, args, kwargs)

    def check_static(self, static: tuple[Any, ...]) -> None:
        """Refuses tracers among the arguments that are not differentiated."""
        for place, value in zip(self.arguments.nondiff, static, strict=False):
            for leaf in tree_leaves(value):
                if isinstance(leaf, Tracer):
                    raise UnexpectedTracerError(lambda place=place, leaf=leaf: (  # type: ignore[misc]
                        f"argument {place} of the {self.describe()} is one of its nondiff "
                        f"arguments, but is or holds a traced value of type {leaf.aval}. They are "
                        "for what can never be traced, such as functions. Pass arrays as ordinary "
                        "arguments, and return None for their cotangents."))


__all__ = ["custom_vjp", "custom_vjp_call_p"]
