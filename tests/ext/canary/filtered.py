"""Primitives of trees: leaves that are not arrays are params, and zeros are `None`.

`FilteredPrimitive` is the layer: its rules take and give trees. Tangents, cotangents and batch axes
are trees of the same form with `None` for "zero", "not an array" and "not batched". On it are built
`noinline`, `nonbatchable`, `nondifferentiable` and `any_of_all`; `rewriting.py` removes them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import tree_util
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir

HERE = object()  # in the place of an array among the static leaves


def is_array(x):
    return isinstance(x, (mjax.Array, np.ndarray, np.generic, mjax.ShapeDtypeStruct))


def is_none(x):
    return x is None


def is_absent(x):
    """Whether an operand or its cotangent is not an array."""
    return x is None or ad.is_undefined_primal(x)


@dataclasses.dataclass(frozen=True)
class Form:
    """A tree without its arrays; hashable, so that it may be a param."""

    tree: object
    static: tuple

    def fill(self, arrays, elsewhere=HERE):
        """The tree with these arrays; `elsewhere` replaces the static leaves."""
        arrays = iter(arrays)
        return self.tree.unflatten([
            next(arrays) if x is HERE else x if elsewhere is HERE else elsewhere
            for x in self.static])

    def pick(self, tree):
        """From a tree of this form, or with None for leaves: what is where the arrays are."""
        leaves, found = tree_util.tree_flatten(tree, is_leaf=is_absent)
        if len(leaves) != len(self.static):
            raise TypeError(f"a rule gave a tree of the form {found}; it must be {self.tree}.")
        return [x for x, here in zip(leaves, self.static, strict=True) if here is HERE]


def partition(tree):
    """The arrays of a tree, and its form."""
    leaves, treedef = tree_util.tree_flatten(tree)
    static = tuple(HERE if is_array(x) else x for x in leaves)
    return [x for x in leaves if is_array(x)], Form(treedef, static)


class FilteredPrimitive:
    """A primitive whose operands and results are trees.

    Args:
      name: its name.
      abstract: the types of the results as a tree, for arguments with `ShapeDtypeStruct`s.
      impl: computes the results; it is traceable.
    """

    def __init__(self, name, abstract, impl):
        self.abstract = abstract
        self.primitive = p = core.Primitive(name, params={"form": Form}, multiple_results=True)

        def evaluated(*xs, form):
            return partition(impl(*form.fill(xs)))[0]

        p.def_impl(evaluated)
        p.def_abstract_eval(lambda *avals, form: self._types(avals, form)[0])
        mlir.register_lowering(p, mlir.lower_fun(evaluated, multiple_results=True))
        self.evaluated = evaluated

    def _types(self, avals, form):
        outs, form = partition(self.abstract(*form.fill([
            mjax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])))
        return [core.ShapedArray(x.shape, x.dtype, x.weak_type) for x in outs], form

    def __call__(self, *args):
        arrays, form = partition(args)
        out_form = self._types(list(map(mjax.typeof, arrays)), form)[1]
        return out_form.fill(self.primitive.bind(*arrays, form=form))

    def def_jvp(self, rule):
        """`rule(primals, tangents) -> out, tangent_out`."""

        def jvp(primals, tangents, *, form):
            given = [None if isinstance(t, ad.Zero) else t for t in tangents]
            out, tangent = rule(form.fill(primals), form.fill(given, elsewhere=None))
            outs, out_form = partition(out)
            return outs, [ad.Zero.from_primal_value(x) if t is None else t
                          for x, t in zip(outs, out_form.pick(tangent), strict=True)]

        ad.primitive_jvps[self.primitive] = jvp
        return rule

    def def_transpose(self, rule):
        """`rule(args, cotangents) -> cotangents of args`; unknown args are `UndefinedPrimal`."""

        def transpose(cts, *args, form):
            avals = [x.aval if ad.is_undefined_primal(x) else mjax.typeof(x) for x in args]
            out_form = self._types(avals, form)[1]
            given = [None if isinstance(ct, ad.Zero) else ct for ct in cts]
            found = rule(form.fill(args), out_form.fill(given, elsewhere=None))
            return form.pick(tuple(found))

        ad.primitive_transposes[self.primitive] = transpose
        return rule

    def def_batching(self, rule):
        """`rule(axis_size, args, axes) -> out, axes of out`."""

        def batch(axis, args, dims, *, form):
            given = [None if d is batching.not_mapped else d for d in dims]
            out, axes = rule(axis.size, form.fill(args), form.fill(given, elsewhere=None))
            outs, out_form = partition(out)
            return outs, out_form.pick(axes)

        batching.fancy_primitive_batchers[self.primitive] = batch
        return rule


# ---- functions that stay one operation ---------------------------------------------------------


def shape_of(f, *args):
    """The types of the results of a function of trees."""
    arrays, form = partition(args)
    forms = []

    def of_arrays(*xs):
        outs, out_form = partition(f(*form.fill(xs)))
        forms.append(out_form)
        return outs

    outs = mjax.eval_shape(of_arrays, *arrays)
    return forms[-1].fill(outs)


noinline_p = FilteredPrimitive("noinline", shape_of, lambda f, *args: f(*args))


def noinline(f):
    """The function, as one operation of programs, and of those of its derivatives and batches."""
    return lambda *args: noinline_p(f, *args)


@dataclasses.dataclass(frozen=True)
class _Part:
    """A function of some of the arrays of `f`'s arguments; it gives a list of arrays.

    Attributes:
      f: the function.
      form: that of its arguments.
      chosen: for each array whether it is one of them.
    """

    f: object
    form: Form
    chosen: tuple

    def restricted(self, others):
        """The function of the chosen arrays."""

        def call(*chosen):
            chosen, rest = iter(chosen), iter(others)
            return partition(self.f(*self.form.fill(
                [next(chosen if c else rest) for c in self.chosen])))[0]

        return call

    def split(self, arrays):
        """The chosen ones and the others."""
        return [[x for x, c in zip(arrays, self.chosen, strict=True) if c == which]
                for which in (True, False)]


class _Tangent(_Part):
    def __call__(self, chosen, others, tangents):
        return mjax.jvp(self.restricted(others), chosen, tangents)[1]


@dataclasses.dataclass(frozen=True)
class _Transposed(_Part):
    types: tuple  # those of the chosen ones
    used: tuple  # which results have cotangents

    def __call__(self, others, cts):
        f = self.restricted(others)
        some = lambda *xs: [y for y, u in zip(f(*xs), self.used, strict=True) if u]
        return list(mjax.linear_transpose(some, *self.types)(cts))


class _Mapped(_Part):
    def __call__(self, axes, chosen, others):
        return mjax.vmap(self.restricted(others), axes)(*chosen)


@noinline_p.def_jvp
def _(primals, tangents):
    f, *args = primals
    arrays, form = partition(args)
    given = form.pick(tangents[1:])
    part = _Tangent(f, form, tuple(t is not None for t in given))
    out = noinline_p(f, *args)
    found = noinline_p(part, *part.split(arrays), [t for t in given if t is not None])
    return out, partition(out)[1].fill(found, elsewhere=None)


@noinline_p.def_transpose
def _(args, cts):
    f, *args = args
    leaves, tree = tree_util.tree_flatten(args, is_leaf=ad.is_undefined_primal)
    unknown = [x for x in leaves if ad.is_undefined_primal(x)]
    others = [x for x in leaves if is_array(x)]
    form = Form(tree, tuple(
        HERE if ad.is_undefined_primal(x) or is_array(x) else x for x in leaves))
    cts = tree_util.tree_leaves(cts, is_leaf=is_none)
    part = _Transposed(
        f, form, tuple(map(ad.is_undefined_primal, form.pick(args))),
        tuple(mjax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in unknown),
        tuple(ct is not None for ct in cts))
    found = iter(noinline_p(part, others, [ct for ct in cts if ct is not None]))
    return None, *form.fill([next(found) if c else None for c in part.chosen], elsewhere=None)


@noinline_p.def_batching
def _(size, args, axes):
    f, *args = args
    arrays, form = partition(args)
    dims = form.pick(axes[1:])
    part = _Mapped(f, form, tuple(d is not None for d in dims))
    found = noinline_p(part, tuple(d for d in dims if d is not None), *part.split(arrays))
    _, out_form = partition(shape_of(f, *form.fill([
        x if d is None else jnp.take(x, 0, d) for x, d in zip(arrays, dims, strict=True)])))
    return out_form.fill(found), out_form.fill([0] * len(found), elsewhere=None)


# ---- values with limits ------------------------------------------------------------------------

_same = lambda tree, name: tree
nonbatchable_p = FilteredPrimitive("nonbatchable", _same, _same)
nondifferentiable_p = FilteredPrimitive("nondifferentiable", _same, _same)


def nonbatchable(tree, name="a value"):
    """The tree, which is an error under vmap."""
    return nonbatchable_p(tree, name)


def nondifferentiable(tree, name="a value"):
    """The tree, which is an error where it has tangents."""
    return nondifferentiable_p(tree, name)


@nonbatchable_p.def_jvp
def _(primals, tangents):
    return nonbatchable_p(*primals), tangents[0]


@nonbatchable_p.def_batching
def _(size, args, axes):
    raise ValueError(f"{args[1]} may not be batched.")


@nondifferentiable_p.def_jvp
def _(primals, tangents):
    if tree_util.tree_leaves(tangents[0]):
        raise ValueError(f"{primals[1]} may not be differentiated.")
    return nondifferentiable_p(*primals), tangents[0]


@nondifferentiable_p.def_batching
def _(size, args, axes):
    return nondifferentiable_p(*args), axes[0]


any_of_all_p = FilteredPrimitive(
    "any_of_all", lambda x: mjax.ShapeDtypeStruct((), bool), jnp.any)


@any_of_all_p.def_batching
def _(size, args, axes):
    """Whether any element of the batch is true: the result is not batched."""
    return any_of_all_p(*args), None


# ---- loops that can be differentiated backwards ------------------------------------------------


def bounded_while_loop(cond, body, init, max_steps, base=4):
    """A while loop of at most `max_steps` steps, which reverse mode goes through.

    It is a tree of scans of `base` steps each; a branch that has nothing to do is left out, for a
    batch if no element has something to do. Only the state at the start of a branch is saved.
    """

    def going(state):
        count, value = state
        return (count < max_steps) & cond(value)

    def step(state):
        go = going(state)
        count, value = state
        new = count + 1, body(value)
        return tree_util.tree_map(lambda a, b: jnp.where(go, a, b), new, state)

    def widened(inner):
        def guarded(state, _):
            return mjax.lax.cond(any_of_all_p(going(state)), mjax.checkpoint(inner),
                                 lambda state: state, state), None

        return lambda state: mjax.lax.scan(guarded, state, None, length=base)[0]

    run, steps = step, 1
    while steps < max_steps:
        run, steps = widened(run), steps * base
    return run((jnp.int32(0), init))[1]
