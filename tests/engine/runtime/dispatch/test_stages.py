"""Ahead of time: trace, lower, compile, and what each stage knows; ShapeDtypeStruct."""

import copy
import functools
import pickle

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.tracing.stage import eval_jaxpr
from mjax.stages import ArgInfo

X = np.arange(3, dtype=np.float32)
STRUCT = mjax.ShapeDtypeStruct


def example(x, *, k, n=1):
    return {"r": x["a"] * k + n}


@pytest.fixture
def stages():
    f = mjax.jit(example, static_argnames="n", donate_argnames="k")
    traced = f.trace({"a": X}, k=X, n=2)
    lowered = traced.lower()
    return traced, lowered, lowered.compile()


def test_what_every_stage_knows(stages):
    f32 = mjax.typeof(X)
    for stage in stages:
        assert stage.in_avals == (({"a": f32},), {"k": f32})
        assert stage.out_avals == {"r": f32}
        assert stage.args_info == (({"a": ArgInfo((3,), np.float32, False)},),
                                   {"k": ArgInfo((3,), np.float32, True)})
        assert stage.donate_argnums == (1,)
        assert stage.in_tree == mjax.tree_util.tree_structure((({"a": 0},), {"k": 0}))
        assert stage.out_tree == mjax.tree_util.tree_structure({"r": 0})
        assert stage.out_info["r"].shape == (3,) and stage.out_info["r"].dtype == np.float32
    traced, lowered, compiled = stages
    assert traced.fun_name == "example" and len(traced.jaxpr.eqns) >= 2
    device = mjax.devices()[0]
    assert compiled.out_info["r"].sharding.device == device
    assert compiled.output_shardings["r"].device == device
    assert compiled.input_shardings[0][0]["a"].device == device
    np.testing.assert_array_equal(compiled({"a": X}, k=X)["r"], X * X + 2)
    np.testing.assert_array_equal(compiled.call({"a": X}, k=X)["r"], X * X + 2)


def test_texts_and_analyses(stages):
    _, lowered, compiled = stages
    assert "stablehlo.multiply" in lowered.as_text() == lowered.as_text("stablehlo")
    assert "test_stages.py" in lowered.as_text(debug_info=True)
    assert lowered.as_text("hlo").startswith("HloModule jit_example")
    assert lowered.compiler_ir("hlo").as_hlo_text() == lowered.as_text("hlo")
    assert lowered.compiler_ir().operation.verify()
    assert lowered.cost_analysis()["flops"] == 6.0
    assert compiled.as_text().startswith("HloModule") and compiled.cost_analysis()["flops"] == 6.0
    assert compiled.memory_analysis().output_size_in_bytes == 12
    assert compiled.runtime_executable().local_devices()
    for give in (lowered.as_text, lowered.compiler_ir):
        with pytest.raises(ValueError, match="dialect 'mhlo' is unknown"):
            give("mhlo")


def test_lowering_for_another_platform():
    traced = mjax.jit(lambda x: lax.sin(x)).trace(X)
    lowered = traced.lower(lowering_platforms=("cuda",))
    assert "stablehlo.sine" in lowered.as_text()
    with pytest.raises(ValueError, match="lowered for 'cuda' and cannot be compiled for"):
        lowered.compile()
    with pytest.raises(ValueError, match="for one platform"):
        traced.lower(lowering_platforms=("cuda", "cpu"))


def test_compiled_functions_refuse_other_types(stages):
    compiled = stages[2]
    with pytest.raises(TypeError) as info:
        compiled({"a": np.ones(4, np.float32)}, k=np.ones(3, np.int32))
    text = str(info.value)
    assert "argument x['a']: compiled for float32[3], called with float32[4]" in text
    assert "argument k: compiled for float32[3], called with int32[3]" in text and "example" in text
    # Weak types make no other program; 64-bit values are 32-bit ones, as in calls of the jit.
    weak = mjax.jit(lambda x: x * 2.0).lower(np.float32(1)).compile()
    assert float(weak(1.5)) == 3.0 and float(weak(np.float64(1.5))) == 3.0


@pytest.mark.parametrize(("args", "kwargs", "lines"), [
    ((), {"k": X}, ["args[0]['a'] is missing"]),
    (({"a": X},), {}, ["kwargs['k'] is missing"]),
    (({"a": X}, X), {"k": X}, ["args[1] is not expected"]),
    (({"a": X, "b": X},), {"k": X}, ["args[0]['b'] is not expected"]),
    (({"a": [X]},), {"k": X}, ["args[0]['a'] is missing", "args[0]['a'][0] is not expected"]),
    (({"a": X},), {"k": X, "n": 2},
     ["kwargs['n'] is not expected", "Static arguments (n) are part of the compiled function"]),
])
def test_compiled_functions_refuse_other_structures(stages, args, kwargs, lines):
    with pytest.raises(TypeError, match="structure of arguments differs") as info:
        stages[2](*args, **kwargs)
    for line in lines:
        assert line in str(info.value)


def test_nodes_of_other_types_are_told_apart():
    compiled = mjax.jit(lambda x: x[0]).lower([X]).compile()
    with pytest.raises(TypeError, match="a list was expected, got a tuple"):
        compiled((X,))


def test_compiled_functions_refuse_tracers_and_what_is_no_array(stages):
    compiled = mjax.jit(lambda x: lax.reduce_sum(x, (0,))).lower(X).compile()
    for transform in (mjax.grad, mjax.jit, lambda f: mjax.vmap(lambda x: f(x[None]))):
        with pytest.raises(TypeError, match="traced value of type"):
            transform(compiled)(X)
    with pytest.raises(TypeError, match=r"<lambda>: argument\[0\]\[0\] is not a valid array"):
        compiled("text")
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        compiled(STRUCT((3,), np.float32))


def test_calls_of_compiled_functions_with_known_placements():
    compiled = mjax.jit(lambda x, y: x + y).lower(X, X).compile()
    x = mjax.device_put(X)
    for other in (x, X, x, mjax.device_put(X, mjax.devices()[0]), x):
        np.testing.assert_array_equal(compiled(x, other), 2 * X)
    with pytest.raises(TypeError, match=r"argument y: .* called with float32\[\]"):
        compiled(x, mjax.device_put(np.float32(1)))


# ---- options of the compiler -----------------------------------------------------------


def test_devices_to_compile_for_are_those_it_was_lowered_for():
    first, *others = mjax.devices()
    lowered = mjax.jit(lambda x: x + 1).lower(1.0)
    for same in (None, (first,), [first]):
        assert lowered.compile(device_assignment=same)(1.0) == 2
    for other in [(first, first), (), *((d,) for d in others[:1])]:
        with pytest.raises(ValueError, match="names other devices"):
            lowered.compile(device_assignment=other)
    mesh = mjax.make_mesh((len(mjax.devices()),), ("x",))
    x = mjax.ShapeDtypeStruct((8,), "float32", sharding=mjax.NamedSharding(mesh, mjax.P("x")))
    lowered, devices = mjax.jit(lambda x: x + 1).lower(x), tuple(mesh.devices.flat)
    assert lowered.compile(None, device_assignment=devices).input_shardings
    if others:
        with pytest.raises(ValueError, match="or another order"):
            lowered.compile(device_assignment=devices[::-1])


def test_options_at_both_stages():
    options = {"xla_cpu_enable_fast_math": True}
    f = mjax.jit(lambda x: x * 2.0, compiler_options=options)
    assert float(f(2.0)) == 4.0
    lowered = f.lower(2.0)
    assert float(lowered.compile({"xla_embed_ir_in_executable": True})(2.0)) == 4.0
    with pytest.raises(ValueError, match="nonsense"):
        lowered.compile({"nonsense": 1})


def test_options_of_programs_that_compute_nothing():
    with pytest.raises(ValueError, match="nonsense"):
        mjax.jit(lambda x: x, compiler_options={"nonsense": 1})(1)
    assert mjax.jit(lambda x: x, compiler_options={"xla_cpu_enable_fast_math": True})(1) == 1


@pytest.mark.parametrize(("options", "text"), [
    ({"xla_x": {"a": 1}}, r"value of 'xla_x' is \{'a': 1\} of type dict"),
    ({"xla_x": np.ones(2)}, "of type ndarray"),
    ({"xla_x": None}, "of type NoneType"),
    ({"xla_x": [True]}, r"value of 'xla_x' is \[True\] of type list"),
    ({1: 2}, "name 1 is not a string"),
    ("xla_x", "must be a dict"),
    ([("xla_x", True)], "must be a dict"),
])
def test_options_that_are_none(options, text):
    with pytest.raises(TypeError, match=text):
        mjax.jit(lambda x: x, compiler_options=options)
    with pytest.raises(TypeError, match=text):
        mjax.jit(lambda x: x + 1.0).lower(1.0).compile(options)


def test_equal_options_of_other_types_are_other_options():
    f = lambda x: x + 1.0
    assert float(mjax.jit(f, compiler_options={"xla_cpu_enable_fast_math": True})(1.0)) == 2.0
    with pytest.raises(RuntimeError, match="'1' is not a valid bool"):
        mjax.jit(f, compiler_options={"xla_cpu_enable_fast_math": 1})(1.0)
    g = mjax.make_jaxpr(mjax.jit(f, compiler_options={"xla_cpu_enable_fast_math": True}))(1.0)
    assert eval_jaxpr(g, g.consts, 1.0) == [2.0]
    (eqn,) = g.eqns
    with pytest.raises(RuntimeError, match="'1' is not a valid bool"):
        eqn.primitive.bind(1.0, **{
            **eqn.params, "compiler_options_kvs": (("xla_cpu_enable_fast_math", 1),)})


def test_options_with_lists():
    options = {"allow_spmd_sharding_propagation_to_output": [True]}
    assert float(mjax.jit(lambda x: x + 1.0, compiler_options=options)(1.0)) == 2.0
    assert float(mjax.jit(lambda x: x + 1.0).lower(1.0).compile(options)(1.0)) == 2.0


def test_options_of_transformed_and_of_inner_functions():
    f = mjax.jit(lambda x: lax.reduce_sum(x * x, (0,)),
                 compiler_options={"xla_cpu_enable_fast_math": True})
    np.testing.assert_array_equal(mjax.grad(f)(X), 2 * X)
    np.testing.assert_array_equal(mjax.vmap(f)(X[None]), [5.0])
    np.testing.assert_array_equal(mjax.jvp(f, (X,), (X,))[1], 10.0)
    for outer in (mjax.jit(lambda x: f(x)), mjax.jit(mjax.grad(lambda x: f(x)))):
        with pytest.raises(ValueError, match=r"xla_cpu_enable_fast_math.*given to jit\(<lambda>\) "
                                             "at .*test_stages.py.*outermost jit"):
            outer(X)
    inline = mjax.jit(lambda x: x, inline=True, compiler_options={"xla_cpu_enable_fast_math": True})
    with pytest.raises(ValueError, match="outermost jit"):
        mjax.jit(lambda x: inline(x) + 1.0)(X)


# ---- ShapeDtypeStruct ------------------------------------------------------------------


def test_structs():
    s = STRUCT([3, 2], "float32")
    assert (s.shape, s.dtype, s.ndim, s.size, len(s)) == ((3, 2), np.float32, 2, 6, 3)
    assert s == STRUCT((3, 2), np.float32) and hash(s) == hash(STRUCT((3, 2), np.float32))
    assert s != STRUCT((3, 2), np.float32, weak_type=True) != STRUCT((3, 2), np.int32)
    assert s.update(shape=(4,)) == STRUCT((4,), np.float32)
    assert repr(s) == "ShapeDtypeStruct(shape=(3, 2), dtype=float32)"
    assert "weak_type=True, sharding=" in repr(s.update(
        weak_type=True, sharding=mjax.device_put(X).sharding))
    assert pickle.loads(pickle.dumps(s)) == copy.deepcopy(s) == s
    with pytest.raises(AttributeError, match=r"immutable; .update\(shape=...\)"):
        s.shape = (1,)
    with pytest.raises(TypeError, match="color"):
        s.update(color="red")
    with pytest.raises(ValueError, match="dtype must be given"):
        STRUCT((3,), None)


def test_struct_of_what_varies():
    manual = mjax.sharding.ManualAxisType(varying={"i"})
    s = STRUCT((3,), "float32", manual_axis_type=manual)
    assert s.manual_axis_type is manual and s.vma == {"i"} and s.update(shape=(4,)).vma == {"i"}
    assert s == STRUCT((3,), "float32", vma={"i"}) != STRUCT((3,), "float32")
    assert hash(s) == hash(STRUCT((3,), "float32", vma=frozenset({"i"})))
    assert STRUCT((3,), "float32").vma is None is STRUCT((3,), "float32").manual_axis_type
    assert s.update(vma={"j"}).vma == {"j"} and s.update(manual_axis_type=None).vma is None
    assert pickle.loads(pickle.dumps(s)) == s
    assert repr(s) == ("ShapeDtypeStruct(shape=(3,), dtype=float32, manual_axis_type="
                       "ManualAxisType(varying=frozenset({'i'}), unreduced=frozenset(), "
                       "reduced=frozenset()))")
    with pytest.raises(TypeError, match="manual_axis_type must be a .*ManualAxisType or None, got"):
        STRUCT((3,), "float32", manual_axis_type={"i"})
    with pytest.raises(TypeError, match="say the same: give one"):
        STRUCT((3,), "float32", manual_axis_type=manual, vma={"i"})
    assert mjax.eval_shape(lambda x: x * 2, s) == STRUCT((3,), "float32")  # no such axis here



def test_shardings_of_structs():
    mesh = mjax.make_mesh((2,), ("x",))
    with mjax.set_mesh(mesh):
        s = STRUCT((4,), "float32", sharding=mjax.P("x"))
    assert s.sharding is mjax.NamedSharding(mesh, mjax.P("x"))
    with pytest.raises(ValueError, match=r"ShapeDtypeStruct: PartitionSpec\('x',\) alone does"):
        STRUCT((4,), "float32", sharding=mjax.P("x"))
    with pytest.raises(ValueError, match=r"ShapeDtypeStruct: PartitionSpec\('x',\) has 1 entries"):
        s.update(shape=())
    with pytest.raises(TypeError, match="ShapeDtypeStruct: expected a NamedSharding, .* got 'x'"):
        STRUCT((4,), "float32", sharding="x")


def test_shardings_that_were_asked_for_are_known_before_compiling():
    cut = mjax.NamedSharding(mjax.make_mesh((2,), ("x",)), mjax.P("x"))
    f = mjax.jit(lambda x: (x, {"a": x + 1}), out_shardings=(None, {"a": cut}))
    struct = STRUCT((4,), "float32")
    for info in (f.eval_shape(struct), f.trace(struct).out_info, f.lower(struct).out_info):
        assert info == (struct, {"a": struct.update(sharding=cut)})


def test_structs_of_wide_dtypes_are_wide_where_wide_types_are():
    s = STRUCT((3,), np.float64)
    assert s.dtype == np.float64
    assert mjax.eval_shape(lambda x: x * 2, s).dtype == np.float32
    assert mjax.jit(lambda x: x).lower(s).in_avals[0][0].dtype == np.float32
    with mjax.enable_x64(True):
        assert mjax.eval_shape(lambda x: x * 2, s).dtype == np.float64


def test_structs_like_arrays():
    assert STRUCT.like(X) == STRUCT((3,), np.float32)
    assert STRUCT.like(1.0) == STRUCT((), np.float32, weak_type=True)
    x = mjax.device_put(X, mjax.devices()[0])
    assert STRUCT.like(x).sharding is x.sharding
    assert mjax.jit(lambda x: x + 1).lower(STRUCT.like(x)).compile()(X).committed


def test_eval_shape():
    class Duck:
        shape, dtype = (3,), np.dtype(np.float32)

    assert mjax.eval_shape(lambda x: x * 2, Duck()) == STRUCT((3,), np.float32)
    assert mjax.eval_shape(lambda x: x * 2, 1.0) == STRUCT((), np.float32, weak_type=True)
    out = mjax.eval_shape(lambda x, y: {"a": x["k"] * y, "b": None, "c": 3}, {"k": X}, y=2)
    assert out == {"a": STRUCT((3,), np.float32), "b": None,
                   "c": STRUCT((), np.int32, weak_type=True)}
    f = mjax.jit(example, static_argnames="n")
    assert f.eval_shape({"a": Duck()}, k=STRUCT((), np.float32), n=3)["r"].shape == (3,)
    for call in (lambda: mjax.eval_shape(example, {"a": "text"}, k=X),
                 lambda: f.lower({"a": "text"}, k=X), lambda: f.eval_shape({"a": "text"}, k=X)):
        with pytest.raises(TypeError, match=r"example: argument\[0\]\['a'\] is not a valid array"):
            call()


def test_eval_shape_of_jitted_functions():
    where = mjax.sharding.SingleDeviceSharding(mjax.devices()[1])
    f = mjax.jit(lambda x, n: x[:n] * 2, out_shardings=where, static_argnums=1)
    assert mjax.eval_shape(f, X, 2) == STRUCT((2,), np.float32, sharding=where)
    # Results of a function that wraps one are its own.
    stacked = functools.wraps(f)(lambda x: [f(x, 2)])
    assert mjax.eval_shape(stacked, X) == [STRUCT((2,), np.float32)]


@pytest.mark.parametrize(("compiled_for", "called_with"), [(1.0, np.float32(2)),
                                                           (np.float32(1), 2.0)])
def test_results_have_the_types_they_were_compiled_with(compiled_for, called_with):
    f = mjax.jit(lambda x: (x, x * 2, x)).lower(compiled_for).compile()
    weak = type(compiled_for) is float
    for _ in range(2):
        outs = f(called_with)
        assert [o.weak_type for o in outs] == [weak] * 3 and list(map(float, outs)) == [2, 4, 2]
    given = mjax.device_put(called_with)
    assert f(given)[0].weak_type is weak and given.weak_type is not weak


def test_structs_are_no_arguments_of_calls():
    f = mjax.jit(lambda x: x + 1)
    for call in (f, lambda s: lax.add(s, s), mjax.device_put, mjax.vmap(f)):
        with pytest.raises(TypeError, match="ShapeDtypeStruct"):
            call(STRUCT((3,), np.float32))


def test_stages_of_this_process_are_not_pickled():
    lowered = mjax.jit(lax.neg).lower(X)
    for stage, name in ((lowered, "Lowered"), (lowered.compile(), "Compiled")):
        with pytest.raises(TypeError, match=rf"<{name} neg: .* belongs to this process") as info:
            pickle.dumps(stage)
        assert copy.copy(stage) is copy.deepcopy(stage) is stage
        assert [frame.path for frame in info.traceback][-1].name == "test_stages.py"


def test_stages_are_shown_with_their_types():
    traced = mjax.jit(lambda x, n: (x * n, n), static_argnums=1).trace(np.ones(3, "float32"), 2)
    lowered = traced.lower()
    for stage in (traced, lowered, lowered.compile()):
        assert repr(stage) == (
            f"<{type(stage).__name__} <lambda>: (float32[3]) -> (float32[3], ~int32[])>")


def test_unknown_options_are_errors_of_xla_too():
    with pytest.raises(mjax.errors.JaxRuntimeError, match="nonsense"):
        mjax.jit(lambda x: x + 1).lower(1.0).compile({"nonsense": 1})


def test_wrapped_functions_are_told_from_others():
    assert isinstance(mjax.jit(lambda x: x), mjax.stages.Wrapped)
    assert not isinstance(lambda x: x, mjax.stages.Wrapped)
