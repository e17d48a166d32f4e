"""A library of functions with parameters and state, which sets and takes the current trace.

`transform(f)` gives pure functions `init` and `apply`. Inside of `f`, `parameter` reads or makes a
parameter, `Variable`s hold values that change, and `hoisted` computes a value once per call,
however deep inside of transformations it is asked for. `operations(f)` lists what a function
does, by scopes.
"""

from __future__ import annotations

import contextlib
import dataclasses

import mjax
from mjax_ext import core
from mjax_ext import linear_util as lu

STACK = []


class StaleTraceError(Exception):
    """A variable was set in a transformation that it was not made in."""


@dataclasses.dataclass
class Frame:
    """One call of a function under `init` or `apply`."""

    parameters: dict
    making: bool
    trace: object
    hoisted: dict = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def _open(parameters, making):
    with core.take_current_trace() as trace:
        frame = Frame(dict(parameters), making, trace)
        STACK.append(frame)
        try:
            with core.set_current_trace(trace):
                yield frame
        finally:
            STACK.pop()


@dataclasses.dataclass(frozen=True)
class Transformed:
    """A pair of pure functions."""

    init: object
    apply: object


def transform(f):
    """The pure functions of a function that uses `parameter`."""

    def init(*args):
        with _open({}, True) as frame:
            f(*args)
            return frame.parameters

    def apply(parameters, *args):
        with _open(parameters, False):
            return f(*args)

    return Transformed(init, apply)


def parameter(name, make):
    """A parameter; `init` makes it, once and on devices, whatever is being traced."""
    frame = STACK[-1]
    if name not in frame.parameters:
        if not frame.making:
            raise KeyError(name)
        with core.take_current_trace():
            frame.parameters[name] = make()
    return frame.parameters[name]


def hoisted(name, compute):
    """A value computed in the trace of `apply`, outside of the transformations inside of it."""
    frame = STACK[-1]
    if name not in frame.hoisted:
        with core.set_current_trace(frame.trace):
            frame.hoisted[name] = compute()
    return frame.hoisted[name]


class Variable:
    """A value that the trace that made it may change."""

    def __init__(self, value):
        self.value, self._state = value, core.get_opaque_trace_state(convention="stateful")

    def set(self, value):
        if core.get_opaque_trace_state(convention="stateful") != self._state:
            raise StaleTraceError(f"a variable of type {mjax.typeof(self.value)} is set in another "
                                  "transformation")
        self.value = value


# ---- what a function does ----------------------------------------------------------------


class _Tracer(core.Tracer):
    __slots__ = ("value",)

    def __init__(self, trace, value):
        super().__init__(trace, mjax.typeof(value))
        self.value = value


class _Trace(core.Trace):
    def __init__(self, parent, found):
        super().__init__()
        self.parent_trace, self.found = parent, found

    def value(self, x):
        return x.value if isinstance(x, _Tracer) and x._trace is self else x

    def process_primitive(self, primitive, tracers, params):
        self.found.append(primitive.name)
        with core.set_current_trace(self.parent_trace):
            out = primitive.bind(*map(self.value, tracers), **params)
        return [_Tracer(self, x) for x in out] if primitive.multiple_results else (
            _Tracer(self, out))

    def process_call(self, call_primitive, f, tracers, params):
        inner = []
        self.found.append((params.get("name", call_primitive.name), inner))
        outs = [self.value(x) for x in _run(f.call_wrapped, inner, map(self.value, tracers),
                                            self.parent_trace)]
        return [_Tracer(self, x) for x in outs]

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees,
                                symbolic_zeros):
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)


def _run(f, found, values, parent):
    trace = _Trace(parent, found)
    with core.set_current_trace(trace):
        outs = f(*[_Tracer(trace, x) for x in values])
    return [trace.value(x) for x in outs]


def operations(f):
    """A function from arguments to the names of the operations of `f`; calls are pairs of a name
    and operations."""

    def listed(*args):
        found = []
        with core.take_current_trace() as parent:
            _run(lambda *xs: [f(*xs)], found, args, parent)
        return found

    return listed


scope_p = core.CallPrimitive("scope")
scope_p.def_impl(core.call_impl)


def scope(name, f):
    """A function whose operations are listed under a name."""

    def named(*args):
        info = mjax.api_util.debug_info("scope", f, args, {})
        (out,) = scope_p.bind(*args, name=name, subfuns=(
            lu.wrap_init(lambda *xs: [f(*xs)], debug_info=info),))
        return out

    return named
