"""mjax_ext.interpreters.mlir: modules, functions, and what rules ask of their context."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.sharding import Mesh, NamedSharding, PartitionSpec
from mjax_ext import core
from mjax_ext.interpreters import mlir
from mjaxlib_shim import executables

X = np.arange(3, dtype=np.float32)
W = mjax.device_put(np.arange(1000, dtype=np.float32))


def compute(module, args, host_callbacks=()):
    """Runs a module's main on one device."""
    (device, *_) = mjax.devices()
    with module.context:
        loaded = executables.compile_module(device.client, module, [device],
                                            host_callbacks=host_callbacks)
    buffers = [mjax.device_put(a, device)._buffer for a in args]
    main = mlir.ir.SymbolTable(module.operation)["main"]
    return loaded.execute_sharded(buffers).consume_with_handlers(
        [lambda pieces: np.asarray(pieces[0])] * len(main.type.results))


def program(x, y):
    return lax.mul(lax.sin(x), y), mjax.jit(lambda a: lax.add(a, W))(lax.neg(W))


def lower(f, *args, **options):
    return mlir.lower_jaxpr_to_module("m", mjax.make_jaxpr(f)(*args), platforms=["cpu"], **options)


# ---- programs to modules -----------------------------------------------------------------


def test_a_module_has_its_constants_and_computes_the_program():
    result = lower(program, X, X, ordered_effects=[], backend=None, num_const_args=0)
    assert "func.func public @main(%arg0: tensor<3xf32>" in mlir.module_to_string(result.module)
    assert result.module.operation.verify() and not result.shape_poly_state.uses_dim_vars
    first, second = compute(result.module, [X, 2 * X])
    np.testing.assert_allclose(first, np.sin(X) * 2 * X, rtol=1e-6)
    np.testing.assert_array_equal(second, np.zeros(1000, np.float32))
    hoisted = lower(program, X, X, lowering_parameters=mlir.LoweringParameters(
        hoist_constants_as_args=True))
    assert "@main(%arg0: tensor<1000xf32>" in mlir.module_to_string(hoisted.module)


def test_names_donation_and_places_of_a_module():
    result = lower(lambda x, y: [lax.add(x, y), lax.neg(y)], X, X, donated_args=[True, False],
                   result_names=["sum", "negative"], arg_names=["left", "right"],
                   input_output_aliases=[None, 1])
    text = mlir.module_to_string(result.module)
    assert "tf.aliasing_output = 0" in text and "tf.aliasing_output = 1" in text
    assert 'jax.result_info = "sum"' in text and 'jax.result_info = "negative"' in text
    assert "test_mlir_modules.py" not in text
    assert "test_mlir_modules.py" in mlir.module_to_string(result.module, enable_debug_info=True)
    assert mlir.module_to_bytecode(result.module).startswith(b"ML\xefR")


def test_symbolic_sizes():
    (n,) = mjax.export.symbolic_shape("n")
    result = lower(lambda x: lax.reduce_sum(x, (0,)), mjax.ShapeDtypeStruct((n,), np.float32))
    assert result.shape_poly_state.dim_vars == ("n",)
    assert "tensor<?xf32>" in mlir.module_to_string(result.module)


def test_callbacks_are_handed_on():
    def f(x):
        return mjax.pure_callback(lambda v: np.cos(v), mjax.ShapeDtypeStruct((3,), np.float32), x)

    result = lower(f, X)
    assert len(result.host_callbacks) == 1
    np.testing.assert_allclose(compute(result.module, [X], result.host_callbacks)[0], np.cos(X),
                               rtol=1e-6)


def test_a_program_over_devices():
    mesh = Mesh(np.array(mjax.devices()[:2]), ("x",))
    cut = NamedSharding(mesh, PartitionSpec("x"))
    jaxpr = mjax.make_jaxpr(lax.sin)(np.zeros(4, np.float32))
    for context in (mlir.SPMDAxisContext(mesh),
                    mlir.ShardingContext(2, tuple(mjax.devices()[:2]))):
        result = mlir.lower_jaxpr_to_module(
            "m", jaxpr, platforms=["cpu"], axis_context=context, arg_shardings=[cut],
            result_shardings=[None])
        text = mlir.module_to_string(result.module)
        assert "mhlo.num_partitions = 2" in text and '[{"x"}]' in text
    with pytest.raises(ValueError, match="a program over 2 devices needs them, as the device_ass"):
        mlir.lower_jaxpr_to_module("m", jaxpr, platforms=["cpu"],
                                   axis_context=mlir.ShardingContext(2))
    with pytest.raises(TypeError, match="takes a NamedSharding or None per input"):
        mlir.lower_jaxpr_to_module("m", jaxpr, platforms=["cpu"], arg_shardings=["x"],
                                   axis_context=mlir.SPMDAxisContext(mesh))


def test_what_modules_do_not_have():
    for options, words in [
            ({"num_replicas": 2}, "num_replicas is not supported"),
            ({"in_layouts": [1]}, "in_layouts is not supported"),
            ({"axis_context": "mesh"}, "takes an axis context of a mesh or of XLA's partitions")]:
        with pytest.raises(NotImplementedError, match=words):
            lower(lax.sin, X, **options)
    jaxpr = mjax.make_jaxpr(lax.sin)(X)
    for platforms in (["cpu", "tpu"], "cpu"):
        with pytest.raises(NotImplementedError, match=r"list of one platform.*mjax\.export"):
            mlir.lower_jaxpr_to_module("m", jaxpr, platforms=platforms)
    with pytest.raises(TypeError, match="lower_jaxpr_to_module takes a jaxpr"):
        mlir.lower_jaxpr_to_module("m", lax.sin, platforms=["cpu"])
    for name, given, what in (
            ("donated_args", [True, False], "input"), ("arg_shardings", [None, None], "input"),
            ("arg_names", ["x", "y"], "input"), ("input_output_aliases", [None, 0], "input"),
            ("result_shardings", [None, None], "result"), ("result_names", ["x", "y"], "result")):
        with pytest.raises(ValueError, match=f"{name} has 2 entries for 1 {what}"):
            lower(lax.sin, X, **{name: given})


def test_rules_of_one_lowering():
    """They hold in inner programs too, and for nothing else."""
    rules = ((lax.sin_p, mlir.lower_fun(lax.cos, multiple_results=False)),
             (lax.neg_p, lambda ctx, x: mlir.hlo.AbsOp(x).results))
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jit(lambda y: lax.sin(y))(lax.neg(x)))(X)
    for parameters, wanted in [(mlir.LoweringParameters(rules), np.cos(np.abs(X))),
                               (mlir.LoweringParameters(), np.sin(-X))]:
        result = mlir.lower_jaxpr_to_module("m", jaxpr, platforms=["cpu"],
                                            lowering_parameters=parameters)
        np.testing.assert_allclose(compute(result.module, [X])[0], wanted, rtol=1e-6)


# ---- functions and equations -------------------------------------------------------------


def test_a_module_made_by_hand():
    kept, handles = [], []
    ctx = mlir.ModuleContext(platforms=["cpu"], keepalives=kept, host_callbacks=handles,
                             channel_iterator=itertools.count(7))
    assert isinstance(ctx, mlir.ModuleContext) and ctx.platforms == ("cpu",)
    assert ctx.new_channel() == 7 and ctx.axis_context == mlir.ShardingContext(1)
    ctx.add_keepalive(kept)
    assert kept == [kept] and ctx.lowering_parameters == mlir.LoweringParameters()
    jaxpr = mjax.make_jaxpr(program)(X, X)
    with ctx.context, mlir.ir.Location.unknown():
        first = mlir.lower_jaxpr_to_fun(ctx, "f", jaxpr)
        second = mlir.lower_jaxpr_to_fun(ctx, "f", jaxpr)
        main = mlir.lower_jaxpr_to_fun(ctx, "main", jaxpr, main_function=True)
    names = [f.name.value for f in (first, second, main)]
    assert names[0] == "f" != names[1] and names[2] == "main"
    assert ctx.symbol_table["f"].name.value == "f" and ctx.ip.block == ctx.module.body
    np.testing.assert_allclose(compute(ctx.module, [X, X])[0], np.sin(X) * X, rtol=1e-6)
    (n,) = mjax.export.symbolic_shape("n")
    symbolic = mjax.make_jaxpr(lax.sin)(mjax.ShapeDtypeStruct((n,), np.float32))
    with ctx.context, mlir.ir.Location.unknown(), pytest.raises(
            NotImplementedError, match="lower_jaxpr_to_module makes it"):
        mlir.lower_jaxpr_to_fun(ctx, "main", symbolic, main_function=True)


def test_functions_with_ordered_effects_take_tokens():
    def f(x):
        mjax.debug.print("{}", x, ordered=True)
        return x

    ctx = mlir.ModuleContext(platforms=["cpu"])
    with ctx.context, mlir.ir.Location.unknown():
        function = mlir.lower_jaxpr_to_fun(ctx, "f", mjax.make_jaxpr(f)(X))
        assert list(map(str, function.type.inputs)) == ["!stablehlo.token", "tensor<3xf32>"]
        with mlir.ir.InsertionPoint(ctx.module.body):
            (effect,) = mjax.make_jaxpr(f)(X).effects
            assert len(mlir.TokenSet.create([effect]).values()) == 1


def region(rule):
    p = core.Primitive("region", multiple_results=True)
    core.Frame(p)
    mlir.register_lowering(p, rule)
    return p


def test_equations_of_a_program_in_a_rule():
    weights = W[:3]
    body = mjax.make_jaxpr(lambda x: [lax.mul(x, weights), lax.sin(x)])(X)

    def rule(ctx, *args, jaxpr):
        consts = [mlir.ir_constant(2 * np.asarray(c)) for c in jaxpr.consts]
        outs, tokens = mlir.jaxpr_subcomp(
            ctx.module_context, jaxpr, ctx.name_stack, ctx.tokens_in, consts, *args,
            dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering)
        assert len(tokens) == 0
        with pytest.raises(TypeError, match="1 constant and 1 input was given 1 constant and 2"):
            mlir.jaxpr_subcomp(ctx.module_context, jaxpr, (), ctx.tokens_in, consts, *args, *args)
        return outs

    p = region(rule)
    double, sine = mjax.jit(lambda x: p.bind(x, jaxpr=body))(X)
    np.testing.assert_allclose(double, X * 2 * np.asarray(weights))
    np.testing.assert_allclose(sine, np.sin(X), rtol=1e-6)


def test_calls_and_tokens_of_a_program_in_a_rule(capfd):
    def loud(x):
        mjax.debug.print("seen {}", x, ordered=True)
        return [lax.sin(x)]

    body = mjax.make_jaxpr(loud)(np.float32(1))
    called = region(lambda ctx, *args, jaxpr: mlir.core_call_lowering(
        ctx, *args, name="loud", call_jaxpr=jaxpr))

    def subcomp(ctx, *args, jaxpr):
        outs, tokens = mlir.jaxpr_subcomp(ctx.module_context, jaxpr, (), ctx.tokens_in, [], *args)
        ctx.set_tokens_out(tokens)
        return outs

    inlined = region(subcomp)

    def delegate(ctx, *args, jaxpr):
        return mlir.delegate_lowering(
            ctx, lambda inner, *a: mlir.core_call_lowering(inner, *a, name="it", call_jaxpr=jaxpr),
            *args, name_stack=ctx.name_stack)

    for p in (called, inlined, region(delegate)):
        f = mjax.jit(lambda x, p=p: p.bind(p.bind(x, jaxpr=body)[0], jaxpr=body))
        np.testing.assert_allclose(f(1.0)[0], np.sin(np.sin(1)), rtol=1e-6)
        mjax.effects_barrier()
        assert capfd.readouterr().out == "seen 1.0\nseen 0.8414709568023682\n"


def test_rules_once_per_types_and_params():
    ran = []

    def rule(ctx, x, *, by):
        ran.append(by)
        return mlir.hlo.AddOp(x, mlir.full_like_aval(ctx, by, ctx.avals_in[0])).results

    p = core.Primitive("plus")
    p.def_abstract_eval(lambda x, *, by: x)
    mlir.register_lowering(p, rule, inline=False)

    def f(x, y):
        return p.bind(p.bind(x, by=1), by=1), p.bind(x, by=2), p.bind(y, by=1)

    outs = mjax.jit(f)(X, X[:2])
    assert ran == [1, 2, 1]
    for got, wanted in zip(outs, [X + 2, X + 2, X[:2] + 1], strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert mjax.jit(f).lower(X, X[:2]).as_text().count("call @plus") == 4


# ---- what rules ask ----------------------------------------------------------------------


def test_facts_of_the_context():
    seen = {}

    def rule(ctx, x):
        m = ctx.module_context
        seen.update(
            platforms=ctx.platforms, same=m.platforms, names=ctx.name_stack, backend=m.backend,
            again=m.get_backend(optional=True), forward=ctx.is_forward_compat(),
            eqn_ctx=ctx.jaxpr_eqn_ctx, place=ctx.traceback, sizes=ctx.dim_var_values,
            axes=m.axis_context, memory=m.all_default_mem_kind)
        moved = ctx.replace(name_stack=mlir_names("inner"), tokens_in=ctx.tokens_in)
        seen["inner"] = moved.name_stack, moved.traceback is ctx.traceback
        assert ctx.tokens_out is ctx.tokens_in and m.context == m.module.context
        with pytest.raises(TypeError, match=r"does not replace platform, but module_context, prim"):
            ctx.replace(platform="tpu")
        return [x]

    def mlir_names(name):
        return (*seen["names"], name)

    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, rule)

    @mjax.jit
    def f(x):
        with mjax.named_scope("outer"):
            return p.bind(x)

    f(X)
    assert seen["platforms"] == seen["same"] == ("cpu",) and seen["backend"] is seen["again"]
    assert tuple(seen["names"])[-1] == "outer" and seen["inner"][0][-2:] == ("outer", "inner")
    assert seen["inner"][1] and seen["place"] is not None and seen["sizes"] == ()
    assert seen["axes"] == mlir.ShardingContext(1) and seen["memory"] and not seen["forward"]
    lower(p.bind, X, lowering_parameters=mlir.LoweringParameters(for_export=True))
    assert seen["forward"]


def test_the_mesh_of_the_context():
    seen = []

    def rule(ctx, x):
        seen.append(ctx.module_context.axis_context)
        return [x]

    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, rule)
    mesh = Mesh(np.array(mjax.devices()[:2]), ("x",))
    spec = PartitionSpec("x")
    mjax.jit(mjax.shard_map(p.bind, mesh=mesh, in_specs=spec, out_specs=spec))(np.zeros(4))
    assert seen == [mlir.SPMDAxisContext(mesh, frozenset({"x"}))]
    seen.clear()
    mjax.jit(p.bind)(mjax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, spec)))
    assert seen == [mlir.ShardingContext(2, tuple(mjax.devices()[:2]))]


def test_objects_that_have_to_live_as_long_as_the_program():
    class Kept:
        pass

    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: x)

    def rule(ctx, x):
        ctx.module_context.add_keepalive(Kept())
        return [x]

    mlir.register_lowering(p, rule)
    lowered = lower(p.bind, X)
    assert [type(k) for k in lowered.keepalive.keepalives] == [Kept]


# ---- types and constants of one's own ----------------------------------------------------


class Money:
    """A value of two numbers, which is a constant of programs."""

    aval = core.ShapedArray((2,), np.float32)
    shape, dtype, ndim, size = (2,), np.dtype(np.float32), 1, 2

    def __init__(self, *amounts):
        self.amounts = amounts


def test_constants_of_ones_own():
    with pytest.raises(KeyError):
        mlir.get_constant_handler(Money)
    with pytest.raises(TypeError, match="takes a class and a function"):
        mlir.register_constant_handler(Money, 3)

    def written(value, aval):
        assert aval is None or aval is Money.aval
        return mlir.ir_constant(np.array(value.amounts, np.float32))

    mlir.register_constant_handler(Money, written)
    assert mlir.get_constant_handler(Money) is written
    purse = Money(3, 4)
    np.testing.assert_array_equal(mjax.jit(lambda x: lax.add(x, purse))(X[:2]), [3, 5])
    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda ctx, x: mlir.ir_constants(purse, aval=Money.aval))
    np.testing.assert_array_equal(mjax.jit(p.bind)(X[:2]), [3, 4])
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        module = mlir.ir.Module.create()
        with mlir.ir.InsertionPoint(module.body):
            for cls, value in ((np.ndarray, X), (float, 2.0), (np.float32, np.float32(2))):
                assert isinstance(mlir.get_constant_handler(cls)(value, None), mlir.Value)
            known = {id(purse): (1, 2)}
            assert mlir.ir_constants(purse, const_lowering=known) == (1, 2)
            with pytest.raises(ValueError, match="is represented by 2 IR values"):
                mlir.ir_constant(purse, const_lowering=known)
    assert mlir.Token is mlir.Value


class Half(core.AbstractValue):
    """A number that programs hold in 16 bits."""

    def __eq__(self, other):
        return type(other) is Half

    def __hash__(self):
        return hash(Half)

    def str_short(self, short_dtypes=False, mesh_axis_types=False):
        return "half"


def test_types_of_ones_own():
    halve_p, widen_p = core.Primitive("halve"), core.Primitive("widen")
    halve_p.def_abstract_eval(lambda x: Half())
    widen_p.def_abstract_eval(lambda x: core.ShapedArray((), np.float32))
    half = lambda aval: mlir.ir.RankedTensorType.get([], mlir.ir.F16Type.get())
    mlir.ir_type_handlers[Half] = half
    mlir.register_lowering(halve_p, lambda ctx, x: [mlir.hlo.convert(half(None), x)])
    mlir.register_lowering(widen_p, lambda ctx, x: [mlir.hlo.convert(ctx.out_types[0], x)])
    f = mjax.jit(lambda x: mjax.jit(lambda h: widen_p.bind(h))(halve_p.bind(x)))
    assert float(f(1 / 3)) == np.float16(1 / 3)
    assert Half in mlir.ir_type_handlers and core.ShapedArray in list(mlir.ir_type_handlers)
    del mlir.ir_type_handlers[Half]
    assert Half not in mlir.ir_type_handlers and len(mlir.ir_type_handlers) >= 2
    with pytest.raises(TypeError, match="maps subclasses of core.AbstractValue to functions"):
        mlir.ir_type_handlers[int] = half
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        assert str(mlir.ir_type_handlers[core.ShapedArray](mjax.typeof(X))) == "tensor<3xf32>"
        with pytest.raises(ValueError, match="represented by 2 IR values; aval_to_ir_types"):
            mlir.ir_type_handlers[Half] = lambda aval: (half(None), half(None))
            mlir.aval_to_ir_type(Half())
    del mlir.ir_type_handlers[Half]


def test_trees_of_ir_values():
    leaves, tree = mlir.ir_tree_registry.flatten(["a", ("b", "c"), []])
    assert leaves == ["a", "b", "c"] and tree.unflatten("xyz") == ["x", ("y", "z"), ()]
    with pytest.raises(ValueError, match="2 IR values for 3 types"):
        mlir.unflatten_ir_values_like_types(["a", "b"], ["t", ("t", "t")])


def test_types_of_effects():
    class Quiet(core.Effect):
        policy = core.EffectPolicy(lowerable=False)

    p, quiet = core.Primitive("p"), Quiet()
    p.def_effectful_abstract_eval(lambda x: (x, {quiet}))
    mlir.register_lowering(p, lambda ctx, x: [x])
    with pytest.raises(ValueError, match="lowerable=False"):
        mjax.jit(p.bind)(X)
    assert quiet not in mlir.lowerable_effects
    assert mlir.lowerable_effects.filter_not_in([quiet]) == [quiet]
    mlir.lowerable_effects.add_type(Quiet)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), X)
    assert mlir.lowerable_effects.filter_in([quiet]) == [quiet]
    mlir.lowerable_effects.remove_type(Quiet)
    assert "lowerable" in repr(mlir.lowerable_effects) and not Quiet.policy.lowerable
    with pytest.raises(TypeError, match=r"subclasses of core\.Effect, got"):
        mlir.lowerable_effects.add_type(int)


# ---- modules in other forms --------------------------------------------------------------


def test_merging():
    one, two = (mlir.module_to_bytecode(lower(f, X).module) for f in (lax.sin, mjax.jit(lax.cos)))
    with mlir.make_ir_context() as context, mlir.ir.Location.unknown():
        target = mlir.ir.Module.parse(one)
        name = mlir.merge_mlir_modules(target, "other", mlir.ir.Module.parse(two))
        assert name == "other" and target.operation.verify()
        again = mlir.merge_mlir_modules(target, "other", mlir.ir.Module.parse(two))
        text = str(target)
        assert again != name and text.count("public @main") == 1 and f"private @{again}" in text
        assert context == target.context
        with pytest.raises(ValueError, match="the modules are of two contexts"):
            mlir.merge_mlir_modules(target, "other", lower(lax.sin, X).module)


def test_artifacts_both_ways():
    module = lower(lax.sin, X).module
    for given in (module, mlir.module_to_bytecode(module), mlir.module_to_string(module)):
        artifact = mlir.serialize_portable_artifact(given, "1.8.5")
        back = mlir.deserialize_portable_artifact(artifact)
        np.testing.assert_allclose(compute(back, [X])[0], np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError):
        mlir.serialize_portable_artifact(module, "no version")


def test_refining_shapes():
    text = """
      func.func @main(%x: tensor<3xf32>) -> tensor<?xf32> {
        %y = stablehlo.abs %x : (tensor<3xf32>) -> tensor<?xf32>
        return %y : tensor<?xf32>
      }"""
    with mlir.make_ir_context():
        refined = mlir.ir.Module.parse(mlir.refine_polymorphic_shapes(text))
        assert "tensor<?xf32>" not in str(refined)
    np.testing.assert_array_equal(compute(refined, [-X])[0], X)
    unknown = text.replace("%x: tensor<3xf32>", "%x: tensor<?xf32>").replace(
        "(tensor<3xf32>)", "(tensor<?xf32>)")
    with pytest.raises(ValueError):
        mlir.refine_polymorphic_shapes(unknown)


def test_stablehlo_of_hlo():
    computation = mjax.jit(lax.sin).lower(X).compiler_ir("hlo")
    text = mlir.hlo_to_stablehlo(computation.as_serialized_hlo_module_proto())
    module = mlir.xla_computation_to_mlir_module(computation)
    with mlir.make_ir_context():
        for m in (mlir.ir.Module.parse(text), module):
            np.testing.assert_allclose(compute(m, [X])[0], np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError, match="does not read the HLO module"):
        mlir.hlo_to_stablehlo(b"no module")


def test_attributes_of_booleans():
    """jaxlib 0.9.1 changed how attributes hold them, but not how it reads their text."""
    values = [i % 3 == 0 for i in range(9)]
    p = core.Primitive("p")
    p.def_abstract_eval(lambda: core.ShapedArray((9,), np.dtype(bool)))
    mlir.register_lowering(p, lambda ctx: mlir.hlo.ConstantOp(
        mlir.dense_bool_elements(values)).results)
    assert p.bind().tolist() == values
    with mlir.make_ir_context():
        assert str(mlir.dense_bool_elements([])) == "dense<> : tensor<0xi1>"


@pytest.mark.parametrize(("rule", "text"), [
    (lambda ctx, x: [x, x], r"returned tensor<3xf32>, tensor<3xf32>, but the abstract evaluation"),
    (lambda ctx, x: None, r"returned None; it must return a list of ir.Values"),
    (lambda ctx, x: [mlir.hlo.convert(mlir.aval_to_ir_type(core.ShapedArray((3,), "int32")), x)],
     r"returned tensor<3xi32>, but the abstract evaluation says float32\[3\]")])
def test_what_rules_in_functions_return_wrongly_is_named(rule, text):
    p = core.Primitive("in a function")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, rule, inline=False)
    with pytest.raises(TypeError, match=f"lowering of primitive 'in a function' .*{text}"):
        mjax.jit(p.bind)(np.ones(3, np.float32))
