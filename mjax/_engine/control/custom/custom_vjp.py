"""Functions whose pullback their users wrote: `custom_vjp`, and `custom_vjp_call`.

The primitive holds the function's jaxpr and its rules, functions of flat values: `rule(nonzeros,
primals) -> outs, residuals, info` and `rule.backward(info, residuals, cotangents)`. Linearizing
runs the first and puts one `custom_lin` into the linear program; transposing that runs the
second. Pushing tangents forward is an error.
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
from mjax._engine.control.calls.closed_call import evaluates_as_call, types_as_call
from mjax._engine.control.custom.custom_calls import (
    Call,
    RuleRun,
    check_primal_output,
    invariant,
    refuse_differentiated,
)
from mjax._engine.control.custom.custom_jvp import (
    Derived,
    refuse_batched,
    run_batched,
)
from mjax._engine.control.custom.custom_lin import (
    Backward,
    BatchedInfo,
    batched_backward,
    custom_lin_p,
    refuse_forward_mode,
    refuse_unsummed,
)
from mjax._engine.control.custom.custom_rules import BatchedCall, Custom, batched_call, is_float0
from mjax._engine.control.custom.symbolic_zeros import CustomVJPPrimal, for_rule, from_rule
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
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import same_array_type, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.tangents import instantiate, zero_tangent
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function
from mjax._engine.tracing.interpreter import Tracer, staging
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at, describe_value
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr

custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True, types_cacheable=False,
                              own_varying=True)
types_as_call(custom_vjp_call_p, "call_jaxpr")
evaluates_as_call(custom_vjp_call_p, "call_jaxpr")


# ---- rules as functions of flat values -------------------------------------------------


class Info(Record):
    """What a backward pass has to know: structures, and types of the operands."""

    res_tree: Any
    out_tree: Any
    avals: Sequence[Any]


class VJPCall(Call):
    """A call of a `custom_vjp` function; applied to primals it is its forward pass."""

    __slots__ = ()
    primitive = custom_vjp_call_p

    def params(self, rule: Any, jaxpr: Jaxpr | None = None, num_consts: int = 0
               ) -> dict[str, Any]:
        return params_of(rule, jaxpr, num_consts, self.custom.symbolic_zeros)

    def batched(self, *args: Any) -> BatchedVJP:
        return BatchedVJP(*args)

    # -- forward --

    def __call__(self, nonzeros: Sequence[bool], primals: Sequence[Any]
                 ) -> tuple[list[Any], list[Any], Info]:
        outer, primals = self.leading(primals), self.own(primals)
        avals = list(map(typeof, primals))
        rule = self._forward(self.own(nonzeros))
        if self.custom.optimize_remat and staging():
            values, known = self._optimized(rule, avals, primals, outer)
        else:
            values, known = self.traced(rule, avals, primals, outer)
        self.out_tree, res_tree = known
        n = res_tree.num_leaves
        return (self.as_function("fwd rule", avals, outer, values[n:]), [*outer, *values[:n]],
                Info(res_tree, self.out_tree, avals))

    def _forward(self, nonzeros: Sequence[bool]) -> RuleRun:
        """The forward pass: residuals, then results."""
        symbolic = self.custom.symbolic_zeros
        return RuleRun("fwd", tuple(nonzeros) if symbolic else (),
                       lambda *primals: self._run_forward(nonzeros, primals))

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

    def _optimized(self, rule: RuleRun, avals: Sequence[Any], primals: Sequence[Any],
                   outer: Sequence[Any]) -> Any:
        trace = self.trace(rule, avals, avals, list(map(typeof, outer)))
        if self.outer:
            jaxpr, of_equation, leading = self.jaxpr, self, outer
        else:
            jaxpr, of_equation, leading, _ = self.equation(avals)
        fallback = remat_opt.Fallback(
            custom_vjp_call_p, self.params(of_equation, jaxpr, len(leading)), batched_params)
        body = Body(trace.jaxpr, [*trace.consts, *outer], None)
        n = trace.known[1].num_leaves
        return remat_opt.forward(body, fallback, leading, n, primals), trace.known

    # -- backward --

    def backward(self, info: Info, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the arguments."""
        if not self.custom.symbolic_zeros:
            cts = [ct if is_float0(ct) else instantiate(ct) for ct in cts]
        given = [ct for ct in cts if type(ct) is not Zero]
        n = len(self.outer)
        values, known = self.traced(self._backward(info, cts), info.avals,
                                    [*residuals[n:], *given], residuals[:n])
        found = iter(values)
        return [next(found) if z is None else z for z in known]

    def _backward(self, info: Info, cts: Sequence[Any]) -> RuleRun:
        """The backward pass, of residuals and those cotangents that are not zero."""
        zeros = [ct if type(ct) is Zero else None for ct in cts]
        n = info.res_tree.num_leaves

        def f(*args: Any) -> tuple[list[Any], Any]:
            given = iter(args[n:])
            found = self._run_backward(info, args[:n], [next(given) if z is None else z
                                                        for z in zeros])
            known = [ct if type(ct) is Zero else None for ct in found]
            return [ct for ct in found if type(ct) is not Zero], known

        key = (info.res_tree, info.out_tree, tuple([z is not None for z in zeros]))
        return RuleRun("bwd", key, f)

    def _run_backward(self, info: Info, residuals: Sequence[Any], cts: Sequence[Any]
                      ) -> list[Any]:
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
        return [self._cotangent(info, i, ct) for i, ct in enumerate(found)]

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
        return f"output{self._path(i)} of the {self._name()}"

    def _path(self, i: int) -> str:
        numbers = self.in_tree.unflatten(range(self.in_tree.num_leaves))
        return keystr(tree_flatten_with_path(numbers)[0][i][0])

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
        if ct is None or zero.aval.dtype == dtypes.float0:
            return zero
        try:
            actual = ct.aval if type(ct) is Zero else typeof(ct)
        except (TypeError, OverflowError):
            actual = None
        # A weak type fits where a product with one would. With x64 off or on in the rule, unlike
        # where the argument was made, a type fits that differs in width alone.
        if actual is not None and type(ct) is not Zero and actual.dtype != zero.aval.dtype and (
                dtypes.narrow(actual.dtype) == dtypes.narrow(zero.aval.dtype)
                or (actual.weak_type and result_type(ct, zero.aval.dtype) == zero.aval.dtype)):
            ct = convert(ct, zero.aval.dtype)
            actual = typeof(ct)
        if actual is None or not same_array_type(actual, zero.aval):
            path = self._path(index)
            error = LazyTypeError if actual is None else LazyValueError
            raise error(lambda: (
                f"the {self._name()} must return cotangents of the types of its arguments, but "
                f"output{path} is {describe_value(ct) if actual is None else f'of type {actual}'}, "
                f"and the argument of type {invariant(info.avals[index])}."
                + (f" Cast with .astype({zero.aval.dtype.name!r})."
                   if actual is not None and actual.shape == zero.aval.shape else "")))
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


class BatchedVJP(Derived):
    """Rules for a batch.

    Args:
      rule: those for one element.
      axis: the axis.
      dims: batch dims of the operands.
      batched: whether results are a batch, along axis 0.
      live: the call whose rules they are, where these run at once.
    """

    __slots__ = ("axis", "batched", "dims", "live")

    def __init__(self, rule: Any, axis: AxisData, dims: Sequence[int | None], batched: bool,
                 live: BatchedCall | None = None):
        super().__init__(rule)
        self.names_in_scope = tuple(n for n in rule.names_in_scope if n != axis.name)
        self.axis, self.dims, self.batched, self.live = axis, dims, batched, live

    def __call__(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        known: list[Any] = []

        def f(*args: Any) -> list[Any]:
            outs, residuals, info = self.rule(nonzeros, args)
            known.extend((len(outs), info))
            return [*outs, *residuals]

        values, dims = run_batched(self, f, primals, self.dims)
        n, inner = known
        batched = self.batched
        if self.live is not None:
            # Each element has cotangents of its own, those of a common result too.
            batched = any(d is not None for d in [*self.dims, *dims[:n]])
            self.live.out_dims = [0 if batched else None] * n
        elif not batched:
            refuse_batched(self, dims[:n])
        outs = [to_dim(o, d, 0 if batched else None, self.axis.size)
                for o, d in zip(values[:n], dims, strict=False)]
        avals = [typeof(p).to_tangent() for p in primals]
        return outs, values[n:], BatchedInfo(self.axis, inner, dims[n:], avals, self.dims, batched)

    def backward(self, info: BatchedInfo, residuals: Sequence[Any], cts: Sequence[Any]
                 ) -> list[Any]:
        """Cotangents of the batch's operands."""
        return batched_backward(self.rule.backward, info, residuals, cts)


class PrunedVJP(Derived):
    """Rules of a function some of whose results nobody wants."""

    __slots__ = ("used",)

    def __init__(self, rule: Any, used: Sequence[bool]):
        super().__init__(rule)
        self.used = used

    def __call__(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        outs, residuals, info = self.rule(nonzeros, primals)
        return ([o for o, u in zip(outs, self.used, strict=True) if u], residuals,
                (info, list(map(zero_tangent, outs))))

    def backward(self, info: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the operands; those of dropped results are zero."""
        inner, zeros = info
        given = iter(cts)
        return self.rule.backward(inner, residuals, [
            next(given) if u else z for u, z in zip(self.used, zeros, strict=True)])


# ---- the primitive ---------------------------------------------------------------------


def params_of(rule: Any, jaxpr: Jaxpr | None, num_consts: int, symbolic_zeros: bool
              ) -> dict[str, Any]:
    """The params of the primitive."""
    return {"call_jaxpr": jaxpr, "fwd_jaxpr_thunk": rule, "bwd": rule.backward,
            "num_consts": num_consts, "symbolic_zeros": symbolic_zeros}


@custom_vjp_call_p.def_lowering
def _lowering(ctx: Any, *operands: Any, call_jaxpr: Jaxpr, fwd_jaxpr_thunk: Any, **params: Any
              ) -> Any:
    return ctx.call(call_jaxpr, fwd_jaxpr_thunk.custom.__name__, *operands)


@custom_vjp_call_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, fwd_jaxpr_thunk: Any, **params: Any) -> Any:
    refuse_forward_mode(fwd_jaxpr_thunk.custom.describe())


def _linearize(nonzeros: Any, *primals: Any, fwd_jaxpr_thunk: Any, num_consts: int,
               symbolic_zeros: bool, **params: Any) -> Any:
    rule = fwd_jaxpr_thunk
    for primal, nonzero in zip(primals[:num_consts], nonzeros, strict=False):
        if nonzero:
            refuse_differentiated(rule.custom.describe(), typeof(primal))
    outs, residuals, info = rule(nonzeros, primals)
    tangents = [typeof(o).to_tangent() for o in outs]
    nonzero_outs = [a.dtype != dtypes.float0 for a in tangents]
    backward = Backward(rule, info, tangents)
    in_zeros = tuple([not nz for nz in nonzeros])

    def linear(residuals: Sequence[Any], *given: Any) -> list[Any]:
        found = iter(custom_lin_p.bind(
            *residuals, *[t for t in given if type(t) is not Zero], num_res=len(residuals),
            bwd=backward, in_zeros=in_zeros,
            out_avals=tuple([a for a, nz in zip(tangents, nonzero_outs, strict=True) if nz]),
            symbolic_zeros=symbolic_zeros))
        return [next(found) if nz else Zero(a)
                for a, nz in zip(tangents, nonzero_outs, strict=True)]

    return outs, nonzero_outs, residuals, linear


custom_vjp_call_p.linearize = _linearize


@custom_vjp_call_p.def_transpose
def _transpose(cts: Any, *args: Any, call_jaxpr: Jaxpr, fwd_jaxpr_thunk: Any, **params: Any
               ) -> Any:
    """A linear function: the backward pass, where its residuals depend on nothing linear."""
    rule = fwd_jaxpr_thunk
    undefined = [type(a) is UndefinedPrimal for a in args]
    known: list[Any] = []

    def forward(*primals: Any) -> list[Any]:
        _, residuals, info = rule(undefined, primals)
        known.append(info)
        return residuals

    program = trace_to_jaxpr(forward, call_jaxpr.in_avals, call_jaxpr.debug_info)
    parts = partial_eval_jaxpr(program, undefined)
    if any(parts.unknown_outs):
        source = applied_at(thread.source or current_traceback())
        raise LazyNotImplementedError(lambda: (
            f"the {rule.custom.describe()} cannot be transposed as a linear function: its fwd rule "
            "gives residuals that depend on the arguments in which it is linear, and these have no "
            f"values here.\n{source}"))
    defined = [a for a, u in zip(args, undefined, strict=True) if not u]
    residuals = eval_jaxpr(parts.known, parts.known.consts, *defined)
    found = rule.backward(known[0], residuals[:len(program.outvars)], cts)
    skip = len(args) - len(found)
    given = [None] * skip + found
    for i, (ct, operand) in enumerate(zip(given, args, strict=True)):
        if undefined[i]:
            refuse_unsummed(rule, i - skip, ct, operand)
    return [ct if u else None for ct, u in zip(given, undefined, strict=True)]


def batched_params(axis: AxisData, dims: Sequence[int | None], params: dict[str, Any]
                   ) -> dict[str, Any]:
    """The params for a batch."""
    call_jaxpr, rule = params["call_jaxpr"], params["fwd_jaxpr_thunk"]
    batched, out_dims = batched_call(call_jaxpr, axis, dims)
    new = call_jaxpr.cached(("batched rule", rule, axis, tuple(dims)), lambda: BatchedVJP(
        rule, axis, dims, out_dims[:1] != [None]))
    return params_of(new, batched, params["num_consts"], params["symbolic_zeros"])


def _batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
    batched = batched_params(axis, dims, params)
    dim = 0 if batched["fwd_jaxpr_thunk"].batched else None
    outs = custom_vjp_call_p.bind(*args, **batched)
    return outs, [dim] * len(outs)


custom_vjp_call_p.axis_batch = _batch


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    params = eqn.params
    jaxpr, rule = params["call_jaxpr"], params["fwd_jaxpr_thunk"]
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    if all(used):
        return [True] * len(eqn.invars), eqn
    # Inputs stay: the rules may read them.
    smaller, _ = dce_jaxpr(jaxpr, used, True)
    pruned = jaxpr.cached(("pruned rule", rule, tuple(used)), lambda: PrunedVJP(rule, used))
    return [True] * len(eqn.invars), eqn.replace(
        params=params_of(pruned, smaller, params["num_consts"], params["symbolic_zeros"]),
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u], effects=smaller.effects)


custom_vjp_call_p.dce = _dce


def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    custom = params["fwd_jaxpr_thunk"].custom
    shown = {"name": custom.__name__, "call_jaxpr": params["call_jaxpr"], "fwd": custom.fwd,
             "bwd": custom.bwd, "symbolic_zeros": params["symbolic_zeros"]}
    return shown | ({"num_consts": params["num_consts"]} if params["num_consts"] else {})


custom_vjp_call_p.pretty = _pretty


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

    def rules(self) -> Sequence[Any]:
        """The functions that were given as rules."""
        return self.fwd, self.bwd

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
