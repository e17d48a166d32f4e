"""The C++ pytree registry of our own."""

from __future__ import annotations

import collections
import gc

import pytest

from mjaxlib_shim import trees
from mjaxlib_shim.trees import make_from_node_data_and_children, registry, treedef_tuple

Pair = collections.namedtuple("Pair", "first second")


class Box:
    def __repr__(self) -> str:
        # Part of test ids, which must not depend on the process.
        return "Box"

    def __init__(self, *items, tag=None):
        self.items, self.tag = items, tag


trees.register_node(
    Box,
    lambda box: (box.items, box.tag),
    lambda tag, items: Box(*items, tag=tag),
    lambda box: ([(trees.SequenceKey(i), x) for i, x in enumerate(box.items)], box.tag),
)


def test_flatten():
    leaves, treedef = registry.flatten({"b": (1, [2, None]), "a": Box(3, Pair(4, 5), tag="t")})
    assert leaves == [3, 4, 5, 1, 2]
    assert isinstance(treedef, trees.PyTreeDef)
    tree = treedef.unflatten("vwxyz")
    assert tree["a"].items == ("v", Pair("w", "x")) and tree["b"] == ("y", ["z", None])


def test_none_is_an_empty_node_or_a_leaf():
    assert registry.flatten([None, 1])[0] == [1]
    assert registry.flatten([None, 1], lambda x: x is None)[0] == [None, 1]
    assert trees.make_registry(none_is_node=False).flatten([None, 1])[0] == [None, 1]


def test_registry_is_private():
    assert trees.make_registry().flatten(Box(1))[0] != registry.flatten(Box(1))[0]
    with pytest.raises(ValueError, match="Box"):
        trees.register_node(Box, lambda box: ((), None), lambda data, items: Box())


def test_no_collection_falls_into_the_making_of_a_registry(monkeypatch):
    """One there ended processes while mjax was imported, on jaxlib 0.4.36."""
    seen = []
    callback = lambda phase, info: seen.append(phase)

    def constructor(**options):
        start = len(seen)
        kept = [[] for _ in range(100)]
        return len(seen) - start, len(kept)

    monkeypatch.setattr(trees, "PyTreeRegistry", constructor)
    threshold = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1, 1, 1)
    try:
        assert constructor()[0] > 0
        assert trees.make_registry() == (0, 100)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
    assert gc.isenabled()


def test_paths():
    paths, _ = registry.flatten_with_path({"a": [1, Box(2)]})
    (first, one), (second, two) = paths
    assert (one, two) == (1, 2)
    assert first == (trees.DictKey("a"), trees.SequenceKey(0))
    assert second == (trees.DictKey("a"), trees.SequenceKey(1), trees.SequenceKey(0))
    assert hash(first[0]) == hash(trees.DictKey("a"))
    assert trees.GetAttrKey("x").name == "x" and trees.FlattenedIndexKey(2).key == 2


def test_treedef_tuple():
    one, two = registry.flatten([1, 2])[1], registry.flatten({"a": 1})[1]
    assert treedef_tuple([one, two]) == registry.flatten(([1, 2], {"a": 1}))[1]
    assert treedef_tuple(iter(())) == registry.flatten(())[1]
    for wrong in (None, 1):  # None would end the process
        with pytest.raises(TypeError, match=f"treedef_tuple takes PyTreeDefs, got .*{wrong}"):
            treedef_tuple([one, wrong])


@pytest.mark.parametrize(
    "tree",
    [
        1,
        None,
        (),
        (1, (2, None)),
        [1, [2], {}],
        {"b": 1, "a": [2, 3]},
        Pair(1, (2, 3)),
        Box(1, Box(2, tag="inner"), tag="outer"),
    ],
    ids=repr,
)
def test_taking_apart_and_together(tree):
    treedef = registry.flatten(tree)[1]
    again = make_from_node_data_and_children(treedef.node_data(), treedef.children())
    assert again == treedef and hash(again) == hash(treedef)
    assert str(again) == str(treedef)


def test_mismatch():
    treedef = registry.flatten((1, {"a": 2}))[1]
    with pytest.raises(ValueError, match="a"):
        treedef.flatten_up_to((1, {"b": 2}))
