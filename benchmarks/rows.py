"""The rows of the table: the timed calls, and the goals for mjax's time over jax's.

A row's factory takes the library (`jax` or `mjax`) and returns a `Timed`: the call to time and a
function whose results must agree between the libraries beforehand. Both sides run the same source.
To time tracing, each call traces a new function; otherwise caches would answer.
"""

from __future__ import annotations

import collections
import importlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Timed(NamedTuple):
    """The result of a factory: the call to time, and values to compare."""

    call: Callable[[], Any]
    values: Callable[[], Any]


class Row(NamedTuple):
    """One line of the table.

    Attributes:
      name: its name; `--rows` selects by it.
      goal: highest ratio of mjax's time over jax's.
      make: the factory.
      per: the number of units (equations, primitives) per call.
    """

    name: str
    goal: float
    make: Callable[[Any], Timed]
    per: int = 1


X = np.linspace(0.1, 0.9, 3, dtype=np.float32)

# ---- programs --------------------------------------------------------------------------


def chain(m: Any, n: int) -> Callable[[Any], Any]:
    """A function of n equations."""
    sin, mul = m.lax.sin, m.lax.mul

    def f(x: Any) -> Any:
        y = x
        for _ in range(n // 2):
            y = mul(sin(y), x)
        return y

    return f


def scalar(m: Any, n: int) -> Callable[[Any], Any]:
    """The chain with a scalar result."""
    f = chain(m, n - 1)
    return lambda x: m.lax.reduce_sum(f(x), (0,))


def scanned(m: Any, n: int) -> Callable[[Any], Any]:
    """A scan whose body has n equations; a scalar result."""
    body = chain(m, n)

    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            c = m.lax.mul(body(c), y)
            return c, c

        c, ys = m.lax.scan(step, x, m.lax.broadcast(x, (10,)))
        return m.lax.add(m.lax.reduce_sum(c, (0,)), m.lax.reduce_sum(ys, (0, 1)))

    return f


def numpy_chain(m: Any, n: int) -> Callable[[Any], Any]:
    """A function of n calls and operators of the NumPy front end."""
    jnp = m.numpy

    def f(x: Any) -> Any:
        y = x
        for _ in range(n // 4):
            y = jnp.where(x > 0, jnp.sin(y) * 2.0, x)
        return y

    return f


# ---- factories -------------------------------------------------------------------------


def traced(program: Any, n: int, transform: Callable[[Any, Any], Any] = lambda m, f: f
           ) -> Callable[[Any], Timed]:
    """Times make_jaxpr of a transformed program."""

    def make(m: Any) -> Timed:
        return Timed(lambda: m.make_jaxpr(transform(m, program(m, n)))(X),
                     lambda: m.jit(transform(m, program(m, 30)))(X))

    return make


def lowered(m: Any) -> Timed:
    return Timed(lambda: m.jit(chain(m, 300)).lower(X), lambda: m.jit(chain(m, 300))(X))


def lowered_scan(m: Any) -> Timed:
    return Timed(lambda: m.jit(m.grad(scanned(m, 100))).lower(X),
                 lambda: m.jit(m.grad(scanned(m, 100)))(X))


def eager(call: Callable[..., Any], *operands: Any) -> Callable[[Any], Timed]:
    """Times `call(m, *arrays)`; the operands are on the device before."""

    def make(m: Any) -> Timed:
        arrays = [m.device_put(x) for x in operands]
        run = lambda: call(m, *arrays)
        return Timed(run, run)

    return make


def compiled(function: Callable[..., Any], args: Callable[[Any], tuple[Any, ...]],
             named: tuple[str, ...] = (), static: tuple[int, ...] = ()) -> Callable[[Any], Timed]:
    """Times calls of a jitted `function(m, *args)`; the last arguments have these names, and the
    arguments at these places are static."""

    def make(m: Any) -> Timed:
        def flat(*xs: Any, **more: Any) -> Any:
            return function(m, *xs, *more.values())

        f, given = m.jit(flat, static_argnums=static), args(m)
        count = len(given) - len(named)
        first, more = given[:count], dict(zip(named, given[count:], strict=True))
        # A call with `**` costs more than one without.
        run: Callable[[], Any] = (lambda: f(*first, **more)) if named else lambda: f(*first)
        return Timed(run, lambda: m.tree_util.tree_leaves(run()))

    return make


def donating(m: Any) -> Timed:
    """Times calls of a jitted step that donates its state, two arrays, and reads a third."""
    maximum, x = m.lax.max, m.device_put(X)
    f = m.jit(lambda a, b, x: (maximum(a, x), maximum(x, b)), donate_argnums=(0, 1))
    state = [arrays(2)(m)]

    def run() -> Any:
        state[0] = f(*state[0], x)
        return state[0]

    return Timed(run, run)


def donating_with_float(m: Any) -> Timed:
    """Times calls of a jitted step that donates its state, an array, and takes a Python float."""
    f, state = m.jit(lambda a, rate: m.lax.mul(a, rate), donate_argnums=0), [m.device_put(X)]

    def run() -> Any:
        state[0] = f(state[0], 1.0)
        return state[0]

    return Timed(run, run)


def counting(m: Any) -> Timed:
    """Times calls of a jitted function with an array and a Python float that is new each time."""
    f, x, numbers = m.jit(lambda x, y: m.lax.mul(x, y)), m.device_put(X), itertools.count()
    run = lambda: f(x, 0.5 * next(numbers))
    return Timed(run, run)


def arrays(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """This many arrays on the device."""
    return lambda m: tuple(m.device_put(X) for _ in range(count))


def effectful(ordered: bool) -> Callable[[Any], Timed]:
    """Times calls of a jitted function with one Python callback, until that is done."""

    def make(m: Any) -> Timed:
        io_callback = importlib.import_module(f"{m.__name__}.experimental").io_callback
        f = m.jit(lambda x: (io_callback(lambda v: None, None, x, ordered=ordered), x + 1)[1])
        x = m.device_put(X)

        def run() -> Any:
            out = f(x)
            m.effects_barrier()
            return out

        return Timed(run, run)

    return make


def eager_transformed(transform: Callable[[Any, Any], Any], x: Any) -> Callable[[Any], Timed]:
    """Times the evaluation of a transformed program, one primitive after the other."""

    def make(m: Any) -> Timed:
        f, array = transform(m, scalar(m, 30)), m.device_put(x)
        run = lambda: f(array)
        return Timed(run, run)

    return make


def leaves(m: Any, n: int) -> dict[str, list[Any]]:
    """A tree of n arrays."""
    return {f"layer{i}": [m.device_put(X), m.device_put(X)] for i in range(n // 2)}


def mapped_tree(m: Any) -> Timed:
    tree = {f"layer{i}": [i, (i, i)] for i in range(100)}
    run = lambda: m.tree_util.tree_map(abs, tree)
    return Timed(run, lambda: m.tree_util.tree_leaves(run()))


def drawn(draw: Callable[[Any, Any], Any]) -> Callable[[Any], Timed]:
    """Times a function of (m.random, key)."""

    def make(m: Any) -> Timed:
        key = m.random.key(0)
        run = lambda: draw(m.random, key)

        def values() -> Any:
            out = run()
            return m.random.key_data(out) if out.dtype == key.dtype else out

        return Timed(run, values)

    return make


def multilayer(m: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step: loss, gradient and update of three layers."""
    jnp, rng = m.numpy, np.random.default_rng(0)
    sizes = [64, 256, 256, 10]
    params = [(rng.normal(size=(a, b)).astype(np.float32) / 16, np.zeros(b, np.float32))
              for a, b in itertools.pairwise(sizes)]
    batch = rng.normal(size=(128, 64)).astype(np.float32), rng.integers(0, 10, 128)

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return -jnp.mean(jnp.where(labels[:, None] == jnp.arange(10), x, 0.0))

    def step(params: Any, x: Any, labels: Any) -> Any:
        grads = m.grad(loss)(params, x, labels)
        return m.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)

    return step, (params, *batch)


def running(m: Any) -> Timed:
    step, args = multilayer(m)
    f = m.jit(step)
    on_device = m.device_put(args)
    return Timed(lambda: m.block_until_ready(f(*on_device)),
                 lambda: m.tree_util.tree_leaves(f(*on_device)))


def compiling(m: Any) -> Timed:
    """Compilation of a lowered program. Each call lowers a new one: compilations are cached."""
    step, args = multilayer(m)
    stock = [m.jit(lambda *xs: step(*xs)).lower(*args) for _ in range(40)]
    return Timed(lambda: stock.pop().compile(),
                 lambda: m.tree_util.tree_leaves(stock.pop().compile()(*args)))


def checked(m: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A recurrent network with all automatic checks, and its operands."""
    checkify = importlib.import_module(f"{m.__name__}.experimental.checkify")
    jnp, rng = m.numpy, np.random.default_rng(0)
    x = rng.normal(size=(100, 64)).astype(np.float32)
    w = rng.normal(size=(64, 64)).astype(np.float32) / 10

    def f(x: Any, w: Any, i: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            h = jnp.tanh(c @ w + y)
            return h / (1 + jnp.sum(h * h)), h[i]

        c, ys = m.lax.scan(step, x[0], x)
        return jnp.log(jnp.sum(c * c)) + ys.sum()

    return checkify.checkify(f, errors=checkify.automatic_checks), (x, w, np.arange(10))


def running_checks(m: Any) -> Timed:
    f, args = checked(m)
    call, on_device = m.jit(f), m.device_put(args)

    def values() -> Any:
        err, out = call(*on_device)
        return [err.get() is None, out]

    return Timed(lambda: m.block_until_ready(call(*on_device)), values)


def tracing_checks(m: Any) -> Timed:
    def call() -> Any:
        f, args = checked(m)  # a new one, or caches would answer
        return m.jit(f).lower(*args)

    return Timed(call, running_checks(m).values)


Pair = collections.namedtuple("Pair", "a b")
GRAD = lambda m, f: m.grad(f)
JVP = lambda m, f: lambda x: m.jvp(f, (x,), (x,))
VMAP = lambda m, f: lambda x: m.vmap(f)(m.lax.broadcast(x, (4,)))
JET = lambda m, f: lambda x: importlib.import_module(f"{m.__name__}.experimental.jet").jet(
    f, (x,), ([x] * 8,))
MATRIX = np.linspace(0, 1, 9, dtype=np.float32).reshape(3, 3)

ROWS = [
    Row("trace, per equation", 0.3, traced(chain, 1000), 1000),
    Row("trace 10,000, per equation", 0.3, traced(chain, 10_000), 10_000),
    Row("trace, per numpy call", 0.3, traced(numpy_chain, 400), 400),
    Row("make_jaxpr(jvp), per equation", 0.25, traced(chain, 300, JVP), 300),
    Row("make_jaxpr(grad), per equation", 0.08, traced(scalar, 300, GRAD), 300),
    Row("make_jaxpr(vmap), per equation", 0.2, traced(chain, 300, VMAP), 300),
    Row("make_jaxpr(jet of order 8), per equation", 0.1, traced(chain, 100, JET), 100),
    Row("make_jaxpr(scan of 100 equations)", 0.3, traced(scanned, 100)),
    Row("make_jaxpr(grad(scan of 100))", 0.25, traced(scanned, 100, GRAD)),
    Row("make_jaxpr(jvp(scan of 100))", 0.25, traced(scanned, 100, JVP)),
    Row("make_jaxpr(vmap(scan of 100))", 0.25, traced(scanned, 100, VMAP)),
    Row("lower grad(scan of 100)", 0.6, lowered_scan),
    Row("lower, per equation", 0.6, lowered, 300),
    Row("eager x + y", 0.8, eager(lambda m, x, y: x + y, X, X)),
    Row("eager sum", 1.0, eager(lambda m, x: x.sum(), X)),
    Row("eager x @ y", 1.0, eager(lambda m, x, y: x @ y, MATRIX, MATRIX)),
    Row("eager x[1]", 0.3, eager(lambda m, x: x[1], X)),
    Row("eager grad, per primitive", 0.15, eager_transformed(GRAD, X), 30),
    Row("eager vmap, per primitive", 0.35, eager_transformed(
        lambda m, f: m.vmap(f), np.stack([X, X])), 30),
    Row("eager where", 1.0, eager(lambda m, c, x, y: m.numpy.where(c, x, y), X > 0.3, X, X)),
    Row("eager mean(axis=0)", 1.0, eager(lambda m, x: x.mean(axis=0), MATRIX)),
    Row("np.asarray(x)", 1.0, eager(lambda m, x: np.asarray(x), X)),
    Row("iterating 3 elements", 1.0, eager(lambda m, x: list(x), X)),
    Row("iterating 100 rows", 1.0, eager(lambda m, x: list(x), np.ones((100, 3), np.float32))),
    Row("jit call, one array", 1.0, compiled(lambda m, x: m.lax.sin(x), arrays(1))),
    Row("jit call, two arrays", 1.0, compiled(lambda m, x, y: m.lax.add(x, y), arrays(2))),
    Row("jit call, three arrays", 1.1, compiled(
        lambda m, x, y, z: m.lax.add(m.lax.add(x, y), z), arrays(3))),
    Row("jit call, static argument", 1.1, compiled(
        lambda m, x, n: x * n, lambda m: (m.device_put(X), 3), static=(1,))),
    Row("jit call, keyword argument", 1.1, compiled(
        lambda m, x, y: m.lax.add(x, y), arrays(2), named=("y",))),
    Row("jit call, dict of two", 1.1, compiled(
        lambda m, d: m.lax.add(d["a"], d["b"]), lambda m: ({"a": arrays(1)(m)[0],
                                                            "b": arrays(1)(m)[0]},))),
    Row("jit call, two results", 1.1, compiled(lambda m, x: (m.lax.sin(x), m.lax.neg(x)),
                                               arrays(1))),
    Row("jit call, named tuple of two", 1.1, compiled(
        lambda m, p: Pair(m.lax.neg(p.b), m.lax.neg(p.a)),
        lambda m: (Pair(*arrays(2)(m)),))),
    Row("jit call, donating two of three", 1.1, donating),
    Row("jit call, donating, and a float", 1.1, donating_with_float),
    Row("jit call, one NumPy array", 1.1, compiled(lambda m, x: m.lax.sin(x), lambda m: (X,))),
    Row("jit call, NumPy and float", 1.1, compiled(lambda m, x, y: m.lax.mul(x, y),
                                                   lambda m: (X, 2.0))),
    Row("jit call, array and new float", 1.1, counting),
    Row("jit call, 100 leaves", 1.1, compiled(
        lambda m, tree: m.tree_util.tree_map(m.lax.neg, tree), lambda m: (leaves(m, 100),))),
    Row("jit call, 1,000 leaves", 1.1, compiled(
        lambda m, tree: m.tree_util.tree_map(m.lax.neg, tree), lambda m: (leaves(m, 1000),))),
    Row("jit call, an ordered effect", 1.3, effectful(True)),
    Row("jit call, an unordered effect", 1.3, effectful(False)),
    Row("random.split", 0.6, drawn(lambda random, key: random.split(key))),
    Row("random.normal", 1.0, drawn(lambda random, key: random.normal(key, (3,)))),
    Row("tree_map, 300 leaves", 1.0, mapped_tree),
    Row("run a training step", 1.05, running),
    Row("compile a training step", 1.05, compiling),
    Row("run a scan with checks", 1.0, running_checks),
    Row("lower a scan with checks", 0.3, tracing_checks),
]
#: In a fresh interpreter each, so no factory.
IMPORT = Row("import, with numpy", 0.42, lambda m: Timed(lambda: None, lambda: ()))
