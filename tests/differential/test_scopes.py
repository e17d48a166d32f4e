"""Names of scopes in compiled programs, as jax has them."""

import re

import jax
import numpy as np
import pytest

import mjax

X = np.ones(3, np.float32)
XX = np.ones((2, 3), np.float32)


def programs(m):
    def f(x):
        with m.named_scope("a"):
            y = m.lax.sin(x)
            with m.named_scope("b"):
                return m.lax.mul(y, x)

    @m.jit
    def inner(x):
        with m.named_scope("in"):
            return m.lax.sin(x)

    def total(g):
        def sum_of(x):
            with m.named_scope("total"):
                return m.lax.reduce_sum(g(x), tuple(range(np.ndim(x))))

        return sum_of

    return {
        "plain": (f, X), "grad": (m.grad(total(f)), X), "vmap": (m.vmap(f), XX),
        "vmap of grad": (m.vmap(m.grad(total(f))), XX),
        "grad of vmap": (m.grad(total(m.vmap(f))), XX),
        "grad of grad": (m.grad(total(m.grad(total(f)))), X),
        "call": (m.named_call(lambda x: inner(x), name="o"), X),
        "grad of call": (m.grad(total(inner)), X), "vmap of call": (m.vmap(inner), XX),
        "vjp": (m.named_call(lambda x: m.vjp(f, x)[1](x), name="o"), X),
    }


def operations(m, name):
    f, x = programs(m)[name]
    text = m.jit(lambda x: f(x)).lower(x).compile().as_text()
    return set(re.findall('op_name="(jit[^"]*)"', text))


@pytest.mark.parametrize("name", programs(mjax))
def test_operations_are_called_as_in_jax(name):
    assert operations(mjax, name) == operations(jax, name)


@pytest.mark.parametrize("transform", ["grad", "vmap", "jit"])
def test_texts_of_name_stacks(transform):
    def texts(m):
        def f(x):
            with m.named_scope("a"), m.named_scope("b"):
                y = m.numpy.sin(x)
            return m.numpy.sum(m.numpy.cos(y))

        x = np.float32(1) if transform == "grad" else np.ones(2, np.float32)
        jaxpr = m.make_jaxpr(getattr(m, transform)(f))(x).jaxpr
        if transform == "jit":
            jaxpr = jaxpr.eqns[0].params["jaxpr"].jaxpr
        return [str(eqn.source_info.name_stack) for eqn in jaxpr.eqns
                if "b" in str(eqn.source_info.name_stack)]

    assert texts(mjax) == texts(jax)


@pytest.mark.parametrize("name", ["dot", "matmul", "inner", "tensordot", "vdot", "vecdot"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_sums_of_products_have_a_dtype(name, dtype):
    def dtypes(m):
        x = m.numpy.ones((3, 3), dtype)
        found, jaxprs = [], [m.make_jaxpr(getattr(m.numpy, name))(x, x).jaxpr]
        for jaxpr in jaxprs:
            for eqn in jaxpr.eqns:
                found += [str(v) for k, v in eqn.params.items() if k == "preferred_element_type"]
                jaxprs += [v.jaxpr for v in eqn.params.values() if hasattr(v, "jaxpr")]
        return found

    assert dtypes(mjax) == dtypes(jax) != []
