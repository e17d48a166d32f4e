"""Python callbacks and ordered effects of programs over several devices: each happens once."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.experimental import io_callback
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P
from mjaxlib_shim import gates

X = np.arange(32, dtype=np.float32).reshape(8, 4)
LIKE = mjax.ShapeDtypeStruct(X.shape, X.dtype)


@pytest.fixture
def x():
    return mjax.device_put(X, NamedSharding(mjax.make_mesh((4, 2), ("x", "y")), P("x", "y")))


def test_pure(x):
    f = mjax.jit(lambda x: mjax.pure_callback(lambda v: np.asarray(v) * 2, LIKE, x) + 1)
    np.testing.assert_array_equal(f(x), X * 2 + 1)
    out = mjax.pure_callback(lambda v: np.asarray(v) * 2, LIKE, x)
    np.testing.assert_array_equal(out, X * 2)

    def two(v):
        return np.asarray(v).sum(), np.asarray(v).T

    like = mjax.ShapeDtypeStruct((), "float32"), mjax.ShapeDtypeStruct((4, 8), "float32")
    total, rows = mjax.jit(lambda x: mjax.pure_callback(two, like, x))(x)
    assert total == X.sum()
    np.testing.assert_array_equal(rows, X.T)


@pytest.mark.parametrize("ordered", [False, True])
def test_side_effects_happen_once_with_whole_arrays(x, ordered):
    seen = []

    def double(v):
        seen.append(np.asarray(v))
        return np.asarray(v) * 2

    f = mjax.jit(lambda x: io_callback(double, LIKE, x, ordered=ordered) + 1)
    np.testing.assert_array_equal(f(x), X * 2 + 1)
    mjax.effects_barrier()
    (value,) = seen
    np.testing.assert_array_equal(value, X)


@pytest.mark.parametrize("ordered", [False, True])
def test_debug_callbacks(x, ordered, capfd):
    def f(x):
        mjax.debug.print("the sum is {}", x.sum(), ordered=ordered)
        return x + 1

    out = mjax.jit(f)(x)
    mjax.effects_barrier()
    assert capfd.readouterr().out == f"the sum is {X.sum()}\n"
    assert out.sharding is x.sharding


def test_order_holds_over_programs_on_different_devices(x):
    seen = []
    there = mjax.device_put(0, mjax.devices()[3])

    @mjax.jit
    def f(x, i):
        io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
        return x

    for i in range(24):
        f((x, 0, there)[i % 3], i)
    mjax.effects_barrier()
    assert seen == list(range(24))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
def test_in_loops_and_branches(x, ordered, mapped, capfd):
    def f(x):
        top = x.max()

        def step(c, i):
            show = functools.partial(mjax.debug.print, ordered=ordered)
            show("{} {}", i, c)
            mjax.lax.cond(i > 0, lambda i, c: show("  big {} {}", i, c), lambda i, c: None, i, c)
            return c + 1, None

        return mjax.lax.scan(step, top, jnp.arange(2))[0] + x

    run = mjax.jit(mjax.shard_map(f, mesh=x.sharding.mesh, in_specs=P("x", "y"),
                                  out_specs=P("x", "y")) if mapped else f)
    out = run(x)
    mjax.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    tops = [shard.data.max() for shard in x.addressable_shards] if mapped else [X.max()]
    expected = [[f"0 {t}", f"1 {t + 1}", f"  big 1 {t + 1}"] for t in tops]
    assert sorted(lines) == sorted(line for story in expected for line in story)
    if ordered:  # each device tells its own story in order
        for story in expected:
            assert [line for line in lines if line in story] == story
    if not mapped:
        np.testing.assert_array_equal(out, X + X.max() + 2)


@pytest.mark.parametrize("ordered", [False, True])
def test_programs_without_results(x, ordered, capfd):
    f = mjax.jit(lambda x: mjax.debug.print("{}", x.sum(), ordered=ordered))
    for _ in range(2):
        f(x)
    mjax.effects_barrier()
    assert capfd.readouterr().out == 2 * f"{X.sum()}\n"


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_results_that_nobody_reads(x, ordered, mapped, count):
    seen = []

    def f(x):
        like = [mjax.ShapeDtypeStruct(x.shape, x.dtype)] * count
        io_callback(lambda v: (seen.append(v.shape), [v] * count)[1], like, x, ordered=ordered)
        return x + 1

    run = mjax.jit(mjax.shard_map(f, mesh=x.sharding.mesh, in_specs=P("x", "y"),
                                  out_specs=P("x", "y")) if mapped else f)
    np.testing.assert_array_equal(run(x), X + 1)
    mjax.effects_barrier()
    assert seen == ([(2, 2)] * 8 if mapped else [(8, 4)])


def test_results_of_several_dtypes(x):
    """The first device's results are what all get."""
    like = [mjax.ShapeDtypeStruct((3,), d) for d in (np.float32, np.bool_, np.int8, np.complex64)]
    given = (np.float32([-0.0, np.nan, np.inf]), np.array([True, False, True]),
             np.int8([-128, 0, 127]), np.complex64([1j, -0.0, np.nan]))
    seen = []

    def call(v):
        seen.append(v.shape)
        return given

    outs = mjax.jit(lambda x: (io_callback(call, tuple(like), x), x))(x)[0]
    for out, value in zip(outs, given, strict=True):
        assert out.dtype == value.dtype
        np.testing.assert_array_equal(out, value)
    assert seen == [x.shape]


# ---- failures --------------------------------------------------------------------------


@pytest.mark.skipif(not gates.FFI_CALLBACKS.open,
                    reason="before jaxlib 0.6.0 one failure is that of all later programs")
def test_what_a_callback_raises_on_every_device_is_raised_and_logged(caplog):
    def fail(v):
        raise ValueError("no such value")

    like = mjax.ShapeDtypeStruct((1,), "float32")
    f = mjax.jit(mjax.shard_map(
        lambda x: mjax.lax.psum(mjax.pure_callback(fail, like, x), "x"),
        mesh=mjax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P(), check_vma=False))
    with pytest.raises(ValueError, match="no such value") as caught:
        f(X[:, 0]).block_until_ready()
    assert caught.traceback[-1].name == "fail"
    record = caplog.records[0]
    assert (record.name, record.levelname) == ("mjax", "ERROR")
    assert "failed in a program over several devices" in record.getMessage()
    assert type(record.exc_info[1]) is ValueError
    assert mjax.jit(lambda x: x + 1)(1) == 2


@pytest.mark.skipif(gates.FFI_CALLBACKS.open, reason="says what jaxlibs before 0.6.0 do")
def test_what_a_callback_raises_on_every_device_of_older_jaxlibs():
    """In a process of its own: programs over several devices fail from then on."""
    code = """
        import mjax, mjax.numpy as jnp
        from mjax import lax
        from mjax.sharding import PartitionSpec as P

        def fail(v):
            raise ValueError("no such value")
        like = mjax.ShapeDtypeStruct((1,), "float32")
        f = mjax.jit(mjax.shard_map(
            lambda x: lax.psum(mjax.pure_callback(fail, like, x), "x"),
            mesh=mjax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P(), check_vma=False))
        try:
            f(jnp.arange(8.0)).block_until_ready()
        except ValueError as error:
            print(error, mjax.jit(lambda x: x + 1)(1))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True, timeout=60,
                          capture_output=True)
    assert done.stdout.startswith("no such value") and done.stdout.strip().endswith("2")
    assert "failed in a program over several devices" in done.stderr


def test_what_is_raised_while_others_wait_is_told_before_xla_ends_the_process():
    """XLA does so after 40 seconds; the test does after the log."""
    code = """
        import mjax, mjax.numpy as jnp
        from mjax import lax
        from mjax.sharding import PartitionSpec as P

        like = mjax.ShapeDtypeStruct((1,), "float32")
        def fail(v):
            raise ValueError("no such value")
        def body(x):
            y = lax.cond(lax.axis_index("x") == 3, lambda x: mjax.pure_callback(fail, like, x),
                         lambda x: x, x)
            return lax.psum(y, "x")
        mesh = mjax.make_mesh((8,), ("x",))
        mjax.jit(mjax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(),
                                check_vma=False))(jnp.arange(8.0)).block_until_ready()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], text=True,
                               stderr=subprocess.PIPE)
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        told = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("ValueError: no such value"):
                break
        else:
            pytest.fail("".join(told))
        assert any("line 8, in fail" in line for line in told), told
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


# ---- where XLA has some of the axes ----------------------------------------------------


@pytest.mark.parametrize("axis", ["x", "y"])
def test_printing_where_xla_has_some_axes(capsys, axis):
    mesh = mjax.make_mesh((2, 2), ("x", "y"))

    def f(x):
        mjax.debug.print("{}", x)
        return 2 * x

    mapped = mjax.shard_map(f, mesh=mesh, in_specs=P(axis), out_specs=P(axis), axis_names={axis})
    for run in (mapped, mjax.jit(mapped)):
        np.testing.assert_array_equal(run(np.arange(4.0)), 2 * np.arange(4))
        mjax.effects_barrier()
        assert sorted(capsys.readouterr().out.splitlines()) == ["[0. 1.]", "[2. 3.]"]


def test_ordered_printing_where_xla_has_some_axes_is_refused():
    mesh = mjax.make_mesh((2, 2), ("x", "y"))
    with pytest.raises(ValueError, match="ordered effects cannot happen in a shard_map that"):
        mjax.shard_map(lambda x: (mjax.debug.print("{}", x, ordered=True), x)[1], mesh=mesh,
                       in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(np.arange(4.0))


def looks(f, *args, **options):
    """The values that a partitioned callback sees in a program, in some order."""
    seen = []

    def look(*values):
        seen.append([np.asarray(v).tolist() for v in values])

    mjax.jit(lambda *args: f(functools.partial(
        mjax.debug.callback, look, partitioned=True, **options), *args))(*args)
    mjax.effects_barrier()
    return sorted(seen)


def each(look, body):
    """A function of a loop's or branch's value that looks at it."""
    return lambda v: (look(v), body(v))[1]


@pytest.mark.skipif(not gates.FFI_CALLBACKS.open, reason="refused, see below")
def test_partitioned_callbacks_see_the_pieces_of_each_device(x):
    pieces = sorted([X[i:i + 2, j:j + 2].tolist()] for i in range(0, 8, 2) for j in (0, 2))
    twice = sorted(pieces + [[(2 * np.array(p)).tolist()] for (p,) in pieces])
    assert looks(lambda look, x: look(x), x) == pieces
    assert looks(lambda look, x: mjax.grad(lambda x: each(look, jnp.sum)(x))(x), x) == pieces
    assert looks(lambda look, x: mjax.lax.cond(x.sum() > 0, each(look, jnp.sin), jnp.cos, x),
                 x) == pieces
    assert looks(lambda look, x: mjax.lax.fori_loop(0, 2, lambda _, v: each(
        look, lambda v: 2 * v)(v), x), x) == twice
    # Along the other axis of the mesh devices have the same; so they have what is not cut.
    rows = mjax.device_put(X, NamedSharding(x.sharding.mesh, P("x")))
    total = float(X.sum())
    assert looks(lambda look, v: look(v, v.sum()), rows) == sorted(
        [X[i:i + 2].tolist(), total] for i in range(0, 8, 2) for _ in range(2))
    assert looks(lambda look, x: (look(), x + 1)[1], x) == [[]] * 8
    # On one device, and outside of programs, the piece is the whole.
    assert looks(lambda look, x: look(x), X) == [[X.tolist()]]


def test_partitioned_printing(x, capsys):
    def show(x, **options):
        mjax.debug.print("{}", x[:, 0].sum(), partitioned=True, **options)

    show(x)
    mapped = mjax.shard_map(show, mesh=x.sharding.mesh, in_specs=P("x", "y"), out_specs=P())
    mjax.jit(mapped)(x)
    mjax.effects_barrier()
    assert len(capsys.readouterr().out.splitlines()) == 9
    with pytest.raises(ValueError, match="each device calls the function by itself, in no order"):
        mjax.jit(functools.partial(show, ordered=True))(x)
    if not gates.FFI_CALLBACKS.open:
        with pytest.raises(NotImplementedError, match="needs jaxlib 0.6.0 or newer"):
            mjax.jit(show)(x)
