"""Solutions of linear equations, differentiated as solutions and not step by step:
`custom_linear_solve`.

The primitive holds four jaxprs: the linear function, its transpose, and a solver for each. The
derivative of A x = b is A x' = b' - A' x, which is one more solve. The transpose is the solve with
the other two jaxprs.

Source: the public interface of `jax.lax`; Christianson 1994 (implicit differentiation).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyText, LazyTypeError, LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import merge_lists, selected, split_list
from mjax._engine.control.cast_varying import Axes, bind_cast, joined, varying_of, widened
from mjax._engine.control.trace_body import Body, Typed, agree, derived, differences, stage_body
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import renumbered
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_structure
from mjax._engine.ir.types import same_type_but_weak, typeof
from mjax._engine.primitives.arithmetic import neg_p
from mjax._engine.primitives.tangents import add_tangents, instantiate, with_zeros
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, without_zeros
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

linear_solve_p = EnginePrimitive("custom_linear_solve", params={
    "const_lengths": tuple[int, ...], "jaxprs": tuple[Jaxpr | None, ...]}, multiple_results=True,
    types_cacheable=False, own_varying=True)


class LinearSolve(Record):
    """One item per function: its jaxpr, its operands, or the number of these.

    `vecmat` and `transpose_solve` are None if the solve cannot be transposed.
    """

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> LinearSolve:
        """The items of the transposed equation."""
        return LinearSolve(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def _by_name(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, for tuples in the params too: programs that are read from files have those."""

    @functools.wraps(rule)
    def call(*args: Any, const_lengths: Any, jaxprs: Any) -> Any:
        return rule(*args, const_lengths=LinearSolve(*const_lengths), jaxprs=LinearSolve(*jaxprs))

    return call


def _split(values: Sequence[Any], const_lengths: LinearSolve) -> tuple[LinearSolve, list[Any]]:
    """Splits operands into those of each function and those of the right-hand side."""
    *consts, b = split_list(values, const_lengths)
    return LinearSolve(*consts), b


def _bind_solve(consts: LinearSolve, b: Sequence[Any], jaxprs: LinearSolve) -> list[Any]:
    return bind_cast(linear_solve_p, [*[c for group in consts for c in group], *b], {
        "const_lengths": LinearSolve(*map(len, consts)), "jaxprs": jaxprs})


@linear_solve_p.def_effectful_abstract_eval
@_by_name
def _solve_type(*avals: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> Any:
    places, b = _split(range(len(avals)), const_lengths)
    return jaxprs.solve.out_avals, renumbered(jaxprs.solve.effects, [*places.solve, *b])


@linear_solve_p.def_typecheck
@_by_name
def _solve_typecheck(*avals: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> None:
    consts, b = _split(avals, const_lengths)
    for name, jaxpr, own in zip(LinearSolve._fields, jaxprs, consts, strict=True):
        if jaxpr is None:
            continue
        for what, given, wanted in (
                ("takes", [*own, *b], jaxpr.in_avals),
                ("gives", jaxpr.out_avals[:len(b)], b)):
            if len(given) != len(wanted) or not all(map(same_type_but_weak, given, wanted)):
                msg = (f"custom_linear_solve: {name} {what} {', '.join(map(str, wanted))} where "
                       f"there are {', '.join(map(str, given))}")
                raise TypeError(msg)


@linear_solve_p.def_cast_varying
@_by_name
def _solve_cast_varying(varying: Sequence[Axes], *, const_lengths: LinearSolve, jaxprs: LinearSolve
                  ) -> Any:
    """The right-hand side, the solution, and all results of the functions vary alike, leaf by
    leaf."""
    consts, b = _split(varying, const_lengths)
    n = len(b)
    for i, jaxpr in enumerate(jaxprs):
        if jaxpr is not None:
            known = varying_of(jaxpr)
            consts = LinearSolve(*[joined(c, known[:-n]) if i == j else c
                                   for j, c in enumerate(consts)])
            b = joined(b, known[len(known) - n:])
    while True:
        found = [None if jaxpr is None else widened(jaxpr, [*own, *b])
                 for jaxpr, own in zip(jaxprs, consts, strict=True)]
        grown = joined(b, *[[a.varying for a in jaxpr.out_avals[:n]]
                            for jaxpr in found if jaxpr is not None])
        if grown == b:
            break
        b = grown
    return [axes for own in (*consts, b) for axes in own], {
        "const_lengths": const_lengths, "jaxprs": LinearSolve(*[
            jaxpr and widened(jaxpr, [*own, *b], [*b, *[no_axes] * (len(jaxpr.outvars) - n)])
            for jaxpr, own in zip(jaxprs, consts, strict=True)])}


@linear_solve_p.def_impl
@_by_name
def _solve_impl(*args: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> list[Any]:
    consts, b = _split(args, const_lengths)
    return eval_jaxpr(jaxprs.solve, jaxprs.solve.consts, *consts.solve, *b)


@linear_solve_p.def_lowering
@_by_name
def _solve_lowering(ctx: Any, *operands: Any, const_lengths: LinearSolve, jaxprs: LinearSolve
                    ) -> Any:
    consts, b = _split(operands, const_lengths)
    return ctx.inline(jaxprs.solve, *consts.solve, *b)


# ---- derivatives -----------------------------------------------------------------------


@linear_solve_p.def_jvp
@_by_name
def _solve_jvp(primals: Any, tangents: Any, *, const_lengths: LinearSolve, jaxprs: LinearSolve
               ) -> Any:
    x = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _split(primals, const_lengths)
    const_tangents, b_tangents = _split(tangents, const_lengths)
    moved = directional(jaxprs.matvec, consts.matvec, const_tangents.matvec, x[:len(b)])
    rhs = [add_tangents(t, m if type(m) is Zero else neg_p.bind(m))
           for t, m in zip(b_tangents, moved, strict=True)]
    zeros = [Zero(typeof(value).to_tangent()) for value in x]
    if all(type(t) is Zero for t in rhs):
        return x, zeros  # only operands of the solvers have tangents
    found = _bind_solve(consts, list(map(instantiate, rhs)), jaxprs)
    return x, [*found[:len(b)], *zeros[len(b):]]


def directional(jaxpr: Jaxpr, consts: Sequence[Any], tangents: Sequence[Any], x: Sequence[Any]
                ) -> list[Any]:
    """Tangents of the results of `jaxpr(*consts, *x)` along tangents of the consts, some of
    which may be `Zero`s.

    It linearizes: if these tangents will be transposed, the jaxpr may contain functions of which
    only the backward pass is known.
    """
    moving = without_zeros(tangents)
    parts = linearize_jaxpr(jaxpr, [*(type(t) is not Zero for t in tangents), *[False] * len(x)])
    args = [*consts, *x]
    wanted = [len(args) + i in parts.residual_forwarding for i in range(len(parts.known.outvars))]
    primal, used = dce_jaxpr(parts.known, wanted)
    values = eval_jaxpr(primal, primal.consts, *selected(used, args))
    residuals = parts.residuals(args, merge_lists(
        wanted, [None] * wanted.count(False), values))
    found = eval_jaxpr(parts.unknown, parts.unknown.consts, *residuals, *moving)
    return with_zeros(parts.unknown_outs, found, jaxpr.out_avals)


@linear_solve_p.def_transpose
@_by_name
def _solve_transpose(cts: Any, *args: Any, const_lengths: LinearSolve, jaxprs: LinearSolve
                     ) -> Any:
    consts, b = _split(args, const_lengths)
    if any(type(c) is UndefinedPrimal for group in consts for c in group):
        msg = ("custom_linear_solve is linear in b, not in what matvec and solve close over: "
               "it cannot be transposed in those.")
        raise TypeError(msg)
    if any(type(ct) is not Zero for ct in cts[len(b):]):
        msg = ("custom_linear_solve: the auxiliary results of solve have no derivative, and a "
               "cotangent of one is not zero.")
        raise TypeError(msg)
    if jaxprs.transpose_solve is None:
        msg = ("transpose_solve is required for reverse-mode differentiation of "
               "custom_linear_solve: give one, or symmetric=True if matvec is symmetric.")
        raise TypeError(msg)
    found = _bind_solve(consts.transpose(), list(map(instantiate, cts[:len(b)])),
                        jaxprs.transpose())
    return [None] * sum(const_lengths) + [
        ct if type(x) is UndefinedPrimal else None for x, ct in zip(b, found, strict=False)]


# ---- batching --------------------------------------------------------------------------


@linear_solve_p.def_axis_batch
@_by_name
def _solve_batch(axis: AxisData, args: Any, dims: Any, *, const_lengths: LinearSolve,
                 jaxprs: LinearSolve) -> Any:
    """Batches all leaves that any of the four functions computes from a batched leaf."""
    (consts, b), (const_dims, b_dims) = _split(args, const_lengths), _split(dims, const_lengths)
    n = len(b)

    marks = [d is not None for d in b_dims]
    while True:
        found = LinearSolve(*[jaxpr and batch_jaxpr(
            jaxpr, axis, [*own, *(0 if m else None for m in marks)],
            [*marks, *[False] * (len(jaxpr.outvars) - n)])
            for jaxpr, own in zip(jaxprs, const_dims, strict=True)])
        grown = [m or any(out_dims[i] is not None for _, out_dims in filter(None, found))
                 for i, m in enumerate(marks)]
        if grown == marks:
            break
        marks = grown
    placed = [to_dim(x, d, 0 if m else None, axis.size)
              for x, d, m in zip(b, b_dims, marks, strict=True)]
    return _bind_solve(consts, placed, LinearSolve(*[f and f[0] for f in found])), found.solve[1]


@linear_solve_p.def_pretty
def _solve_pretty(params: dict[str, Any]) -> dict[str, Any]:
    jaxprs = {name: jaxpr for name, jaxpr in LinearSolve(*params["jaxprs"])._asdict().items()
              if jaxpr is not None}
    return {"const_lengths": tuple(params["const_lengths"]), **jaxprs}

# ---- what users call -------------------------------------------------------------------


@boundary
def custom_linear_solve(matvec: Callable[[Any], Any], b: Any,
                        solve: Callable[[Callable[[Any], Any], Any], Any],
                        transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
                        symmetric: bool = False, has_aux: bool = False) -> Any:
    """Solves a linear equation by a given solver, with the derivatives of a solution.

    The solver is not differentiated, so it may iterate until it is done: derivatives are solutions
    of linear equations themselves.

    Args:
      matvec: the linear function, from a tree like `b` to one like `b`. It may close over arrays;
        the solution is differentiable in these.
      b: the right-hand side, a pytree of arrays.
      solve: from `matvec` (or the function of the transposed equation) and a right-hand side to
        `x` with `matvec(x) == b`, which is not checked.
      transpose_solve: the same for the transpose of `matvec`; needed for reverse mode.
      symmetric: whether `matvec` is its own transpose, so that `solve` serves for both.
      has_aux: whether the solvers give a pair of the solution and anything else.

    Returns:
      The solution, a tree like `b`; with `has_aux` a pair of it and the second result of `solve`,
      which does not have a derivative.

    Raises:
      TypeError: a function is not callable; leaves are not arrays; `matvec` or a solver gives
        other dtypes or another structure than `b` has. In reverse mode: `transpose_solve` is
        missing.
      ValueError: `matvec` or a solver gives other shapes than `b` has, or does not return a pair
        with `has_aux`.

    Example:
      >>> a = jnp.array([2.0, 4.0])
      >>> lax.custom_linear_solve(lambda x: a * x, jnp.ones(2), lambda _, b: b / a,
      ...                         symmetric=True)
      Array([0.5 , 0.25], dtype=float32)

    Source: the public interface of `jax.lax.custom_linear_solve`.
    """
    for f in (matvec, solve, *([] if transpose_solve is None else [transpose_solve])):
        check_callable("custom_linear_solve", f)
    check_arguments("custom_linear_solve", b, "b")
    leaves, tree = tree_flatten(b)
    rhs = Typed("b", tree, list(map(typeof, leaves)))
    if symmetric and transpose_solve is None:
        transpose_solve = solve
    of_matvec = _staged("matvec", matvec, matvec, rhs, False)
    of_solve = _staged("solve", derived(solved, solve, matvec), solve, rhs, has_aux)
    of_vecmat = of_transposed = None
    if transpose_solve is not None:
        of_vecmat = of_matvec if symmetric else _transposed(of_matvec, rhs)
        vecmat = matvec if symmetric else as_function(of_vecmat)
        of_transposed = _staged("transpose_solve", derived(solved, transpose_solve, vecmat),
                                transpose_solve, rhs, has_aux)
    bodies = (of_matvec, of_vecmat, of_solve, of_transposed)
    consts = LinearSolve(*([] if body is None else body.consts for body in bodies))
    jaxprs = LinearSolve(*(None if body is None else body.jaxpr for body in bodies))
    outs = _bind_solve(consts, leaves, jaxprs)
    return of_solve.out_tree.unflatten(outs)


def solved(solver: Callable[[], Any], f: Callable[[], Any]) -> Callable[[Any], Any]:
    """A function from a right-hand side to the solver's solution; to be `derived`."""
    return lambda x: solver()(f(), x)


def _staged(name: str, f: Callable[[Any], Any], users: Callable[..., Any], rhs: Typed,
            has_aux: bool) -> Body:
    """Stages a function of trees like `b`, and refuses results that are not like `b`."""
    in_tree = tree_structure(((rhs.tree.unflatten(rhs.avals),), {}))
    body = stage_body(f"custom_linear_solve: {name}", f, in_tree, rhs.avals,
                      None if f is users else users, again=True)
    check_like("custom_linear_solve", name, body, rhs, has_aux, LazyValueError)
    return body


def check_like(who: str, name: str, body: Body, wanted: Typed, has_aux: bool,
                of_shapes: type[LazyText] = LazyTypeError) -> None:
    """Refuses a staged function whose result, or first result of a pair, has other types.

    If shapes differ, the error is of class `of_shapes`.
    """
    where = body.jaxpr.debug_info.func_src_info
    tree, avals = body.out_tree, body.jaxpr.out_avals
    if has_aux:
        parts = tree.children()
        if tree.node_data() is None or tree.node_data()[0] not in (tuple, list) or len(parts) != 2:
            raise LazyValueError(lambda: (
                f"{who}: with has_aux=True {name} must return a pair of the solution and anything "
                f"else, but {where} returned a tree {body.out_tree}."))
        tree, avals = parts[0], avals[:parts[0].num_leaves]
    given = Typed(f"the result of {name}", tree, avals)
    if agree(wanted, given):
        return
    same_shapes = [a.shape for a in avals] == [a.shape for a in wanted.avals]
    raise (LazyTypeError if same_shapes else of_shapes)(lambda: (
        f"{who}: {name} must return a tree like {wanted.name}, but they differ:\n"
        f"{differences(wanted, given, wanted.name)}"
        f"{_cast_first(wanted)}\n{name} is {where}"))


def _cast_first(wanted: Typed) -> str:
    if all(dtypes.is_inexact(a.dtype) for a in wanted.avals):
        return ""
    return f"\nEquations are solved in floating or complex numbers: cast {wanted.name} first."


def _transposed(body: Body, rhs: Typed) -> Body:
    """The transpose of a linear function."""
    n = len(rhs.avals)
    jaxpr, _ = transpose_jaxpr(body.jaxpr, [False] * len(body.consts) + [True] * n, [True] * n,
                               True)
    return Body(jaxpr, body.consts, rhs.tree)


def as_function(body: Body | None) -> Callable[[Any], Any]:
    """A staged function of one tree as a function for users. A program without tracers always gets
    the same function."""
    assert body is not None
    if body.consts:
        return _as_function(body)
    return body.jaxpr.cached(("function", body.out_tree), lambda: _as_function(body))


def _as_function(body: Body) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        leaves, _ = tree_flatten(x)
        return body.out_tree.unflatten(
            eval_jaxpr(body.jaxpr, body.jaxpr.consts, *body.consts, *leaves))

    return f


__all__ = ["LinearSolve", "as_function", "check_like", "custom_linear_solve",
           "directional", "linear_solve_p", "solved"]
