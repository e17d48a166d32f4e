"""Pickles: what they name stays, and what was pickled once loads for ever."""

from __future__ import annotations

import collections
import copy
import operator
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import random
from mjax import tree_util as tu
from mjax.sharding import AbstractMesh

#: An array of two ones, as mjax pickled it before its pickles had versions.
OLD = (b"\x80\x04\x95\xf6\x00\x00\x00\x00\x00\x00\x00\x8c\x1amjax._engine.runtime.array\x94\x8c"
       b"\x08_rebuild\x94\x93\x94\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93"
       b"\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K"
       b"\x01K\x02\x85\x94h\x06\x8c\x05dtype\x94\x93\x94\x8c\x02f4\x94\x89\x88\x87\x94R\x94(K\x03"
       b"\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x89C\x08\x00\x00\x80?\x00"
       b"\x00\x80?\x94t\x94b\x8c\x15mjax._engine.ir.types\x94\x8c\x0bShapedArray\x94\x93\x94(K"
       b"\x02\x85\x94h\x12\x89(\x91\x94t\x94R\x94\x86\x94R\x94.")
Point = collections.namedtuple("Point", "x y")


def arrays():
    return [jnp.ones((2, 3)), jnp.ones((2, 0), "bfloat16"), jnp.asarray(1.0), random.key(0),
            random.split(random.key(3), 2), jnp.arange(3) * 2]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays(protocol):
    for x in arrays():
        y = pickle.loads(pickle.dumps(x, protocol))
        assert y.aval is x.aval
        np.testing.assert_array_equal(y._stored(), x._stored())


@pytest.mark.parametrize("tree", [
    (1, {"b": [2, None], "a": 3}), collections.OrderedDict(x=1, y=(2,)), 3, None, [],
    collections.defaultdict(list, {1: 2}), tu.Partial(len, 1), Point(1, (2,))], ids=str)
def test_tree_structures(tree):
    treedef = tu.tree_structure(tree)
    for other in (*(pickle.loads(pickle.dumps(treedef, p)) for p in range(6)),
                  copy.deepcopy(treedef), copy.copy(treedef)):
        assert other == treedef and hash(other) == hash(treedef)
        assert repr(other.unflatten(range(other.num_leaves))) == repr(
            treedef.unflatten(range(treedef.num_leaves)))
        tu.treedef_tuple([other, treedef])  # which refuses those of other registries


def others():
    """Specs, structs and partials pickle through the stable home too."""
    mesh = AbstractMesh((2, 1), ("a", "b"))
    return [mjax.P(), mjax.P("a", None, ("b", "c"), mjax.P.UNCONSTRAINED), mesh,
            mjax.ShapeDtypeStruct((2, 3), "bfloat16", weak_type=True)]


def test_they_name_nothing_that_may_move():
    text = pickle.dumps([*arrays(), tu.tree_structure((1, {"a": 2})), *others(),
                         tu.Partial(operator.add, 2)])
    assert b"_engine" not in text and b"jaxlib" not in text


@pytest.mark.parametrize("back", [
    lambda x: pickle.loads(pickle.dumps(x)), lambda x: pickle.loads(pickle.dumps(x, 2)),
    copy.copy, copy.deepcopy])
def test_what_is_no_array(back):
    for value in others():
        same = back(value)
        assert same == value and type(same) is type(value) and repr(same) == repr(value)
    assert back(mjax.P.UNCONSTRAINED) is mjax.P.UNCONSTRAINED
    add = tu.Partial(sorted, [3, 1], reverse=True)
    add.note = "kept"
    same = back(add)
    assert type(same) is tu.Partial and same() == [3, 1] and same.note == "kept"
    assert tu.tree_structure(same) == tu.tree_structure(add)
    inner = back(tu.Partial(tu.Partial(operator.add, 2)))
    assert inner(3) == 5 and tu.tree_leaves(inner) == []


def test_a_process_without_mjax_loads_them():
    text = pickle.dumps([random.key(1), jnp.ones(2), tu.tree_structure([1])])
    done = subprocess.run([sys.executable, "-c", f"import pickle; print(pickle.loads({text!r}))"],
                          capture_output=True, text=True, timeout=120)
    assert "PyTreeDef([*])" in done.stdout, done.stderr


def test_old_pickles_load():
    np.testing.assert_array_equal(pickle.loads(OLD), np.ones(2, np.float32))


def test_wide_numbers_are_as_wide_as_the_loader_has_them():
    with mjax.enable_x64(True):
        text = pickle.dumps(jnp.arange(3.0))
    assert pickle.loads(text).dtype == np.float32
    with mjax.enable_x64(True):
        assert pickle.loads(text).dtype == np.float64


def test_tracers_have_weak_references():
    def f(x):
        assert weakref.ref(x)() is x
        return x * 2.0

    mjax.jit(f)(1.0), mjax.grad(f)(1.0), mjax.vmap(f)(jnp.ones(2)), mjax.jvp(f, (1.0,), (1.0,))
