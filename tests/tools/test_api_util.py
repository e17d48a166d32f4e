"""Functions for authors of transformations: trees to leaves, arguments by number, names."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import api_util
from mjax_ext import api_util as ext_api_util
from mjax_ext import linear_util as lu
from mjax_ext import util


def f(x, y, *rest, k=1, **kw):
    return {"x": x, "rest": list(rest)}, k


def test_functions_of_trees_are_functions_of_leaves():
    args, kwargs = (1, {"a": 2}, 3), {"k": [4, 5]}
    leaves, tree = mjax.tree.flatten((args, kwargs))
    fun, out_tree = api_util.flatten_fun(lu.wrap_init(f), tree)
    assert fun.call_wrapped(*leaves) == [3, 1, 4, 5]
    assert out_tree() == mjax.tree.structure(f(*args, **kwargs))
    leaves, tree = mjax.tree.flatten(args)
    fun, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(f), tree)
    assert fun.call_wrapped(*leaves) == [3, 1, 1]
    assert out_tree() == mjax.tree.structure(f(*args))
    assert api_util.flatten_fun(lu.wrap_init(f), tree)[0] == api_util.flatten_fun(
        lu.wrap_init(f), tree)[0]
    with pytest.raises(TypeError, match="wrap_init"):
        api_util.flatten_fun(f, tree)
    fun, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(f), tree, use_eq_store=True,
                                                  unk_names=True)
    assert fun.call_wrapped(*leaves) == fun.call_wrapped(*leaves)
    assert fun.debug_info.arg_names is None


TREE = mjax.tree.structure(({"a": 1, "b": 2}, 3))


def test_axes_of_leaves():
    assert api_util.flatten_axes("in_axes", TREE, (0, None)) == [0, 0, None]
    assert api_util.flatten_axes("in_axes", TREE, 1) == [1, 1, 1]
    assert api_util.flatten_axes("in_axes", TREE, ({"a": None, "b": 2}, 0)) == [None, 2, 0]
    for wrong in ((0,), ({"a": 0}, 1), [0, 1]):
        with pytest.raises(ValueError, match="in_axes is not a tree prefix of the correspond"):
            api_util.flatten_axes("in_axes", TREE, wrong)
    both = mjax.tree.structure(((1, 2), {"k": 3}))
    with pytest.raises(ValueError, match="in_axes"):
        api_util.flatten_axes("in_axes", both, ((0,), 0), kws=True)
    with pytest.raises(ValueError, match="in_axes") as caught:
        api_util.flatten_axes("in_axes", mjax.tree.structure(({"a": 1},)), {"a": 0},
                              tupled_args=True)
    assert "write (spec,) for a single argument" in caught.value.__notes__[0]


def test_arguments_are_held_fixed():
    g = lu.wrap_init(lambda *args, **kwargs: (args, kwargs))
    fun, taken = api_util.argnums_partial(g, (0, -2), "abcd")
    assert taken == ("a", "c") and fun.call_wrapped(1, 3, k=5) == ((1, "b", 3, "d"), {"k": 5})
    assert api_util.argnums_partial(g, np.int32(1), "ab")[1] == ("b",)
    same = [api_util.argnums_partial(g, 0, (1, fixed))[0] for fixed in (2, 2, 2.0, True, 1)]
    assert same[0] == same[1] and same[0] != same[2] and same[3] != same[4]
    for number in (2, -3):
        with pytest.raises(ValueError, match=f"argument number {number}: there are 2 positional"):
            api_util.argnums_partial(g, number, "ab")
    for value in ([2], jnp.ones(2), ([],)):
        with pytest.raises(ValueError, match="argument 1 of <lambda>, .* not hashable"):
            api_util.argnums_partial(g, 0, (1, value))
    fun, _ = api_util.argnums_partial(g, 0, (1, [2]), require_static_args_hashable=False)
    assert fun.call_wrapped(7) == ((7, [2]), {})


def test_donated_leaves():
    tree = mjax.tree.structure(((1, {"a": 1, "b": 2}, 3), {"z": 1, "k": [1, 2]}))
    assert api_util.donation_vector((0, 2), ("k",), tree) == (
        True, False, False, True, True, True, False)
    assert api_util.donation_vector((1,), (), mjax.tree.structure((1, [2, 3])), kws=False) == (
        False, True, True)
    assert api_util.rebase_donate_argnums((4, 3), (0, 1)) == (1, 2)
    assert api_util.rebase_donate_argnums((), (0,)) == ()
    with pytest.raises(ValueError, match=r"\[3\] are both donated and static"):
        api_util.rebase_donate_argnums((3, 4), (3, 1))


@pytest.mark.parametrize(("args", "kwargs", "static", "names"), [
    ((1, {"a": 1, "b": 2}, 3, [4, 5]), {"k": 3, "z": [1, 2]}, {},
     ("x", "y['a']", "y['b']", "rest[0]", "rest[1][0]", "rest[1][1]", "k", "kw['z'][0]",
      "kw['z'][1]")),
    ((1, 2), {}, {"static_argnums": (0,)}, ("y",)),
    ((1, 2), {}, {"static_argnums": (-1, 7)}, ("x",)),
    ((1,), {"y": 2, "k": 3}, {"static_argnames": ("k",)}, ("x", "y")),
    ((), {"a": 1}, {}, ("kwargs['a']",)),  # the call does not fit
    ((1,), {}, {}, ("args[0]",)),
])
def test_arguments_have_names(args, kwargs, static, names):
    info = api_util.debug_info("test", f, args, kwargs, **static)
    assert info.arg_names == names and info.traced_for == "test" and info.func_name == "f"
    assert __file__ in info.func_src_info


def test_facts_about_functions_may_be_given():
    info = api_util.debug_info("test", f, (1,), {}, sourceinfo="g at place:3",
                               result_paths_thunk=lambda: ("out",),
                               signature=inspect.signature(lambda only: only))
    assert info.arg_names == ("only",) and info.func_src_info == "g at place:3"
    assert info.func_name == "g" and info.result_paths() == ("out",)
    wrapper = lambda *args: f(*args)
    wrapper.__fun_debug_info__ = info
    assert api_util.debug_info("other", wrapper, (1, 2), {}) is info
    assert api_util.debug_info("test", functools.partial(f, 1), (2,), {}).arg_names == ("y",)
    assert ext_api_util.fun_sourceinfo(functools.partial(f, 1)).startswith("f at ")
    assert api_util.debug_info("test", mjax.jit(f), (1, 2), {}).arg_names == ("x", "y")


def test_numbers_and_names_are_inferred():
    sig = inspect.signature(lambda a, /, b, c, *, d: 0)
    infer = ext_api_util.infer_argnums_and_argnames
    assert infer(sig, None, None) == ((), ())
    assert infer(sig, (1, 0), None) == ((1, 0), ("b",))
    assert infer(sig, None, ("c", "d")) == ((2,), ("c", "d"))
    assert infer(sig, None, "b") == ((1,), ("b",))
    assert infer(sig, 2, "d") == ((2,), ("d",))


def test_types_of_values_and_of_what_looks_like_one():
    duck = type("Duck", (), {"shape": (2, 3), "dtype": "float64"})()
    for value, text in ((1, "ShapedArray(int32[], weak_type=True)"), (np.ones(3, np.int8),
                        "ShapedArray(int8[3])"), (duck, "ShapedArray(float32[2,3])"),
                        (mjax.ShapeDtypeStruct((2,), "float64"), "ShapedArray(float32[2])"),
                        (mjax.typeof(jnp.ones(2)), "ShapedArray(float32[2])")):
        assert repr(api_util.shaped_abstractify(value)) == text
    for wrong in ("a", object(), [1]):
        with pytest.raises(TypeError, match="is not a valid array"):
            api_util.shaped_abstractify(wrong)


def test_lists_of_one_length():
    assert api_util.safe_map(lambda x, y: x + y, [1, 2], iter((3, 4))) == [4, 6]
    assert util.safe_zip([1], [2], [3]) == [(1, 2, 3)] and util.safe_zip() == []
    for call in (lambda: api_util.safe_map(max, [1], [1, 2]), lambda: util.safe_zip([], [1])):
        with pytest.raises(ValueError, match="different lengths: [01], [12]"):
            call()
    assert util.unzip2(iter([])) == ((), ()) and util.unzip3([(1, 2, 3)]) == ((1,), (2,), (3,))


def test_names_of_wrappers():
    def inner(x: int) -> int:
        """Twice."""
        return 2 * x

    def wrapper(x):
        return inner(x)

    by_template = util.wraps(inner, namestr="fast_{fun}", docstr="{fun}: {doc} {more}", more="!")
    assert by_template(wrapper) is wrapper and wrapper.__wrapped__ is inner
    assert (wrapper.__name__, wrapper.__doc__) == ("fast_inner", "inner: Twice. !")
    assert wrapper.__annotations__ == inner.__annotations__

    def unnamed(x):
        """Not this."""

    util.wraps(functools.partial(inner))(unnamed)
    assert (unnamed.__name__, unnamed.__doc__ or "") != ("unnamed", "Not this.")
