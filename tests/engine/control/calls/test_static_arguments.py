"""Static arguments in a flattened call."""

from __future__ import annotations

import pytest

from mjax._engine.control.calls.static_arguments import Static, StaticArguments
from mjax._engine.ir.pytree import tree_flatten


def function(x, flag, y=2.0, *, mode="a"):
    pass


def variadic(x, *rest, **named):
    pass


def marked(f, numbers=(), names=(), *args, **kwargs):
    """Which arguments are static, by position and by name."""
    positional, named = StaticArguments.of("checkpoint", f, numbers, names).mark(args, kwargs)
    return ([i for i, a in enumerate(positional) if type(a) is Static],
            [k for k, a in named.items() if type(a) is Static])


def test_positions_and_names_complete_each_other():
    assert marked(function, (), (), 1, 2) == ([], [])
    assert marked(function, 1, (), 1, 2) == ([1], [])
    assert marked(function, -2, (), 1, 2, 3) == ([1], [])
    assert marked(function, (1,), (), 1, flag=2) == ([], ["flag"])
    assert marked(function, (), "flag", 1, 2) == ([1], [])
    assert marked(function, [2], {"mode"}, 1, flag=2, mode=3) == ([], ["mode"])
    assert marked(variadic, (0, -1), "a", 1, 2, 3, a=4, b=5) == ([0, 2], ["a"])
    assert marked(min, 0, "x", 1, x=2) == ([0], ["x"])  # it may have no signature


def test_they_come_out_as_they_went_in():
    value = ("a", 1.0)
    args, kwargs = StaticArguments.of("checkpoint", function, 1, "mode").mark(
        (3, value), {"mode": None})
    leaves, tree = tree_flatten((args, kwargs))
    assert leaves == [3]
    (x, flag), named = tree.unflatten([4])
    assert x == 4 and flag is value and named == {"mode": None}


def test_equal_ones_are_one_structure():
    def structure(value):
        return tree_flatten(Static(value))[1]

    assert structure(("a", 1)) == structure(("a", 1))
    assert hash(structure("a")) == hash(structure("a"))
    # Python has these equal; a program may not.
    for a, b in [(1, 1.0), (1, True), (0.0, -0.0), ((1,), (True,)), ("a", "b")]:
        assert structure(a) != structure(b)
    assert structure(float("nan")) == structure(float("nan"))
    assert repr(Static("a")) == "static 'a'"


@pytest.mark.parametrize(("call", "text"), [
    (lambda: marked(function, 3), "checkpoint: static_argnums has 3, but function takes 3 "
                                  "positional arguments"),
    (lambda: marked(function, -4), "static_argnums has -4"),
    (lambda: marked(lambda x: x, 1), "takes 1 positional argument\\."),
    (lambda: marked(variadic, 2, (), 1, 2), "static_argnums has 2, but variadic was called with "
                                            "2 positional arguments"),
    (lambda: marked(variadic, -2, (), 1), "static_argnums has -2, but variadic was called with "
                                          "1 positional argument\\."),
    (lambda: marked(function, (), "z"), "static_argnames has 'z', which is not an argument of "
                                        "function"),
])
def test_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize(("numbers", "names", "text"), [
    (1.0, (), "static_argnums must be an integer or a tuple of these, got 1.0"),
    ((0, "x"), (), r"got \(0, 'x'\)"),
    ((), 1, "static_argnames must be a string or a sequence of these, got 1"),
    ((), ("a", None), r"got \('a', None\)"),
])
def test_of_the_wrong_type(numbers, names, text):
    with pytest.raises(TypeError, match=text):
        StaticArguments.of("checkpoint", function, numbers, names)
