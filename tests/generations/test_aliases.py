"""Aliases: primitives under their former params, of a primitive that holds a program, too."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext._generations.chain import Chain
from mjax_ext._generations.change import Reparametrized
from mjax_ext.core.primitives import cumsum_p, scan_p
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

PARAMS = {name: kind for name, kind in scan_p.schema.params.items()
          if name not in ("num_consts", "num_carry")}


def renaming(old, new, since):
    """A change of the name of the axis of cumsum."""
    return Reparametrized("core.primitives.cumsum_p", {old: int, "reverse": bool}, {new: old},
                          {old: new}, since=since, why="", told=f"has the param `{new}`")


#: v1 knows the sizes of scan as a pair, and v1 and v2 the axis of cumsum by other names.
CHAIN = Chain([
    Reparametrized("core.primitives.scan_p", {**PARAMS, "sizes": tuple[int, int]},
                   {"num_consts": "sizes[0]", "num_carry": "sizes[1]"},
                   {"sizes": "num_consts, num_carry"},
                   since="v2", why="", told="has two params for its sizes"),
    renaming("dim", "dimension", "v2"), renaming("dimension", "axis", "v3")], ("v1", "v2", "v3"))
scan1, cumsum1, cumsum2 = (CHAIN.get(g, f"core.primitives.{n}") for g, n in (
    ("v1", "scan_p"), ("v1", "cumsum_p"), ("v2", "cumsum_p")))
program = CHAIN.get("v1", "program")
X = np.arange(1, 4, dtype=np.float32)


def f(c, xs):
    return lax.scan(lambda c, x: (c * x, c + lax.cumsum(xs)[0]), c, xs)


def test_generations_without_the_change_have_the_primitive_itself():
    assert CHAIN.get("v2", "core.primitives.scan_p") is scan_p
    assert CHAIN.get("v3", "core.primitives.cumsum_p") is cumsum_p
    assert CHAIN.get("v1", "core.primitives.scan_p") is scan1
    assert scan1.root is scan_p and cumsum1.root is cumsum2.root is cumsum_p


def test_programs_have_the_former_params_in_inner_programs_too():
    jaxpr = mjax.make_jaxpr(mjax.jit(f))(1.0, X)
    mine = program(jaxpr)
    scan, = [e for j in core.subjaxprs(mine) for e in j.eqns if e.primitive is scan1]
    assert scan.params["sizes"] == (1, 1) and "num_carry" not in scan.params
    inner = [e for e in scan.params["jaxpr"].eqns if e.primitive is cumsum1]
    cumsums = inner or [e for j in core.subjaxprs(mine) for e in j.eqns if e.primitive is cumsum1]
    assert cumsums[0].params == {"dim": 0, "reverse": False}
    core.check_jaxpr(mine)
    for g in (mjax.jit(core.jaxpr_as_fun(mine)), core.jaxpr_as_fun(mine)):
        for a, b in zip(g(jnp.float32(2), X), f(2.0, X)):
            np.testing.assert_allclose(a, b)
    assert program(mjax.make_jaxpr(lax.sin)(1.0)).eqns[0].primitive is core.primitives.sin_p


def test_applications_are_those_of_the_primitive():
    body = mjax.make_jaxpr(lambda c, x: (c * x, c))(1.0, X[0])
    params = dict(jaxpr=body, length=3, reverse=False, unroll=1, sizes=(0, 1))

    def g(c, xs):
        return scan1.bind(c, xs, **params)[0]

    assert g(jnp.float32(2), X) == 12.0 and mjax.grad(g)(2.0, X) == 6.0
    np.testing.assert_allclose(mjax.vmap(g, (0, None))(X, X), 6 * X)
    eqn, = mjax.make_jaxpr(g)(1.0, X).eqns
    assert eqn.primitive is scan_p and eqn.params["num_carry"] == 1
    with pytest.raises(TypeError, match="'num_carry' are unknown"):
        scan1.bind(1.0, X, **eqn.params)
    with core.take_current_trace() as trace:
        assert scan1.bind_with_trace(trace, (jnp.float32(2), X), params)[0] == 12.0
        with pytest.raises(TypeError, match="'num_carry' are unknown"):
            scan1.bind_with_trace(trace, (jnp.float32(2), X), eqn.params)


def test_a_chain_of_aliases():
    assert str(cumsum1.schema) == "dim: int, reverse: bool"
    np.testing.assert_allclose(cumsum1.bind(X, dim=0, reverse=True), X[::-1].cumsum()[::-1])
    np.testing.assert_allclose(cumsum2.bind(X, dimension=0, reverse=False), X.cumsum())
    rule = batching.primitive_batchers[cumsum1]
    value, dim = rule([np.stack([X, X])], [0], dim=0, reverse=False)
    assert dim == 0 and value.shape == (2, 3)
    aval, effects = cumsum1.type_of((core.get_aval(X),), {"dim": 0, "reverse": False})
    assert aval.shape == (3,) and not effects
    assert cumsum1.for_root({"dim": 1, "reverse": True}) == {"axis": 1, "reverse": True}
    assert cumsum1.from_root({"axis": 1, "reverse": True}) == {"dim": 1, "reverse": True}


def test_an_interpreter_enters_loops():
    class Doubling(CHAIN.get("v1", "core.Interpreter")):
        seen = ()

        def apply(self, primitive, values, params):
            self.seen += (primitive,)
            if primitive is scan1:
                assert "sizes" in params
                return self.enter(primitive, values, params)
            return primitive.bind(*values, **params)

    doubling = Doubling()
    out = doubling.run(lambda c: lax.scan(lambda c, x: (c * x, c), c, X)[0], jnp.float32(2))
    assert out == 12.0 and doubling.seen[0] is scan1 and core.primitives.mul_p in doubling.seen


def fresh(name):
    """A primitive with the param `new`, and its alias with `old`."""
    p = core.Primitive(name, params={"new": int}, multiple_results=True)
    p.def_abstract_eval(lambda x, y, *, new: [x, y])
    change = Reparametrized("p", {"old": int}, {"new": "old"}, {"old": "new"}, since="v2", why="",
                            told="")
    return p, change.adapt(lambda name: p)


def test_a_rule_is_left_out_of_the_primitive_behind():
    p, alias = fresh("alias_without")
    alias.without("batch", "Loop over it.")
    assert p.exceptions == alias.exceptions == {"batch": "Loop over it."}
    with pytest.raises(MissingRuleError, match="left out on purpose: Loop over it"):
        mjax.vmap(lambda x: p.bind(x, x, new=2))(jnp.ones(3))
    batching.primitive_batchers[alias] = lambda args, dims, *, old: (args, dims)
    assert not p.exceptions


def test_rules_that_are_given_to_an_alias_receive_the_former_params():
    p, alias = fresh("alias_rules")
    alias.def_impl(lambda x, y, *, old: [x * old, y])
    ad.primitive_jvps[alias] = lambda primals, tangents, *, old: (
        alias.bind(*primals, old=old), [t * old for t in tangents])
    batching.primitive_batchers[alias] = lambda args, dims, *, old: (
        alias.bind(*args, old=old), dims)
    mlir.register_lowering(alias, lambda ctx, x, y, *, old: [x, y][::old])
    assert p.bind(2.0, 3.0, new=5) == [10.0, 3.0] == alias.bind(2.0, 3.0, old=5)
    _, tangents = mjax.jvp(lambda x, y: p.bind(x, y, new=5), (2.0, 3.0), (1.0, 2.0))
    assert tangents == [5.0, 10.0]
    assert mjax.vmap(lambda x: p.bind(x, x, new=2))(jnp.ones(3))[0].shape == (3,)
    assert mjax.jit(lambda x, y: p.bind(x, y, new=-1))(2.0, 3.0) == [3.0, 2.0]
    assert alias.lowerings[None] is not None and alias.impl(2.0, 3.0, old=5) == [10.0, 3.0]
    alias.jvp = None
    assert p.jvp is None and alias.jvp is None and alias not in ad.primitive_jvps
    mlir.register_lowering(alias, mlir.lower_fun(lambda x, y, *, old: [x + old, y], True))
    assert mjax.jit(lambda x, y: p.bind(x, y, new=7))(2.0, 3.0) == [9.0, 3.0]
    assert alias.lowerings[None].traceable and repr(alias) == "alias_rules"


def test_rules_of_equations_receive_the_former_equations():
    p, alias = fresh("alias_equations")
    seen = []

    def rule(used_outputs, eqn):
        seen.append(eqn.params)
        return [True, True], eqn.replace(params={"old": eqn.params["old"] + 1})

    partial_eval.dce_rules[alias] = rule
    jaxpr = mjax.make_jaxpr(lambda x, y: p.bind(x, y, new=5))(1.0, 2.0)
    rest, _ = partial_eval.dce_jaxpr(jaxpr, [True, False])
    assert seen == [{"old": 5}] and rest.eqns[0].params == {"new": 6}
    _, eqn = partial_eval.dce_rules[alias](
        [True, True], rest.eqns[0].replace(params={"old": 1}))
    assert eqn.params == {"old": 2}


def test_the_printed_params_are_the_former_ones():
    _, alias = fresh("alias_printed")
    alias.def_pretty(lambda params: {"shown": params["old"]})
    assert alias.pretty({"old": 3}) == {"shown": 3} == alias.target.pretty({"new": 3})


def test_aliases_are_not_rows_of_tables():
    p, alias = fresh("alias_once")
    ad.primitive_jvps[p] = lambda primals, tangents, *, new: None
    assert [q.name for q in ad.primitive_jvps].count("alias_once") == 1
    assert alias in ad.primitive_jvps and isinstance(alias, core.Primitive)
