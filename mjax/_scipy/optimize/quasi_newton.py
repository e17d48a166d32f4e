"""Quasi-Newton methods: BFGS, and limited-memory L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mjax._engine.control.loops.looping import fori_loop, while_loop
from mjax._engine.ir.types import typeof
from mjax._numpy.arithmetic import minimum, reciprocal
from mjax._numpy.comparison import isfinite
from mjax._numpy.core import cast, shape_of
from mjax._numpy.creation import zeros
from mjax._numpy.matrices import eye
from mjax._numpy.norms import norm
from mjax._numpy.products import dot, outer
from mjax._numpy.reordering import roll
from mjax._numpy.rounding import conj
from mjax._numpy.selecting import where
from mjax._scipy.optimize.line_search import inner, line_search

Objective = Callable[[Any], tuple[Any, Any]]


class _State(NamedTuple):
    """The state of the search: point, value, gradient, curvature estimate, and counts."""

    x: Any
    value: Any
    gradient: Any
    memory: Any
    converged: Any
    failed: Any
    status: Any
    steps: Any
    count: Any

    def result(self) -> dict[str, Any]:
        """The fields of `OptimizeResults` by name."""
        return {"x": self.x, "success": self.converged & ~self.failed, "status": self.status,
                "fun": self.value, "jac": self.gradient, "nfev": self.count, "njev": self.count,
                "nit": self.steps}


def bfgs(value_and_grad: Objective, x0: Any, options: Any, *, norm_order: Any) -> dict[str, Any]:
    """Minimizes with a dense approximation of the inverse Hessian.

    Source: J. Nocedal and S. Wright, "Numerical optimization", 1999, algorithm 6.1.
    """
    maxiter, gtol, searches = options["maxiter"], options["gtol"], options["line_search_maxiter"]
    n, dtype = shape_of(x0)[0], typeof(x0).dtype
    value, gradient = value_and_grad(x0)
    converged = norm(gradient, norm_order) < gtol
    state = _State(x0, value, gradient, (eye(n, dtype=dtype), value + norm(gradient) / 2),
                   converged, converged & False, 0, 0, 1)

    def goes_on(s: _State) -> Any:
        return ~s.converged & ~s.failed & (s.steps < maxiter)

    def advanced(s: _State) -> _State:
        inverse, before = s.memory
        direction = -dot(inverse, s.gradient, precision="highest")
        found = line_search(value_and_grad, s.x, direction, s.value, s.gradient, before, searches)
        step = found.step * direction
        return _State(
            s.x + step, found.value, found.gradient,
            (_updated(inverse, step, found.gradient - s.gradient), s.value),
            norm(found.gradient, norm_order) < gtol, found.failed, found.status, s.steps + 1,
            s.count + found.count)

    end = while_loop(goes_on, advanced, state)
    status = where(end.converged, 0, where(
        end.steps == maxiter, 1, where(end.failed, 2 + end.status, -1)))
    return {**end._replace(status=status).result(), "hess_inv": end.memory[0]}


def _updated(inverse: Any, step: Any, change: Any) -> Any:
    """The BFGS update: the inverse Hessian now maps the gradient's change to the step."""
    rho = reciprocal(dot(change, step, precision="highest"))
    left = eye(shape_of(step)[0], dtype=typeof(rho).dtype) - rho * outer(step, change)
    product = lambda a, b: dot(a, b, precision="highest")
    new = product(product(left, inverse), left.T) + rho * outer(step, step)
    return where(isfinite(rho), new, inverse)


class _Memory(NamedTuple):
    """The last steps, the changes of the gradient, their inverse products, and the curvature."""

    steps: Any
    changes: Any
    inverses: Any
    scale: Any


def lbfgs(value_and_grad: Objective, x0: Any, options: Any, *, norm_order: Any, maxcor: int
          ) -> dict[str, Any]:
    """Minimizes with the last steps and gradient changes; accepts complex vectors, too.

    Source: J. Nocedal and S. Wright, "Numerical optimization", 1999, algorithm 7.5; L. Sorber, M.
    Van Barel and L. De Lathauwer, "Unconstrained optimization of real functions in complex
    variables", 2012.
    """
    n, dtype = shape_of(x0)[0], typeof(x0).dtype
    value, gradient = value_and_grad(x0)
    no = norm(gradient) < 0
    state = _State(x0, value, gradient, _Memory(
        zeros((maxcor, n), dtype), zeros((maxcor, n), dtype), zeros(maxcor, dtype),
        zeros((), dtype) + 1), no, no, 0, 0, 1)

    def advanced(s: _State) -> _State:
        direction = _direction(s.memory, s.gradient, s.steps)
        found = line_search(value_and_grad, s.x, direction, s.value, s.gradient, None,
                            options["maxls"])
        step = cast(found.step, dtype) * direction
        change = found.gradient - s.gradient
        product = inner(change, step)
        # The first condition that holds gives the status.
        status = 0
        for reason, number in (
                (s.value - found.value < options["ftol"], 4), (s.count >= options["maxgrad"], 3),
                (s.count >= options["maxfun"], 2), (s.steps >= options["maxiter"], 1),
                (found.failed, 5)):
            status = where(reason, number, status)
        converged = norm(found.gradient, norm_order) < options["gtol"]
        remembered = lambda old, new: roll(old, -1, 0).at[-1].set(cast(new, dtype))
        memory = _Memory(
            remembered(s.memory.steps, step), remembered(s.memory.changes, change),
            remembered(s.memory.inverses, reciprocal(product)),
            cast(product / inner(conj(change), change), dtype))
        return _State(
            s.x + step, cast(found.value, typeof(value).dtype),
            cast(found.gradient, typeof(gradient).dtype), memory, converged,
            (status > 0) & ~converged, where(converged, 0, status), s.steps + 1,
            s.count + found.count)

    end = while_loop(lambda s: ~s.converged & ~s.failed, advanced, state)
    return {**end.result(), "hess_inv": None}


def _direction(memory: _Memory, gradient: Any, count: Any) -> Any:
    """The descent direction: minus the product of the history's inverse Hessian and gradient."""
    size, dtype = shape_of(memory.inverses)[0], typeof(memory.inverses).dtype
    known = minimum(count, size)

    def backwards(j: Any, carry: Any) -> Any:
        i = size - 1 - j
        q, weights = carry
        weight = memory.inverses[i] * cast(inner(conj(memory.steps[i]), q), dtype)
        return q - weight * conj(memory.changes[i]), weights.at[i].set(weight)

    q, weights = fori_loop(0, known, backwards, (-conj(gradient), zeros(size, dtype)))

    def forwards(j: Any, q: Any) -> Any:
        i = size - known + j
        weight = memory.inverses[i] * cast(inner(memory.changes[i], q), dtype)
        return q + (weights[i] - weight) * memory.steps[i]

    return fori_loop(0, known, forwards, memory.scale * q)


__all__ = ["bfgs", "lbfgs"]
