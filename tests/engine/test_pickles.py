"""Pickles: what they name stays, and what was pickled once loads for ever."""

from __future__ import annotations

import collections
import copy
import importlib
import operator
import pickle
import pkgutil
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
import mjax_ext
from mjax import ad_checkpoint, export, lax, random, sharding
from mjax import tree_util as tu
from mjax.experimental import layout
from mjax.sharding import AbstractMesh
from mjax_ext import core
from mjax_ext import random as ext_random
from mjax_ext.interpreters import batching

Point = collections.namedtuple("Point", "x y")


def arrays():
    return [jnp.ones((2, 3)), jnp.ones((2, 0), "bfloat16"), jnp.asarray(1.0), random.key(0),
            random.split(random.key(3), 2), jnp.arange(3) * 2]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays(protocol):
    for x in arrays():
        y = pickle.loads(pickle.dumps(x, protocol))
        assert y.aval is x.aval
        np.testing.assert_array_equal(y._stored(), x._stored())


@pytest.mark.parametrize("tree", [
    (1, {"b": [2, None], "a": 3}), collections.OrderedDict(x=1, y=(2,)), 3, None, [],
    collections.defaultdict(list, {1: 2}), tu.Partial(len, 1), Point(1, (2,))], ids=str)
def test_tree_structures(tree):
    treedef = tu.tree_structure(tree)
    for other in (*(pickle.loads(pickle.dumps(treedef, p)) for p in range(6)),
                  copy.deepcopy(treedef), copy.copy(treedef)):
        assert other == treedef and hash(other) == hash(treedef)
        assert repr(other.unflatten(range(other.num_leaves))) == repr(
            treedef.unflatten(range(treedef.num_leaves)))
        tu.treedef_tuple([other, treedef])  # which refuses those of other registries


def others():
    """Specs, structs and partials pickle through the stable home too."""
    mesh = AbstractMesh((2, 1), ("a", "b"))
    return [mjax.P(), mjax.P("a", None, ("b", "c"), mjax.P.UNCONSTRAINED), mesh,
            mjax.ShapeDtypeStruct((2, 3), "bfloat16", weak_type=True)]


def test_they_name_nothing_that_may_move():
    text = pickle.dumps([*arrays(), tu.tree_structure((1, {"a": 2})), *others(),
                         tu.Partial(operator.add, 2)])
    assert b"_engine" not in text and b"jaxlib" not in text


@pytest.mark.parametrize("back", [
    lambda x: pickle.loads(pickle.dumps(x)), lambda x: pickle.loads(pickle.dumps(x, 2)),
    copy.copy, copy.deepcopy])
def test_what_is_no_array(back):
    for value in others():
        same = back(value)
        assert same == value and type(same) is type(value) and repr(same) == repr(value)
    assert back(mjax.P.UNCONSTRAINED) is mjax.P.UNCONSTRAINED
    add = tu.Partial(sorted, [3, 1], reverse=True)
    add.note = "kept"
    same = back(add)
    assert type(same) is tu.Partial and same() == [3, 1] and same.note == "kept"
    assert tu.tree_structure(same) == tu.tree_structure(add)
    inner = back(tu.Partial(tu.Partial(operator.add, 2)))
    assert inner(3) == 5 and tu.tree_leaves(inner) == []


def test_a_process_without_mjax_loads_them():
    text = pickle.dumps([random.key(1), jnp.ones(2), tu.tree_structure([1])])
    done = subprocess.run([sys.executable, "-c", f"import pickle; print(pickle.loads({text!r}))"],
                          capture_output=True, text=True, timeout=120)
    assert "PyTreeDef([*])" in done.stdout, done.stderr


def values():
    """An instance of each public class whose instances are pickled: by the class."""
    conv = lax.conv_dimension_numbers((1, 1, 3, 3), (1, 1, 3, 3), None)
    made = [
        jnp.ones(2), mjax.P("a"), mjax.ShapeDtypeStruct((2,), "int8"), AbstractMesh((2,), ("a",)),
        sharding.AxisType.Auto, sharding.ManualAxisType(varying={"a"}), lax.AccuracyMode.DEFAULT,
        lax.Precision.HIGHEST, lax.DotAlgorithmPreset.F32_F32_F32, conv,
        lax.DotAlgorithm(*["float32"] * 3, 1, 1, 1, False), lax.GatherScatterMode.CLIP,
        lax.GatherDimensionNumbers((0,), (0,), (0,)), lax.ScatterDimensionNumbers((0,), (0,), (0,)),
        lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [0]),
        lax.RandomAlgorithm.RNG_DEFAULT, lax.RoundingMethod.TO_NEAREST_EVEN, lax.Tolerance(0.5),
        layout.Layout((1, 0)), mjax.jit(len).lower([1.0]).args_info[0][0][0], tu.Partial(sorted),
        ad_checkpoint.Offloadable("device", "pinned_host"), core.ShapedArray((2,), "float32", True),
        core.AbstractToken(), mjax.ref.AbstractRef(core.ShapedArray((2,), "int8")),
        core.DebugInfo("jit", "f", ("x",)), core.EffectPolicy(ordered=True),
        batching.AxisData("i", 3), lax.FftType.RFFT, lax.linalg.EigImplementation.LAPACK,
        lax.linalg.EighImplementation.QR, lax.linalg.SvdAlgorithm.QR,
        mjax.debug.flops(jnp.add, 1.0, 2.0),
        mjax.debug.NaNSource("log", ("float32[]",), "a.py:1 (f)"),
        mjax.image.ResizeMethod.CUBIC, export.DisabledSafetyCheck.custom_call("f"),
        mjax.memory.Space.Host, ext_random.threefry_prng_impl]
    return {type(value): value for value in made}


#: Public classes whose instances are not pickled, or by name, and why.
OTHERS = {
    "by their public names": lambda cls: "._" not in cls.__module__,
    "of this process: devices, programs, traces, functions": lambda cls: cls.__name__ in {
        "ClosedJaxpr", "Compiled", "CustomVJPPrimal", "DebugEffect", "DropVar", "Effect",
        "Error", "Exported", "Format", "Frame", "Held", "Initializer", "Interpreter", "Jaxpr",
        "JaxprBuilder", "JaxprEqn", "JVPTracer", "Literal", "OperandEffect",
        "Lowered", "LoweringContext", "Mesh", "ModuleContext", "NamedSharding",
        "OrderedDebugEffect",
        "PartialEvaluated", "Primitive", "Ref", "Shard", "Sharding", "SingleDeviceSharding",
        "StepTraceAnnotation", "SymbolicScope", "SymbolicZero", "TokenSet", "TraceAnnotation",
        "Drawing", "ResultsHandler", "TraceReport", "TraceRow", "Traced", "Tracer", "TracingEqn",
        "UndefinedPrimal", "Var", "Zero", "custom_jvp", "custom_vjp",
        "LoweringParameters", "LoweringResult", "PartialVal", "PipelineStage", "ReplicaAxisContext",
        "ResourceEnv", "SPMDAxisContext", "ShapePolyLoweringState", "ShardingContext",
        "ZeroIfMapped", "BatchTrace", "BatchTracer", "CallPrimitive", "DynamicJaxprTrace",
        "DynamicJaxprTracer", "Evaluation", "Finding", "GSPMDSharding", "JVPTrace", "Schema",
        "JaxprEqnContext", "JaxprTrace", "JaxprTracer", "NameStack", "Report", "SourceInfo",
        "StoreException", "Token", "Trace", "TraceTag", "WrappedFun",
        "ArrayMapping", "CompoundFactor", "PRNGReport", "SdyShardingRule",
        "custom_partitioning",
        "custom_vmap", "set_mesh", "ufunc", "AbstractValue", "Wrapped", "finfo", "iinfo",
        "HiPrimitive", "HiType", "MappingSpec", "VJPHiPrimitive", "aval_method", "aval_property"},
}


def public_classes():
    names = [info.name for package in (mjax, mjax_ext)
             for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
             if not any(part.startswith("_") for part in info.name.split("."))]
    modules = [mjax, *map(importlib.import_module, names)]
    found = [getattr(module, name) for module in modules
             for name in getattr(module, "__all__", ())]
    return {value for value in found
            if isinstance(value, type) and value.__module__.startswith(("mjax.", "mjax_ext."))}


def test_each_public_class_has_a_stable_home_in_pickles():
    table = values()
    for cls in sorted(public_classes(), key=lambda cls: (cls.__module__, cls.__name__)):
        if any(other(cls) for other in OTHERS.values()):
            continue
        assert cls in table, f"{cls} has no instance in `values`"
    for value in table.values():
        for protocol in (0, 2, 5):
            text = pickle.dumps(value, protocol)
            assert b"_engine" not in text and b"mjax._pickles" in text.replace(b"\n", b"."), value
            for same in (pickle.loads(text), copy.copy(value), copy.deepcopy(value)):
                assert type(same) is type(value)
                assert repr(same) == repr(value)


def test_types_pickled_before_they_had_a_home_load():
    assert pickle.loads(b"cmjax._engine.ir.types\nShapedArray\n((I2\ntS'float32'\nI00\n"
                        b"c__builtin__\nfrozenset\n((ltRtR.") is core.ShapedArray((2,), "float32")
    assert pickle.loads(b"cmjax._engine.ir.mesh\nAxisType\n(S'Auto'\ntR.") is sharding.AxisType.Auto


def test_wide_numbers_are_as_wide_as_the_loader_has_them():
    with mjax.enable_x64(True):
        text = pickle.dumps(jnp.arange(3.0))
    assert pickle.loads(text).dtype == np.float32
    with mjax.enable_x64(True):
        assert pickle.loads(text).dtype == np.float64


def test_tracers_have_weak_references():
    def f(x):
        assert weakref.ref(x)() is x
        return x * 2.0

    mjax.jit(f)(1.0), mjax.grad(f)(1.0), mjax.vmap(f)(jnp.ones(2)), mjax.jvp(f, (1.0,), (1.0,))


def test_functions_are_pickled_by_public_names():
    names = [info.name for info in pkgutil.walk_packages(mjax.__path__, "mjax.")
             if "._" not in info.name]
    policies = mjax.checkpoint_policies
    functions = [getattr(module, name) for module in [mjax, *map(importlib.import_module, names)]
                 if "__getattr__" in vars(module) for name in module.__all__]
    functions = [f for f in functions if type(f) is type(pickle.dumps) or isinstance(
        f, (types.FunctionType, jnp.ufunc))] + [*vars(policies).values()]
    assert len(functions) > 800
    for f in functions:
        text = pickle.dumps(f)
        assert b"mjax._" not in text and pickle.loads(text) is f, f
    for policy in (policies.save_only_these_names("a", "b"), policies.save_any_names_but_these(),
                   policies.save_anything_except_these_names("a"), policies.save_from_both_policies(
                       policies.dots_saveable, policies.save_only_these_names("a"))):
        text = pickle.dumps(policy)
        assert b"_engine" not in text and pickle.loads(text) == policy
    mine = jnp.frompyfunc(operator.add, 2, 1)
    assert b"mjax._numpy" not in pickle.dumps(mine) and pickle.loads(pickle.dumps(mine)) == mine
