"""Programs: which primitives they have, and their values with every half replaced by a double."""

from jax import core
from jax.extend import core as jex_core
from jax.extend.core import Literal, Var
from jax.extend.core.primitives import add_p, jit_p

from halves._compat import DropVar, jaxprs_in_params
from halves.primitive import half_p


def primitives_of(jaxpr: jex_core.Jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in jaxprs_in_params(eqn.params):
            yield from primitives_of(inner)


def doubled(closed, *args):
    env: dict[Var, core.Tracer] = dict(zip(closed.jaxpr.invars, args))
    env.update(zip(closed.jaxpr.constvars, closed.consts))
    for eqn in closed.jaxpr.eqns:
        values = [v.val if isinstance(v, Literal) else env[v] for v in eqn.invars]
        if eqn.primitive is half_p:
            outs = [add_p.bind(values[0], values[0])]
        elif eqn.primitive is jit_p:
            outs = doubled(eqn.params["jaxpr"], *values)
        else:
            outs = eqn.primitive.bind(*values, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env.update((v, out) for v, out in zip(eqn.outvars, outs) if not isinstance(v, DropVar))
    return [v.val if isinstance(v, Literal) else env[v] for v in closed.jaxpr.outvars]
