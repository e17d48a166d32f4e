"""Runs the graphs of `graphs.py` with NumPy. It knows the params of primitives by their names."""

from __future__ import annotations

import base64
import json
import math

import ml_dtypes
import numpy as np

RULES = {}


def rule(*names):
    """Registers a function of operands and params, which gives an array or a list of them."""

    def decorate(f):
        RULES.update(dict.fromkeys(names, f))
        return f

    return decorate


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def array(data):
    return np.frombuffer(base64.b64decode(data["data"]), dtype_of(data["dtype"])).reshape(
        data["shape"])


def run(text, *inputs):
    """The results of a graph."""
    with np.errstate(all="ignore"):
        return program(json.loads(text)["program"])(*map(np.asarray, inputs))


def program(graph):
    """A graph as a function of arrays."""

    def call(*inputs):
        values = {number: array(data) for number, data in graph["constants"]}
        values |= {number: x for (number, _), x in zip(graph["inputs"], inputs, strict=True)}
        read = lambda a: values[a] if isinstance(a, int) else array(a["literal"])
        for node in graph["nodes"]:
            outs = RULES[node["name"]](*map(read, node["in"]), **node["params"])
            outs = outs if isinstance(outs, list) else [outs]
            for number, out, kind in zip(node["out"], outs, node["types"], strict=True):
                values[number] = np.asarray(out, dtype_of(kind["dtype"])).reshape(kind["shape"])
        return [read(a) for a in graph["results"]]

    return call


# ---- elements ----------------------------------------------------------------------------------

for name, f in {
        "abs": np.abs, "add": np.add, "add_any": np.add, "and": np.bitwise_and,
        "copy": np.copy, "cos": np.cos, "div": lambda x, y: (
            x / y if x.dtype.kind in "fcV" else np.trunc(x / y)),
        "eq": np.equal, "erf": np.vectorize(math.erf, otypes=[float]),
        "erfc": np.vectorize(math.erfc, otypes=[float]), "exp": np.exp,
        "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "ge": np.greater_equal,
        "gt": np.greater, "is_finite": np.isfinite, "le": np.less_equal, "log": np.log,
        "log1p": np.log1p, "lt": np.less, "max": np.maximum, "min": np.minimum,
        "mul": np.multiply, "ne": np.not_equal, "neg": np.negative, "not": np.invert,
        "or": np.bitwise_or, "pow": np.power, "rem": np.fmod, "sign": np.sign, "sin": np.sin,
        "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square, "stop_gradient": np.copy,
        "sub": np.subtract, "tanh": np.tanh, "xor": np.bitwise_xor,
        "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift}.items():
    rule(name)(lambda *xs, f=f, **params: f(*xs))

rule("logistic")(lambda x, **params: 1 / (1 + np.exp(-x)))
rule("rsqrt")(lambda x, **params: 1 / np.sqrt(x))
rule("integer_pow")(lambda x, *, y: x ** float(y) if y < 0 else x**y)
rule("clamp")(lambda low, x, high: np.clip(x, low, high))
rule("select_n")(lambda which, *cases: np.choose(which.astype(int), cases))
rule("convert_element_type")(lambda x, *, new_dtype, weak_type: x.astype(dtype_of(new_dtype)))
rule("bitcast_convert_type")(lambda x, *, new_dtype: x.view(dtype_of(new_dtype)))


@rule("shift_right_logical")
def _shift(x, n):
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(unsigned) >> n.view(unsigned)).view(x.dtype)


# ---- axes --------------------------------------------------------------------------------------

for name, f in {"reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max,
                "reduce_min": np.min, "reduce_and": np.bitwise_and.reduce,
                "reduce_or": np.bitwise_or.reduce}.items():
    rule(name)(lambda x, *, axes, f=f: f(x, axis=tuple(axes)))
for name, f in {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate,
                "cummin": np.minimum.accumulate}.items():
    rule(name)(lambda x, *, axis, reverse, f=f: (
        np.flip(f(np.flip(x, axis), axis=axis), axis) if reverse else f(x, axis=axis)))

rule("argmax")(lambda x, *, axes, index_dtype: np.argmax(x, axes[0]))
rule("argmin")(lambda x, *, axes, index_dtype: np.argmin(x, axes[0]))
rule("reshape")(lambda x, *, new_sizes, dimensions: x.reshape(new_sizes))
rule("squeeze")(lambda x, *, dimensions: x.squeeze(tuple(dimensions)))
rule("transpose")(lambda x, *, permutation: x.transpose(permutation))
rule("rev")(lambda x, *, dimensions: np.flip(x, dimensions))
rule("concatenate")(lambda *xs, dimension: np.concatenate(xs, dimension))
rule("stack")(lambda *xs, axis: np.stack(xs, axis))
rule("tile")(lambda x, *, reps: np.tile(x, reps))
rule("split")(lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis))
rule("iota")(lambda *, dtype, shape, dimension: np.indices(shape)[dimension])
rule("slice")(lambda x, *, start_indices, limit_indices, strides: x[tuple(map(
    slice, start_indices, limit_indices, strides or [1] * x.ndim))])


@rule("broadcast_in_dim")
def _broadcast(x, *, shape, broadcast_dimensions):
    into = [1] * len(shape)
    for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
        into[dim] = size
    return np.broadcast_to(x.reshape(into), shape)


@rule("pad")
def _pad(x, value, *, padding_config):
    for axis, (low, high, inside) in enumerate(padding_config):
        size = x.shape[axis] + inside * max(0, x.shape[axis] - 1)
        spread = np.full((*x.shape[:axis], size, *x.shape[axis + 1:]), value)
        np.moveaxis(spread, axis, 0)[::inside + 1] = np.moveaxis(x, axis, 0)
        widths = [(0, 0)] * x.ndim
        widths[axis] = max(low, 0), max(high, 0)
        x = np.pad(spread, widths, constant_values=value)
        x = np.take(x, range(max(0, -low), x.shape[axis] - max(0, -high)), axis)
    return x


@rule("dynamic_slice")
def _dynamic_slice(x, *starts, slice_sizes):
    places = [min(max(int(i), 0), n - size)
              for i, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple(slice(i, i + size) for i, size in zip(places, slice_sizes, strict=True))]


@rule("dynamic_update_slice")
def _dynamic_update_slice(x, update, *starts):
    x = x.copy()
    places = [min(max(int(i), 0), n - size)
              for i, n, size in zip(starts, x.shape, update.shape, strict=True)]
    x[tuple(slice(i, i + n) for i, n in zip(places, update.shape, strict=True))] = update
    return x


@rule("sort")
def _sort(*xs, dimension, is_stable, num_keys):
    order = np.lexsort([np.moveaxis(x, dimension, -1) for x in reversed(xs[:num_keys])], axis=-1)
    return [np.take_along_axis(x, np.moveaxis(order, -1, dimension), dimension) for x in xs]


@rule("dot_general")
def _dot(x, y, *, dimension_numbers, precision, preferred_element_type):
    (x_sums, y_sums), (x_batch, y_batch) = [[[*unwrapped(d)] for d in pair]
                                            for pair in dimension_numbers]
    names = iter(range(100))
    of_x, of_y = [next(names) for _ in x.shape], [next(names) for _ in y.shape]
    for i, j in zip([*x_batch, *x_sums], [*y_batch, *y_sums], strict=True):
        of_y[j] = of_x[i]
    out = [of_x[i] for i in x_batch]
    out += [n for i, n in enumerate(of_x) if i not in (*x_batch, *x_sums)]
    out += [n for j, n in enumerate(of_y) if j not in (*y_batch, *y_sums)]
    return np.einsum(x, of_x, y, of_y, out)


def unwrapped(data):
    """A value of any type: a tuple, or what it is."""
    return data["tuple"] if isinstance(data, dict) else data


@rule("conv_general_dilated")
def _conv(x, y, *, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count,
          dimension_numbers, batch_group_count, **others):
    assert feature_group_count == batch_group_count == 1
    of_x, of_y, of_out = map(unwrapped, dimension_numbers)
    x, y = x.transpose(of_x), y.transpose(of_y)
    gaps = lambda dilation: [(0, 0, 0)] * 2 + [(0, 0, d - 1) for d in dilation]
    x = _pad(x, x.dtype.type(0), padding_config=gaps(lhs_dilation))
    x = _pad(x, x.dtype.type(0), padding_config=[(0, 0, 0)] * 2 + [(*p, 0) for p in padding])
    y = _pad(y, y.dtype.type(0), padding_config=gaps(rhs_dilation))
    spatial = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, y.shape[2:], spatial)
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in window_strides))]
    sums = (1, *range(x.ndim, windows.ndim)), (1, *spatial)
    out = np.moveaxis(np.tensordot(windows, y, sums), -1, 1)
    return out.transpose(np.argsort(of_out))


@rule("gather")
def _gather(x, indices, *, dimension_numbers, slice_sizes, mode, **others):
    offsets, collapsed, start_map, *batching = map(unwrapped, dimension_numbers)
    assert not any(batching) and mode == "PROMISE_IN_BOUNDS"
    batch = indices.shape[:-1]
    parts = []
    for where in np.ndindex(*batch):
        starts = [0] * x.ndim
        for axis, start in zip(start_map, indices[where], strict=True):
            starts[axis] = start
        parts.append(_dynamic_slice(x, *starts, slice_sizes=slice_sizes).squeeze(tuple(collapsed)))
    out = np.reshape(parts, (*batch, *np.shape(parts)[1:]))
    inner = [d for d in range(out.ndim) if d not in offsets]
    return np.moveaxis(out, range(out.ndim), [*inner, *offsets])


# ---- decompositions, random numbers ------------------------------------------------------------

rule("cholesky")(lambda x: np.linalg.cholesky(x))


@rule("triangular_solve")
def _triangular_solve(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    a = np.tril(a) if lower else np.triu(a)
    a = a.swapaxes(-1, -2) if transpose_a else a
    solve = np.linalg.solve
    return solve(a, b) if left_side else solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(
        -1, -2)


@rule("threefry2x32")
def threefry(key0, key1, x, y):
    """Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011)."""
    keys = key0, key1, key0 ^ key1 ^ np.uint32(0x1BD11BDA)
    x, y = x + keys[0], y + keys[1]
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x = x + y
            y = x ^ (y << np.uint32(turn) | y >> np.uint32(32 - turn))
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + np.uint32(block + 1)
    return [x, y]


# ---- programs in programs ----------------------------------------------------------------------

rule("inlined")(lambda *xs, program: globals()["program"](program)(*xs))
rule("jit")(lambda *xs, jaxpr, **params: program(jaxpr)(*xs))
rule("remat2")(lambda *xs, jaxpr, **params: program(jaxpr)(*xs))
rule("cond")(lambda i, *xs, branches, **params: program(
    branches[min(max(int(i), 0), len(branches) - 1)])(*xs))


@rule("while")
def _while(*xs, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    of_test, of_body = xs[:cond_nconsts], xs[cond_nconsts:cond_nconsts + body_nconsts]
    carry = xs[cond_nconsts + body_nconsts:]
    while program(cond_jaxpr)(*of_test, *carry)[0]:
        carry = program(body_jaxpr)(*of_body, *carry)
    return [*carry]


@rule("scan")
def _scan(*xs, jaxpr, length, reverse, unroll, num_consts, num_carry):
    consts, carry = xs[:num_consts], list(xs[num_consts:num_consts + num_carry])
    columns, results = xs[num_consts + num_carry:], []
    for i in reversed(range(length)) if reverse else range(length):
        outs = program(jaxpr)(*consts, *carry, *[column[i] for column in columns])
        carry = outs[:num_carry]
        results.append(outs[num_carry:])
    ordered = results[::-1] if reverse else results
    return [*carry, *map(np.stack, zip(*ordered, strict=True))]
