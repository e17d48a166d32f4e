"""Classes as containers: registration, and Partial."""

import dataclasses
import functools
import operator
from typing import Any

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.tree_util import (
    Partial,
    keystr,
    register_dataclass,
    register_pytree_node,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
)

from .containers import Keyed, Layer, Many, Named, Plain, Static

# ---- registration ----------------------------------------------------------------------


def test_custom_nodes():
    out = tree_map(operator.add, Plain(1, "m"), Plain(2, "m"))
    assert (out.child, out.tag) == (3, "m")
    assert tree_map(abs, Many(-1, -2)).values == (1, 2)
    assert tree_map(abs, Named(-1, -2)).values == (1, 2)
    assert tree_structure(Plain(1, "m")) != tree_structure(Plain(1, "n"))
    assert tree_leaves(Keyed(1, Plain(None, 0))) == [1]


def test_a_type_is_registered_once():
    with pytest.raises(ValueError, match=r"(?i)duplicate.*Plain"):
        register_pytree_node(Plain, lambda p: ((), None), lambda aux, kids: None)
    with pytest.raises(ValueError, match=r"(?i)duplicate"):
        register_pytree_node(tuple, lambda p: ((), None), lambda aux, kids: None)


def test_errors_in_flatten_functions_reach_the_user():
    class Bad:
        pass

    register_pytree_node(Bad, lambda b: 1 / 0, lambda aux, kids: Bad())
    with pytest.raises(ZeroDivisionError):
        tree_leaves([Bad()])


def test_static_nodes():
    assert tree_leaves([Static(1), 2]) == [2]
    assert tree_map(abs, [Static(-1), -2])[0].value == -1
    assert tree_structure(Static(1)) == tree_structure(Static(1)) != tree_structure(Static(2))


def test_static_nodes_are_part_of_jits_key():
    f = mjax.jit(lambda s, x: lax.mul(x, float(s.value)))
    assert (float(f(Static(2), 3.0)), float(f(Static(4), 3.0))) == (6.0, 12.0)


def test_dataclasses():
    layer = Layer(1, {"k": -2}, "first")
    assert tree_leaves(layer) == [1, -2]
    assert tree_map(abs, layer) == Layer(1, {"k": 2}, "first")
    assert tree_structure(layer) != tree_structure(Layer(1, {"k": 2}, "second"))


def test_dataclasses_with_named_fields():
    @functools.partial(register_dataclass, data_fields=("x",), meta_fields=["n"],
                       drop_fields=["cache"])
    @dataclasses.dataclass(frozen=True)
    class Point:
        x: Any
        n: int
        cache: Any = None

    assert tree_map(abs, Point(-1, -2, "kept?")) == Point(1, -2, None)


def test_dataclass_fields_that_init_does_not_take():
    @register_dataclass
    @dataclasses.dataclass
    class Derived:
        x: Any
        double: Any = dataclasses.field(init=False)

        def __post_init__(self):
            self.double = [self.x, self.x]

    assert tree_map(abs, Derived(-3)).double == [3, 3]


def test_classes_that_are_no_dataclasses_name_their_fields():
    class Point:
        def __init__(self, a, b):
            self.a, self.b = a, b

    assert register_dataclass(Point, ["a"], ["b"]) is Point
    assert vars(tree_map(abs, Point(-1, -2))) == {"a": 1, "b": -2}


@pytest.mark.parametrize(("fields", "error", "text"), [
    ({"data_fields": ["x"]}, TypeError, "give data_fields and meta_fields, or neither"),
    ({"meta_fields": ["x"]}, TypeError, "give data_fields and meta_fields, or neither"),
    ({"data_fields": ["x"], "meta_fields": []}, ValueError, r"missing: \['y'\]"),
    ({"data_fields": ["x", "y", "z"], "meta_fields": []}, ValueError, r"unexpected: \['z'\]"),
    ({"data_fields": ["x", "y"], "meta_fields": ["y"]}, ValueError, r"\['y'\] cannot be in data"),
])
def test_dataclass_fields_that_do_not_fit(fields, error, text):
    @dataclasses.dataclass
    class Point:
        x: Any
        y: Any = 0

    with pytest.raises(error, match=text):
        register_dataclass(Point, **fields)


def test_what_is_no_dataclass_is_refused_without_fields():
    with pytest.raises(TypeError, match=r"Plain'?>? is not a dataclass"):
        register_dataclass(Plain)


# ---- Partial ---------------------------------------------------------------------------


def test_partial():
    p = Partial(operator.sub, 10)
    assert p(3) == 7 and tree_leaves(Partial(max, 1, key=2)) == [1, 2]
    (first, _), (second, _) = tree_flatten_with_path(Partial(max, 1, key=2))[0]
    assert keystr(first) == "[<flat index 0>][0]" and keystr(second) == "[<flat index 1>]['key']"
    assert tree_map(lambda x: x * 2, p)(3) == 17 and type(tree_map(abs, p)) is Partial
    assert tree_structure(p) == tree_structure(Partial(operator.sub, 3))
    assert tree_structure(p) != tree_structure(Partial(operator.add, 3))


def test_partial_of_a_partial_keeps_it_whole():
    base = functools.partial(operator.sub, 10)
    p = Partial(base, 3)
    assert p() == 7 and tree_leaves(p) == [3]
    assert tree_structure(p) == tree_structure(Partial(base, 4))
    assert tree_leaves(Partial(Partial(operator.sub, 10), 4)) == [4]
    assert len(tree_leaves(base)) == 1


def test_the_function_of_a_partial_is_what_was_given():
    base = functools.partial(operator.sub, 10)
    for f in (operator.sub, base, Partial(operator.sub, 1)):
        assert Partial(f, 3).func == f and f == Partial(f, 3).func
        assert Partial(f).func != functools.partial(operator.sub, 11)


def test_jit_takes_and_gives_partials():
    f = mjax.jit(lambda p, x: Partial(p.func, lax.mul(p(x), 2.0)))
    out = f(Partial(lax.add, np.float32(1)), 2.0)
    assert type(out) is Partial and float(out(1.0)) == 7.0
    assert float(f(Partial(lax.add, np.float32(3)), 2.0)(0.0)) == 10.0 and f._cache_size() == 1
