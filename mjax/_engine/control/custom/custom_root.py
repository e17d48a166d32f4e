"""Roots of functions, differentiated as roots and not step by step: `custom_root`.

A root is a function with a rule of its own. The derivative of f(p, x) = 0 solves the linear
equation f_x x' = -f_p p', where f is linearized at the root.

Source: the public interface of `jax.lax`; Christianson 1994 (implicit differentiation).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import split_list
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.custom.custom_linear_solve import (
    as_function,
    check_like,
    directional,
    solved,
)
from mjax._engine.control.custom.symbolic_zeros import SymbolicZero, from_rule
from mjax._engine.control.trace_body import Body, Typed, derived, stage_body
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import keystr, tree_flatten, tree_flatten_with_path, tree_structure
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import neg_p
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.forward import linearize


@boundary
def custom_root(f: Callable[[Any], Any], initial_guess: Any,
                solve: Callable[[Callable[[Any], Any], Any], Any],
                tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
                has_aux: bool = False) -> Any:
    """Finds a root of a function by a given solver, with the derivatives of a root.

    The solver is not differentiated. The root is differentiable in values that `f` closes over, but
    not in the guess.

    Args:
      f: from a tree like `initial_guess` to one like it.
      initial_guess: a pytree of arrays of floating or complex dtype.
      solve: from `f` and the guess to `x` with `f(x) == 0`, which is not checked.
      tangent_solve: from a linear function `g` and `y` to `x` with `g(x) == y`; for a scalar,
        `lambda g, y: y / g(1.0)`. Reverse mode transposes it, so it has to be linear in `y`;
        direct methods and `custom_linear_solve` are.
      has_aux: whether `solve` gives a pair of the root and anything else.

    Returns:
      The root, a tree like `initial_guess`; with `has_aux` a pair of it and the second result of
      `solve`, which does not have a derivative.

    Raises:
      TypeError: a function is not callable; leaves are not arrays of inexact dtype; a function
        gives other shapes, dtypes or another structure than the guess has.
      ValueError: `solve` does not give a pair with `has_aux`.

    Example:
      >>> def root(a):
      ...   return lax.custom_root(lambda x: x * x - a, 1.0, lambda f, x: jnp.sqrt(a),
      ...                          lambda g, y: y / g(1.0))
      >>> mjax.grad(root)(4.0)
      Array(0.25, dtype=float32, weak_type=True)

    Source: the public interface of `jax.lax.custom_root`.
    """
    for function in (f, solve, tangent_solve):
        check_callable("custom_root", function)
    check_arguments("custom_root", initial_guess, "initial_guess")
    leaves, tree = tree_flatten(initial_guess)
    guess = Typed("initial_guess", tree, list(map(typeof, leaves)))
    _refuse_integers(guess)
    of_f = _of_root("f", f, f, guess)
    of_solve = _of_root("solve", derived(solved, solve, f), solve, guess, has_aux=has_aux)
    residual = as_function(of_f)  # other objects must not hold it
    of_tangents = _of_root("tangent_solve", derived(_solved_linear, tangent_solve, residual),
                           tangent_solve, guess, 2)
    root = _root(*((body.jaxpr, len(body.consts)) for body in (of_f, of_solve, of_tangents)))
    outs = root(*of_f.consts, *of_solve.consts, *of_tangents.consts, *leaves)
    return of_solve.out_tree.unflatten(outs)


def _solved_linear(tangent_solve: Callable[[], Any], f: Callable[[], Any]
                   ) -> Callable[[Any, Any], Any]:
    return lambda x, y: tangent_solve()(linearize(f(), x)[1], y)


def _refuse_integers(guess: Typed) -> None:
    for path, aval in tree_flatten_with_path(guess.tree.unflatten(guess.avals))[0]:
        if not dtypes.is_inexact(aval.dtype):
            msg = (f"custom_root: initial_guess{keystr(path)} has dtype {aval.dtype}; a root is "
                   "found, and differentiated, in floating or complex numbers.")
            raise TypeError(msg)


def _of_root(name: str, f: Callable[..., Any], users: Callable[..., Any], guess: Typed,
             count: int = 1, has_aux: bool = False) -> Body:
    """Stages a function of `count` trees like the guess that returns one such tree."""
    one = guess.tree.unflatten(guess.avals)
    body = stage_body(f"custom_root: {name}", f, tree_structure(((one,) * count, {})),
                      [*guess.avals] * count, None if f is users else users, again=True)
    check_like("custom_root", name, body, guess, has_aux)
    return body


def _root(of_f: tuple[Jaxpr, int], of_solve: tuple[Jaxpr, int], of_tangents: tuple[Jaxpr, int]
          ) -> Callable[..., Any]:
    """The root as a function with a rule; its arguments are closed-over values and the guess.

    It takes jaxprs, and their numbers of closed-over values, because a rule must not hold tracers.
    """
    (f, n_f), (solve, n_solve), (tangent_solve, n_tangents) = of_f, of_solve, of_tangents
    sizes, count = [n_f, n_solve, n_tangents], len(f.outvars)

    def custom_root(*args: Any) -> list[Any]:
        _, consts, _, guess = split_list(args, sizes)
        return eval_jaxpr(solve, solve.consts, *consts, *guess)

    root = custom_jvp(custom_root)

    def jvp(primals: Any, tangents: Any) -> Any:
        outs = root(*primals)
        f_consts, _, consts, _ = split_list(primals, sizes)
        moved = directional(f, f_consts, list(map(from_rule, tangents[:n_f])), outs[:count])
        zeros = [SymbolicZero.from_primal_value(out) for out in outs]
        if all(type(t) is Zero for t in moved):
            return outs, zeros
        found = eval_jaxpr(tangent_solve, tangent_solve.consts, *consts, *outs[:count],
                           *map(instantiate, moved))
        return outs, [*map(neg_p.bind, found), *zeros[count:]]

    root.defjvp(jvp, symbolic_zeros=True)
    return root


__all__ = ["custom_root"]
