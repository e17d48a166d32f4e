"""Lazy MLIR and contexts."""

from __future__ import annotations

import threading
import types

import pytest

from mjaxlib_shim import mlir
from mjaxlib_shim.mlir import chlo, func, hlo, ir, sdy


@pytest.mark.parametrize(
    ("proxy", "name"),
    [
        (ir, "Context"),
        (func, "FuncOp"),
        (hlo, "AddOp"),
        (chlo, "ErfOp"),
        (sdy, "MeshOp"),
        (mlir.passmanager, "PassManager"),
    ],
)
def test_proxies(proxy, name):
    assert type(proxy) is types.ModuleType
    assert getattr(proxy, name).__name__ == name
    assert name in vars(proxy)
    # CPython specializes attribute reads on modules, unless they have a __getattr__.
    assert "__getattr__" not in vars(proxy)
    with pytest.raises(AttributeError, match="no_such_op"):
        proxy.no_such_op  # noqa: B018


def test_questions_do_not_load():
    proxy = mlir._lazy("no.such.module")
    assert not hasattr(proxy, "__path__") and not hasattr(proxy, "__wrapped__")
    with pytest.raises(ImportError):
        proxy.anything  # noqa: B018


def test_context_per_thread():
    mine = mlir.context()
    assert mlir.context() is mine
    seen = []
    thread = threading.Thread(target=lambda: seen.append(mlir.context()))
    thread.start()
    thread.join()
    assert seen[0] is not mine
    assert mlir.new_context() is not mine
    assert isinstance(mine, ir.Context)


def test_build_and_bytecode():
    with mlir.context(), ir.Location.unknown():
        module = ir.Module.create()
        f32 = ir.RankedTensorType.get([2], ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ir.FunctionType.get([f32], [f32]))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            (x,) = block.arguments
            func.ReturnOp([chlo.erf(hlo.add(x, x))])
        assert module.operation.verify()
        data = mlir.bytecode(module)
        assert data.startswith(b"ML\xefR")
        assert str(ir.Module.parse(data)) == str(module)


def test_all_dialects_parse():
    text = """
    module {
      sdy.mesh @mesh = <["x"=1]>
      func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<2xf32>
        %1 = chlo.erf_inv %0 : tensor<2xf32> -> tensor<2xf32>
        %2 = stablehlo.add %1, %1 : tensor<2xf32>
        return %2 : tensor<2xf32>
      }
    }"""
    with mlir.new_context(), ir.Location.unknown():
        assert ir.Module.parse(text).operation.verify()


def test_passes():
    mlir.register_passes()
    mlir.register_passes()
    text = """
    func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.erf_inv %a : tensor<2xf32> -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    with mlir.context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passes = "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize,cse)"
        mlir.passmanager.PassManager.parse(passes).run(module.operation)
    assert "chlo." not in str(module)


def test_errors_carry_the_location():
    with mlir.context(), ir.Location.unknown(), pytest.raises(ir.MLIRError, match="here"):
        ir.Module.parse('module { "stablehlo.add"() : () -> () loc("here") }')


def test_contexts_of_threads_do_not_meet():
    """Building, parsing and passes in several threads at once, each in a context of its own."""
    mlir.register_passes()
    results = []

    def work(n):
        for _ in range(5):
            with mlir.new_context(), ir.Location.unknown():
                module = ir.Module.parse(
                    f"func.func public @main(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{\n"
                    f"%0 = chlo.erf_inv %a : tensor<{n}xf32> -> tensor<{n}xf32>\n"
                    f"return %0 : tensor<{n}xf32> }}")
                passes = "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize)"
                mlir.passmanager.PassManager.parse(passes).run(module.operation)
                results.append((n, f"tensor<{n}xf32>" in str(module), "chlo." in str(module)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, True, False) for n in range(1, 5) for _ in range(5)]


def test_accuracies_that_do_not_exist_are_refused():
    """They ended the process."""
    with mlir.new_context(), pytest.raises(ValueError, match="'HIGH' is not one of HIGHEST, DEF"):
        mlir.result_accuracy("HIGH")
