"""`mjax.debug.flops`: counts beside formulas, and beside XLA's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mjax
import mjax.export
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import PartitionSpec as P

X = jnp.linspace(0.5, 1.5, 6).reshape(2, 3)
S = jnp.eye(4) * 2.0


def total(f, *args):
    return mjax.debug.flops(f, *args).total


@mjax.custom_jvp
def halved(x):
    return x / 2.0


halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] / 2.0))


@pytest.mark.parametrize("f, args, expected", [
    (lambda x: lax.sin(x) * x, (X,), 12),
    (lambda x: x.T.reshape(6)[::2].astype(jnp.float16), (X,), 0),
    (lambda a, b: a @ b, (jnp.ones((2, 3)), jnp.ones((3, 4))), 2 * 2 * 3 * 4),
    (lambda a, b: a @ b, (jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))), 5 * 2 * 2 * 3 * 4),
    (lambda a, b: a @ b, (jnp.ones((2, 3), complex), jnp.ones((3, 4), complex)), 8 * 2 * 3 * 4),
    (lambda x: x.sum(), (X,), 5),
    (lambda x: x.max(1), (X,), 4),
    (lambda x: lax.argmax(x, 1, np.int32), (X,), 4),
    (lambda x: lax.cumsum(x, 1), (X,), 4),
    (lambda x: lax.sort(x), (jnp.ones((2, 8)),), 2 * 8 * 3),
    (lambda x: jnp.fft.fft(x), (jnp.ones((3, 8), complex),), 3 * 5 * 8 * 3),
    (lambda x: jnp.fft.rfft(x), (jnp.ones((3, 8)),), 3 * 5 * 8 * 3 / 2),
    (lambda x: jnp.fft.irfft(x), (jnp.ones((3, 5), complex),), 3 * 5 * 8 * 3 / 2),
    (lambda x: x.at[:2].add(1.0, mode="promise_in_bounds"), (jnp.ones(9),), 2),
    (lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID"), (jnp.ones(5),), 4),
    (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * a, (0,)), (X,), 6),
    (lambda a: lax.linalg.cholesky(a, symmetrize_input=False), (S,), 64 / 3 + 16 / 2 + 4 / 6),
    (lambda a: lax.linalg.cholesky_update(a, a[0]), (S,), 3 * 4 * 5),
    (lambda a: lax.linalg.lu(a), (S,), 2 * 64 / 3 - 16 / 2 + 5 * 4 / 6),
    (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), (S, jnp.ones((4, 3))), 3 * 16),
    (lambda a, b: lax.linalg.triangular_solve(a, b), (S, jnp.ones((3, 4))), 3 * 16),
    (lambda a: lax.linalg.eigh(a, symmetrize_input=False), (S,), 9 * 64),
    (lambda a: lax.linalg.svd(a, full_matrices=False), (jnp.ones((5, 3)),), 14 * 45 + 8 * 27),
    (lambda a: lax.linalg.svd(a, compute_uv=False), (jnp.ones((3, 5)),), 4 * 45 - 4 * 27 / 3),
])
def test_a_primitive_counts_by_its_formula(f, args, expected):
    assert total(f, *args) == pytest.approx(expected)


@pytest.mark.parametrize("m, n", [(6, 4), (4, 6), (4, 4)])
def test_factorizations_count_the_operations_of_their_loops(m, n):
    """The leading terms, against sums over the steps of elimination and of reflections."""
    k = min(m, n)
    steps = sum((m - i) + 2 * (m - i - 1) * (n - i - 1) for i in range(k))
    assert total(lax.linalg.lu, jnp.ones((m, n))) == pytest.approx(steps)
    large = jnp.ones((40 * m, 40 * n))
    reflections = sum(4 * (40 * m - i) * (40 * n - i) for i in range(40 * k))
    found = mjax.debug.flops(lambda a: lax.linalg.qr(a, full_matrices=False), large)
    formed = sum(4 * (40 * m - i) * (40 * k - i) for i in range(40 * k))
    assert found.total == pytest.approx(reflections + formed, rel=0.05)


@pytest.mark.parametrize("f, expected", [
    (mjax.jit(lambda x: x * x + x), 12),
    (mjax.checkpoint(lambda x: x * x + x), 12),
    (lambda x: halved(x) * x, 12),
    (lambda x: lax.scan(lambda c, _: (c * c, c + c), x, None, length=5)[0], 60),
    (lambda x: lax.scan(lambda c, _: (lax.fori_loop(0, 3, lambda i, c: c * x, c), None),
                        x, None, length=4)[0], 4 * 3 * (6 + 1)),
    (lambda x: lax.cond(x[0, 0] > 0.0, lambda x: x * x + x, lambda x: x, x), 12 + 1),
    (lambda x: mjax.vmap(mjax.jit(lambda x: x * x))(x), 6),
    (mjax.shard_map(lambda x: x * x, mesh=mjax.make_mesh((2,), ("i",)),
                    in_specs=P("i"), out_specs=P("i")), 6),
])
def test_programs_within_programs_are_counted(f, expected):
    assert total(f, X) == expected


def test_references_are_moved():
    def f(x):
        ref = mjax.new_ref(x)
        ref[...] += x
        ref[0] = x[0] * 2.0
        mjax.ref.addupdate(ref, 1, x[1])
        return mjax.freeze(ref)

    assert {name: n for name, n in mjax.debug.flops(f, X).by_primitive.items() if n} == {
        "add": 6, "addupdate": 3, "mul": 3}


def test_a_solver_counts_by_what_it_solves_with():
    found = mjax.debug.flops(lambda a, b: jnp.linalg.solve(a, b), S, jnp.ones(4))
    assert found.by_primitive["triangular_solve"] == 2 * 16
    assert "custom_linear_solve" not in found.by_primitive
    own = lambda x: lax.custom_linear_solve(lambda y: y * 2.0, x, lambda matvec, b: b * 0.5)
    assert mjax.debug.flops(own, X).by_primitive == {"mul": 6}


def test_a_loop_of_unknown_length_counts_once_and_is_listed():
    found = mjax.debug.flops(
        lambda x: lax.while_loop(lambda c: c.sum() > 9.0, lambda c: c * c + c, x), X)
    assert found.total == 12 + 5 + 1
    (line,) = found.while_loops
    assert "test_flops.py" in line and f"while at {line}" in str(found)
    assert not mjax.debug.flops(lambda x: x, X).while_loops


def test_what_calls_other_code_is_listed():
    exported = mjax.export.export(mjax.jit(lambda a: a @ a))(S)

    def f(x):
        y = mjax.pure_callback(np.sin, x, x)
        y = exported.call(y)
        return y + lax.scan(lambda c, _: (exported.call(c), None), x, length=3)[0]

    found = mjax.debug.flops(f, S)
    first = f.__code__.co_firstlineno
    assert found.total == 16
    assert [(text.split()[0], int(text.split(":")[1].split()[0]) - first)
            for text in found.uncounted] == [
        ("pure_callback", 1), ("call_exported", 2), ("call_exported", 3)]
    assert all(text in str(found) for text in found.uncounted)


def test_counts_are_by_primitive_and_by_line():
    def f(a, b):
        c = a @ b
        return jnp.exp(c) + c

    found = mjax.debug.flops(f, X, X.T)
    assert list(found.by_primitive.items()) == [("dot_general", 24), ("add", 4), ("exp", 4),
                                                ("transpose", 0)][:len(found.by_primitive)]
    first = f.__code__.co_firstlineno
    lines = {int(line.split(":")[1].split()[0]) - first: n for line, n in found.by_line.items()}
    assert lines == {1: 24, 2: 8}
    assert found.bytes == 4 * ((6 + 6 + 4) + (4 + 4) + (4 + 4 + 4))
    assert sum(found.bytes_by_line.values()) == found.bytes
    assert sum(found.bytes_by_primitive.values()) == found.bytes
    table = str(found).splitlines()
    assert table[0].split() == ["primitive", "flops", "bytes"]
    assert table[1].split() == ["dot_general", "24", "64"]


def test_types_are_enough():
    shape = mjax.ShapeDtypeStruct((1000, 1000), np.float32)
    assert total(lambda a: a @ a, shape) == 2 * 1000**3


@pytest.mark.parametrize("f, args", [
    (lambda a, b: a @ b, (jnp.ones((8, 16)), jnp.ones((16, 4)))),
    (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (jnp.ones((3, 8, 16)), jnp.ones((3, 16, 4)))),
    (lambda a, b: a * b + a - b, (jnp.ones(100), jnp.ones(100))),
    (lambda x: x.sum(), (jnp.ones((16, 16)),)),
    *((lambda x, w, options=options: lax.conv_general_dilated(x, w, **options),
       (jnp.ones((2, 4, 9, 8)), jnp.ones((6, 4 // options.get("feature_group_count", 1), 3, 2))))
      for options in (
          {"window_strides": (1, 1), "padding": "VALID"},
          {"window_strides": (2, 1), "padding": "SAME"},
          {"window_strides": (1, 1), "padding": "SAME", "rhs_dilation": (2, 2)},
          {"window_strides": (1, 1), "padding": [(2, 2), (1, 1)], "lhs_dilation": (2, 1)},
          {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 2})),
], ids=["matmul", "batched", "elementwise", "sum", "conv", "strides", "holes", "dilated", "groups"])
def test_counts_are_those_of_xla(f, args):
    ours = total(f, *args)
    theirs = mjax.jit(f).lower(*args).cost_analysis()["flops"]
    assert ours == pytest.approx(theirs, rel=0.01) and ours > 0


def test_what_is_called_often_is_counted_fast():
    f = lambda x: x * x
    for _ in range(40):
        f = mjax.jit(lambda x, f=f: f(f(x)))
    assert total(f, 1.0) == 2**40


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match="flops"):
        mjax.debug.flops(3, 1.0)
    with pytest.raises(TypeError, match="not"):
        mjax.debug.flops(lambda x: x, "a")
    assert math.isfinite(total(lambda: jnp.ones(3) * 2.0))
