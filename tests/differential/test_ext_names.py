"""Names of the extension surface beside those of jax: the same calls give the same."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
import warnings

import jax
import jax.api_util
import jax.extend.backend
import jax.extend.core.primitives
import jax.extend.linear_util
import jax.extend.source_info_util
import numpy as np
import pytest
from jax import export as jax_export
from jax._src import api_util as jax_api_util
from jax._src import config as jax_config
from jax._src import core as jax_core
from jax._src import traceback_util as jax_traceback_util
from jax._src import util as jax_util
from jax._src.interpreters import pxla as jax_pxla

import mjax
import mjax_ext.api_util
import mjax_ext.backend
import mjax_ext.core
import mjax_ext.linear_util
import mjax_ext.source_info_util
import mjax_ext.traceback_util
import mjax_ext.util
from mjax import export as mjax_export
from mjax_ext.interpreters import pxla as ext_pxla


class Names:
    """The modules of a library, by mjax's names."""

    def __init__(self, ours):
        self.ours = ours
        self.np, self.lax = (mjax.numpy, mjax.lax) if ours else (jax.numpy, jax.lax)
        self.jax = mjax if ours else jax
        self.core = mjax_ext.core if ours else jax_core
        self.primitives = (mjax_ext.core if ours else jax.extend.core).primitives
        self.lu = mjax_ext.linear_util if ours else jax.extend.linear_util
        self.api = mjax.api_util if ours else jax.api_util
        self.api_more = mjax_ext.api_util if ours else jax_api_util
        self.source = mjax_ext.source_info_util if ours else jax.extend.source_info_util
        self.util = mjax_ext.util if ours else jax_util
        self.pxla = ext_pxla if ours else jax_pxla
        self.backend = mjax_ext.backend if ours else jax.extend.backend
        self.export = mjax_export if ours else jax_export

    def wrapped(self, f, **params):
        info = self.api.debug_info("test", f, (), {})
        return self.lu.wrap_init(f, params, debug_info=info)


def plain(value):
    """A result as a value to compare."""
    if isinstance(value, dict):
        return {name: plain(x) for name, x in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(x) for x in value]
    if isinstance(value, (str, bool, int, float, type(None))):
        return value
    if isinstance(value, Exception):
        return type(value).__mro__[-4:-1]
    if hasattr(value, "dtype"):
        return str(value.dtype), np.shape(value), np.asarray(value).tolist()
    return str(value)


def outcome(call, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(call(names))
        except Exception as error:
            kinds = (TypeError, ValueError, NameError)
            return next((kind.__name__ for kind in kinds if isinstance(error, kind)),
                        type(error).__name__)


def f(x, y, *rest, k=1, **kw):
    return {"x": x, "rest": list(rest)}, k


def shown(aval):
    return f"{aval.str_short()} {getattr(aval, 'weak_type', None)}"


def stores(n):
    @n.lu.transformation_with_aux
    def counted(*args):
        outs = yield args, {}
        yield outs, len(outs)

    @n.lu.transformation
    def shifted(by, *args):
        outs = yield tuple(x + by for x in args), {}
        yield outs

    fun, count = counted(shifted(n.wrapped(lambda x, bias: [x, bias], bias=3), 10))
    other, other_count = counted(n.wrapped(lambda x: [x]))
    yield fun.call_wrapped(1)
    yield count()
    yield n.lu.merge_linear_aux(count, other_count)
    yield n.lu.merge_linear_aux(other_count, count)
    yield fun.__name__, fun.params, fun.in_type, len(fun.transforms), len(fun.stores)


def kept(n):
    ran = []

    @n.lu.cache
    def run(fun, x):
        ran.append(x)
        return fun.call_wrapped(x)

    for x in (1, 1, 2):
        run(n.wrapped(f_of_one), x)
    run.evict_function(f_of_one)
    run(n.wrapped(f_of_one), 1)
    return ran


def f_of_one(x):
    return [x]


def names_of(n, args, kwargs, **static):
    info = n.api.debug_info("test", f, args, kwargs, **static)
    return info.traced_for, info.func_name, info.func_src_info, info.arg_names


def flat(n):
    args, kwargs = (1, {"a": 2}, 3), {"k": [4, 5]}
    leaves, tree = n.jax.tree.flatten((args, kwargs))
    fun, out_tree = n.api.flatten_fun(n.wrapped(f), tree)
    yield fun.call_wrapped(*leaves), out_tree().num_leaves
    leaves, tree = n.jax.tree.flatten(args)
    fun, out_tree = n.api.flatten_fun_nokwargs(n.wrapped(f), tree)
    yield fun.call_wrapped(*leaves), out_tree().num_leaves


def axes(n, spec):
    return n.api.flatten_axes("in_axes", n.jax.tree.structure(({"a": 1, "b": 2}, 3)), spec)


def fixed(n, numbers, args, **options):
    fun, taken = n.api.argnums_partial(n.wrapped(lambda *args: args), numbers, args, **options)
    return taken, fun.call_wrapped(*(10 * (i + 1) for i in range(len(taken))))


def vector(n):
    tree = n.jax.tree.structure(((1, {"a": 1, "b": 2}, 3), {"z": 1, "k": [1, 2]}))
    return n.api.donation_vector((0, 2), ("k",), tree)


def symbols(n):
    return n.export.symbolic_shape("b, c")


def stack(n):
    s = n.source.new_name_stack("a").extend("b").transform("jvp")
    yield str(s), len(s), str(s.extend("c")), str(s.transform("vmap")), str(s + s.extend("d"))
    yield str(s[1:].extend("e")), str(n.source.new_name_stack()), s == s[:], s == s[:1]


def scopes(n):
    """The stacks of equations that are made in scopes."""

    def g(x):
        with n.source.extend_name_stack("a"):
            x = n.lax.sin(x)
            with n.source.transform_name_stack("t"), n.jax.named_scope("b"):
                x = n.lax.sin(x)
                with n.source.reset_name_stack():
                    x = n.lax.sin(x)
                other = n.source.new_name_stack("z").transform("u")
                with n.source.set_name_stack(other), n.jax.named_scope("c"):
                    x = n.lax.sin(x)
            with n.source.user_context(None, name_stack=n.source.new_name_stack("s")):
                x = n.lax.sin(x)
        return n.source.extend_name_stack("d")(n.lax.sin)(x)

    return [str(eqn.source_info.name_stack) for eqn in n.jax.make_jaxpr(g)(1.0).eqns]


def again(n):
    """A program applied again with its sources, as libraries do."""

    def g(x):
        with n.jax.named_scope("a"):
            return n.lax.sin(x)

    (eqn,) = n.jax.make_jaxpr(g)(1.0).eqns

    def run(x):
        info = eqn.source_info
        names = n.source.current_name_stack() + info.name_stack
        with n.source.user_context(info.traceback, name_stack=names), eqn.ctx.manager:
            return eqn.primitive.bind(x, **eqn.primitive.get_bind_params(eqn.params))

    with n.jax.named_scope("outside"):
        (copy,) = n.jax.make_jaxpr(n.jax.named_call(run, name="outer"))(1.0).eqns
    lines = [n.source.summarize(e.source_info) for e in (eqn, copy)]
    where = lambda line: line.split(" ")[0].split(":")[:2]
    return str(copy.source_info.name_stack), list(map(where, lines))


def called(n):
    """A call primitive under every interpreter that needs no rule of its own."""
    p = n.core.CallPrimitive("region")
    p.def_impl(n.core.call_impl)
    g = lambda x: p.bind(x, subfuns=(n.wrapped(lambda x: [n.lax.sin(x), x]),), name="inner")
    yield p.multiple_results, p.call_primitive, n.primitives.call_p.call_primitive
    yield [float(y) for y in g(1.0)]
    yield [float(y) for y in n.jax.jvp(g, (1.0,), (1.0,))[1]]
    yield [np.asarray(y).tolist() for y in n.jax.vmap(g)(np.arange(2.0, dtype=np.float32))]
    (eqn,) = n.jax.make_jaxpr(g)(1.0).eqns
    yield sorted(eqn.params), len(eqn.params["call_jaxpr"].eqns)
    again = n.core.eval_jaxpr
    jaxpr = n.jax.make_jaxpr(g)(1.0)
    yield [float(y) for y in again(jaxpr.jaxpr, jaxpr.consts, 1.0)]


def states(n):
    """Questions about the current trace, in every transformation."""
    found = []

    def look(x):
        core = n.core
        found.append((core.trace_state_clean(), core.unsafe_am_i_under_a_jit_DO_NOT_USE()
                      if n.ours else core.unsafe_am_i_under_a_jit(),
                      core.unsafe_am_i_under_a_vmap_DO_NOT_USE()
                      if n.ours else core.unsafe_am_i_under_a_vmap(),
                      list(core.get_axis_env().axis_sizes.items()),
                      core.is_concrete(x)))
        return x

    look(1.0)
    n.jax.jit(look)(1.0)
    n.jax.jvp(look, (1.0,), (1.0,))
    n.jax.grad(look)(1.0)
    n.jax.vmap(look, axis_name="i")(np.ones(2, np.float32))
    n.jax.jit(n.jax.vmap(n.jax.grad(look)))(np.ones(2, np.float32))
    with n.core.extend_axis_env_nd([("j", 3)]):
        look(1.0)
    with n.core.eval_context():
        look(1.0)
    return found


def opaque(n):
    """Which states of tracing are equal."""
    state, seen = n.core.get_opaque_trace_state, []
    before = state(convention="test")

    def look(x):
        seen.append([state() == before, state() == state()])
        return x

    look(1.0)
    n.jax.jit(look)(1.0)
    n.jax.vmap(look)(np.ones(2, np.float32))
    return seen


def constants(n):
    """Arrays that a program and those inside close over."""
    c, d = np.ones(100, np.float32), np.arange(50, dtype=np.int32)
    f = n.jax.jit(lambda x: n.jax.jit(lambda y: (y + c, n.np.asarray(d)))(x * c))
    with contextlib.nullcontext() if n.ours else jax_config.use_simplified_jaxpr_constants(True):
        jaxpr = n.jax.make_jaxpr(f)(c).jaxpr
    with contextlib.nullcontext() if n.ours else jax_config.use_simplified_jaxpr_constants(True):
        return [shown(aval) for _, aval in n.core.jaxpr_const_args(jaxpr)]


def wrapper(n):
    def f(x: int) -> int:
        """Does it."""

    g = n.util.wraps(f, namestr="my_{fun}", docstr="{fun} {doc} {how}", how="now")(lambda x: x)
    h = n.util.wraps(f)(lambda x: x)
    yield g.__name__, g.__doc__, g.__annotations__ == f.__annotations__, g.__wrapped__ is f
    yield h.__name__, h.__doc__, h.__module__, h.__qualname__


def assembled(n, committed, shape=(4,), parts=2):
    """A value made of the arrays on two devices."""
    mesh = n.jax.sharding.Mesh(np.array(n.jax.devices()[:2]), ("i",))
    sharding = n.jax.sharding.NamedSharding(mesh, n.jax.sharding.PartitionSpec("i"))
    x = n.jax.device_put(np.arange(4, dtype=np.float32), sharding)
    make = n.pxla.global_result_handlers[type(n.jax.typeof(x))](
        n.jax.typeof(x).update(shape=shape), sharding, committed)
    y = make([shard.data for shard in x.addressable_shards][:parts])
    again = n.pxla.global_avals_to_results_handler([n.jax.typeof(x)], [sharding], committed)
    return y, y.committed, again([[s.data for s in y.addressable_shards]])


SAME = {
    "jaxpr_const_args": constants,
    "wraps": lambda n: list(wrapper(n)),
    "result_handlers": lambda n: [assembled(n, True), assembled(n, False)],
    "result_handlers.few": lambda n: assembled(n, True, parts=1),
    "result_handlers.key": lambda n: n.pxla.global_aval_to_result_handler(
        n.jax.typeof(n.jax.random.key(0)), n.np.ones(2).sharding, True)(
            [n.jax.random.key_data(n.jax.random.key(3))]) == n.jax.random.key(3),
    "result_handlers.type": lambda n: n.pxla.global_aval_to_result_handler(
        object(), n.np.ones(2).sharding, True),
    "linear_util": lambda n: list(stores(n)),
    "linear_util.empty": lambda n: n.lu.transformation_with_aux2(
        lambda f, store, *args: f(*args))(n.wrapped(f_of_one))[1](),
    "linear_util.twice": lambda n: [
        (g := n.lu.transformation_with_aux2(lambda f, store: store.store(1)))
        and (h := g(n.wrapped(f_of_one))[0]).call_wrapped(), h.call_wrapped()],
    "linear_util.cache": kept,
    "linear_util.equal": lambda n: [n.wrapped(f) == n.wrapped(f),
                                    n.wrapped(f) == n.wrapped(f_of_one),
                                    n.wrapped(f) == n.wrapped(f, k=2)],
    "debug_info": lambda n: names_of(
        n, (1, {"a": 1, "b": 2}, 3, [4, 5]), {"k": 3, "z": [1, 2]}),
    "debug_info.static": lambda n: names_of(n, (1, 2), {}, static_argnums=(-1, 5)),
    "debug_info.keywords": lambda n: names_of(n, (1,), {"y": 2, "k": 3}, static_argnames=("k",)),
    "debug_info.wrong": lambda n: names_of(n, (1,), {"q": 2}),
    "debug_info.builtin": lambda n: n.api.debug_info("t", len, (1,), {})[:3],
    "flatten_fun": lambda n: list(flat(n)),
    "flatten_axes": lambda n: [axes(n, s) for s in ((0, None), 1, ({"a": None, "b": 2}, 0))],
    "flatten_axes.short": lambda n: axes(n, (0,)),
    "flatten_axes.deep": lambda n: axes(n, ({"a": 0}, 1)),
    "argnums_partial": lambda n: [fixed(n, (0, -2), "abcd"), fixed(n, 1, "ab"),
                                  fixed(n, 0, (1, [2]), require_static_args_hashable=False)],
    "argnums_partial.range": lambda n: fixed(n, 5, "ab"),
    "argnums_partial.hash": lambda n: fixed(n, 0, (1, [2])),
    "donation_vector": vector,
    "rebase_donate_argnums": lambda n: [n.api.rebase_donate_argnums((4, 3), (0, 1)),
                                        n.api.rebase_donate_argnums((), (1,))],
    "rebase_donate_argnums.both": lambda n: n.api.rebase_donate_argnums((3, 4), (3, 1)),
    "safe_map": lambda n: n.api.safe_map(lambda x, y: x + y, [1, 2], (3, 4)),
    "safe_map.short": lambda n: n.api.safe_map(max, [1], [1, 2]),
    "util": lambda n: [n.util.unzip2([(1, 2), (3, 4)]), n.util.unzip3([(1, 2, 3)]),
                       n.util.split_list([1, 2, 3, 4], [1, 2]), n.util.safe_zip([1], [2]),
                       n.util.partition_list([False, True], [1, 2]),
                       n.util.merge_lists([False, True], [1], [2])],
    "infer_argnums_and_argnames": lambda n: [
        n.api_more.infer_argnums_and_argnames(inspect.signature(f), *given)
        for given in ((None, None), (1, None), ((0, 1), None), (None, ("y", "k")), (0, "y"))],
    "shaped_abstractify": lambda n: [shown(n.api.shaped_abstractify(x)) for x in (
        1, 2.0, True, np.ones(3, np.int8), np.float32(2), n.jax.ShapeDtypeStruct((2,), "float64"),
        types.SimpleNamespace(shape=(2,), dtype=np.dtype("int32")), n.np.ones(2))],
    "shaped_abstractify.text": lambda n: n.api.shaped_abstractify("a"),
    "shaped_abstractify.list": lambda n: n.api.shaped_abstractify([1]),
    "concrete_or_error": lambda n: [n.core.concrete_or_error(int, 2.0),
                                    n.core.concrete_or_error(None, "a")],
    "concrete_or_error.traced": lambda n: n.jax.jit(
        lambda x: n.core.concrete_or_error(int, x, "why"))(1),
    "canonicalize_shape": lambda n: [n.core.canonicalize_shape(s) for s in (
        (2, np.int64(3)), [4], 5, ())],
    "canonicalize_shape.float": lambda n: n.core.canonicalize_shape((2.5,)),
    "canonicalize_shape.traced": lambda n: n.jax.jit(
        lambda x: n.core.canonicalize_shape((x,)))(1),
    "is_constant": lambda n: [n.core.is_constant_dim(2), n.core.is_constant_dim(np.int32(2)),
                              n.core.is_constant_dim(symbols(n)[0]), n.core.is_constant_dim(2.5),
                              n.core.is_constant_shape((2, symbols(n)[0]))],
    "definitely_equal": lambda n: [
        n.core.definitely_equal_shape(a, b) for b_, c in [symbols(n)] for a, b in (
            ((2, 3), [2, 3]), ((2,), (2, 1)), ((b_,), (b_,)), ((b_ + b_,), (2 * b_,)),
            ((b_,), (c,)), ((b_,), (2,)))],
    "dims": lambda n: [n.core.max_dim(2, 3), n.core.min_dim(2, 3), str(n.core.max_dim(
        *symbols(n))), n.core.dimension_as_value(3), n.core.dim_constant(3)],
    "physical_aval": lambda n: [str(n.core.physical_aval(a)) for a in (
        n.jax.typeof(n.jax.random.key(0)), n.jax.typeof(n.np.ones(2)), n.core.abstract_token)],
    "name_stacks": lambda n: list(stack(n)),
    "scopes": scopes,
    "user_context": again,
    "summarize": lambda n: n.source.new_source_info().traceback,
    "CallPrimitive": lambda n: list(called(n)),
    "trace_states": states,
    "opaque": opaque,
    "tags": lambda n: [n.core.TraceTag() == n.core.TraceTag(), n.core.TraceTag() is
                       n.core.TraceTag(), hash(n.core.TraceTag()) == hash(n.core.TraceTag())],
    "axis_size": lambda n: n.core.get_axis_env().axis_size("nope"),
    "gensym": lambda n: isinstance(n.core.gensym()(n.jax.typeof(1.0)), n.core.Var),
    "array_types": lambda n: sorted(
        t.__name__ for t in (mjax_ext.core if n.ours else jax.extend.core).array_types
        if t.__module__ in ("numpy", "ml_dtypes")),
    "backend": lambda n: [n.backend.get_backend().platform, list(n.backend.backends()),
                          n.backend.backend_xla_version("cpu"),
                          n.backend.get_compile_options(1, 2, [[0, 1]]).num_partitions],
    "backend.unknown": lambda n: n.backend.get_backend("abacus"),
    "backend.options": lambda n: n.backend.get_compile_options(2, 2, [[0, 1]]),
}


@pytest.mark.parametrize("name", SAME)
def test_both_do_the_same(name):
    ours, theirs = (outcome(SAME[name], Names(ours)) for ours in (True, False))
    assert ours == theirs


MODULES = {
    "core": jax_core, "linear_util": jax.extend.linear_util, "api_util": jax_api_util,
    "source_info_util": jax.extend.source_info_util, "traceback_util": jax_traceback_util,
    "backend": jax.extend.backend, "util": jax_util,
}


def parameters(callable_):
    """Names, kinds and whether there is a default, as far as Python tells."""
    try:
        found = inspect.signature(callable_).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind, p.default is p.empty) for p in found]


@pytest.mark.parametrize("module", MODULES)
def test_parameters_are_those_of_jax(module):
    ours, theirs = importlib.import_module(f"mjax_ext.{module}"), MODULES[module]
    for name in ours.__all__:
        mine, other = getattr(ours, name), getattr(theirs, name, None)
        if not inspect.isfunction(other):
            continue
        given, expected = parameters(mine), parameters(other)
        if given is None or expected is None:
            continue
        by_position = [p for p in expected if p[1] in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        required = [p[0] for p in by_position if p[2]]
        mine_required = [p[0] for p in given if p[2] and p[1] in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        assert len(mine_required) <= len(required), (name, given, expected)
        keywords = {p[0] for p in expected if p[1] is inspect.Parameter.KEYWORD_ONLY}
        assert keywords <= {p[0] for p in given}, (name, given, expected)


def test_all_names_of_jax_are_here():
    """Those of jax.extend that are modules of ours by name, and of jax.api_util."""
    lacking = {}
    for module in ("core", "core.primitives", "linear_util", "source_info_util", "backend",
                   "ifrt_programs", "lowering"):
        theirs = importlib.import_module(f"jax.extend.{module}")
        ours = importlib.import_module(f"mjax_ext.{module}")
        public = {n for n in dir(theirs) if not n.startswith("_")
                  and not inspect.ismodule(getattr(theirs, n))}
        lacking[module] = public - set(ours.__all__) - {"Callable"}
    assert lacking == {
        "core": set(), "core.primitives": {"empty2_p"}, "linear_util": set(),
        "source_info_util": set(), "backend": set(), "ifrt_programs": set(),
        "lowering": {"LoweringRuleContext"},
    }


# ---- arguments by keyword ----------------------------------------------------------------


#: Arguments that jax takes by keyword and mjax does not; `docs/extension_names.md` says why.
OTHERWISE = {
    "emit_python_callback": {"returns_token", "sharding"}, "linearize": {"primals_ft"},
    "linearize_jaxpr": {"allow_fwds", "is_vjp"}, "unmapped_aval": {"explicit_mesh_axis"},
}


@pytest.mark.parametrize("theirs, ours", [
    ("jax.core", "mjax_ext.core"), ("jax.extend.core", "mjax_ext.core"),
    ("jax.api_util", "mjax.api_util"), ("jax.ffi", "mjax_ext.ffi"),
    ("jax.extend.random", "mjax_ext.random"), ("jax.extend.backend", "mjax_ext.backend"),
    ("jax.extend.source_info_util", "mjax_ext.source_info_util"),
    *((f"jax.{folder}interpreters.{name}", f"mjax_ext.interpreters.{name}")
      for name in ("ad", "batching", "mlir", "partial_eval", "pxla") for folder in ("", "_src."))])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arguments_have_the_names_of_jax(theirs, ours):
    """All but the first, which nobody gives by keyword."""
    theirs, ours = importlib.import_module(theirs), importlib.import_module(ours)
    lacking = {}
    for name in set(dir(theirs)) & set(ours.__all__):
        of_jax, own = getattr(theirs, name), getattr(ours, name)
        if not (inspect.isfunction(of_jax) and inspect.isfunction(own)):
            continue
        wanted, taken = (list(inspect.signature(f).parameters.values())[1:]
                         for f in (of_jax, own))
        named = {p.name for p in wanted if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if any(p.kind is p.VAR_POSITIONAL for p in wanted) or any(
                p.kind is p.VAR_KEYWORD for p in taken):
            continue  # a transformation of `linear_util`, or a function of params
        if named := named - {p.name for p in taken}:
            lacking[name] = named
    assert lacking.items() <= OTHERWISE.items()
