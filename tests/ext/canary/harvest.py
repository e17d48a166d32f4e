"""A library that harvests named values of programs, and plants others in their places.

`sow(value, tag=..., name=...)` names a value. `harvest(f, tag=...)` is the function
`(plants, *args) -> (result, reaps)`: values that are planted take the places of sown ones, and all
that is sown under the tag comes out beside the result. `reap`, `plant` and `call_and_reap` do a
part of it. Programs are rewritten as jaxprs: bodies by the frames of their primitives, functions
with derivatives of their own by their rules.

A name is sown once with the mode "strict". With "append" its values are stacked, also those of the
iterations of a scan. With "clobber" the last one counts, also that of a while loop.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import mjax
import mjax.numpy as jnp
from mjax import api_util, tree_util
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives
from mjax_ext.interpreters import ad, batching, mlir
from mjax_ext.interpreters import partial_eval as pe
from mjax_ext.util import safe_map, safe_zip, split_list


class HarvestError(ValueError):
    """A name is sown or planted in a way that its mode does not allow."""


# ---- the primitive -----------------------------------------------------------------------


class Sowing(core.Effect):
    """Keeps sown values that nobody reads."""


SOWING = Sowing()
sow_p = core.Primitive("sow", multiple_results=True, params={
    "tag": Any, "name": str, "mode": Literal["strict", "append", "clobber"],
    "tree": tree_util.PyTreeDef})


@sow_p.def_impl
def _sow_impl(*values, **params):
    return list(values)


@sow_p.def_effectful_abstract_eval
def _sow_types(*avals, **params):
    return list(avals), set() if params["tag"] is None else {SOWING}


def _sow_lowering(ctx, *values, **params):
    return values


def _sow_jvp(primals, tangents, **params):
    return sow_p.bind(*primals, **params), list(tangents)


def _sow_transpose(cts, *values, **params):
    return cts


def _sow_batch(values, dims, **params):
    moved = [x if d is None else batching.moveaxis(x, d, 0)
             for x, d in safe_zip(values, dims)]
    return sow_p.bind(*moved, **params), [None if d is None else 0 for d in dims]


def _sow_again(saveable, unks_in, inst_in, eqn):
    """A value is sown once: what checkpoint computes again does not have the tag."""
    quiet = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, sow_p, {**eqn.params, "tag": None},
                               core.no_effects, eqn.source_info)
    residuals = [v for v, inst in safe_zip(eqn.invars, inst_in) if not inst]
    return eqn, quiet, unks_in, [True] * len(unks_in), residuals


mlir.register_lowering(sow_p, _sow_lowering)
ad.primitive_jvps[sow_p] = _sow_jvp
ad.primitive_transposes[sow_p] = _sow_transpose
batching.primitive_batchers[sow_p] = _sow_batch
pe.partial_eval_jaxpr_custom_rules[sow_p] = _sow_again


def sow(value, *, tag, name, mode="strict"):
    """Gives the value, a tree, and names it for `harvest`."""
    leaves, tree = tree_util.tree_flatten(value)
    return tree.unflatten(sow_p.bind(*leaves, tag=tag, name=name, mode=mode, tree=tree))


# ---- what a program sows -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Site:
    """The values of one name in a program; `rows` of them, with "append"."""

    name: str
    mode: str
    tree: Any
    avals: tuple[Any, ...]
    rows: int = 1

    def join(self, other):
        """The values of both, one after the other."""
        if dataclasses.replace(other, rows=self.rows) != self:
            raise HarvestError(f"{self.name!r} is sown in two ways: {self} and {other}.")
        if self.mode == "strict":
            raise HarvestError(f"{self.name!r} is sown twice; its mode is 'strict'.")
        return dataclasses.replace(self, rows=self.rows + other.rows)

    def repeated(self, times):
        """The values of a body that runs some times, or until it ends (None)."""
        if times == 1 or self.mode == "clobber":
            return self
        if self.mode == "strict":
            raise HarvestError(f"{self.name!r} is sown in a loop; its mode is 'strict'.")
        if times is None:
            raise HarvestError(f"{self.name!r} is sown in a loop of unknown length, whose values "
                               "cannot be appended; with the mode 'clobber' the last one counts.")
        return dataclasses.replace(self, rows=times * self.rows)

    def types(self):
        """Types of the leaves as they enter and leave programs."""
        if self.mode != "append":
            return self.avals
        return tuple(core.unmapped_aval(self.rows, 0, aval) for aval in self.avals)


def _joined(sites):
    found = {}
    for site in sites:
        found[site.name] = found[site.name].join(site) if site.name in found else site
    return found


def sites_of(jaxpr, tag):
    """The values that a program sows, by name."""
    return _joined(site for eqn in jaxpr.eqns for site in _sites_in(eqn, tag).values())


def _sites_in(eqn, tag):
    if eqn.primitive is sow_p:
        p = eqn.params
        if p["tag"] != tag:
            return {}
        avals = tuple(v.aval.strip_weak_type() for v in eqn.invars)
        return {p["name"]: Site(p["name"], p["mode"], p["tree"], avals)}
    frame = eqn.primitive.frame
    if frame is None:
        if any(sites_of(jaxpr, tag) for jaxpr in core.jaxprs_in_params(eqn.params)):
            raise HarvestError(f"{eqn.primitive} holds a program that sows, in an unknown way.")
        return {}
    held = frame.open(eqn.params)
    times, found = frame.times(held), _sites_of_run(frame, held, tag)
    if frame.apart(held) is not None:
        times = frame.pieces(held)
        for name in [name for name, site in found.items() if site.mode == "clobber"]:
            raise HarvestError(f"{name!r} is sown by several devices; none of them is the last.")
    return {name: site.repeated(times) for name, site in found.items()}


def _sites_of_run(frame, held, tag):
    bodies = [sites_of(jaxpr, tag) for jaxpr in held.jaxprs]
    return _joined(_alike(bodies) if frame.one_runs else (
        site for body in bodies for site in body.values()))


def _alike(branches):
    """The values that branches sow, of which one runs."""
    found = {name: site for branch in branches for name, site in branch.items()}
    for name, site in found.items():
        if site.mode != "clobber" and any(branch.get(name) != site for branch in branches):
            raise HarvestError(f"{name!r} is not sown alike in all branches; with the mode "
                               "'clobber' it may be sown in some.")
    return found.values()


# ---- rewriting ---------------------------------------------------------------------------

class Plants:
    """Values to plant: leaves by name, of which "append" takes one row after the other."""

    def __init__(self, leaves):
        self.leaves, self.rows = dict(leaves), {}

    def take(self, site):
        """The next values for a site, with its types as they enter programs."""
        leaves = self.leaves[site.name]
        if site.mode == "append":
            start = self.rows.get(site.name, 0)
            self.rows[site.name] = start + site.rows
            leaves = [leaf[start:start + site.rows] for leaf in leaves]
        return leaves


class Walk:
    """One walk over a program: what is planted, and what has been sown so far."""

    def __init__(self, tag, plants, reaps=()):
        self.tag, self.plants = tag, Plants(plants)
        self.reaps = dict(reaps)  # name -> leaves, stacked with "append"

    def run(self, jaxpr, consts, args):
        """The results of a program."""
        env = dict(safe_zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))

        def read(atom):
            return atom.val if isinstance(atom, core.Literal) else env[atom]

        for eqn in jaxpr.eqns:
            env.update(safe_zip(eqn.outvars, self.equation(eqn, safe_map(read, eqn.invars))))
        return safe_map(read, jaxpr.outvars)

    def equation(self, eqn, operands):
        sites = list(_sites_in(eqn, self.tag).values())
        if not sites:
            outs = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
            return outs if eqn.primitive.multiple_results else [outs]
        if eqn.primitive is sow_p:
            return self.sown(*sites, operands)
        if eqn.primitive in RULED:
            return RULED[eqn.primitive](self, eqn, operands, sites)
        return self.entered(eqn, operands, sites)

    def sown(self, site, values):
        if site.name in self.plants.leaves:
            values = self.plants.take(site)
        elif site.mode == "append":
            values = [jnp.expand_dims(x, 0) for x in values]
        self.reap(site, values)
        return [x[0] for x in values] if site.mode == "append" else values

    def reap(self, site, values):
        known = self.reaps.get(site.name)
        if site.mode == "append" and known is not None:
            values = [jnp.concatenate(pair) for pair in safe_zip(known, values)]
        self.reaps[site.name] = list(values)

    # -- programs within programs --

    def entered(self, eqn, operands, sites):
        """A primitive that holds programs: these take what is planted, and give what is sown.

        Values of each run enter and leave as the frame's `each`, or `apart` where devices run the
        body with pieces of the operands. Those of which the last run's
        count pass from run to run, and so do the plants for them.
        """
        frame = eqn.primitive.frame
        held = frame.again(frame.open(eqn.params))
        each = frame.apart(held) or frame.each
        slots = Slots(self.tag, _sites_of_run(frame, held, self.tag).values(), self.plants)

        def whole(site):
            return [frame.outer(held, aval, each).shape for aval in site.types()]

        given = [jnp.reshape(x, shape) for site in slots.each_planted for x, shape in safe_zip(
            self.plants.take(_named(sites, site)), whole(site))]
        given += slots.last_given(self)
        with frame.scope(held):
            new = held.transformed(
                slots.rewritten,
                [each] * slots.count(slots.each_planted) + [frame.threaded] * slots.passed,
                [each] * slots.count(slots.each) + [frame.threaded] * slots.passed)
        outs, found = split_list(frame.runner(new)([*operands, *given]), [len(eqn.outvars)])
        self.reap_all(sites, slots, found)
        return outs

    def reap_all(self, sites, slots, found):
        """Takes what programs have sown, as they give it."""
        for site in slots.each:
            whole = _named(sites, site)
            leaves, found = split_list(found, [len(site.avals)])
            self.reap(whole, [jnp.reshape(x, aval.shape)
                              for x, aval in safe_zip(leaves, whole.types())])
        found = found[slots.count(slots.last_planted):]
        for site in slots.last:
            self.reaps[site.name], found = split_list(found, [len(site.avals)])


def _named(sites, site):
    return next(s for s in sites if s.name == site.name)


class Slots:
    """The further inputs and results of a program that is harvested.

    Inputs are plants for each run, plants for the last, and the values sown last so far. Results
    are the values sown in each run, and the latter two again.
    """

    def __init__(self, tag, sites, plants):
        self.tag = tag
        self.each = [site for site in sites if site.mode != "clobber"]
        self.last = [site for site in sites if site.mode == "clobber"]
        self.each_planted, self.last_planted = (
            [site for site in group if site.name in plants.leaves]
            for group in (self.each, self.last))
        self.passed = self.count(self.last_planted) + self.count(self.last)

    def count(self, sites):
        return sum(len(site.avals) for site in sites)

    def last_given(self, walk):
        """The values that pass from run to run, at first."""
        planted = [x for site in self.last_planted for x in walk.plants.take(site)]
        return planted + [x for site in self.last for x in walk.reaps.get(
            site.name, safe_map(ad.zeros_like_aval, site.avals))]

    def walk(self, given):
        """A walk over the program, with the values of its further inputs."""
        parts, given = {}, list(given)
        for i, site in enumerate([*self.each_planted, *self.last_planted, *self.last]):
            parts[i, site.name], given = split_list(given, [len(site.avals)])
        n = len(self.each_planted) + len(self.last_planted)
        return Walk(self.tag, {name: x for (i, name), x in parts.items() if i < n},
                    {name: x for (i, name), x in parts.items() if i >= n})

    def results(self, walk):
        """The further results after a walk."""
        planted = [x for site in self.last_planted for x in walk.plants.leaves[site.name]]
        sown = lambda sites: [x for site in sites for x in walk.reaps[site.name]]
        return [*sown(self.each), *planted, *sown(self.last)]

    def rewritten(self, jaxpr):
        """The program with the further inputs and results."""
        def run(*args):
            inputs, given = split_list(args, [len(jaxpr.invars)])
            walk = self.walk(given)
            return [*walk.run(jaxpr, jaxpr.consts, inputs), *self.results(walk)]

        sites = [*self.each_planted, *self.last_planted, *self.last]
        avals = [*(v.aval for v in jaxpr.invars), *(a for site in sites for a in site.types())]
        return pe.trace_to_jaxpr_dynamic(
            lu.wrap_init(run, debug_info=jaxpr.debug_info.with_unknown_names()), avals)[0]


# ---- functions with rules ----------------------------------------------------------------


def _walked(walk, fun, args):
    """The results of a wrapped function of flat values, by a walk over its program."""
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(fun, safe_map(mjax.typeof, args))
    return walk.run(jaxpr, consts, args)


@lu.transformation2
def _as_arrays(f, *args):
    return [ad.instantiate_zeros(ad.replace_rule_output_symbolic_zeros(x)) for x in f(*args)]


class Ruled:
    """A function with rules whose program sows.

    The rules keep to its own results, and are walked over like the function, for what is planted.
    Derivatives of sown values are taken as if the function had no rules.
    """

    def __init__(self, walk, eqn, operands, sites):
        self.walk, self.eqn, self.operands, self.sites = walk, eqn, operands, sites
        self.slots = Slots(walk.tag, sites, walk.plants)
        self.params = dict(eqn.primitive.get_bind_params(eqn.params))
        self.fun, *self.rules = self.params.pop("subfuns")
        self.n, self.m = len(operands), len(eqn.outvars)

    def function(self, *args):
        walk = self.slots.walk(args[self.n:])
        return [*_walked(walk, self.fun, args[:self.n]), *self.slots.results(walk)]

    def sown(self, *args):
        return self.function(*args)[self.m:]

    def bind(self, *rules, **params):
        planted = [x for site in self.slots.each_planted for x in self.walk.plants.take(site)]
        named = lambda f: lu.wrap_init(f, debug_info=self.fun.debug_info.with_unknown_names())
        outs = self.eqn.primitive.bind(
            *self.operands, *planted, *self.slots.last_given(self.walk),
            subfuns=tuple(map(named, (self.function, *rules))),
            **{**self.params, "symbolic_zeros": False, **params})
        outs, found = split_list(outs, [self.m])
        self.walk.reap_all(self.sites, self.slots, found)
        return outs


def _custom_jvp(*application):
    call = Ruled(*application)

    def jvp(*args):
        primals, tangents = split_list(args, [len(args) // 2])
        outs = _walked(call.slots.walk(primals[call.n:]), _as_arrays(*call.rules),
                       [*primals[:call.n], *tangents[:call.n]])
        found, dots = mjax.jvp(call.sown, tuple(primals), tuple(tangents))
        return [*outs[:call.m], *found, *outs[call.m:], *dots]

    return call.bind(jvp)


def _custom_vjp(*application):
    call, trees = Ruled(*application), []

    def fwd(*pairs):
        values, marks = pairs[::2], pairs[1::2]
        rule = lu.wrap_init(lambda *xs: call.rules[0].call_wrapped(
            *(v for pair in safe_zip(xs, marks[:call.n]) for v in pair)),
            debug_info=call.rules[0].debug_info.with_unknown_names())
        own = _walked(call.slots.walk(values[call.n:]), rule, values[:call.n])
        residuals, outs = split_list(own, [len(own) - call.m])
        found, pull = mjax.vjp(call.sown, *values)
        more, tree = tree_util.tree_flatten(pull)
        forwarded = call.params["out_trees"]()[2]
        trees[:] = (tree_util.tree_structure([0] * (call.m + len(found))),
                    tree_util.tree_structure([0] * (len(forwarded) + len(more))),
                    [*forwarded, *[None] * len(more)]), tree
        return [*residuals, *more, *outs, *found]

    def bwd(*args):
        (outs, residuals, _), tree = trees
        own = residuals.num_leaves - tree.num_leaves
        residuals, more, cts, sown = split_list(args, [own, tree.num_leaves, call.m])
        pulled = tree.unflatten(more)(sown)
        given = _as_arrays(call.rules[1]).call_wrapped(*residuals, *cts)
        return [*map(_sum, given, pulled), *pulled[call.n:]]

    return call.bind(fwd, bwd, out_trees=lambda: trees[0])


def _sum(x, y):
    return x if mjax.dtypes.issubdtype(x.dtype, mjax.dtypes.float0) else ad.add_jaxvals(x, y)


RULED = {primitives.custom_jvp_call_p: _custom_jvp, primitives.custom_vjp_call_p: _custom_vjp}


# ---- functions of users ------------------------------------------------------------------


def harvest(f, *, tag):
    """The function `(plants, *args, **kwargs) -> (result, reaps)`.

    `plants` are values by name, for "append" stacked, and so are `reaps`.
    """

    @functools.wraps(f)
    def harvested(plants, *args, **kwargs):
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        info = api_util.debug_info("harvest", f, args, kwargs)
        flat, out_tree = api_util.flatten_fun(lu.wrap_init(f, debug_info=info), tree)
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat, safe_map(mjax.typeof, leaves))
        sites = sites_of(jaxpr, tag)
        walk = Walk(tag, {name: _planted(sites[name], value)
                          for name, value in plants.items() if name in sites})
        out = out_tree().unflatten(walk.run(jaxpr, consts, leaves))
        return out, {name: sites[name].tree.unflatten(x) for name, x in walk.reaps.items()}

    return harvested


def _planted(site, value):
    """The leaves to plant, which have the types of those that are sown."""
    leaves, tree = tree_util.tree_flatten(value)
    shapes = [aval.shape for aval in site.types()]
    if tree != site.tree or safe_map(jnp.shape, leaves) != shapes:
        raise HarvestError(f"the plant for {site.name!r} must be a tree {site.tree} of arrays of "
                           f"the shapes {shapes}; got {value!r}.")
    return [jnp.asarray(x, aval.dtype) for x, aval in safe_zip(leaves, site.avals)]


def call_and_reap(f, *, tag):
    """The function that gives its result and what it sows."""
    return functools.partial(harvest(f, tag=tag), {})


def reap(f, *, tag):
    """The function that gives what it sows."""
    return lambda *args, **kwargs: harvest(f, tag=tag)({}, *args, **kwargs)[1]


def plant(f, *, tag):
    """The function `(plants, *args, **kwargs) -> result`."""
    return lambda *args, **kwargs: harvest(f, tag=tag)(*args, **kwargs)[0]
