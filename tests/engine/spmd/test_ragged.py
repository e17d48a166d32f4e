"""ragged_all_to_all against NumPy: within vmap and on meshes, in groups, derivatives, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P, lax
from tests.engine.spmd.on_devices import mesh
from tests.engine.spmd.simulation import in_groups

RNG = np.random.default_rng(0)
GROUPS = [[0, 2], [3, 1]]


def exchange(elements):
    """The results of all elements, piece by piece: each element is its six arguments."""
    results = [np.array(e[1]) for e in elements]
    each = len(elements[0][2]) // len(elements)
    for operand, _, starts, sizes, places, _ in elements:
        for i, (start, size, place) in enumerate(zip(starts, sizes, places, strict=True)):
            results[i // each][place:place + size] = operand[start:start + size]
    return results


def draw(count, each=1, rows=9, width=2):
    """Arguments of elements: pieces that may overlap where they start, not where they arrive."""
    sizes = RNG.integers(0, 3, (count, count, each))
    places = np.zeros_like(sizes)
    for receiver in range(count):
        got = sizes[:, receiver].ravel()
        places[:, receiver] = (np.cumsum(got) - got).reshape(count, each)
    flat = sizes.reshape(count, -1)
    received = np.moveaxis(sizes, 1, 0).reshape(count, -1)
    return [RNG.normal(size=(count, rows, width)).astype("float32"),
            RNG.normal(size=(count, 2 * count * each, width)).astype("float32"),
            *(v.astype("int32") for v in (RNG.integers(0, rows - 2, flat.shape), flat,
                                          places.reshape(count, -1), received))]


def elements(args):
    return [tuple(a[i] for a in args) for i in range(len(args[0]))]


def call(axis_name, groups=None):
    return lambda *args: lax.ragged_all_to_all(
        *args, axis_name=axis_name, axis_index_groups=groups)


def test_the_example_of_two_elements():
    args = [[[1, 2, 2], [3, 4, 0]], [[0] * 4] * 2, [[0, 1]] * 2, [[1, 2], [1, 1]],
            [[0, 0], [1, 2]], [[1, 1], [2, 1]]]
    out = mjax.vmap(call("i"), axis_name="i")(*map(jnp.array, args))
    np.testing.assert_array_equal(out, [[1, 3, 0, 0], [2, 2, 4, 0]])


@pytest.mark.parametrize("each", [1, 2])
def test_values_within_vmap(each):
    args = draw(3, each)
    np.testing.assert_array_equal(
        mjax.vmap(call("i"), axis_name="i")(*args), exchange(elements(args)))


def test_groups():
    args = [np.concatenate(pair)[np.argsort(np.ravel(GROUPS))]
            for pair in zip(draw(2), draw(2), strict=True)]
    np.testing.assert_array_equal(mjax.vmap(call("i", GROUPS), axis_name="i")(*args),
                                  in_groups(exchange, GROUPS)(elements(args)))


def on_devices(f, count):
    specs = (P("i"),) * count
    return mjax.jit(mjax.shard_map(lambda *args: f(*[a[0] for a in args])[None],
                                   mesh=mesh(sizes=(("i", 4), ("j", 2))), in_specs=specs,
                                   out_specs=P("i")))


def test_values_and_batches_on_a_mesh():
    args = draw(4)
    expected = np.stack(exchange(elements(args)))
    np.testing.assert_array_equal(on_devices(call("i"), 6)(*args), expected)
    twice = [np.stack([a, b], 1) for a, b in zip(args, draw(4), strict=True)]
    out = on_devices(mjax.vmap(call("i")), 6)(*twice)
    for k in range(2):
        np.testing.assert_array_equal(
            np.asarray(out)[:, k], exchange(elements([a[:, k] for a in twice])))


@pytest.mark.parametrize("run", [lambda f, n: mjax.vmap(f, axis_name="i"), on_devices],
                         ids=["vmap", "mesh"])
def test_derivatives(run):
    """The tangents move as the values; the transpose gives the same product with cotangents."""
    operand, output, *rest = draw(4)
    dots = [RNG.normal(size=x.shape).astype("float32") for x in (operand, output)]
    ct = RNG.normal(size=output.shape).astype("float32")

    def pushed(x, y, dx, dy, *rest):
        return mjax.jvp(lambda x, y: call("i")(x, y, *rest), (x, y), (dx, dy))[1]

    def pulled(which):
        return lambda x, y, ct, *rest: mjax.vjp(
            lambda x, y: call("i")(x, y, *rest), x, y)[1](ct)[which]

    tangent = run(pushed, 8)(operand, output, *dots, *rest)
    np.testing.assert_array_equal(tangent, exchange(elements([*dots, *rest])))
    back = [np.asarray(run(pulled(i), 7)(operand, output, ct, *rest)) for i in range(2)]
    np.testing.assert_allclose(sum(np.sum(a * b) for a, b in zip(back, dots, strict=True)),
                               np.sum(ct * np.asarray(tangent)), 1e-4, 1e-4)


def test_empty_results_and_operands():
    operand, output, *rest = draw(2)
    mapped = mjax.vmap(call("i"), axis_name="i")
    assert mapped(operand, output[:, :0], *rest).shape == (2, 0, 2)
    np.testing.assert_array_equal(mapped(operand[:, :0], output, *rest), output)
    none = [np.stack([a] * 2)[:0] for a in (operand, output, *rest)]
    batched = mjax.vmap(mjax.vmap(call("i")), 1, 1, axis_name="i")
    assert batched(*none).shape == (0, *output.shape)


@pytest.mark.parametrize(("change", "text"), [
    ({1: np.zeros((2, 4, 3), "float32")}, "operand and output must be alike"),
    ({1: np.zeros((2, 4, 2), "int32")}, "operand and output must be alike"),
    ({2: np.zeros((2, 2), "float32")}, "input_offsets must be a vector of integers"),
    ({5: np.zeros((2, 4), "int32")}, "recv_sizes must be a vector of integers"),
    (dict.fromkeys(range(2, 6), np.zeros((2, 3), "int32")), "a multiple of 2 elements"),
], ids=["shape", "dtype", "float offsets", "lengths", "not a multiple"])
def test_refusals(change, text):
    args = [change.get(i, a) for i, a in enumerate(draw(2))]
    with pytest.raises(ValueError, match=text):
        mjax.vmap(call("i"), axis_name="i")(*args)


def test_axes_that_are_not_in_scope():
    with pytest.raises(NameError, match="unbound axis name: k, used by ragged_all_to_all"):
        call("k")(*[a[0] for a in draw(2)])
