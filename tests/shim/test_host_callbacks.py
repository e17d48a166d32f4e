"""Python functions called by compiled programs."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

from mjaxlib_shim import arrays, executables, mlir
from mjaxlib_shim.arrays import PlainAval, to_numpy
from mjaxlib_shim.host_callbacks import HostCallbacks
from mjaxlib_shim.mlir import func, hlo, ir

F4 = np.arange(4, dtype=np.float32)
ELEMENTS = {"float32": "F32Type", "float64": "F64Type", "bfloat16": "BF16Type"}


def element_type(dtype):
    if dtype.name in ELEMENTS:
        return getattr(ir, ELEMENTS[dtype.name]).get()
    bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if dtype.kind == "u":
        return ir.IntegerType.get_unsigned(bits)
    return ir.IntegerType.get_signless(bits)


def type_of(entry):
    if entry is None:
        return hlo.TokenType.get()
    return ir.RankedTensorType.get(entry[0], element_type(entry[1]))


@pytest.fixture
def build(client, device):
    """`build(main, ins, outs)`: compiles a module whose main is emitted by `main`."""

    def build(main, ins, outs):
        callbacks = HostCallbacks()
        with mlir.new_context() as context, ir.Location.unknown(context):
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("main", ir.FunctionType.get(
                    [type_of(s) for s in ins], [type_of(s) for s in outs]))
            function.attributes["sym_visibility"] = ir.StringAttr.get("public")
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                func.ReturnOp(main(callbacks, *block.arguments))
            module.operation.verify()
            return executables.compile_module(
                client, module, [device], host_callbacks=callbacks.kept)

    return build


@pytest.fixture
def emit(client):
    """`emit(callbacks, f, operands, ins, outs)`: a call of `f`."""

    def emit(callbacks, f, operands, ins, outs, has_side_effect=False):
        return callbacks.emit(f, operands, ins, outs, [type_of(s) for s in outs],
                              has_side_effect=has_side_effect, client=lambda: client)

    return emit


F = ((4,), np.dtype(np.float32))
AVAL = PlainAval((4,), F4.dtype)


def test_results_come_back(build, emit, put, call):
    seen = []

    def triple(x):
        seen.append(x)
        return (x * 3,)

    program = build(lambda cbs, x: emit(cbs, triple, [x], [F], [F]), [F], [F])
    for i in range(3):
        (y,) = call(program, [put(F4 + i)], [AVAL])
        np.testing.assert_array_equal(to_numpy(y), 3 * (F4 + i))
    assert [type(x) for x in seen] == [np.ndarray] * 3
    np.testing.assert_array_equal(seen[0], F4)  # kept, and still what it was


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.int64, np.float64,
                                   ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
def test_dtypes_and_shapes(build, emit, put, call, dtype, shape):
    dtype = np.dtype(dtype)
    x = np.ones(shape, dtype)
    entry = (shape, dtype)
    program = build(lambda cbs, v: emit(cbs, lambda a: (np.asarray(a),), [v], [entry], [entry]),
                    [entry], [entry])
    (y,) = call(program, [put(x)], [PlainAval(shape, dtype)])
    assert to_numpy(y).dtype == dtype
    np.testing.assert_array_equal(to_numpy(y), x)


def test_several_functions_and_results(build, emit, put, call):
    def main(cbs, x):
        (a,) = emit(cbs, lambda v: (v + 1,), [x], [F], [F])
        return emit(cbs, lambda v, w: (v + w, v - w), [a, x], [F, F], [F, F])

    program = build(main, [F], [F, F])
    total, difference = call(program, [put(F4)], [AVAL, AVAL])
    np.testing.assert_array_equal(to_numpy(total), 2 * F4 + 1)
    np.testing.assert_array_equal(to_numpy(difference), np.ones(4))


def test_what_a_function_raises_ends_the_execution(build, emit, put, call):
    def fail(x):
        raise KeyError("not-there")

    program = build(lambda cbs, x: emit(cbs, fail, [x], [F], [F]), [F], [F])
    with pytest.raises(arrays.XlaRuntimeError, match="not-there"):
        (y,) = call(program, [put(F4)], [AVAL])
        to_numpy(y)


def test_calls_without_results_stay_if_they_have_a_side_effect(build, emit, put, call):
    seen = []

    def note(x):
        seen.append(float(x[1]))
        return ()

    def main(cbs, x):
        emit(cbs, note, [x], [F], [], has_side_effect=True)
        return [x]

    program = build(main, [F], [F])
    results = program.execute_sharded([put(F4)], with_tokens=True)
    results.consume_token().block_until_ready()
    assert seen == [1.0]


def test_tokens_order_calls_in_a_program_and_between_programs(build, emit, put, device):
    seen = []

    def note(tag):
        def f(token, x):
            assert token is None
            seen.append((tag, float(x[0])))
            return (None,)
        return f

    def main(cbs, token, x):
        for tag in "ab":
            (token,) = emit(cbs, note(tag), [token, x], [None, F], [None], has_side_effect=True)
        return [token]

    program = build(main, [None, F], [None])
    flag = PlainAval((0,), np.dtype(bool))
    handler = arrays.result_handler(flag, arrays.single_device_sharding(device), True)
    token = put(np.zeros(0, bool))
    for i in range(3):
        (token,) = program.execute_sharded([token, put(F4 + i)]).consume_with_handlers([handler])
    token.block_until_ready()
    assert seen == [(tag, float(i)) for i in range(3) for tag in "ab"]


def test_programs_with_callbacks_are_done_when_they_have_been_called(build, emit, put, device):
    """So does jaxlib run them from 0.5 on, and the shim makes 0.4.36 do so."""
    seen = []

    def slow(x):
        time.sleep(0.05)
        seen.append(float(x[1]))
        return (x,)

    square = ((40, 40), np.dtype(np.float32))
    costly = np.ones((40, 40), np.float32)

    def main(cbs, x, a):
        contract = hlo.DotDimensionNumbers.get([], [], [1], [0])
        product = hlo.dot_general(type_of(square), a, a, contract)
        return [*emit(cbs, slow, [x], [F], [F]), product]

    program = build(main, [F, square], [F, square])
    handlers = [arrays.result_handler(PlainAval(*entry), arrays.single_device_sharding(device),
                                      True) for entry in (F, square)]
    for with_tokens in (False, True):
        results = program.execute_sharded([put(F4), put(costly)], with_tokens=with_tokens)
        assert seen.pop() == 1.0
        results.consume_with_handlers(handlers)
        if with_tokens:
            results.consume_token().block_until_ready()
    assert [module.name for module in program.hlo_modules()]
