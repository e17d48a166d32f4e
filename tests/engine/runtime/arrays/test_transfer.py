"""device_put and device_get, and which device a computation runs on."""

import functools
import warnings

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.transfer import to_array, unshared
from mjax.dtypes import float0
from mjaxlib_shim import guards

X = np.arange(3, dtype=np.float32)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


# ---- one device ------------------------------------------------------------------------


def test_put_of_trees():
    out = mjax.device_put({"a": X, "b": (1, [2.5, True], None)})
    assert mjax.tree.structure(out) == mjax.tree.structure({"a": 0, "b": (0, [0, 0], None)})
    assert all(type(leaf) is type(out["a"]) and not leaf.committed
               for leaf in mjax.tree.leaves(out))
    np.testing.assert_array_equal(out["a"], X)
    assert [str(leaf.aval) for leaf in mjax.tree.leaves(out)] == [
        "float32[3]", "~int32[]", "~float32[]", "bool[]"]
    assert mjax.device_put(None) is None and mjax.device_put(np.arange(2.0)).dtype == np.float32


def test_put_commits_to_a_device_that_is_given():
    device = mjax.devices()[0]
    for target in (device, mjax.device_put(X, device).sharding):
        out = mjax.device_put([X, 1.0], target)
        assert all(leaf.committed and leaf.device == device for leaf in out)
    committed = mjax.device_put(X, device)
    assert mjax.device_put(committed).committed
    assert mjax.device_put(committed, device) is committed


def test_put_of_a_prefix_tree_of_devices():
    device = mjax.devices()[0]
    out = mjax.device_put({"a": X, "b": (X, X)}, {"a": None, "b": device})
    assert [leaf.committed for leaf in mjax.tree.leaves(out)] == [False, True, True]
    with pytest.raises(ValueError, match="tuple of 1 elements was expected, got one of 2"):
        mjax.device_put((X, X), (device,))


def test_what_is_put_may_be_changed_afterwards():
    x = np.ones(1000, np.float32)
    array = mjax.device_put(x)
    x[:] = 7
    np.testing.assert_array_equal(array, np.ones(1000))


@pytest.mark.parametrize("device", ["cpu", 1, 2.5])
def test_what_is_no_device_is_refused(device):
    with pytest.raises(ValueError, match=r"expected a device .*or a sharding, got"):
        mjax.device_put(X, device)
    with pytest.raises(ValueError, match=r"expected a device .*or a sharding, got"):
        mjax.jit(lambda x: lax.neg(x), device=device)(X)


@pytest.mark.filterwarnings("ignore:The 'generic' unit")  # of NumPy from 2.5 on
def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match=r"device_put: argument\['k'\]\[1\] is not a valid array"):
        mjax.device_put({"k": [1, "text"]})
    for value in (np.timedelta64(3), np.zeros(1, "i4,i4")[0]):  # without a hash
        with pytest.raises(TypeError, match=r"argument\[0\] is not a valid array: a NumPy"):
            mjax.jit(lambda x: x)(value)


def test_put_under_transformations():
    device = mjax.devices()[0]
    f = lambda x: lax.mul(mjax.device_put(x, device), 2.0)
    np.testing.assert_array_equal(mjax.jit(f)(X), 2 * X)
    np.testing.assert_array_equal(mjax.vmap(f)(X), 2 * X)
    assert mjax.grad(f)(3.0) == 2.0 and mjax.jvp(f, (3.0,), (1.0,)) == (6.0, 2.0)
    assert mjax.linear_transpose(f, 1.0)(1.0) == (2.0,)


def test_put_of_float0():
    zeros = np.zeros(3, float0)
    assert mjax.device_put(zeros).shape == (3,)
    assert mjax.device_put(zeros, mjax.devices()[0]).dtype == float0
    outs = mjax.jit(lambda x, y: (x, y, lax.reshape(x, (1, 3))))(zeros, 1.0)
    assert type(outs[0]) is type(outs[2]) is np.ndarray and outs[0].dtype == float0


def test_float0_of_others():
    """jax has a dtype object of its own."""
    zeros = np.zeros(3, [("float0", np.void, 0)])
    assert zeros.dtype is not float0
    z, n = mjax.jit(lambda x: (x, 1))(zeros)
    assert z.dtype == float0 and n == 1
    assert mjax.jit(lambda: (zeros, X))()[0].dtype == float0


def test_signs_of_zero_parts_of_complex_scalars():
    for kind in (complex, np.complex64):
        for parts in ((-1.0, 0.0), (-1.0, -0.0), (0.0, 2.0), (-0.0, 2.0)):
            value = kind(complex(*parts))
            assert str(np.asarray(lax.real(value))) == str(np.float32(parts[0]))
            assert str(np.asarray(lax.imag(value))) == str(np.float32(parts[1]))


def test_get():
    out = mjax.device_get({"a": mjax.device_put(X), "b": [1, 2.5, None, "text"], "c": X})
    assert type(out["a"]) is np.ndarray and out["c"] is X
    np.testing.assert_array_equal(out["a"], X)
    assert out["b"] == [1, 2.5, None, "text"]
    assert type(mjax.device_get(np.float32(2))) is np.ndarray
    assert mjax.device_get(lax.full((2,), 1, BFLOAT16)).dtype == BFLOAT16


def test_get_of_traced_values_gives_them_back():
    def f(x):
        seen = mjax.device_get([x, X])
        assert seen[0] is x and isinstance(seen[1], np.ndarray)
        return lax.mul(seen[0], 2.0)

    assert f(3.0) == mjax.grad(f)(1.0) + 4 == mjax.vmap(f)(jnp.full(2, 3.0))[1] == 6
    assert mjax.jit(lambda x: lax.mul(mjax.device_get(x), 2.0))(3.0) == 6


def test_block_until_ready_asks_leaves_of_other_libraries():
    """Such as a future, or the array of a wrapper, that no pytree node holds."""
    class Pending:
        asked = 0

        def block_until_ready(self):
            self.asked += 1

    pending = Pending()
    for tree in (pending, (pending, 2), [mjax.device_put(X), pending], {"a": (pending, None)}):
        assert mjax.block_until_ready(tree) is tree
    assert pending.asked == 4


def test_block_until_ready_gives_the_tree():
    x, y, z = (lax.add(X, X) for _ in range(3))
    for tree in (x, {"a": x, "b": 1, "c": None}, (x, y), [x, (y,)],
                 (x, {"a": [y, 2.0]}, None, (z,)),
                 (), 3, None):
        assert mjax.block_until_ready(tree) is tree
    assert x.is_ready() and y.is_ready() and z.is_ready()
    z.delete()
    for tree in (z, (x, z), (x, {"a": [y, z]})):
        with pytest.raises(RuntimeError, match="deleted"):
            mjax.block_until_ready(tree)


def test_scalars_that_come_again_are_shared():
    value = 2.53125  # which no other test has
    first = to_array(value)
    assert to_array(value) is to_array(value) is not first
    assert to_array(value) is not to_array(np.float32(value))
    assert to_array(value, shared=False) is not to_array(value)
    zero, minus = lax.neg(0.0), lax.neg(-0.0)
    assert np.signbit(zero) and not np.signbit(minus)


def test_scalars_that_are_new_each_time_are_not_kept():
    """A count, or a rate that decays, would push out the scalars that are used again."""
    to_array(0.375)
    kept = to_array(0.375)
    for i in range(5000):
        to_array(i + 0.625)
    assert to_array(0.375) is kept


def test_scalars_of_all_values_have_the_type_that_they_have_alone():
    values = [True, 7, -(2**31), 2**31 - 1, 1.5, -0.0, np.inf, np.nan, np.float32(2), np.int32(3),
              np.bool_(False), np.float16(4), np.int64(5), 2j]
    for wide in (False, True):
        with mjax.enable_x64(wide):
            for value in [*values, *([2**40, -(2**63), 1e300] if wide else [])]:
                arrays = to_array(value), to_array(value), to_array(value, shared=False)
                for array in arrays:
                    assert array.aval == typeof(value) and not array.committed
                    np.testing.assert_array_equal(array, np.asarray(value, array.dtype))
            with pytest.raises(OverflowError):
                to_array(2**63 if wide else 2**31)


def test_guards_do_not_apply_to_shared_scalars():
    """They may be there already, so refusals would depend on what ran before."""
    for guard in (mjax.transfer_guard, mjax.transfer_guard_host_to_device):
        with guard("disallow"):
            assert guards.is_guarded("host_to_device")
            assert to_array(1234.5 + len(guard.__name__)).shape == ()
        assert not guards.is_guarded("host_to_device")
    mjax.config.update("transfer_guard_host_to_device", "disallow")
    try:
        assert guards.is_guarded("host_to_device") and to_array(4321.5).shape == ()
        with mjax.transfer_guard_host_to_device("allow"):
            assert not guards.is_guarded("host_to_device")
    finally:
        mjax.config.update("transfer_guard_host_to_device", "allow")
    assert not guards.is_guarded("host_to_device")


def test_scalars_stay_shared_as_long_as_they_live():
    """Also after the cache forgot them, or a result could be an array that a program holds."""
    to_array(0.125)
    held, given = to_array(0.125), mjax.device_put(X)
    for i in range(5000):
        to_array(i + 0.25)
        to_array(i + 0.25)
    assert to_array(0.125) is not held
    assert unshared(held) is not held and unshared(given) is given
    assert float(unshared(held)) == 0.125


# ---- two devices -----------------------------------------------------------------------

d0, d1 = mjax.devices()[:2]


@pytest.fixture
def free():
    """An array that is not committed."""
    return mjax.device_put(X)


@pytest.fixture
def on0():
    return mjax.device_put(X, d0)


@pytest.fixture
def on1():
    return mjax.device_put(X, d1)


def where(x):
    np.asarray(x)
    return mjax.devices().index(x.device), x.committed


def message(f):
    try:
        f()
    except ValueError as error:
        return str(error)


def total(x):
    return lax.reduce_sum(x, (0,))


def test_committed_arguments_decide(free, on0, on1):
    assert [where(a) for a in (free, on0, on1)] == [(0, False), (0, True), (1, True)]
    f = mjax.jit(lambda x, y: lax.add(x, y))
    tree = mjax.jit(lambda d: lax.add(d["x"], d["y"]))
    for g in (lax.add, f, lambda x, y: tree({"x": x, "y": y})):
        for _ in range(2):
            assert where(g(free, on1)) == where(g(on1, free)) == where(g(on1, on1)) == (1, True)
            assert where(g(on1, X)) == where(g(X, on1)) == (1, True)
            assert where(g(on0, free)) == (0, True) and where(g(free, X)) == (0, False)
            np.testing.assert_array_equal(g(X, on1), 2 * X)
    assert where(lax.mul(on1, np.float32(2))) == (1, True)
    assert where(mjax.vmap(lax.neg)(on1)) == where(on1[1]) == (1, True)
    assert where(mjax.grad(lambda x: total(lax.sin(x)))(on1)) == (1, True)
    assert where(mjax.jit(lambda x, y: (x, lax.neg(y)))(free, on1)[0]) == (1, True)


def test_arguments_committed_to_different_devices(free, on0, on1):
    text = message(lambda: lax.add(on0, on1))
    assert "committed to different devices" in text and "cpu:0" in text and "cpu:1" in text, text
    f = mjax.jit(lambda x, tree: lax.add(x, tree["k"]))
    text = message(lambda: f(on0, {"k": on1}))
    assert "argument x to cpu:0, argument tree['k'] to cpu:1" in text and "device_put" in text, text
    assert message(lambda: f(on1, {"k": free})) is None
    # An argument that is not used has no say.
    assert where(mjax.jit(lambda x, y: lax.neg(x))(on0, on1)) == (0, True)
    assert where(mjax.jit(lambda x, y: lax.neg(x))(free, on1)) == (0, False)
    assert message(lambda: mjax.jit(lambda x, y: lax.neg(x), keep_unused=True)(on0, on1))


def test_jit_on_a_device(free, on0, on1):
    for argument in (X, free, on0, on1):
        f = mjax.jit(lambda x: lax.mul(x, x), device=d1)
        g = mjax.jit(lambda x, y: (x, lax.add(x, y)), device=d1)
        for _ in range(3):
            assert where(f(argument)) == (1, True)
            np.testing.assert_array_equal(f(argument), X * X)
            assert [where(a) for a in g(argument, on0)] == [(1, True), (1, True)]
    assert where(mjax.jit(lambda: lax.full((2,), 1.0), device=d1)()) == (1, True)
    assert where(mjax.jit(lambda x: x, device=d1)(X)) == (1, True)
    assert where(mjax.jit(lax.neg, backend="cpu")(on1)) == (0, True)
    compiled = mjax.jit(lax.neg, device=d1).lower(X).compile()
    assert where(compiled(X)) == (1, True)


def test_closed_over_arrays_have_no_say(free, on0, on1):
    f = mjax.jit(lambda x: lax.add(x, on1))
    assert where(f(free)) == (0, False) and where(f(on0)) == (0, True)
    assert where(f(on1)) == (1, True)
    np.testing.assert_array_equal(f(on0), 2 * X)


def test_default_device(free, on0):
    add = mjax.jit(lambda x: lax.add(x, np.float32(1)))
    for chosen in (d1, d0, d1):
        with mjax.default_device(chosen):
            n = mjax.devices().index(chosen)
            made = lax.full((3,), 1.0)
            for out in (made, mjax.device_put(X), lax.neg(free), add(X), add(free),
                        lax.add(np.float32(1), np.float32(2))):
                assert where(out) == (n, False)
            assert where(add(on0)) == where(lax.neg(on0)) == (0, True)
    # Outside, an uncommitted array goes where the others do.
    assert where(made) == (1, False)
    assert where(lax.neg(made)) == where(lax.add(made, free)) == (0, False)
    assert where(lax.add(made, on0)) == (0, True) and where(add(X)) == (0, False)
    mjax.config.update("default_device", d1)
    try:
        assert where(add(X)) == (1, False)
    finally:
        mjax.config.update("default_device", None)


def test_put_on_devices(on0, on1):
    assert [where(a) for a in mjax.device_put([X, X], [d0, d1])] == [(0, True), (1, True)]
    assert where(mjax.device_put(on1, d0)) == (0, True)
    assert where(mjax.device_put(on1, on0.sharding)) == (0, True)
    assert where(mjax.device_put(on1)) == (1, True)
    copy = mjax.device_put(on0, d1)
    on0.delete()
    np.testing.assert_array_equal(copy, X)
    assert type(mjax.device_get({"k": copy})["k"]) is np.ndarray
    with pytest.raises(RuntimeError, match="has been deleted"):  # it ended the process
        mjax.device_put(on0, d1)


def test_cotangents_go_back_where_the_value_came_from(on0, on1):
    def f(w):
        hidden = lax.sin(lax.mul(w, on0))
        moved = mjax.device_put(hidden, d1)
        return lax.add(total(lax.mul(moved, on1)), mjax.device_put(total(hidden), d1))

    expected = np.cos(X * X) * X * (X + 1)
    out = mjax.grad(f)(on0)
    assert where(out) == (0, True)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert where(mjax.vjp(f, on0)[0]) == (1, True)
    np.testing.assert_allclose(mjax.jit(mjax.grad(lambda w: total(lax.mul(
        mjax.device_put(w, d1), X))))(X), X)
    np.testing.assert_allclose(mjax.linearize(f, on0)[1](on0), np.sum(expected * X), rtol=1e-5)


def test_donation_and_moves(on1):
    x = mjax.device_put(X)
    assert where(mjax.jit(lambda x, y: lax.add(x, y), donate_argnums=0)(x, on1)) == (1, True)
    y = mjax.device_put(X, d1)
    out = mjax.jit(lambda y: lax.add(y, np.float32(1)), donate_argnums=0)(y)
    assert where(out) == (1, True) and y.is_deleted()


def test_transformed_and_inner_functions_of_a_device(free, on0, on1):
    f = mjax.jit(lambda x: total(lax.mul(x, x)), device=d1)
    for x in (X, free, on0, on1):
        for _ in range(2):
            assert where(mjax.grad(f)(x)) == where(mjax.value_and_grad(f)(x)[0]) == (1, True)
            assert where(mjax.vmap(f)(lax.broadcast(x, (2,)))) == (1, True)
            assert [where(t) for t in mjax.jvp(f, (x,), (x,))] == [(1, True)] * 2
        np.testing.assert_array_equal(mjax.grad(f)(x), 2 * X)
    vjp = mjax.vjp(f, X)[1]
    assert where(vjp(np.float32(1))[0]) == (1, True)
    for transform in (lambda f: f, mjax.grad, mjax.value_and_grad):
        outer = mjax.jit(transform(lambda x: lax.mul(f(x), 2.0)))
        for x in (X, free, on1):
            out = outer(x)
            assert where(out[0] if isinstance(out, tuple) else out) == (1, True)
        text = message(functools.partial(outer, on0))
        assert f"argument x to cpu:0, jit(<lambda>) at {__file__}" in text, text
        assert "to cpu:1" in text, text
    assert where(mjax.jit(lambda x: f(x), device=d1)(on0)) == (1, True)
    text = message(lambda: mjax.jit(lambda x: f(x), device=d0)(X))
    assert "the device given to jit to cpu:0, jit(<lambda>)" in text, text
    text = message(lambda: mjax.jit(lambda x: f(x).lower(), device=3))
    assert "expected a device" in text and "got 3" in text, text
    assert "not both" in message(lambda: mjax.jit(f, device=d0, backend="cpu"))
    inline = mjax.jit(lax.neg, device=d1, inline=True)
    assert where(mjax.jit(lambda x: inline(x))(X)) == (1, True)
    assert mjax.make_jaxpr(f)(X).eqns[0].params["device"] == d1
    # Dead code has no say.
    assert where(mjax.jit(lambda x: (f(x), x)[1] + 1.0)(on0)) == (0, True)


def test_device_put_inside_of_a_program(on0, on1):
    f = mjax.jit(lambda x: lax.mul(mjax.device_put(x, d1), 2.0))
    for x, place in ((X, (0, False)), (on0, (0, True))):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert where(f(x)) == where(f(x)) == place
        assert len(seen) == 1 and seen[0].filename == __file__, seen
        text = str(seen[0].message)
        assert f"device_put to cpu:1 at {__file__}:" in text.replace("TFRT_CPU_", "cpu:"), text
        assert "has no effect" in text and "outside of jit" in text
    assert where(f(on1)) == (1, True)  # it is there already
    assert where(mjax.jit(lambda x: mjax.device_put(x))(on1)) == (1, True)


def test_compiled_functions_do_not_move_what_the_user_placed(free, on0, on1):
    compiled = mjax.jit(lambda x, y, z: lax.add(x, y)).lower(X, X, X).compile()
    assert where(compiled(free, X, on1)) == (0, False)  # what is not read has no say
    text = message(lambda: compiled(on1, X, X))
    assert "argument x: compiled for" in text and "committed to" in text and "device_put" in text
    assert "argument y" not in text
    text = message(lambda: compiled(on1, on1, X))
    assert "argument x" in text and "argument y" in text
    with mjax.default_device(d1):
        elsewhere = lax.full((3,), 1.0)
    assert where(compiled(elsewhere, X, X)) == (0, False)
    assert where(mjax.jit(lax.add, device=d1).lower(X, X).compile()(on0, X)) == (1, True)
    there = mjax.jit(lax.add).lower(on1, X).compile()
    assert where(there(X, X)) == where(there(on1, elsewhere)) == (1, True)
    assert "device_put" in message(lambda: there(on0, X))
    assert mjax.jit(lax.add).lower(mjax.ShapeDtypeStruct.like(on1), X).compile()(X, X).device == d1


def test_live_arrays():
    x = jnp.arange(3) + 1
    assert any(y is x for y in mjax.live_arrays()) and any(y is x for y in mjax.live_arrays("cpu"))
    x.delete()
    assert not any(y is x for y in mjax.live_arrays())
    with pytest.raises(RuntimeError, match="'nowhere' is not available"):
        mjax.live_arrays("nowhere")


def test_copies_of_a_tree_to_the_host():
    x = jnp.arange(3)
    tree = mjax.copy_to_host_async({"a": x, "b": 1.5})
    assert tree["a"] is x and tree["b"] == 1.5
