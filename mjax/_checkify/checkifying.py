"""`checkify`: from functions with checks to functions that return the first error.

The error of a program is a value that its equations pass on: a code, and for each slot the values
of a message. Bodies of loops, branches and calls take and return it, with the slots that their own
checks need; bodies without checks are unchanged. A body that runs on each device starts without an
error and returns one per device; together these are the error of one more check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._checkify.check import Error, check_p, init_error
from mjax._checkify.errors import (
    KINDS,
    BatchedError,
    DivisionByZeroError,
    FailedCheckError,
    NaNError,
    NaNMadeError,
    OOBError,
    Site,
    Slot,
    Slots,
    code_of,
)
from mjax._checkify.rules import checks_of
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P, R
from mjax._engine.base.thread import thread
from mjax._engine.control.custom.custom_linear_solve import linear_solve_p
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.source import here, source_info_of
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import bitwise_and, bitwise_or, eq, ne, rem
from mjax._engine.primitives.reductions import reduce_or
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import expand_dims, zeros_of
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.flat import FlatFunction, check_callable, debug_info_of, wraps
from mjax._engine.tracing.interpreter import Interpreter, running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, stage, trace_to_jaxpr

Errors = frozenset[Any]

#: Kinds of errors, for `checkify(errors=...)`: those of `check` alone; of one kind; of several.
user_checks: Errors = frozenset({FailedCheckError})
nan_checks: Errors = frozenset({NaNError})
index_checks: Errors = frozenset({OOBError})
div_checks: Errors = frozenset({DivisionByZeroError})
float_checks: Errors = nan_checks | div_checks
automatic_checks: Errors = float_checks | index_checks
all_checks: Errors = automatic_checks | user_checks

_CODE = ShapedArray((), np.dtype(np.int32))
_ZERO = np.int32(0)


# ---- what can fail ---------------------------------------------------------------------


def _slots_of(jaxpr: Jaxpr, errors: Errors) -> Slots | None:
    """The slots that a program's checks need; None if it has none."""
    found: tuple[Slots | None] = jaxpr.cached(("checkify slots", errors), lambda: (
        _joined(_slots_of_eqn(eqn.primitive, eqn.params, [v.aval for v in eqn.outvars], errors)
                for eqn in jaxpr.eqns),))
    return found[0]


def _slots_of_eqn(primitive: Primitive, params: dict[str, Any], out_avals: Sequence[Any],
                  errors: Errors) -> Slots | None:
    """The slots that an equation's checks need."""
    if primitive is check_p:
        return params["slots"]  # type: ignore[no-any-return]
    if primitive.frame is None:
        checks = checks_of(primitive, errors, out_avals)
        return tuple(dict.fromkeys(c.slot for c in checks if c.slot)) if checks else None
    held = primitive.frame.open(params)
    slots = _joined(_slots_of(jaxpr, errors) for jaxpr in held.jaxprs)
    return slots if slots is None or primitive.frame.apart(held) is None else (
        _of_devices(primitive.frame, held, slots),)


def _joined(found: Any) -> Slots | None:
    some = [slots for slots in found if slots is not None]
    return tuple(dict.fromkeys(slot for slots in some for slot in slots)) if some else None


def _of_devices(frame: Frame, held: Held, slots: Slots) -> Slot:
    """The slot of errors per device."""
    how = frame.apart(held)
    return tuple(frame.outer(held, a.update(shape=(1, *a.shape)), how) for a in _avals(slots))


def _avals(slots: Slots) -> list[ShapedArray]:
    """The types of an error's values."""
    return [_CODE, *(a for slot in slots for a in slot)]


def _by_slot(slots: Slots, values: Sequence[Any]) -> dict[Slot, list[Any]]:
    """The values that follow the code of an error."""
    rest = iter(values)
    return {slot: [next(rest) for _ in slot] for slot in slots}


# ---- the transformation ----------------------------------------------------------------


class CheckInterpreter(Interpreter):
    """Evaluates a program and keeps the first error.

    Args:
      parent: what evaluates it.
      errors: which kinds are looked for.
      slots: those of the program.
      state: the error before it: the code, then the values.
    """

    __slots__ = ("code", "errors", "slots", "values")
    name = "checkify"

    def __init__(self, parent: Interpreter, errors: Errors, slots: Slots, state: Sequence[Any]):
        super().__init__(parent)
        self.errors, self.slots, self.code = errors, slots, state[0]
        self.values = _by_slot(slots, state[1:])

    def state(self, slots: Slots | None = None) -> list[Any]:
        """The error, with the values of some slots, or all."""
        return [self.code, *(value for slot in (self.slots if slots is None else slots)
                             for value in self.values[slot])]

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if primitive is linear_solve_p and NaNMadeError in self.errors:
            return primitive.impl(*args, **params)  # type: ignore[misc]
        thread.interpreter = self.parent
        try:
            if primitive is check_p:
                return self._take(args, **params)
            if primitive.frame is not None:
                held = primitive.frame.open(params)
                slots = _joined(_slots_of(jaxpr, self.errors) for jaxpr in held.jaxprs)
                if slots is not None:
                    return self._enter(primitive.frame, held, args, params, slots)
            outs = self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            self._look(primitive, args, outs if primitive.multiple_results else [outs], params)
            return outs
        finally:
            thread.interpreter = self

    def _look(self, primitive: Primitive, args: Sequence[Any], outs: Sequence[Any],
              params: dict[str, Any]) -> None:
        """Runs the checks of an application."""
        for check in checks_of(primitive, self.errors, list(map(typeof, outs))):
            pred, shown = check.find(args, outs, params)
            site = Site(check.kind, source_info_of(here()).traceback, check.slot,
                        check.details(primitive, args))
            self._fail(pred, code_of(site), {check.slot: shown} if check.slot else {})

    def _fail(self, pred: Any, code: Any, shown: dict[Slot, Any]) -> None:
        """Records an error if the predicate holds and none came before."""
        first = bitwise_and(eq(self.code, _ZERO), pred)
        self.code = select_n(first, self.code, code)
        for slot, values in shown.items():
            self.values[slot] = [
                select_n(first, old, stop_gradient_p.bind(new))
                for old, new in zip(self.values[slot], values, strict=True)]

    def _take(self, args: Sequence[Any], slots: Slots, debug: bool) -> list[Any]:
        """Turns a check into a value, if its kind is enabled."""
        code, *values = args
        pred = ne(code, _ZERO)
        wanted = [kind in self.errors or kind is BatchedError for kind in KINDS]
        if not all(wanted):
            kind, known = rem(code, np.int32(len(KINDS))), np.bool_(False)
            for number in np.flatnonzero(wanted):
                known = bitwise_or(known, eq(kind, np.int32(number)))
            pred = bitwise_and(pred, known)
        self._fail(pred, code, _by_slot(slots, values))
        return []

    def _enter(self, frame: Frame, held: Held, args: Sequence[Any], params: dict[str, Any],
               slots: Slots) -> list[Any]:
        """Applies a primitive whose program can fail."""
        if frame.runs_on(held):
            msg = ("checkify of vmap of while_loop, where the elements end at different times: the "
                   "checks would see elements that have ended. Apply vmap last: "
                   "vmap(checkify(f)) has an error for each element.")
            raise ValueError(msg)
        n, errors = len(_avals(slots)), self.errors
        if frame.apart(held) is None:
            run = frame.threading(params, lambda body: _threaded(body, errors, slots), n)
            outs = run([*args, *self.state(slots)])
            self.code, *values = outs[-n:]
            self.values.update(_by_slot(slots, values))
        else:
            outs = frame.threading(params, lambda body: _alone(body, errors, slots), n)(args)
            slot, codes = _of_devices(frame, held, slots), outs[-n]
            site = Site(BatchedError, source_info_of(here()).traceback, slot, (slots,))
            failed = reduce_or(ne(codes, zeros_of(slot[0])), (0,))
            self._fail(failed, code_of(site), {slot: outs[-n:]})
        return outs[:-n]


def _threaded(jaxpr: Jaxpr, errors: Errors, slots: Slots) -> Jaxpr:
    """The program with an error as an additional last input and result."""

    def run(*args: Any) -> list[Any]:
        n = len(args) - len(_avals(slots))
        return _run(jaxpr, jaxpr.consts, args[:n], errors, slots, args[n:])

    return _made("threaded", jaxpr, errors, slots, run, [*jaxpr.in_avals, *_avals(slots)])


def _alone(jaxpr: Jaxpr, errors: Errors, slots: Slots) -> Jaxpr:
    """The program that starts without an error and returns one, with a new leading axis."""

    def run(*args: Any) -> list[Any]:
        outs = _run(jaxpr, jaxpr.consts, args, errors, slots, _no_error(slots))
        n = len(jaxpr.outvars)
        return [*outs[:n], *(expand_dims(x, (0,)) for x in outs[n:])]

    return _made("alone", jaxpr, errors, slots, run, jaxpr.in_avals)


def _made(name: str, jaxpr: Jaxpr, errors: Errors, slots: Slots, run: Callable[..., Any],
          avals: Sequence[Any]) -> Jaxpr:
    key = (f"checkify {name}", errors, slots, thread.settings, thread.axis_env)
    made: Jaxpr = jaxpr.cached(key, lambda: trace_to_jaxpr(
        run, avals, jaxpr.debug_info._replace(arg_names=None)))
    return made


def _no_error(slots: Slots) -> list[Any]:
    return [_ZERO, *(zeros_of(a) for slot in slots for a in slot)]


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], errors: Errors, slots: Slots,
         state: Sequence[Any]) -> list[Any]:
    """The results, followed by the error."""
    interp = CheckInterpreter(thread.interpreter, errors, slots, state)
    with running(interp):
        outs = eval_jaxpr(jaxpr, consts, *args)
    return [*outs, *interp.state()]


# ---- what users call -------------------------------------------------------------------


@boundary
def checkify(f: Callable[P, R], errors: Errors = user_checks
             ) -> Function[P, tuple[Error, R]]:
    """A function that returns, beside its output, the first error that its checks found.

    It can be compiled, batched and differentiated, as other functions.

    Args:
      f: a function of pytrees, which is traced.
      errors: the enabled checks: `user_checks`, those by `check`; `nan_checks`, of the results
        of operations; `div_checks`, of divisors; `index_checks`, of indices; or their union.

    Returns:
      A function of the same arguments that returns a pair: an `Error`, and the output of `f`.

    Raises:
      TypeError: `f` is not callable; `errors` is not a set.

    Example:
      >>> from mjax.experimental import checkify
      >>> def f(x, i):
      ...   return jnp.log(x[i])
      >>> checked = mjax.jit(checkify.checkify(f, errors=checkify.automatic_checks))
      >>> err, out = checked(jnp.array([1.0, -1.0]), 1)
      >>> err.get()
      'nan generated by primitive: log.'

    Source: the public interface of `jax.experimental.checkify`.
    """
    check_callable("checkify", f)
    if not isinstance(errors, (frozenset, set)):
        msg = (f"checkify: errors must be a set of checks, such as checkify.user_checks or "
               f"checkify.float_checks | checkify.index_checks, got {errors!r}.")
        raise TypeError(msg)
    errors = frozenset(errors)

    @wraps(f)
    @boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        flat = FlatFunction(lambda: f(*args, **kwargs), tree_flatten(((), {}))[1])
        jaxpr = stage(flat, (), debug_info_of("checkify", f, (), {}))
        slots = _slots_of(jaxpr, errors)
        if slots is None:
            return init_error, flat.out_tree.unflatten(eval_jaxpr(jaxpr, jaxpr.consts))
        outs = _run(jaxpr, jaxpr.consts, (), errors, slots, _no_error(slots))
        n = len(jaxpr.outvars)
        return Error(outs[n], outs[n + 1:], slots), flat.out_tree.unflatten(outs[:n])

    return checked  # type: ignore[no-any-return]


__all__ = ["Errors", "all_checks", "automatic_checks", "checkify", "div_checks", "float_checks",
           "index_checks", "nan_checks", "user_checks"]
