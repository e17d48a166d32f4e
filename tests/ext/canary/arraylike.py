"""A library for objects in the place of arrays, in final style.

`dispatching(f)` runs `f` on trees that hold `Value`s. Rules are registered for a primitive and the
classes of its operands; without one the values become arrays. Rules of functions with derivatives
of their own are kept: their operands are the leaves of the values.
"""

from __future__ import annotations

import functools

import mjax
from mjax import tree_util
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives

RULES = {}


class Value:
    """The base of objects that stand for an array; a subclass is a pytree of arrays."""

    def aval(self):
        """The type of the array that it stands for."""
        raise NotImplementedError

    def array(self):
        """That array."""
        raise NotImplementedError


def register(primitive, *classes):
    """Registers a rule for operands of these classes; `object` is any."""

    def decorate(rule):
        RULES.setdefault(primitive, []).append((classes, rule))
        return rule

    return decorate


def _is_value(x):
    return isinstance(x, Value)


class _Tracer(core.Tracer):
    __slots__ = ("value",)

    def __init__(self, trace, value):
        self._trace = trace
        self.value = value

    @property
    def aval(self):
        return self.value.aval() if _is_value(self.value) else mjax.typeof(self.value)

    def full_lower(self):
        return self if _is_value(self.value) else core.full_lower(self.value)


class _Trace(core.Trace):
    __slots__ = ("parent_trace", "tag")

    def __init__(self, parent_trace, tag):
        super().__init__()
        self.parent_trace = parent_trace
        self.tag = tag

    def value(self, x):
        return x.value if isinstance(x, _Tracer) and x._trace.tag is self.tag else x

    def process_primitive(self, primitive, tracers, params):
        values = [self.value(t) for t in tracers]
        with core.set_current_trace(self.parent_trace):
            out = _apply(primitive, values, params)
        if primitive.multiple_results:
            return [_Tracer(self, x) for x in out]
        return _Tracer(self, out)

    def process_call(self, call_primitive, f, tracers, params):
        leaves, tree = tree_util.tree_flatten([self.value(t) for t in tracers])
        f, out_tree = _of_leaves(f, self.tag, tree)
        outs = call_primitive.bind_with_trace(
            self.parent_trace, leaves, list(map(mjax.typeof, leaves)),
            {**params, "subfuns": (f,)})
        return self._tracers(out_tree(), outs)

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        leaves, tree = tree_util.tree_flatten([self.value(t) for t in tracers])
        fun, tree_of_outs = _of_leaves(fun, self.tag, tree)
        jvp, tree_of_rule = _jvp_of_leaves(jvp, self.tag, tree)
        outs = primitive.bind_with_trace(
            self.parent_trace, leaves, list(map(mjax.typeof, leaves)),
            {"subfuns": (fun, jvp), "symbolic_zeros": symbolic_zeros})
        return self._tracers(lu.merge_linear_aux(tree_of_outs, tree_of_rule)[1], outs)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees,
                                symbolic_zeros):
        leaves, tree = tree_util.tree_flatten([self.value(t) for t in tracers])
        fun, tree_of_outs = _of_leaves(fun, self.tag, tree)
        parts = _Reverse(self.tag, tree, out_trees)
        fwd, tree_of_rule = _fwd_of_leaves(fwd, parts)
        bwd = _bwd_of_leaves(bwd, parts)
        outs = primitive.bind_with_trace(
            self.parent_trace, leaves, list(map(mjax.typeof, leaves)),
            {"subfuns": (fun, fwd, bwd), "out_trees": parts.out_trees,
             "symbolic_zeros": symbolic_zeros})
        return self._tracers(lu.merge_linear_aux(tree_of_outs, tree_of_rule)[1], outs)

    def _tracers(self, tree, leaves):
        return [_Tracer(self, x) for x in tree_util.tree_unflatten(tree, leaves)]


def _apply(primitive, values, params):
    for classes, rule in RULES.get(primitive, ()):
        if len(classes) == len(values) and all(map(isinstance, values, classes)):
            return rule(*values, **params)
    if not any(map(_is_value, values)):
        return primitive.bind(*values, **params)
    inner = ENTERED.get(primitive)
    if inner is not None:
        return inner(values, params)
    return primitive.bind(*(v.array() if _is_value(v) else v for v in values), **params)


# ---- functions of values as functions of leaves ------------------------------------------


def _run(f, tag, values):
    """Runs a function of flat values and flags under a trace of its own; gives values."""
    with core.take_current_trace() as parent:
        trace = _Trace(parent, tag)
        with core.set_current_trace(trace):
            outs = f(*[v if isinstance(v, bool) else _Tracer(trace, v) for v in values])
        return [trace.value(out) for out in outs]


@lu.transformation_with_aux2
def _of_leaves(f, store, tag, tree, *leaves):
    outs, out_tree = tree_util.tree_flatten(_run(f, tag, tree.unflatten(leaves)))
    store.store(out_tree)
    return outs


@lu.transformation_with_aux2
def _jvp_of_leaves(f, store, tag, tree, *leaves):
    n = len(leaves) // 2
    outs = _run(f, tag, [*tree.unflatten(leaves[:n]), *tree.unflatten(leaves[n:])])
    primals, out_tree = tree_util.tree_flatten(outs[:len(outs) // 2])
    store.store(out_tree)
    return [*primals, *tree_util.tree_leaves(outs[len(outs) // 2:])]


class _Reverse:
    """The trees that both passes of a function need."""

    def __init__(self, tag, tree, inner_trees):
        self.tag, self.tree, self.inner_trees = tag, tree, inner_trees
        self.res_tree = self.out_tree = None

    def out_trees(self):
        return self.out_tree, self.res_tree, [None] * self.res_tree.num_leaves


@lu.transformation_with_aux2
def _fwd_of_leaves(f, store, parts, *pairs):
    leaves, marks = pairs[::2], parts.tree.unflatten(pairs[1::2])
    values = parts.tree.unflatten(leaves)
    marks = [any(tree_util.tree_leaves(m)) for m in marks]
    found = _run(f, parts.tag, [x for pair in zip(values, marks) for x in pair])
    _, res_tree, forwarded = parts.inner_trees()
    n = res_tree.num_leaves - sum(i is not None for i in forwarded)
    given = iter(found[:n])
    residuals = [next(given) if i is None else values[i] for i in forwarded]
    residuals, parts.res_tree = tree_util.tree_flatten(residuals)
    outs, parts.out_tree = tree_util.tree_flatten(found[n:])
    store.store(parts.out_tree)
    return [*residuals, *outs]


@lu.transformation2
def _bwd_of_leaves(f, parts, *args):
    n = parts.res_tree.num_leaves
    found = _run(f, parts.tag, [*parts.res_tree.unflatten(args[:n]),
                                *parts.out_tree.unflatten(args[n:])])
    plain = [ct.array() if _is_value(ct) and not _is_value(v) else ct
             for ct, v in zip(found, parts.tree.unflatten(range(parts.tree.num_leaves)))]
    return tree_util.tree_leaves(plain)


# ---- primitives that hold programs -------------------------------------------------------


def _jit(values, params):
    """A compiled call stays one, of the leaves."""
    leaves, tree = tree_util.tree_flatten(values)

    @mjax.jit
    def call(leaves):
        return dispatching(core.jaxpr_as_fun(params["jaxpr"]))(*tree.unflatten(leaves))

    return call(leaves)


def _cond(values, params):
    index, *operands = values
    index = index.array() if _is_value(index) else index
    return mjax.lax.switch(
        index, [dispatching(core.jaxpr_as_fun(branch)) for branch in params["branches"]], *operands)


ENTERED = {primitives.jit_p: _jit, primitives.cond_p: _cond}


def dispatching(f):
    """The function on trees that hold values."""

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        with core.take_current_trace() as parent:
            trace = _Trace(parent, core.TraceTag())
            inside = lambda x: _Tracer(trace, x) if _is_value(x) or core.valid_jaxtype(x) else x
            args, kwargs = tree_util.tree_map(inside, (args, kwargs), is_leaf=_is_value)
            with core.set_current_trace(trace):
                out = f(*args, **kwargs)
            return tree_util.tree_map(trace.value, out)

    return wrapper
