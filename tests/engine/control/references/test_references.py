"""References against NumPy arrays that loops mutate."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters.partial_eval import dce_jaxpr


def new(*values):
    return mjax.new_ref(jnp.array(values, "float32"))


def same(ref, *values):
    np.testing.assert_allclose(ref[...], np.array(values, "float32"), 1e-6)


# ---- read and write --------------------------------------------------------------------------

INDICES = [
    0, -1, slice(None), slice(1, None), slice(None, None, 2), slice(2, 0, -1), ..., (..., 1),
    (slice(None), 1), (1, slice(0, 2)), (None, 0), np.array([2, 0]), (np.array([0, 2]), 1),
    np.array([True, False, True]), (slice(None), np.array([1, 0])), (), (2, 1)]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("jitted", [False, True])
def test_indices_mean_what_they_do_for_numpy(index, jitted):
    x = np.arange(6, dtype="float32").reshape(3, 2)
    value = np.full_like(x[index], 7) + np.arange(x[index].size).reshape(x[index].shape)

    def run(ref, value):
        before = ref[index]
        ref[index] = value
        after = ref[index]
        ref[index] += value
        return before, after

    ref = mjax.new_ref(x)
    before, after = (mjax.jit(run) if jitted else run)(ref, value)
    np.testing.assert_array_equal(before, x[index])
    np.testing.assert_array_equal(after, value)
    x[index] = value
    x[index] += value
    np.testing.assert_array_equal(ref[...], x)


def test_places_that_are_traced():
    ref, i = new(0, 1, 2), jnp.int32(1)
    assert float(mjax.jit(lambda ref, i: ref[i])(ref, i)) == 1
    # As in arrays, those outside stand for the nearest one, negative ones count from the end.
    assert [float(mjax.jit(lambda ref, i: ref[i])(ref, i)) for i in (7, -1, -9)] == [2, 2, 0]
    mjax.jit(lambda ref, i: ref.__setitem__(i, 9.0))(ref, 7)
    same(ref, 0, 1, 9)


def test_places_behind_the_end():
    """As of JAX: an error outside of programs, the nearest place in them."""
    ref = new(0, 1, 2)
    assert float(mjax.jit(lambda ref: ref[7])(ref)) == 2 and float(ref[-9]) == 0
    mjax.jit(lambda ref: ref.__setitem__(3, 9.0))(ref)
    same(ref, 0, 1, 9)
    assert ref[3:].shape == (0,)


def test_only_references_have_methods():
    ref, names = new(0, 1), ("get", "set", "swap", "addupdate")
    assert all(hasattr(ref, n) for n in names) and not any(hasattr(ref[...], n) for n in names)

    def f(ref, x):
        assert all(hasattr(ref, n) for n in names) and not any(hasattr(x, n) for n in names)
        ref.set(x, 0)
        ref.addupdate(1.0, 1)
        return ref.swap(x, 1) + ref.get(0)

    assert float(mjax.jit(f)(ref, 5.0)) == 7
    same(ref, 5, 5)


def test_adding_adds_as_often_as_a_place_occurs():
    ref = new(0, 0, 0)
    mjax.ref.addupdate(ref, jnp.array([1, 1, 2]), jnp.ones(3))
    same(ref, 0, 2, 1)
    ref.addupdate(1.0, 0)
    same(ref, 1, 2, 1)


def test_functions():
    ref = new(1, 2, 3)
    assert float(mjax.ref.swap(ref, 0, 5.0)) == 1
    mjax.ref.set(ref, (slice(1, None),), jnp.zeros(2))
    np.testing.assert_array_equal(mjax.ref.get(ref), [5, 0, 0])
    assert mjax.empty_ref(mjax.ShapeDtypeStruct((2,), "int8")).dtype == np.int8
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3,), np.float32, 1, 3, 3)
    assert repr(ref) == "Ref([5., 0., 0.], dtype=float32)"
    assert isinstance(ref, mjax.Ref) and not isinstance(ref, mjax.Array)
    assert repr(mjax.typeof(ref)) == "Ref{float32[3]}" and ref == ref and hash(ref)
    assert mjax.tree.leaves({"a": ref}) == [ref]


def test_parts():
    ref = new(0, 1, 2, 3)
    part = ref.at[1:]
    part[0] = 5.0
    part.at[1:][0] += 5.0
    assert part.shape == (3,) and float(part[0]) == 5
    assert (part.dtype, part.ndim, part.size, len(part)) == (np.float32, 1, 3, 3)
    same(ref, 0, 5, 7, 3)

    def f(ref, i):
        part = ref.at[1:].at[i]
        part[...] += 10.0
        mjax.ref.addupdate(ref.at[:2], 0, 1.0)
        return part[...]

    assert float(mjax.jit(f)(ref, 1)) == 17
    same(ref, 1, 5, 17, 3)


def test_what_is_read_stays():
    x = jnp.zeros(3)
    ref = mjax.new_ref(x)
    before = ref[...]
    ref[0] = 1.0
    np.testing.assert_array_equal(before, np.zeros(3))
    np.testing.assert_array_equal(x, np.zeros(3))
    after = mjax.freeze(ref)
    np.testing.assert_array_equal(after, [1, 0, 0])


@pytest.mark.parametrize("dtype, value", [
    ("bfloat16", 1.5), ("uint8", 3), ("int32", np.int64(4)), ("bool", True), ("complex64", 1j)])
def test_python_numbers_take_the_dtype_of_their_kind(dtype, value):
    ref = mjax.new_ref(jnp.zeros(2, dtype))
    ref[0] = value
    np.testing.assert_array_equal(ref[...], jnp.array([value, 0], dtype))


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_integers_are_cast_to_those_of_the_reference(wrap):
    """As by JAX; `addupdate` takes the dtype of the reference alone, there, too."""
    ref = mjax.new_ref(jnp.zeros(3, "int8"))

    def f(ref, x):
        ref[0] = x[0]
        ref[1:] = np.array([7, 8], "uint8")
        ref[1] += x[1]
        return mjax.ref.swap(ref, 2, x[1])

    assert int(wrap(f)(ref, jnp.array([300, 2]))) == 8
    np.testing.assert_array_equal(ref[...], np.array([44, 9, 2], "int8"))
    with pytest.raises(ValueError, match=r"dtype.*astype\('int8'\)"):
        mjax.ref.addupdate(ref, 0, jnp.int32(1))


def test_booleans_are_added_by_or():
    ref = mjax.new_ref(jnp.zeros(4, bool))
    ref.addupdate(True, 0)
    ref.addupdate(np.array([True, True, False]), np.array([1, 1, 2]))
    ref.addupdate(np.array([False, False, False, True]))
    assert ref[...].tolist() == [True, True, False, True]


def test_deep_copies_have_memory_of_their_own():
    ref = new(1, 2)
    model = copy.deepcopy({"a": ref, "b": [ref]})
    assert model["a"] is model["b"][0] and copy.copy(ref) is ref
    model["a"][0] = 5.0
    mjax.jit(lambda r: r.set(7.0, 1))(model["a"])
    same(ref, 1, 2)
    same(model["a"], 5, 7)


def test_keys():
    ref = mjax.new_ref(mjax.random.split(mjax.random.key(0), 2))
    ref[0] = mjax.random.key(5)

    @mjax.jit
    def draw(ref):
        ref[1], used = mjax.random.split(ref[0])
        return mjax.random.normal(used)

    first, second = mjax.random.split(mjax.random.key(5))
    assert float(draw(ref)) == float(mjax.random.normal(second))
    assert mjax.random.key_data(ref[1]).tolist() == mjax.random.key_data(first).tolist()


# ---- programs --------------------------------------------------------------------------------


def mutate(ref, x):
    """Reads, writes and adds, in each kind of control flow; of NumPy arrays in Python below."""
    ref[0] = x
    scratch = mjax.new_ref(jnp.zeros(2))

    def step(c, y):
        ref[1] += c * y
        scratch[0] += ref[1]
        return c + 1.0, ref[1]

    c, ys = lax.scan(step, x, jnp.arange(3.0))

    def body(i, c):
        ref[i] += 1.0
        return c

    lax.fori_loop(0, 2, body, 0.0)

    def halve(n):
        ref[2] = ref[2] * 0.5
        return n + 1

    n = lax.while_loop(lambda n: ref[2] > 1.0, halve, 0)
    lax.cond(x > 0.0, lambda: ref.__setitem__(0, ref[0] * 2.0), lambda: None)
    return c, ys, n, mjax.freeze(scratch)


def mutated(array, x):
    array, x = array.copy(), np.float32(x)
    array[0] = x
    scratch, ys, c, n = np.zeros(2, "float32"), [], x, 0
    for y in range(3):
        array[1] += c * y
        scratch[0] += array[1]
        ys.append(array[1])
        c = c + 1
    array[:2] += 1
    while array[2] > 1:
        array[2] *= 0.5
        n += 1
    if x > 0:
        array[0] *= 2
    return array, (c, ys, n, scratch)


HOLDERS = {
    "eager": lambda f: f, "jit": mjax.jit, "checkpoint": mjax.checkpoint,
    "nested": lambda f: mjax.jit(mjax.checkpoint(mjax.jit(f))),
    "closed over": lambda f: lambda ref, x: mjax.jit(lambda x: f(ref, x))(x),
    "in a loop": lambda f: lambda ref, x: mjax.tree.map(
        lambda y: y[0], lax.scan(lambda _, x: (None, f(ref, x)), None, x[None])[1]),
    "in a branch": lambda f: lambda ref, x: lax.cond(
        x > 9.0, lambda: mjax.tree.map(jnp.zeros_like, f(mjax.new_ref(ref[...]), x)),
        lambda: f(ref, x)),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("x", [-1.5, 2.0])
def test_programs_mutate_as_numpy_does(holder, x):
    start = np.array([1, 2, 5], "float32")
    ref = mjax.new_ref(start)
    found = HOLDERS[holder](mutate)(ref, jnp.float32(x))
    array, expected = mutated(start, x)
    np.testing.assert_allclose(ref[...], array, 1e-6)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-6)


def rows(c, x):
    """One step of a loop over the rows of a reference."""
    x[0] += c
    x[1] = x[0] * x[1]
    return c + 1.0, x[...].sum()


def looped(array, order):
    """The same on an array that changes."""
    c, sums = np.float32(0.5), np.zeros(len(array), "float32")
    for i in order:
        array[i, 0] += c
        array[i, 1] *= array[i, 0]
        c, sums[i] = c + 1, array[i].sum()
    return array, c, sums


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit, mjax.checkpoint])
def test_loops_over_the_rows_of_a_reference(wrap, reverse):
    start = np.arange(6, dtype="float32").reshape(3, 2)
    ref = mjax.new_ref(start)
    c, sums = wrap(lambda ref: lax.scan(rows, 0.5, ref, reverse=reverse))(ref)
    array, *wanted = looped(start, range(3)[::-1] if reverse else range(3))
    for a, b in zip((ref[...], c, sums), (array, *wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-6)


def test_loops_over_rows_elsewhere():
    start = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(lax.map(lambda x: x[1], mjax.new_ref(start)), start[:, 1])
    ref = mjax.new_ref(start)
    with mjax.disable_jit():
        lax.scan(rows, 0.5, ref)
    np.testing.assert_allclose(ref[...], looped(start.copy(), range(3))[0], 1e-6)
    both = mjax.new_ref(np.stack([start, start * 2], 1))  # batched along the second axis
    mjax.vmap(lambda r: lax.scan(rows, 0.5, r), 1)(both)
    for i, x in enumerate((start, start * 2)):
        np.testing.assert_allclose(both[:, i], looped(x.copy(), range(3))[0], 1e-6)


def test_functions_close_over_references():
    ref = new(0, 0)

    @mjax.jit
    def count():
        ref[0] += 1.0
        return ref[...]

    assert [float(count()[0]) for _ in range(3)] == [1, 2, 3]
    ref[0] = 10.0
    assert float(count()[0]) == 11


def test_closure_convert_leaves_references_in_the_closure():
    ref = new(3)
    f, values = mjax.closure_convert(lambda x: x * ref[0], 1.0)
    assert values == [] and float(f(2.0)) == 6


def test_untouched_references():
    ref = new(1, 2)
    assert float(mjax.jit(lambda ref, x: x + 1)(ref, 1.0)) == 2
    assert float(mjax.jit(mjax.jit(lambda ref, x: x + 1))(ref, 1.0)) == 2
    assert mjax.jit(lambda ref: ref.shape[0])(ref) == 2
    same(ref, 1, 2)


def test_donation_leaves_nothing_behind():
    ref = mjax.new_ref(jnp.zeros(1000))
    before = ref.unsafe_buffer_pointer()
    write = mjax.jit(lambda ref, x: ref.__setitem__(0, x))
    for i in range(3):
        write(ref, float(i))
        ref[1] = 5.0
    assert ref.unsafe_buffer_pointer() == before


def add_to(ref, x, other):
    other[0] = ref[0]
    ref[0] += x
    return ref[...] * 2.0


@pytest.mark.parametrize("given", ["references", "types", "structs"])
def test_compiling_ahead_of_time(given):
    ref, other = new(0, 0), new(0, 0, 0)
    like = {"references": lambda r: r, "types": mjax.typeof,
            "structs": lambda r: mjax.ShapeDtypeStruct(r.shape, r.dtype, is_ref=True)}[given]
    lowered = mjax.jit(add_to).lower(like(ref), 1.0, like(other))
    assert repr(lowered.in_avals[0][2]) == "Ref{float32[3]}"
    assert lowered.out_info.shape == (2,) and lowered.args_info[0][2].shape == (3,)
    compiled = lowered.compile()
    assert compiled(ref, 2.0, other).tolist() == [4, 0]
    before = ref.unsafe_buffer_pointer()
    assert compiled(ref, 3.0, other).tolist() == [10, 0]
    same(ref, 5, 0)
    same(other, 2, 0, 0)
    assert ref.unsafe_buffer_pointer() == before
    assert len(compiled.input_formats[0]) == len(compiled.input_shardings[0]) == 3
    assert compiled.output_shardings == compiled.output_formats.sharding


def test_compiling_ahead_of_time_with_closed_over_references():
    ref, other = new(0, 0), new(0)
    compiled = mjax.jit(lambda x, other: add_to(ref, x, other)).lower(1.0, other).compile()
    assert compiled(2.0, other).tolist() == [4, 0]
    assert compiled(2.0, other).tolist() == [8, 0] and float(other[0]) == 2
    same(ref, 4, 0)
    assert [f.sharding for f in compiled.input_formats[0]] == [*compiled.input_shardings[0]]


def test_types_of_functions_of_references():
    struct = mjax.ShapeDtypeStruct((2,), "float32", is_ref=True)
    assert mjax.eval_shape(add_to, struct, 1.0, struct).shape == (2,)
    assert "a:Ref{f32[2]}" in str(mjax.make_jaxpr(add_to)(struct, 1.0, struct))
    assert struct.update(shape=(3,)).is_ref and struct != mjax.ShapeDtypeStruct((2,), "float32")
    assert pickle.loads(pickle.dumps(struct)) == struct and repr(struct).endswith("is_ref=True)")


# ---- programs as data ------------------------------------------------------------------------


def test_jaxprs_show_reads_and_writes():
    def f(ref, x, i):
        ref[0] = x
        ref[i] += 1.0
        mjax.ref.addupdate(ref, slice(1, None), jnp.zeros(2))
        old = mjax.ref.swap(ref, i, x)
        return ref[...], ref[1:], old, mjax.freeze(mjax.new_ref(x))

    text = str(mjax.make_jaxpr(f)(new(0, 0, 0), jnp.float32(1), jnp.int32(0)))
    assert "a:Ref{f32[3]} b:f32[] c:i32[]." in text
    for line in ("a[0] <- b", "d:f32[] <- a[c]", "a[c] <- e", "a[1:] += f",
                 "g:f32[], a[c] <- a[c], b", "h:f32[3] <- a[...]", "i:f32[2] <- a[1:]",
                 "j:Ref{f32[]} = new_ref b", "k:f32[] = freeze j",
                 "{AccumEffect(a), Inside, ReadEffect(a), WriteEffect(a)}"):
        assert line in text, text


def test_the_checker_knows_references():
    jaxpr = mjax.make_jaxpr(mutate)(new(0, 0, 0), 1.0)
    core.check_jaxpr(jaxpr)
    assert {type(e).__name__ for e in jaxpr.effects} == {
        "ReadEffect", "WriteEffect", "_Inside"}


def test_reads_that_nobody_needs_are_dropped():
    jaxpr = mjax.make_jaxpr(lambda ref, x: (ref[0], x)[1])(new(0), 1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["get"]
    smaller, used = dce_jaxpr(jaxpr, [True])
    assert not smaller.eqns and used == [False, True]


def test_types_of_references():
    aval = mjax.ref.AbstractRef(core.ShapedArray((3,), "float32"))
    assert aval.update(core.ShapedArray((2,), "int8")).shape == (2,)
    assert aval.update(shape=(4,)) is mjax.ref.AbstractRef(core.ShapedArray((4,), "float32"))
    with pytest.raises(TypeError, match=r"type of an array.*got 2\.5"):
        mjax.ref.AbstractRef(2.5)
    assert repr(mjax.empty_ref(jnp.ones(2))) == "Ref([0., 0.], dtype=float32)"
    with pytest.raises(TypeError, match="got None of type NoneType"):
        mjax.empty_ref(None)


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_methods_of_parts(wrap):
    def f(ref):
        part = ref.at[1:]
        part.set(jnp.array([5.0, 6.0]))
        part.addupdate(1.0, 0)
        return part.swap(9.0, 1), part.get()

    ref = mjax.new_ref(jnp.zeros(3))
    old, new = wrap(f)(ref)
    assert (float(old), new.tolist(), ref[...].tolist()) == (6.0, [6.0, 9.0], [0.0, 6.0, 9.0])
