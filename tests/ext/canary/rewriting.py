"""Passes over programs: equations replaced, equal ones shared, those without use dropped.

They go into programs in programs by the schemas of primitives, and keep types: a pass gives a
program that the checker accepts, of the same inputs and results.
"""

from __future__ import annotations

import numpy as np

from mjax_ext import core
from mjax_ext.interpreters import partial_eval as pe


def with_bodies(eqn, change):
    """An equation whose programs are changed."""
    new = {name: _changed(eqn.params[name], change) for name in eqn.primitive.schema.bodies
           if name in eqn.params} if eqn.primitive.schema else {}
    return eqn.replace(params={**eqn.params, **new}) if new else eqn


def _changed(value, change):
    if isinstance(value, core.Jaxpr):
        return change(value)
    if isinstance(value, (tuple, list)):
        return tuple(_changed(v, change) for v in value)
    return value


def finalised(jaxpr, replaced):
    """The program with equations of some primitives evaluated in their place.

    Args:
      jaxpr: the program.
      replaced: primitive -> a function of the operands and params, which gives a list.
    """
    inside = lambda body: finalised(body, replaced)

    def run(*args):
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.consts, *args], strict=True))
        read = lambda a: a.val if isinstance(a, core.Literal) else values[a]
        for eqn in jaxpr.eqns:
            if eqn.primitive in replaced:
                outs = replaced[eqn.primitive](*map(read, eqn.invars), **eqn.params)
            else:
                eqn = with_bodies(eqn, inside)
                outs = eqn.primitive.bind(*map(read, eqn.invars),
                                          **eqn.primitive.get_bind_params(eqn.params))
                outs = outs if eqn.primitive.multiple_results else [outs]
            values.update(zip(eqn.outvars, outs, strict=True))
        return list(map(read, jaxpr.outvars))

    found, _, consts = pe.trace_to_jaxpr_dynamic(run, jaxpr.in_avals, jaxpr.debug_info)
    # A function may have called jit: what it made is looked at, too.
    found = found.replace(consts=consts)
    return finalised(found, replaced) if mentions(found, replaced) else found


def mentions(jaxpr, primitives):
    """Whether a program, or one inside of it, has an equation of one of these primitives."""
    return any(eqn.primitive in primitives or any(
        mentions(body, primitives) for body in core.jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns)


def shared(jaxpr):
    """The program in which equal equations without effects are one."""
    names, seen, eqns = {}, {}, []
    atom = lambda a: a if isinstance(a, core.Literal) else names.get(a, a)
    for eqn in jaxpr.eqns:
        eqn = with_bodies(eqn, shared).replace(invars=list(map(atom, eqn.invars)))
        key = None if eqn.effects else _key(eqn)
        if key is not None and key in seen:
            names.update(zip(eqn.outvars, seen[key], strict=True))
            continue
        outvars = [core.Var(v.aval) if isinstance(v, core.DropVar) else v for v in eqn.outvars]
        eqns.append(eqn.replace(outvars=outvars))
        if key is not None:
            seen[key] = outvars
    return jaxpr.replace(eqns=eqns, outvars=list(map(atom, jaxpr.outvars)))


def _key(eqn):
    """Equal for equations that compute the same; None where that is not known."""
    operands = tuple((str(a.aval), np.asarray(a.val).tobytes()) if isinstance(a, core.Literal)
                     else a for a in eqn.invars)
    params = tuple((name, str(value) if isinstance(value, core.Jaxpr) else value, type(value))
                   for name, value in sorted(eqn.params.items()))
    try:
        hash(params)
    except TypeError:
        return None
    return eqn.primitive, operands, params


def pruned(jaxpr):
    """The program without equations that no result needs."""
    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


def operations(jaxpr):
    """The names of all primitives in a program, those in programs inside of it included."""
    return [name for eqn in jaxpr.eqns for name in [
        eqn.primitive.name,
        *(n for body in core.jaxprs_in_params(eqn.params) for n in operations(body))]]
