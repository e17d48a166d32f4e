"""Random models as programs: a primitive of draws, and an interpreter of jaxprs.

`draw(name, dist)` is one equation, whose param is the class of the distribution. `simulate(model)`
draws, `assess(model)` gives the log density of given values, and `importance(model)` does both: it
draws what is not given. They go through `jit`, `scan`, `cond` and `vmap`. A model that nobody
interprets is not compiled.
"""

from __future__ import annotations

import mjax
import mjax.numpy as jnp
from mjax import api_util, lax, random, tree_util
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives
from mjax_ext.interpreters import batching
from mjax_ext.interpreters import partial_eval as pe
from mjax_ext.util import safe_map, safe_zip, split_list


class ModelError(Exception):
    """A model that cannot be interpreted with what is given."""


class Drawing(core.Effect):
    """A draw happens once; it is not a value until somebody interprets the model."""

    policy = core.EffectPolicy(lowerable=False, differentiable=False, remat=False)


DRAWING = Drawing()
draw_p = core.Primitive("draw", params={"name": str, "family": type})


@draw_p.def_effectful_abstract_eval
def _draw_type(*avals, name, family):
    sample = lambda *leaves: [family(*leaves).sample(random.key(0))]
    (aval,) = pe.abstract_eval_fun(sample, *avals)
    return aval, {DRAWING}


def _draw_batch(operands, dims, *, name, family):
    rank = max(jnp.ndim(x) - (d is not None) for x, d in safe_zip(operands, dims))
    size = next(jnp.shape(x)[d] for x, d in safe_zip(operands, dims) if d is not None)

    def aligned(x, d):
        """With the batch in front of as many axes as a draw has."""
        if d is None:
            return x
        x = batching.moveaxis(x, d, 0)
        return jnp.reshape(x, (size, *(1,) * (rank + 1 - x.ndim), *x.shape[1:]))

    return draw_p.bind(*map(aligned, operands, dims), name=name, family=family), 0


batching.primitive_batchers[draw_p] = _draw_batch


def draw(name, dist):
    """A draw from a distribution."""
    return draw_p.bind(*tree_util.tree_leaves(dist), name=name, family=type(dist))


# ---- the interpreter ---------------------------------------------------------------------


class Interpretation:
    """One walk over a program: a key, values by name, and the choices made so far.

    A choice is a value and the sum of its log density; in a loop both are stacked.
    """

    def __init__(self, key, values):
        self.key, self.values, self.choices = key, values, {}

    def next(self):
        if self.key is None:
            return None
        self.key, key = random.split(self.key)
        return key

    def add(self, choices):
        for name, choice in choices.items():
            if name in self.choices:
                raise ModelError(f"two draws have the name {name!r}.")
            self.choices[name] = choice

    def run(self, jaxpr, consts, args):
        """The results of a program."""
        env = dict(safe_zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))
        read = lambda a: a.val if isinstance(a, core.Literal) else env[a]
        for eqn in jaxpr.eqns:
            operands = safe_map(read, eqn.invars)
            if DRAWING in eqn.effects:
                outs = RULES.get(eqn.primitive, _refuse)(self, operands, eqn)
            else:
                outs = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
                outs = outs if eqn.primitive.multiple_results else [outs]
            env.update(safe_zip(eqn.outvars, outs))
        return safe_map(read, jaxpr.outvars)


def _inner(jaxpr):
    """A program as a function `(args, key, values) -> (results, choices)`."""
    def run(args, key, values):
        inner = Interpretation(key, values)
        return inner.run(jaxpr, jaxpr.consts, args), inner.choices

    return run


def _draw(walk, operands, eqn):
    name, dist = eqn.params["name"], eqn.params["family"](*operands)
    key = walk.next()
    if name in walk.values:
        value = jnp.asarray(walk.values[name])
        if value.shape != eqn.outvars[0].aval.shape:
            raise ModelError(f"the value for {name!r} must have the shape "
                             f"{eqn.outvars[0].aval.shape}; got {value.shape}.")
    elif key is None:
        raise ModelError(f"no value is given for {name!r}.")
    else:
        value = dist.sample(key)
    walk.add({name: (value, jnp.sum(dist.log_prob(value)))})
    return [value]


def _jit(walk, operands, eqn):
    outs, choices = mjax.jit(_inner(eqn.params["jaxpr"]))(operands, walk.next(), walk.values)
    walk.add(choices)
    return outs


def _scan(walk, operands, eqn):
    p = eqn.params
    consts, init, xs = split_list(operands, [p["num_consts"], p["num_carry"]])
    body, key = _inner(p["jaxpr"]), walk.next()
    keys = None if key is None else random.split(key, p["length"])
    names = _names(p["jaxpr"])
    values = {name: x for name, x in walk.values.items() if name in names}

    def step(carry, slices):
        x, key, values = slices
        outs, choices = body([*consts, *carry, *x], key, values)
        carry, y = split_list(outs, [len(init)])
        return carry, (y, choices)

    carry, (ys, choices) = lax.scan(step, init, (xs, keys, values), length=p["length"],
                                    reverse=p["reverse"], unroll=p["unroll"])
    walk.add(choices)
    return [*carry, *ys]


def _cond(walk, operands, eqn):
    index, *operands = operands
    branches = eqn.params["branches"]
    if len({frozenset(_names(branch)) for branch in branches}) > 1:
        raise ModelError("all branches have to draw the same names.")
    outs, choices = lax.switch(index, safe_map(_inner, branches), operands, walk.next(),
                               walk.values)
    walk.add(choices)
    return outs


def _refuse(walk, operands, eqn):
    raise ModelError(f"{eqn.primitive} draws {sorted(_names_in(eqn))}, in a way that has no "
                     f"density: {eqn}")


RULES = {draw_p: _draw, primitives.jit_p: _jit, primitives.scan_p: _scan,
         primitives.cond_p: _cond}


def _names(jaxpr):
    return {name for eqn in jaxpr.eqns if DRAWING in eqn.effects for name in _names_in(eqn)}


def _names_in(eqn):
    """The names that an equation draws; the schema says where its programs are."""
    if eqn.primitive is draw_p:
        return {eqn.params["name"]}
    bodies = [eqn.params[name] for name in eqn.primitive.schema.bodies]
    return {name for body in tree_util.tree_leaves(bodies) for name in _names(body)}


# ---- functions of users ------------------------------------------------------------------


def importance(model):
    """The function `(key, values, *args) -> (result, choices, log weight)`.

    `choices` are all values by name, and the weight is the density of those that are given.
    """
    def run(key, values, *args):
        leaves, tree = tree_util.tree_flatten(args)
        flat, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(
            model, debug_info=api_util.debug_info("importance", model, args, {})), tree)
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat, safe_map(mjax.typeof, leaves))
        for name in values.keys() - _names(jaxpr):
            raise ModelError(f"the model does not draw {name!r}.")
        walk = Interpretation(key, values)
        outs = walk.run(jaxpr, consts, leaves)
        weight = sum((jnp.sum(walk.choices[name][1]) for name in values), jnp.zeros(()))
        return (tree_util.tree_unflatten(out_tree(), outs),
                {name: value for name, (value, _) in walk.choices.items()}, weight)

    return run


def simulate(model):
    """The function `(key, *args) -> (result, choices)`."""
    return lambda key, *args: importance(model)(key, {}, *args)[:2]


def assess(model):
    """The function `(values, *args) -> (result, log density)`; all values are given."""
    def run(values, *args):
        result, _, density = importance(model)(None, values, *args)
        return result, density

    return run
