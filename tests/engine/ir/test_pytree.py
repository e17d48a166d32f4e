"""mjax.tree_util and mjax.tree: containers, maps, key paths, registration, mismatches.

The expected values are those of jax.tree_util, written by hand.
"""

import collections
import dataclasses
import functools
import operator
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import mjax
from mjax import lax, tree_util
from mjax.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    all_leaves,
    keystr,
    register_dataclass,
    register_pytree_node_class,
    tree_all,
    tree_broadcast,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_structure,
    tree_transpose,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

from .containers import Keyed, Layer, Many, Named, Plain, Static

OrderedDict, defaultdict = collections.OrderedDict, collections.defaultdict


class Pair(NamedTuple):
    x: Any
    y: Any


def path_strings(tree, **options):
    return [keystr(path) for path, _ in tree_flatten_with_path(tree, **options)[0]]


# ---- containers ------------------------------------------------------------------------

TREES = [
    (3, [3]), (None, []), ((), []), ([], []), ({}, []), ("text", ["text"]),
    ((1, None, [2, (3,)]), [1, 2, 3]), ({"b": 1, "a": (2, 3)}, [2, 3, 1]),
    ({10: "x", 2: "y"}, ["y", "x"]), (Pair(1, {"k": 2}), [1, 2]),
    (OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
    (defaultdict(list, {"b": 1, "a": 2}), [2, 1]), ({1}, [{1}]),
]


@pytest.mark.parametrize(("tree", "leaves"), TREES)
def test_leaves_and_back(tree, leaves):
    found, treedef = tree_flatten(tree)
    assert found == leaves == tree_leaves(tree) and treedef == tree_structure(tree)
    assert treedef.num_leaves == len(leaves)
    back = tree_unflatten(treedef, iter(found))
    assert back == tree and type(back) is type(tree)


def test_order_and_factory_of_dicts():
    assert list(tree_map(abs, OrderedDict([("b", 1), ("a", 2)]))) == ["b", "a"]
    back = tree_map(abs, defaultdict(list, {"b": 1, "a": 2}))
    assert back.default_factory is list and list(back) == ["a", "b"]


def test_keys_that_cannot_be_sorted():
    with pytest.raises(ValueError, match="sorting"):
        tree_leaves({1: 2, "a": 1})
    with pytest.raises(TypeError, match="not supported between"):
        tree_leaves(defaultdict(list, {1: 2, "a": 1}))


def test_arrays_are_leaves():
    x = np.ones(3)
    assert tree_leaves({"a": x})[0] is x
    y = lax.full((2,), 1.0)
    assert tree_leaves((y,))[0] is y
    assert len(tree_leaves(mjax.ShapeDtypeStruct((2,), np.float32))) == 1


def test_subclasses_are_leaves_until_registered():
    class More(Many):
        pass

    class Dict(dict):
        pass

    assert len(tree_leaves([More(1, 2), Dict(a=1, b=2)])) == 2


def test_structures_compare():
    s = tree_structure
    assert s({"a": 1, "b": 2}) == s({"b": 1, "a": 2}) and s((1,)) != s([1])
    assert s(OrderedDict(a=1, b=2)) != s(OrderedDict(b=1, a=2))
    assert s(Pair(1, 2)) != s((1, 2)) and hash(s((1,))) == hash(s(("x",)))
    assert str(s({"a": (1, None), "b": [2]})) == "PyTreeDef({'a': (*, None), 'b': [*]})"


def test_treedefs():
    treedef = tree_structure({"a": (1, 2), "b": 3})
    assert treedef_children(treedef) == [tree_structure((1, 2)), tree_structure(1)]
    assert treedef_tuple([tree_structure(1), treedef]) == tree_structure(
        (1, {"a": (1, 2), "b": 3}))
    assert treedef_is_leaf(tree_structure(1)) and not treedef_is_leaf(tree_structure((1,)))
    assert treedef_is_leaf(tree_structure(())) and treedef_is_leaf(tree_structure(None))
    assert not treedef_is_leaf(tree_structure(([], ())))
    assert (treedef.num_leaves, treedef.num_nodes) == (3, 5)
    assert treedef.compose(treedef).num_leaves == 9


@pytest.mark.parametrize("wrong", [None, 3])
def test_treedef_tuple_refuses_other_values(wrong):
    with pytest.raises(TypeError, match="takes PyTreeDefs, got "):
        treedef_tuple([tree_structure(1), wrong])


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3]])
def test_unflatten_counts_leaves(leaves):
    with pytest.raises(ValueError, match=f"(?i)expected 2.*got {len(leaves)}|too many.*expected"):
        tree_unflatten(tree_structure((0, 0)), leaves)


def test_deep_trees():
    deep = functools.reduce(lambda tree, _: [tree], range(900), 7)
    assert tree_leaves(deep) == [7] and tree_structure(deep).num_nodes == 901


# ---- is_leaf ---------------------------------------------------------------------------


def test_is_leaf():
    is_tuple = lambda x: isinstance(x, tuple)
    assert tree_leaves([(1, 2), [3, (4,)]], is_leaf=is_tuple) == [(1, 2), 3, (4,)]
    assert tree_flatten((1, 2), is_leaf=lambda x: True) == ([(1, 2)], tree_structure(0))
    assert tree_leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree_structure([(1, 2)], is_leaf=is_tuple) == tree_structure([0])
    assert tree_map(len, [(1, 2), (3,)], is_leaf=is_tuple) == [2, 1]


def test_errors_of_is_leaf_reach_the_user():
    with pytest.raises(ZeroDivisionError):
        tree_leaves([1], is_leaf=lambda x: 1 / 0)


# ---- map -------------------------------------------------------------------------------


def test_map_of_several_trees():
    assert tree_map(operator.add, (1, {"a": 2}), (10, {"a": 20})) == (11, {"a": 22})
    assert tree_map(lambda *v: sum(v), [1], [2], [3]) == [6]
    assert tree_map(lambda x, y: (x, y), (1, None), (2, None)) == ((1, 2), None)
    assert tree_map(f=abs, tree=[-1]) == [1]


def test_map_takes_the_structure_of_the_first():
    pairs = tree_map(lambda x, y: (x, y), (1, 2), ([3], {"a": None}))
    assert pairs == ((1, [3]), (2, {"a": None}))


def test_map_with_none_as_leaf():
    is_none = lambda x: x is None
    assert tree_map(lambda x, y: (x, y), (1, None), (2, 3), is_leaf=is_none) == ((1, 2), (None, 3))


MISMATCHES = [
    ((1, 2), (1, 2, 3), r"at the root a tuple of 2 elements was expected, got one of 3"),
    ({"k": [(1, 2)]}, {"k": [[1, 2]]}, r"at \['k'\]\[0\] a tuple was expected, got a list"),
    ([{"a": 1}], [{"b": 1}], r"at \[0\] the keys \['a'\] were expected, got \['b'\]"),
    ({"a": 1}, {"a": 1, "b": 2}, r"the keys \['a'\] were expected, got \['a', 'b'\]"),
    ((1, [2]), (1, 2), r"at \[1\] a list was expected, got a leaf of type int"),
    ({"a": 1}, OrderedDict(a=1), "a dict was expected, got a OrderedDict"),
    (Pair(1, (2,)), Pair(1, ()), r"at .y a tuple of 1 elements was expected, got one of 0"),
    (None, 5, "a NoneType was expected, got a leaf of type int"),
    (Plain(1, "m"), Plain(1, "n"), "a Plain with the metadata 'm' was expected, got 'n'"),
    (Layer(1, 2, "m"), Layer(1, 2, "n"), r"metadata \('m',\) was expected, got \('n',\)"),
    (Many(1, 2), Many(1), "a Many of 2 elements was expected, got one of 1"),
    (Static(1), Static(2), "a Static with the metadata"),
]


@pytest.mark.parametrize(("first", "second", "text"), MISMATCHES)
def test_mismatches_name_the_place(first, second, text):
    for call in (lambda: tree_map(lambda x, y: 0, first, second),
                 lambda: tree_map_with_path(lambda p, x, y: 0, first, second),
                 lambda: tree_broadcast(first, second)):
        with pytest.raises(ValueError, match="pytrees of different structure: .*" + text):
            call()


def test_none_in_place_of_a_leaf_is_a_subtree():
    assert tree_map(lambda x, y: (x, y), (1, 2), (3, None)) == ((1, 3), (2, None))


# ---- reductions ------------------------------------------------------------------------


def test_reduce():
    assert tree_reduce(operator.sub, [10, (2, {"a": 3})]) == 5
    assert tree_reduce(operator.add, [], 4) == 4
    assert tree_reduce(lambda a, b: (a, b), [1], None) == (None, 1)
    assert tree_reduce(function=operator.add, tree=[(1, 2)], initializer=(),
                       is_leaf=lambda x: isinstance(x, tuple)) == (1, 2)
    with pytest.raises(TypeError, match="empty"):
        tree_reduce(operator.add, [])


def test_reduce_associative():
    pair = lambda a, b: f"({a}{b})"
    assert tree_reduce_associative(pair, list("abcd")) == "((ab)(cd))"
    assert tree_reduce_associative(pair, list("abcde")) == "((ab)(c(de)))"
    assert tree_reduce_associative(operation=pair, tree=["a"], identity="!") == "a"
    assert tree_reduce_associative(pair, {}, identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        tree_reduce_associative(pair, [])
    assert tree_reduce_associative(operator.add, list(range(1000))) == 499500


def test_all():
    assert tree_all([1, (True,)]) and not tree_all([1, 0]) and tree_all(None)
    assert not tree_all([1, []], is_leaf=lambda x: x == [])


def test_all_leaves():
    assert all_leaves([1, "a"]) and all_leaves([])
    assert not all_leaves([1, (2,)]) and not all_leaves([None]) and not all_leaves([()])
    assert all_leaves([(1,)], is_leaf=lambda x: isinstance(x, tuple))


# ---- transposition, broadcasting -------------------------------------------------------


def test_transpose():
    s, tree = tree_structure, [{"a": 1, "b": (2,)}, {"a": 3, "b": (4,)}]
    assert tree_transpose(s([0, 0]), s({"a": 0, "b": (0,)}), tree) == {"a": [1, 3], "b": ([2, 4],)}
    assert tree_transpose(s([0, 0]), None, tree) == {"a": [1, 3], "b": ([2, 4],)}
    assert tree_transpose(s([0]), s(()), [()]) == ()
    assert tree_transpose(s([0]), None, pytree_to_transpose=[(1, 2)]) == ([1], [2])


@pytest.mark.parametrize(("inner", "tree"), [({"a": 0}, [1, 2, 3]), (None, [(1, 2), 3])])
def test_transpose_of_another_structure(inner, tree):
    inner = inner and tree_structure(inner)
    with pytest.raises(TypeError, match="not a composition of"):
        tree_transpose(tree_structure([0, 0]), inner, tree)


def test_broadcast():
    assert tree_broadcast((1, 2), ([3, 4], {"a": 5})) == ([1, 1], {"a": 2})
    assert tree_broadcast(1, {"a": (0, None)}) == {"a": (1, None)}
    assert tree_broadcast((None, 1), ((2, 3), 4), is_leaf=lambda x: x is None) == ((None, None), 1)
    assert tree_broadcast(prefix_tree=None, full_tree=None) is None
    # Leaves of the prefix, not of the full tree.
    assert tree_broadcast((1, 2), (3, (4, 5)), is_leaf=lambda x: x == (4, 5)) == (1, (2, 2))


# ---- key paths -------------------------------------------------------------------------


def test_key_paths():
    tree = {"a": [1, Pair(2, None)], "b": OrderedDict(z=3), "c": defaultdict(int, k=4)}
    pairs, treedef = tree_flatten_with_path(tree)
    assert pairs == [
        ((DictKey("a"), SequenceKey(0)), 1),
        ((DictKey("a"), SequenceKey(1), GetAttrKey("x")), 2),
        ((DictKey("b"), DictKey("z")), 3), ((DictKey("c"), DictKey("k")), 4)]
    assert treedef == tree_structure(tree) and tree_leaves_with_path(tree) == pairs
    assert tree_flatten_with_path(3) == ([((), 3)], tree_structure(3))


def test_keystr():
    path = (DictKey("a"), SequenceKey(1), GetAttrKey("x"), FlattenedIndexKey(2))
    assert keystr(path) == "['a'][1].x[<flat index 2>]" and keystr(()) == ""
    assert keystr(path, simple=True, separator="/") == "a/1/x/2"
    assert keystr(path[:2], separator="|") == "['a']|[1]"
    assert keystr(("own", 1), simple=True, separator=".") == "own.1"


def test_keys_have_fields_and_compare():
    assert (DictKey(key="k").key, SequenceKey(idx=1).idx, GetAttrKey(name="n").name,
            FlattenedIndexKey(key=3).key) == ("k", 1, "n", 3)
    assert DictKey("a") == DictKey("a") != DictKey("b") and SequenceKey(0) != DictKey(0)
    assert hash(GetAttrKey("x")) == hash(GetAttrKey("x"))


def test_key_paths_of_custom_nodes():
    assert path_strings(Plain((1, 2), "m")) == ["[<flat index 0>][0]", "[<flat index 0>][1]"]
    assert path_strings(Keyed(1, [2])) == [".a", "second[0]"]
    assert path_strings(Many(1, 2)) == ["[<flat index 0>]", "[<flat index 1>]"]
    assert path_strings(Named(1, (2,))) == ["v0", "v1[0]"]
    assert path_strings(Layer(1, [2])) == [".weight", ".bias[0]"]


def test_map_with_path():
    tree = {"a": [1, 2], "b": None}
    assert tree_map_with_path(lambda p, x, y: f"{keystr(p)}={x + y}", tree,
                              {"a": [10, 20], "b": None}) == {
        "a": ["['a'][0]=11", "['a'][1]=22"], "b": None}


def test_is_leaf_with_paths():
    assert tree_leaves_with_path((1, None), is_leaf=lambda x: x is None) == [
        ((SequenceKey(0),), 1), ((SequenceKey(1),), None)]
    assert path_strings(((1, 2), [3]), is_leaf=lambda x: isinstance(x, tuple) and len(x) == 2
                        and x[0] == 1) == ["[0]", "[1][0]"]
    assert tree_map_with_path(lambda p, x: (keystr(p), x), [(1,), 2],
                              is_leaf=lambda x: isinstance(x, tuple)) == [
        ("[0]", (1,)), ("[1]", 2)]


def test_is_leaf_that_takes_the_path():
    tree = {"a": [1, 2], "b": [3, None], "c": Keyed(4, Plain(5, "m"))}

    def is_leaf(path, node):
        return keystr(path) in ("['a']", "['c'].a")

    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path=True)
    assert [(keystr(p), x) for p, x in pairs] == [
        ("['a']", [1, 2]), ("['b'][0]", 3), ("['c'].a", 4), ("['c']second[<flat index 0>]", 5)]
    assert treedef == tree_structure(
        {"a": 0, "b": [0, None], "c": Keyed(0, Plain(0, "m"))})
    assert tree_map_with_path(lambda p, x: keystr(p), tree["a"], is_leaf=lambda p, x: len(p) == 1,
                              is_leaf_takes_path=True) == ["[0]", "[1]"]
    assert tree_leaves_with_path([1], lambda p, x: True, is_leaf_takes_path=True) == [((), [1])]


# ---- faces -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in mjax.tree.__all__ if n != "static"])
def test_short_names(name):
    short, long = getattr(mjax.tree, name), getattr(tree_util, f"tree_{name}")
    assert short.__code__ is long.__code__ and short.__kwdefaults__ == long.__kwdefaults__
    assert short.__name__ == name and pickle.loads(pickle.dumps(short)) is short


# ---- one level -------------------------------------------------------------------------


@register_pytree_node_class
class Held:
    def __init__(self, *children):
        self.children = children

    def __repr__(self):
        return f"Held{self.children}"  # part of a test's name, the same in all processes

    def tree_flatten(self):
        return self.children, "held"

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


class Pair(NamedTuple):
    x: Any
    y: Any


ONE_LEVEL = [
    ([1, [2]], [SequenceKey(0), SequenceKey(1)], [1, [2]], None),
    ((), [], [], None), (None, [], [], None),
    ({"b": 1, "a": [2]}, [DictKey("a"), DictKey("b")], [[2], 1], ("a", "b")),
    (Pair(1, 2), [GetAttrKey("x"), GetAttrKey("y")], [1, 2], Pair),
    (collections.OrderedDict(b=1, a=2), [DictKey("b"), DictKey("a")], [1, 2], ("b", "a")),
    (collections.defaultdict(int, b=1), [DictKey("b")], [1], (int, ("b",))),
    (Held(3, (4,)), [FlattenedIndexKey(0), FlattenedIndexKey(1)], [3, (4,)], "held"),
]


@pytest.mark.parametrize(("tree", "keys", "children", "data"), ONE_LEVEL, ids=str)
def test_one_level(tree, keys, children, data):
    found, metadata = tree_util.flatten_one_level(tree)
    assert list(found) == children and metadata == data
    pairs, metadata = tree_util.flatten_one_level_with_keys(tree)
    assert list(pairs) == list(zip(keys, children, strict=True)) and metadata == data
    assert tree_util.is_tree_node(type(tree))


@pytest.mark.parametrize("leaf", [3, "text", np.ones(2), object()], ids=type)
def test_leaves_have_no_level(leaf):
    for f in (tree_util.flatten_one_level, tree_util.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match=f"a {type(leaf).__name__} is a leaf"):
            f(leaf)
    assert not tree_util.is_tree_node(type(leaf))


def test_the_default_registry():
    leaves, treedef = tree_util.default_registry.flatten({"a": [1, Held(2)]})
    assert leaves == [1, 2] and treedef == tree_structure({"a": [1, Held(2)]})


def test_static_fields():
    @register_dataclass
    @dataclasses.dataclass
    class Layer:
        weights: Any
        name: str = mjax.tree.static(default="dense", metadata={"doc": "how it is called"})

    (field,) = [f for f in dataclasses.fields(Layer) if f.name == "name"]
    assert field.metadata == {"static": True, "doc": "how it is called"}
    leaves, treedef = tree_flatten(Layer(1.0, "conv"))
    assert leaves == [1.0] and treedef.unflatten([2.0]) == Layer(2.0, "conv")
    assert tree_leaves(Layer(1.0)) == [1.0] and Layer(1.0).name == "dense"


@register_pytree_node_class
class Strict:
    """Takes nothing but arrays: no number stands in for one."""

    def __init__(self, value):
        if not hasattr(value, "dtype"):
            raise TypeError("no array")
        self.value = value

    def tree_flatten(self):
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(*children)


def test_transformations_make_no_tree_of_other_leaves():
    given = Strict(np.ones(2, np.float32))
    mesh = mjax.make_mesh((1,), ("a",), devices=mjax.devices()[:1])
    place = mjax.sharding.SingleDeviceSharding(mjax.devices()[0])
    spec = mjax.sharding.PartitionSpec("a")
    pair = lambda tree: (tree, [tree])
    for mapped in (mjax.jit(pair), mjax.jit(pair, donate_argnums=0),
                   mjax.jit(pair, in_shardings=place),
                   mjax.vmap(pair), mjax.vmap(pair, out_axes=(0, 0)),
                   mjax.jit(pair, out_shardings=(place, None)),
                   mjax.shard_map(pair, mesh=mesh, in_specs=spec, out_specs=(spec, [spec]))):
        first, (second,) = mapped(given)
        assert first.value.tolist() == second.value.tolist() == [1, 1]
    with pytest.raises(ValueError, match="not a tree prefix"):
        mjax.vmap(lambda x: {"a": x}, out_axes={"b": 0})(np.ones(2, np.float32))
