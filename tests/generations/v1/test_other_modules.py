"""v1: the modules beside the interpreters. Frozen: `tests/generations/test_frozen.py`."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import v1
from mjax_ext.v1 import api_util, backend, check, core, random, sharding, source_info_util, util
from mjax_ext.v1 import linear_util as lu


def test_wrapped_functions_are_transformed():
    @lu.transformation2
    def doubled(f, *args):
        return [2 * out for out in f(*args)]

    @lu.transformation_with_aux2
    def counted(f, store, *args):
        outs = f(*args)
        store.store(len(outs))
        return outs

    wrapped = doubled(lu.wrap_init(lambda x: [x + 1, x]))
    assert isinstance(wrapped, lu.WrappedFun) and wrapped.call_wrapped(1) == [4, 2]
    wrapped, count = counted(wrapped)
    assert wrapped.call_wrapped(1) == [4, 2] and count() == 2


def test_functions_of_trees_become_flat():
    args = ({"a": 1.0}, [2.0, 3.0])
    leaves, tree = mjax.tree_util.tree_flatten(args)
    flat, out_tree = api_util.flatten_fun_nokwargs(
        lu.wrap_init(lambda d, xs: {"sum": d["a"] + xs[0], "last": xs[1]}), tree)
    outs = flat.call_wrapped(*leaves)
    assert mjax.tree_util.tree_unflatten(out_tree(), outs) == {"sum": 3.0, "last": 3.0}
    leaves, tree = mjax.tree_util.tree_flatten(((1.0,), {"k": 2.0}))
    flat, out_tree = api_util.flatten_fun(lu.wrap_init(lambda x, k: x + k), tree)
    assert flat.call_wrapped(*leaves) == [3.0]


def test_axes_are_spread_over_trees():
    tree = mjax.tree_util.tree_structure({"a": 1, "b": [2, 3]})
    assert api_util.flatten_axes("axes", tree, {"a": 0, "b": None}) == [0, None, None]
    aval = api_util.shaped_abstractify(np.ones((2, 3), np.float32))
    assert (aval.shape, aval.dtype) == ((2, 3), np.float32)
    info = api_util.debug_info("f", lambda x, y: x, (1.0, 2.0), {})
    assert info.arg_names == ("x", "y")


def test_lists_are_split():
    assert util.split_list([1, 2, 3, 4], [1, 2]) == [[1], [2, 3], [4]]
    assert tuple(map(tuple, util.unzip2([(1, "a"), (2, "b")]))) == ((1, 2), ("a", "b"))
    assert list(util.safe_map(lambda x, y: x + y, [1, 2], [3, 4])) == [4, 6]
    assert list(util.safe_zip([1], [2])) == [(1, 2)]
    with pytest.raises((AssertionError, ValueError, TypeError)):
        util.safe_zip([1], [2, 3])
    assert util.partition_list([True, False, True], "abc") == (["b"], ["a", "c"])
    assert util.merge_lists([True, False, True], ["b"], ["a", "c"]) == ["a", "b", "c"]


def test_generators_of_keys():
    impl = random.threefry_prng_impl
    key = random.random_seed(3, impl=impl)
    data = random.random_unwrap(key)
    assert data.shape == (2,) and data.dtype == np.uint32
    np.testing.assert_array_equal(data, mjax.random.key_data(mjax.random.key(3)))
    again = random.random_wrap(data, impl=impl)
    np.testing.assert_array_equal(mjax.random.bits(again), mjax.random.bits(key))
    mine = random.define_prng_impl(
        key_shape=(2,), seed=impl.seed, split=impl.split, random_bits=impl.random_bits,
        fold_in=impl.fold_in, name="v1_mine", tag="v1m")
    key = random.seed_with_impl(mine, 3)
    assert mjax.random.bits(key, (4,)).shape == (4,)
    assert mjax.random.split(key).shape == (2,)


def test_shardings_and_bytes():
    data = sharding.get_serialized_proto_from_hlo_sharding(sharding.HloSharding.replicate())
    back = sharding.get_hlo_sharding_from_serialized_proto(data)
    assert isinstance(data, bytes) and back.is_replicated()
    whole = sharding.GSPMDSharding(mjax.devices()[:1], back)
    assert whole.is_fully_replicated and isinstance(whole, mjax.sharding.Sharding)


def test_foreign_functions_have_names():
    with pytest.raises(Exception, match="v1_no_such_target"):
        mjax.jit(lambda x: v1.ffi.ffi_call(
            "v1_no_such_target", mjax.ShapeDtypeStruct(x.shape, x.dtype))(x))(jnp.ones(2))
    assert v1.ffi.include_dir()


def test_lines_of_programs():
    eqn, = mjax.make_jaxpr(lax.sin)(1.0).eqns
    assert isinstance(eqn.source_info, source_info_util.SourceInfo)
    assert "test_other_modules.py" in source_info_util.summarize(eqn.source_info)
    with source_info_util.extend_name_stack("v1_scope"):
        eqn, = mjax.make_jaxpr(lax.sin)(1.0).eqns
        assert "v1_scope" in str(source_info_util.current_name_stack())
    v1.traceback_util.register_exclusion(__file__ + ".not_there")


def test_clients_of_platforms():
    client = backend.get_backend()
    assert client.platform == mjax.default_backend()
    assert isinstance(client, v1.interpreters.xla.Backend)


def test_the_checker_finds_a_wrong_derivative():
    p = core.Primitive("v1_checked")
    p.def_impl(lambda x: x * x)
    p.def_abstract_eval(lambda x: x)
    v1.interpreters.ad.primitive_jvps[p] = lambda primals, tangents: (
        p.bind(*primals), 4.0 * primals[0] * v1.interpreters.ad.instantiate_zeros(tangents[0]))
    report = check.check_primitive(p, np.float32([1.0, 2.0]))
    assert not report.ok and any(f.rule == "jvp" for f in report.findings)
    with pytest.raises(check.WrongRulesError, match="v1_checked"):
        report.raise_for_findings()


def test_explain_lists_missing_rules():
    p = core.Primitive("v1_explained")
    p.def_abstract_eval(lambda x: x)
    report = v1.explain(p.bind, 1.0, transforms=("grad",))
    assert "v1_explained" in str(report)


def test_references_are_discharged():
    def f(x):
        ref = mjax.new_ref(x)
        ref[...] = ref[...] * 2.0
        return mjax.freeze(ref)

    assert mjax.jit(f)(3.0) == 6.0
    jaxpr = mjax.make_jaxpr(f)(3.0)
    assert core.primitives.new_ref_p in [eqn.primitive for eqn in jaxpr.eqns]

    def double(ref):
        ref[...] = ref[...] * 2.0

    jaxpr = mjax.make_jaxpr(double)(mjax.new_ref(1.0))
    pure, consts = v1.state.discharge.discharge_state(jaxpr, jaxpr.consts)
    assert core.eval_jaxpr(pure, consts, jnp.float32(3)) == [6.0]


def test_programs_are_lowered_by_a_context_of_ones_own():
    with v1.interpreters.mlir.make_ir_context():
        assert str(v1.interpreters.mlir.dtype_to_ir_type(np.dtype("float32"))) == "f32"
