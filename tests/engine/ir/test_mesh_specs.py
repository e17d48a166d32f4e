"""Partition specs on meshes: whether they fit, the pieces that they cut, and their devices."""

import math

import numpy as np
import pytest

import mjax
from mjax import P
from mjax._engine.ir.mesh_specs import check_spec, cuts, device_order, shard_shape
from mjax.sharding import Mesh

DEVICES = mjax.devices()


def mesh(*shape):
    return Mesh(np.array(DEVICES[:math.prod(shape)]).reshape(shape), tuple("xyz"[:len(shape)]))


def test_specs_that_do_not_fit_a_mesh():
    check_spec(P("x", ("y",)), mesh(2, 2))
    with pytest.raises(ValueError, match=r"who: .*names the mesh axis 'q', but the mesh has the "
                                         "axes 'x', 'y'"):
        check_spec(P("x", "q"), mesh(2, 2), "who")
    with pytest.raises(ValueError, match=r"names the mesh axis 'x' twice; a mesh axis can cut one"):
        check_spec(P("x", ("y", "x")), mesh(2, 2))


@pytest.mark.parametrize(("spec", "expected"), [
    (P(), (8, 8)), (P("x"), (4, 8)), (P(None, ("x", "y")), (8, 1)), (P("y", "x"), (2, 4))],
    ids=str)
def test_shapes_of_shards(spec, expected):
    m = mesh(2, 4)
    assert shard_shape(spec, m, (8, 8)) == expected
    assert tuple(8 // n for n in cuts(spec, m, 2)) == expected
    assert shard_shape(spec, m.abstract_mesh, (8, 0))[1] == 0


def test_sizes_that_are_not_divisible():
    with pytest.raises(ValueError, match=(
            r"put: dimension 1 of an array of shape \(4, 10\) has 10 elements, which "
            r"PartitionSpec\(None, \('x', 'y'\)\) cuts into 8 pieces, one per device along "
            r"'x' \(size 2\) and 'y' \(size 4\): 10 = 1 \* 8 \+ 2. Pad it by 6 elements, or "
            r"leave the dimension whole")):
        shard_shape(P(None, ("x", "y")), mesh(2, 4), (4, 10), "put")


@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x"), P(("y", "x")), P(None, "y", "x")],
                         ids=str)
def test_the_device_of_each_piece(spec):
    """Against the definition: of the axes that cut a dimension the first varies slowest."""
    m = mesh(2, 4)
    pieces = cuts(spec, m, 3)
    copies = m.size // math.prod(pieces)
    expected = [[] for _ in range(math.prod(pieces))]
    for number, place in enumerate(np.ndindex(2, 4)):
        at = dict(zip("xy", place, strict=True))
        index = [0, 0, 0]
        for d, axes in enumerate(spec.dims(3)):
            for axis in axes:
                index[d] = index[d] * m.shape[axis] + at[axis]
        expected[np.ravel_multi_index(index, pieces)].append(number)
    order = np.array(list(device_order(spec, m, 3))).reshape(-1, copies)
    assert [sorted(row) for row in order.tolist()] == expected
