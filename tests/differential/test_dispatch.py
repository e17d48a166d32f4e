"""Where calls run, what is traced again, and what donation leaves, side by side with jax.

Both libraries run the same program, each in a process of its own with four CPU devices.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import json, sys, warnings
import {name} as m
import {name}.numpy as mnp
import numpy as np
warnings.simplefilter("ignore")
d0, d1 = m.devices()[:2]
X = np.arange(3, dtype=np.float32)
def where(x):
    return [m.devices().index(next(iter(x.devices()))), x.committed]
def fate(call):
    try:
        out = call()
    except Exception as error:
        kinds = TypeError, ValueError, RuntimeError
        return [kind.__name__ for kind in kinds if isinstance(error, kind)]
    return [where(leaf) for leaf in m.tree_util.tree_leaves(out)]
free, on0, on1 = m.device_put(X), m.device_put(X, d0), m.device_put(X, d1)
args = {{"NumPy": X, "free": free, "on0": on0, "on1": on1}}
total = lambda x: mnp.sum(x * 2)
out = {{}}
"""

PLACES = """
f = m.jit(total, device=d1)
put = lambda x: m.device_put(x * 2, d1) + 1
stages = m.jit(total).lower(X).compile(), f.lower(X).compile(), m.jit(total).lower(on1).compile()
programs = {
    "jit": f, "grad": m.grad(f), "value_and_grad": m.value_and_grad(f),
    "vmap": lambda x: m.vmap(f)(mnp.stack([x, x])), "jvp": lambda x: m.jvp(f, (x,), (x,)),
    "vjp": lambda x: m.vjp(f, x)[1](np.float32(1)), "inside": m.jit(lambda x: f(x) + 1),
    "jit of grad": m.jit(m.grad(f)), "inside of its own device": m.jit(lambda x: f(x), device=d1),
    "inside of another": m.jit(lambda x: f(x), device=d0), "unused": m.jit(lambda x: (f(x), 1)[1]),
    "inline": m.jit(lambda x: m.jit(total, device=d1, inline=True)(x)), "identity": m.jit(
        lambda x: x, device=d1), "several": m.jit(lambda x: (x, x + 1, 1), device=d1),
    "put": m.jit(put), "put outside": put, "put under vmap": m.vmap(put),
    "closed over": m.jit(lambda x: x + on1), "two": m.jit(lambda x: x + free),
    "compiled": stages[0], "compiled there": stages[1], "compiled for an argument": stages[2],
}
for name, program in programs.items():
    for kind, x in args.items():
        out[f"{name} of {kind}"] = fate(lambda: program(x))
for kind, x in args.items():
    for other, y in args.items():
        out[f"{kind} + {other}"] = fate(lambda: m.jit(lambda x, y: x + y)(x, y))
"""

DONATION = """
def left(f, *args, **kwargs):
    args = [m.device_put(a) for a in args]
    f(*args, **kwargs)
    return [a.is_deleted() for a in args]
def named(f, x, y):
    x, y = m.device_put(x), m.device_put(y)
    f(x, y=y)
    return [x.is_deleted(), y.is_deleted()]
both = lambda x, y: (x + y, x * y)
out["one"] = left(m.jit(both, donate_argnums=0), X, X)
out["two"] = left(m.jit(both, donate_argnums=(0, 1)), X, X)
out["second"] = left(m.jit(lambda *a: a[0] + a[-1], donate_argnums=1), X, X)
out["by name"] = left(m.jit(both, donate_argnames="y"), X, X)
out["named"] = named(m.jit(both, donate_argnames="y"), X, X)
out["no result for it"] = left(m.jit(lambda x, y: x[0], donate_argnums=0), X, X)
out["not read"] = left(m.jit(lambda x, y: y + 1, donate_argnums=0), X, X)
out["other shape"] = left(m.jit(lambda x, y: y + 1, donate_argnums=0), X, X[:2])
def shares(f, x):  # whether an array ends with what a function gives for it
    first = m.tree_util.tree_leaves(f(x))[0]
    first.delete()
    return x.is_deleted()
same = lambda x: x
forms = {"same": same, "twice": lambda x: (x, x), "beside": lambda x: (x, x + 1),
         "after": lambda x: (x + 1, x), "asarray": mnp.asarray, "nested": lambda x: m.jit(same)(x)}
for name, f in forms.items():
    out[f"given back: {name}"] = shares(m.jit(f), m.device_put(X))
    out[f"donated and given back: {name}"] = left(m.jit(f, donate_argnums=0), X)
    out[f"for a batch: {name}"] = left(m.vmap(m.jit(f, donate_argnums=0)), X)
    out[f"compiled: {name}"] = left(m.jit(f, donate_argnums=0).lower(X).compile(), X)
for name in ("ravel", "real", "conj", "clip", "squeeze", "atleast_1d", "atleast_3d", "block",
             "broadcast_arrays", "positive", "copy", "array", "asarray"):
    out[f"eager: {name}"] = shares(getattr(mnp, name), m.device_put(np.ones((1, 2, 3), np.float32)))
P, grid = m.sharding.PartitionSpec, np.array(m.devices()[:4])
def over(devices, names, *spec):
    return m.sharding.NamedSharding(m.sharding.Mesh(devices, names), P(*spec))
line, square = over(grid, ("x",), "x"), grid.reshape(2, 2)
moves = {"another name": (line, over(grid, ("y",), "y")),
         "a square": (line, over(square, ("y", "z"), ("y", "z"))),
         "other way": (line, over(grid[::-1], ("x",), "x")),
         "copies other way": (over(grid, ("x",)), over(grid[::-1], ("x",))),
         "two change places": (line, over(grid[[0, 1, 3, 2]], ("x",), "x"))}
for name, (source, target) in moves.items():
    for donate in (True, False):
        x = m.device_put(np.arange(8.0, dtype=np.float32), source)
        y = m.device_put(x, target, donate=donate)
        out[f"put {donate}: {name}"] = [x.is_deleted(), np.asarray(y).tolist()]
        if not x.is_deleted():
            x.delete()
        out[f"put {donate}: {name}"].append(y.is_deleted())
x = m.device_put(X)
# Of which class the error is depends, in jax, on which path runs.
out["twice"] = isinstance(fate(lambda: m.jit(both, donate_argnums=0)(x, x))[0], str)
m.jit(both, donate_argnums=0)(x, m.device_put(X))
out["again"] = isinstance(fate(lambda: m.jit(both)(x, X))[0], str)
"""

#: Calls that change nothing: whether they give the operand itself, or another array.
UNCHANGED = """
lax, S = m.lax, m.sharding.SingleDeviceSharding(d0)
calls = {
    "reshape": lambda x: x.reshape(x.shape), "reshape to -1": lambda x: x.reshape(-1),
    "lax.reshape": lambda x: lax.reshape(x, x.shape), "ravel": lambda x: x.ravel(),
    "broadcast_to": lambda x: mnp.broadcast_to(x, x.shape),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, x.shape, tuple(range(x.ndim))),
    "broadcast": lambda x: lax.broadcast(x, ()),
    "broadcast_arrays": lambda x: mnp.broadcast_arrays(x, x)[0],
    "concatenate": lambda x: mnp.concatenate([x]), "hstack": lambda x: mnp.hstack([x]),
    "lax.concatenate": lambda x: lax.concatenate([x], 0),
    "T": lambda x: x.T, "transpose": lambda x: x.transpose(tuple(range(x.ndim))),
    "lax.transpose": lambda x: lax.transpose(x, tuple(range(x.ndim))),
    "permute_dims": lambda x: mnp.permute_dims(x, tuple(range(x.ndim))),
    "moveaxis": lambda x: mnp.moveaxis(x, 0, 0), "swapaxes": lambda x: mnp.swapaxes(x, 0, 0),
    "squeeze": lambda x: mnp.squeeze(x, ()), "lax.squeeze": lambda x: lax.squeeze(x, ()),
    "expand_dims": lambda x: mnp.expand_dims(x, ()),
    "lax.expand_dims": lambda x: lax.expand_dims(x, ()),
    "stop_gradient": lax.stop_gradient, "stop_gradient, tree": lambda x: lax.stop_gradient([x])[0],
    "astype": lambda x: x.astype(x.dtype), "lax.convert": lambda x: lax.convert_element_type(
        x, x.dtype), "asarray": mnp.asarray, "array": mnp.array, "copy": mnp.copy,
    "[:]": lambda x: x[:], "[...]": lambda x: x[...], "rev": lambda x: lax.rev(x, ()),
    "slice": lambda x: lax.slice(x, (0,) * x.ndim, x.shape), "sum": lambda x: mnp.sum(x, ()),
    "real": lambda x: x.real, "+x": lambda x: +x, "atleast_1d": mnp.atleast_1d,
    "device_put": lambda x: m.device_put(x), "constrained": lambda x: lax.optimization_barrier(x),
    "tile": lambda x: mnp.tile(x, ()), "roll": lambda x: mnp.roll(x, 0), "clip": mnp.clip}
for name, call in calls.items():
    for x in (mnp.arange(3.0), mnp.ones((2, 2)) + 0, mnp.arange(3) + 0):
        for turn in range(2):
            y = call(x)
            shared = y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
            out[f"{name} of {x.dtype}[{x.ndim}], {turn}"] = (
                "itself" if y is x else "shared" if shared else "copied")
"""

STATIC = """
def kinds(call, **options):
    seen = []
    def f(x, *args, **kwargs):
        seen.append([isinstance(v, (int, float)) for v in (x, *args, *kwargs.values())])
        return x
    for c in call:
        m.jit(f, **options)(*c)
    return seen
calls = [(1.0, 2, 3), (1.0, 2, 3), (1.0, 2, 4), (1.0, 5)]
for options in ({"static_argnums": -1}, {"static_argnums": (-2,)}, {"static_argnums": (0, -1)},
                {"static_argnums": 1}, {"static_argnums": 7}, {}):
    out[str(options)] = kinds(calls, **options)
def fates(**options):
    return [fate(lambda: m.jit(lambda *a: a[0], **options)(*c)) for c in calls]
out["too far"] = fates(static_argnums=-3)
"""


def run(name, body):
    code = PRELUDE.format(name=name) + textwrap.dedent(body) + "print(json.dumps(out))"
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "XLA_FLAGS": flags},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("body", [PLACES, DONATION, UNCHANGED, STATIC],
                         ids=["places", "donation", "unchanged", "static"])
def test_same_as_jax(body):
    ours, theirs = run("mjax", body), run("jax", body)
    assert ours.keys() == theirs.keys()
    assert {k: (v, theirs[k]) for k, v in ours.items() if v != theirs[k]} == {}
