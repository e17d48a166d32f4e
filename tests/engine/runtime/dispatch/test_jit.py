"""jit: caching, static and donated arguments, trees, methods, nesting, threads, stages."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.tracing.stage import eval_jaxpr
from mjax.errors import TracerBoolConversionError, UnexpectedTracerError

X = np.arange(3, dtype=np.float32)


def counting(f):
    count = [0]

    @functools.wraps(f)
    def counted(*args, **kwargs):
        count[0] += 1
        return f(*args, **kwargs)

    return counted, count


def test_traces_once_per_types():
    f, count = counting(lambda x: lax.mul(x, 2.0))
    g = mjax.jit(f)
    for value in (X, X + 1, mjax.device_put(X)):
        np.testing.assert_array_equal(g(value), 2 * np.asarray(value))
    assert count == [1]
    g(np.float32(1))
    g(1.0)  # weakly typed: another type
    assert count == [3]
    g(2.0)
    assert count == [3]


def test_jits_of_one_function_share_their_caches():
    f, count = counting(lambda x: lax.mul(x, 2.0))
    for _ in range(3):
        mjax.jit(f)(X)
    assert count == [1]
    mjax.jit(f).clear_cache()
    mjax.jit(f)(X)
    assert count == [2]
    mjax.clear_caches()
    mjax.jit(f)(X)
    assert count == [3]


def test_settings_are_part_of_the_key():
    f, count = counting(lambda x: lax.mul(x, 2.0))
    g = mjax.jit(f)
    assert g(1.0).dtype == np.float32
    with mjax.enable_x64(True):
        assert g(1.0).dtype == np.float64
    assert count == [2] and g(1.0).dtype == np.float32 and count == [2]


def test_trees_keyword_arguments_and_defaults():
    @mjax.jit
    def f(tree, *rest, scale=1.0, **named):
        return {"sum": lax.add(tree["a"], rest[0]), "named": lax.mul(named["b"], scale)}

    out = f({"a": X}, X, b=X)
    np.testing.assert_array_equal(out["sum"], 2 * X)
    out = f({"a": X}, X, b=X, scale=3.0)
    np.testing.assert_array_equal(out["named"], 3 * X)
    assert mjax.jit(lambda: None)() is None
    assert mjax.jit(lambda x: (x, None, {}))(1.0)[1:] == (None, {})


@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnames": "n"},
                                     {"static_argnums": (-1,)}, {"static_argnames": ["n"]}])
def test_static_arguments(options):
    f, count = counting(lambda x, n: functools.reduce(lax.mul, [x] * n))

    def power(x, n):
        return f(x, n)

    g = mjax.jit(power, **options)
    np.testing.assert_allclose(g(X, 3), X**3)
    np.testing.assert_allclose(g(X, n=3), X**3)
    np.testing.assert_allclose(g(X, 2), X**2)
    np.testing.assert_allclose(mjax.vmap(lambda x: g(x, 2))(X), X**2)
    assert g(2, 2) == 4


def test_static_values_of_equal_hash_but_other_type_are_told_apart():
    g = mjax.jit(lambda n: lax.add(1, 1) if isinstance(n, bool) else lax.add(2, 2),
                 static_argnums=0)
    assert (int(g(True)), int(g(1))) == (2, 4)


def test_static_arguments_must_be_hashable():
    g = mjax.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(ValueError, match=r"static argument 1 of <lambda> is not hashable.*tuple"):
        g(X, [1, 2])


@pytest.mark.parametrize(("options", "text"), [
    ({"static_argnums": 2}, "static_argnums has 2"),
    ({"static_argnames": "z"}, "not an argument of f"),
    ({"donate_argnums": 5}, "donate_argnums has 5"),
    ({"static_argnums": 0, "donate_argnums": 0}, "static and donated"),
])
def test_options_that_do_not_fit(options, text):
    def f(x, y):
        return x

    with pytest.raises(ValueError, match=text):
        mjax.jit(f, **options)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="expects a function, got 3"):
        mjax.jit(3)
    with pytest.raises(TypeError, match="unexpected keyword"):
        mjax.jit(lambda x: x, static=1)


def test_arguments_that_are_no_arrays_are_named():
    with pytest.raises(TypeError, match=r"jit of f: argument\[1\]\['k'\] is not a valid array"):
        def f(a, b):
            return a
        mjax.jit(f)(X, {"k": "text"})


class _Net:
    """Neither an array nor a container."""


class _Foreign:
    """An array of another library."""

    shape, dtype = (3,), np.dtype("float32")

    def __array__(self):
        return np.ones(3, np.float32)


def test_what_to_do_with_arguments_that_are_no_arrays():
    f = mjax.jit(lambda net, x: x)
    for call, number in ((lambda: f(_Net(), 1.0), "static_argnums=0 or "),
                         (lambda: f(x=1.0, net=_Net()), "")):
        with pytest.raises(TypeError) as caught:
            call()
        text = str(caught.value)
        assert text.count("is not a valid array") == 1 and "register_pytree_node_class" in text
        assert f"argument net holds no arrays, mark it static: {number}static_arg" in text
    with pytest.raises(TypeError, match=r"belongs to another library.*mjax.numpy.asarray\."):
        f(_Foreign(), 1.0)
    with pytest.raises(TypeError, match=r"sin requires .*_Foreign.*mjax.numpy.asarray\."):
        jnp.sin(_Foreign())
    assert f(jnp.asarray(_Foreign()), 1.0) == 1
    for dtype in (jnp.int32, np.float32):
        with pytest.raises(TypeError, match="argument x holds no arrays, mark it static"):
            f(1.0, dtype)
    with pytest.raises(TypeError, match="dtype object"):
        mjax.jit(lambda a: a)(np.array([object()]))


def test_donated_buffers_are_reused_and_refused_afterwards():
    f = mjax.jit(lambda x, y: lax.add(x, y), donate_argnums=0)
    x, y = mjax.device_put(np.ones((128, 128), np.float32)), mjax.device_put(np.float32(1))
    pointer = x.unsafe_buffer_pointer()
    out = f(x, y)
    assert out.unsafe_buffer_pointer() == pointer
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match=r"(?s)deleted.*donate"):
        f(x, y)


def test_a_donated_argument_that_is_given_back_keeps_its_memory():
    f = mjax.jit(lambda x, y: (lax.add(y, 1.0), x), donate_argnums=0)
    x = mjax.device_put(np.ones((128, 128), np.float32))
    pointer = x.unsafe_buffer_pointer()
    _, out = f(x, mjax.device_put(np.ones((128, 128), np.float32)))
    assert x.is_deleted() and out.unsafe_buffer_pointer() == pointer
    np.testing.assert_array_equal(out, np.ones((128, 128)))


def test_forwarded_scalars_are_the_callers_own():
    f, donate = mjax.jit(lambda x, y: (x, {"sum": x + y})), mjax.jit(lambda x: x + 1.0,
                                                                      donate_argnums=0)
    same = mjax.jit(lambda x: x)
    for make in (same, lambda x: f(x, 1.0)[0]):
        first, second = make(7.25), make(7.25)
        donate(first)
        assert first.is_deleted() and float(second) == 7.25 and second.weak_type


def test_calls_by_position_after_calls_by_keyword():
    def f(x, bias=1.0, unused=None):
        return x * 2.0 if bias is None else x + bias

    g, x = mjax.jit(f), mjax.device_put(X)
    np.testing.assert_array_equal(g(x, bias=None), X * 2)
    np.testing.assert_array_equal(g(x), X + 1)
    h = mjax.jit(f)
    np.testing.assert_array_equal(h(x, unused=x), X + 1)
    np.testing.assert_array_equal(h(x, x), X + X)


def test_deleted_keyword_arguments_are_named():
    x = mjax.device_put(X)
    x.delete()
    with pytest.raises(RuntimeError, match=r"<lambda>: argument x of type float32\[3\].*deleted"):
        mjax.jit(lambda x: x + 1.0)(x=x)


def test_unused_arguments_are_pruned():
    f = mjax.jit(lambda x, y: lax.add(x, 1.0))
    assert "%arg1" not in f.lower(X, X).as_text()
    np.testing.assert_array_equal(f(X, X), X + 1)
    keep = mjax.jit(lambda x, y: lax.add(x, 1.0), keep_unused=True)
    assert "%arg1" in keep.lower(X, X).as_text()
    np.testing.assert_array_equal(keep(X, X), X + 1)


def test_methods_and_callable_objects():
    class Model:
        def __init__(self, weight):
            self.weight = weight
            self.traces = 0

        def __call__(self, x):
            self.traces += 1
            return lax.mul(x, self.weight)

        @functools.partial(mjax.jit, static_argnums=0)
        def apply(self, x):
            return lax.mul(x, self.weight)

    model, other = Model(2.0), Model(3.0)
    np.testing.assert_array_equal(mjax.jit(model)(X), 2 * X)
    np.testing.assert_array_equal(model.apply(X), 2 * X)
    np.testing.assert_array_equal(other.apply(X), 3 * X)
    for _ in range(3):
        np.testing.assert_array_equal(mjax.jit(model.__call__)(X), 2 * X)
        np.testing.assert_array_equal(mjax.jit(other.__call__)(X), 3 * X)
    assert model.traces == 2 and other.traces == 1


def test_partial_and_decorator_forms():
    assert mjax.jit(functools.partial(lax.add, 1.0))(2.0) == 3.0

    @mjax.jit(inline=True)
    def f(x):
        return lax.sin(x)

    assert [e.primitive.name for e in mjax.make_jaxpr(f)(1.0).eqns] == ["sin"]
    assert f.__name__ == "f"


def test_jit_inside_everything():
    f = mjax.jit(lambda x: lax.sin(lax.mul(x, x)))
    np.testing.assert_allclose(mjax.grad(f)(2.0), 4 * np.cos(4), rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.grad(mjax.jit(f))))(X),
                               2 * X * np.cos(X * X), rtol=1e-5)
    np.testing.assert_allclose(mjax.jvp(mjax.jit(mjax.grad(f)), (2.0,), (1.0,))[1],
                               2 * np.cos(4) - 16 * np.sin(4), rtol=1e-5)


def test_closures_over_outer_tracers():
    def f(x, y):
        inner = mjax.jit(lambda z: lax.mul(z, x))
        return lax.add(inner(y), inner(1.0))

    np.testing.assert_allclose(mjax.grad(f)(2.0, 3.0), 4.0)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(2.0, 3.0), 4.0)
    np.testing.assert_allclose(mjax.vmap(f)(X, X + 1), X * (X + 1) + X)


def test_one_jitted_closure_under_two_outer_traces():
    cell = [None]
    inner = mjax.jit(lambda z: lax.mul(z, cell[0]))

    def f(x):
        cell[0] = x
        return inner(3.0)

    assert mjax.grad(f)(2.0) == 3.0
    assert mjax.grad(f)(5.0) == 3.0 and mjax.jit(f)(5.0) == 15.0


def test_inner_jits_become_one_function_each():
    g = mjax.jit(lambda x: lax.sin(x))
    text = mjax.jit(lambda x: g(g(g(x)))).lower(X).as_text()
    assert text.count("func.func private") == 1 and text.count("call @") == 3


def test_disable_jit_runs_python():
    seen = []
    with mjax.disable_jit():
        mjax.jit(lambda x: seen.append(float(x)) or x)(2.0)
    assert seen == [2.0]


def test_threads_share_a_jitted_function():
    f = mjax.jit(lambda x, y: lax.mul(lax.add(x, y), 2.0))
    failures = []

    def work(k):
        for n in range(1, 8):
            value = np.full((n,), k, np.float32)
            if not np.array_equal(f(value, value), 4 * value):
                failures.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and f._cache_size() == 7


def test_tracing_in_one_thread_does_not_disturb_another():
    inside, results = threading.Event(), []
    done = threading.Event()

    def slow(x):
        inside.set()
        done.wait(5)
        return lax.sin(x)

    thread = threading.Thread(target=lambda: results.append(mjax.jit(slow)(X)))
    thread.start()
    inside.wait(5)
    assert float(lax.add(1.0, 2.0)) == 3.0
    done.set()
    thread.join()
    np.testing.assert_allclose(results[0], np.sin(X), rtol=1e-6)


def test_execution_is_asynchronous():
    # XLA runs programs that it takes for cheap in the calling thread; this one it does not.
    big = mjax.device_put(np.ones((1000, 1000), np.float32))

    @mjax.jit
    def f(x):
        for _ in range(8):
            x = lax.dot(x, x)
        return x

    def returns_early():
        out = f(big)
        early = not out.is_ready()
        return out.block_until_ready().is_ready() and early

    f(big).block_until_ready()
    # jaxlib 0.6 waits in threads in which a callback of some program has failed: in a new one.
    with ThreadPoolExecutor(1) as new:
        # On a busy machine the thread that dispatches may lose its turn until all is computed.
        assert any(new.submit(returns_early).result() for _ in range(20))


def test_stages():
    f = mjax.jit(lambda x, y: {"r": lax.add(x, y)})
    traced = f.trace(X, mjax.ShapeDtypeStruct((3,), np.float32))
    assert [e.primitive.name for e in traced.jaxpr.eqns] == ["add"]
    assert traced.out_info == {"r": mjax.ShapeDtypeStruct((3,), np.float32)}
    lowered = traced.lower()
    assert "stablehlo.add" in lowered.as_text()
    assert "test_jit.py" in lowered.as_text(debug_info=True)
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(X, X)["r"], 2 * X)
    assert "HloModule" in compiled.as_text() and compiled.cost_analysis()["flops"] == 3.0
    assert compiled.memory_analysis().output_size_in_bytes == 12


def test_eval_shape_computes_nothing():
    def f(x):
        return lax.dot(x, x) if hasattr(lax, "dot") else lax.mul(x, x)

    out = mjax.eval_shape(f, mjax.ShapeDtypeStruct((100000, 100000), np.float32))
    assert out.shape == (100000, 100000)


def test_make_jaxpr_gives_structs():
    f = lambda x: {"a": x * 2, "b": 3.0}
    _, out = mjax.make_jaxpr(f, return_shape=True)(np.ones(3, np.float32))
    assert out == {"a": mjax.ShapeDtypeStruct((3,), np.float32),
                   "b": mjax.ShapeDtypeStruct((), np.float32, weak_type=True)}


def test_types_stand_for_arguments():
    avals = mjax.make_jaxpr(lambda x, y: 0)(2.0, np.ones(3, np.float32)).in_avals
    assert avals[0].weak_type
    jaxpr = mjax.make_jaxpr(lambda x, y: x * y)(*avals)
    assert jaxpr.in_avals == avals
    out = mjax.eval_shape(lambda x, y: (x, x * y), *avals)
    assert out == (mjax.ShapeDtypeStruct((), np.float32, weak_type=True),
                   mjax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(TypeError, match=r"make_jaxpr: argument\[0\] is not a valid array: 'text'"):
        mjax.make_jaxpr(lambda x: x)("text")
    with pytest.raises(TypeError, match="ShapedArray"):
        mjax.jit(lambda x: x)(avals[0])


def test_names_of_what_is_no_function():
    class Doubling:
        def __call__(self, x):
            return x * 2

    def triple(x):
        return x * 3

    assert mjax.jit(functools.partial(functools.partial(triple))).__name__ == "triple"
    assert mjax.jit(Doubling()).__name__ == mjax.jit(Doubling()).__qualname__ == "Doubling"
    assert mjax.jit(triple).__qualname__ == triple.__qualname__
    assert mjax.grad(functools.partial(triple)).__name__ == "triple"
    assert mjax.vmap(Doubling()).__name__ == "Doubling"


@pytest.mark.parametrize("transform", [mjax.grad, mjax.vmap, mjax.value_and_grad, mjax.jacrev,
                                       mjax.checkpoint, mjax.make_jaxpr, mjax.hessian])
def test_transformed_functions_have_no_program_of_their_own(transform):
    f = mjax.jit(lambda x: x * 2)
    f.note = "kept"
    g = transform(f)
    assert not any(hasattr(g, name) for name in ("trace", "lower", "eval_shape", "clear_cache"))
    assert g.note == "kept" and mjax.jit(g).lower and f.lower(1.0)


def test_committed_arguments_decide_the_device():
    device = mjax.devices()[0]
    x = mjax.device_put(X, device)
    assert x.committed and lax.add(x, 1.0).committed
    assert not lax.add(mjax.device_put(X), 1.0).committed


def test_eval_shape_is_named_in_its_messages():
    def f(x):
        kept.append(x)
        return -x if failing and x > 0 else x

    kept, failing = [], True
    with pytest.raises(TracerBoolConversionError, match=r"while eval_shape traces the function"):
        mjax.eval_shape(f, 1.0)
    failing = False
    mjax.eval_shape(f, 1.0)
    with pytest.raises(UnexpectedTracerError, match="after the eval_shape trace that made it"):
        kept[-1] + 1
    assert mjax.jit(f).trace(1.0).jaxpr.debug_info.traced_for == "jit"
    with mjax.no_tracing(True), pytest.raises(RuntimeError, match="traced for `eval_shape`"):
        mjax.eval_shape(lambda x: x, 1.0)


def test_eval_shape_and_jit_share_traces():
    traced = []

    def f(x):
        traced.append(x)
        return x * 2

    for _ in range(2):
        assert mjax.eval_shape(f, 1.0).shape == ()
    assert mjax.jit(f)(1.0) == 2 and len(traced) == 1
    assert mjax.eval_shape(f, np.float32([1])).shape == (1,) and len(traced) == 2


def test_jit_of_a_static_method():
    with pytest.raises(TypeError, match=r"got a staticmethod of <lambda>. Write @staticmethod"):
        mjax.jit(staticmethod(lambda x: x))


def test_ensure_compile_time_eval():
    @mjax.jit
    def f(x):
        with mjax.ensure_compile_time_eval():
            n = int(lax.add(1, 2))
        return lax.mul(x, float(n))

    assert f(2.0) == 6.0


@mjax.custom_jvp
def _branching(x):
    return 2 * x if x > 0 else x


_branching.defjvp(lambda primals, tangents: (_branching(*primals), 5 * tangents[0]))
_inner = mjax.jit(lambda x, y: lax.sin(x) * y)

#: Functions that run under `ensure_compile_time_eval` with a tracer, and the same on floats.
TRACED_INSIDE = {
    "operations": (lambda x: jnp.where(x > 0, jnp.ones(int(jnp.sum(jnp.arange(3)))).sum() * x, x),
                   lambda x: 3 * x if x > 0 else x),
    "jit": (lambda x: _inner(x, 2.0), lambda x: 2 * np.sin(x)),
    "scan": (lambda x: lax.scan(lambda c, _: (c + x, None), jnp.float32(0), None, 3)[0],
             lambda x: 3 * x),
    "cond": (lambda x: lax.cond(x > 0, lambda: x * x, lambda: x), lambda x: x * x if x > 0 else x),
    "vmap": (lambda x: mjax.vmap(lambda y: x * y)(jnp.arange(3.0)).sum(), lambda x: 3 * x),
    "grad": (lambda x: mjax.grad(lambda y: lax.sin(x * y))(2.0), lambda x: x * np.cos(2 * x)),
}


@pytest.mark.parametrize("name", TRACED_INSIDE)
def test_tracers_inside_of_ensure_compile_time_eval(name):
    inside, plain = TRACED_INSIDE[name]

    def f(x):
        with mjax.ensure_compile_time_eval():
            with mjax.ensure_compile_time_eval():
                assert int(jnp.sum(jnp.arange(3))) == 3
            return inside(x)

    xs = np.float32([1.5, -0.75])
    values = np.array([plain(float(x)) for x in xs])
    slopes = [(plain(float(x) + 1e-5) - plain(float(x) - 1e-5)) / 2e-5 for x in xs]
    close = lambda out, expected: np.testing.assert_allclose(out, expected, rtol=1e-4)
    close(f(xs[0]), values[0])
    close(mjax.jit(f)(xs[0]), values[0])
    close(mjax.grad(f)(xs[0]), slopes[0])
    close(mjax.vmap(f)(xs), values)
    close(mjax.jit(mjax.vmap(mjax.grad(f)))(xs), slopes)
    close(lax.scan(lambda c, x: (c, f(x)), 0, xs)[1], values)


def test_axes_and_rules_inside_of_ensure_compile_time_eval():
    def f(x):
        with mjax.ensure_compile_time_eval():
            return lax.psum(x, "i") + mjax.jit(lambda x: lax.psum(x, "i"))(x)

    np.testing.assert_array_equal(mjax.vmap(f, axis_name="i")(jnp.arange(3.0)), [6.0] * 3)

    def numbered(x):
        with mjax.ensure_compile_time_eval():
            return x + 10 * lax.axis_index("i")

    np.testing.assert_array_equal(mjax.vmap(numbered, axis_name="i")(jnp.arange(3)), [0, 11, 22])

    def g(x):
        with mjax.ensure_compile_time_eval():
            return _branching(x)

    assert mjax.grad(g)(2.0) == 5 and g(2.0) == 4


def test_donating_a_python_scalar_harms_nobody():
    donate = mjax.jit(lambda x: lax.add(x, 1.0), donate_argnums=0)
    kept = mjax.jit(lambda x: x)(5.0)
    assert float(donate(5.0)) == 6.0 and float(donate(5.0)) == 6.0
    assert float(kept) == 5.0 and float(lax.add(5.0, 5.0)) == 10.0
    kept.delete()
    assert float(lax.add(5.0, 5.0)) == 10.0


def test_donated_scalars_are_not_shared():
    f = mjax.jit(lambda x, y: x + y, donate_argnums=0)
    assert float(f.lower(1.0, 1.0).compile()(1.0, 1.0)) == 2.0
    jaxpr = mjax.make_jaxpr(f)(1.0, 1.0)
    assert jaxpr.eqns[0].params["donated_invars"] == (True, False)
    assert [float(out) for out in eval_jaxpr(jaxpr, jaxpr.consts, 1.0, 1.0)] == [2.0]


def test_each_compilation_of_a_lowered_function_has_its_options():
    lowered = mjax.jit(lambda x: x + 1.0).lower(1.0)
    lowered.compile()
    with pytest.raises(ValueError, match="nonsense"):
        lowered.compile({"nonsense": 1})


def test_what_ahead_of_time_stages_refuse():
    compiled = mjax.jit(lambda x: x * 2.0).lower(1.0).compile()
    with pytest.raises(TypeError, match="traced value"):
        mjax.grad(compiled)(1.0)

    def outer(x):
        return mjax.jit(lambda y: x + y).lower(1.0)

    with pytest.raises(TypeError, match="outer trace"):
        mjax.eval_shape(outer, 2.0)


def test_a_deleted_argument_does_not_hide_the_users_own_error():
    def f(x):
        msg = "mine"
        raise ValueError(msg)

    x = mjax.device_put(X)
    x.delete()
    with pytest.raises(ValueError, match="mine"):
        mjax.jit(f)(x)
