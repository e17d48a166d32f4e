"""Compile, run, ask, store."""

from __future__ import annotations

import numpy as np
import pytest

from mjaxlib_shim import arrays, executables
from mjaxlib_shim.arrays import PlainAval, to_numpy

F4 = np.arange(4, dtype=np.float32)
AVAL = PlainAval((4,), F4.dtype)


def test_compile_and_run(add, put, call):
    x = put(F4)
    (y,) = call(add, [x, x], [AVAL])
    np.testing.assert_array_equal(to_numpy(y), 2 * F4)
    assert y.aval is AVAL
    assert isinstance(add, executables.LoadedExecutable)


def test_tokens(add, put, device):
    x = put(F4)
    results = add.execute_sharded([x, x], with_tokens=True)
    handler = arrays.result_handler(AVAL, arrays.single_device_sharding(device), False)
    (y,) = results.consume_with_handlers([handler])
    results.consume_token().block_until_ready()
    assert not y._committed


def test_several_results_of_several_dtypes(client, device, parse, put, call):
    module = parse(
        "func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf64>, tensor<4xi1>, tensor<bf16>) {"
        "  %0 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xf64>"
        "  %1 = stablehlo.compare LT, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"
        "  %2 = stablehlo.constant dense<1.5> : tensor<bf16>"
        "  return %0, %1, %2 : tensor<4xf64>, tensor<4xi1>, tensor<bf16> }"
    )
    import ml_dtypes

    avals = [
        PlainAval((4,), np.dtype(np.float64)),
        PlainAval((4,), np.dtype(bool)),
        PlainAval((), np.dtype(ml_dtypes.bfloat16)),
    ]
    program = executables.compile_module(client, module, [device])
    results = [to_numpy(buffer) for buffer in call(program, [put(F4)], avals)]
    assert [result.dtype for result in results] == [aval.dtype for aval in avals]
    assert results[0].tolist() == [0, 1, 2, 3]
    assert not results[1].any() and results[2] == 1.5


def test_bad_program_is_a_runtime_error(client, device, parse):
    module = parse("func.func public @not_main() { return }")
    with pytest.raises(RuntimeError):
        executables.compile_module(client, module, [device])


def test_wrong_number_of_arguments(add, put):
    with pytest.raises((arrays.XlaRuntimeError, ValueError)):
        add.execute_sharded([put(F4)])


# ---------------------------------------------------------------- options


def test_options_reach_xla(client, device, parse):
    module = parse(
        "func.func public @main(%a: tensor<f32>) -> tensor<f32> {return %a: tensor<f32>}"
    )
    good = {"xla_cpu_enable_fast_math": True}
    executables.compile_module(client, module, [device], options=good)
    with pytest.raises(RuntimeError, match="xla_no_such_flag"):
        executables.compile_module(client, module, [device], options={"xla_no_such_flag": 1})


def test_flags_fields_and_unknown_names(device):
    settings = executables.compile_options(
        [device],
        options={
            "xla_cpu_enable_fast_math": False,
            "allow_spmd_sharding_propagation_to_output": [True],
            "profile_version": 3,
        },
    )
    assert list(settings.env_option_overrides) == [("xla_cpu_enable_fast_math", False)]
    build = settings.executable_build_options
    assert list(build.allow_spmd_sharding_propagation_to_output) == [True]
    assert settings.profile_version == 3
    assert not build.use_spmd_partitioning
    with pytest.raises(executables.UnknownOptionError, match="unknown compile option .xlacpu."):
        executables.compile_options([device], options={"xlacpu": 1})


def test_number_of_devices(device):
    with pytest.raises(ValueError, match="1 replicas of 2 partitions need 2 devices, not 1"):
        executables.compile_options([device], num_partitions=2)
    for counts in ((0, 1), (1, 0), (-1, -1)):  # C++ would end the process
        numbers = dict(zip(("num_replicas", "num_partitions"), counts, strict=True))
        with pytest.raises(ValueError, match=f"at least 1, not {counts[0]} and {counts[1]}"):
            executables.compile_options([], **numbers)
        with pytest.raises(ValueError, match="must be at least 1"):
            executables.any_compile_options(None, **numbers)
    for shape in ((0, 0), (1, 0), (2, 2), (1,)):
        with pytest.raises(ValueError, match="ids of the devices have shape"):
            executables.any_compile_options(
                np.zeros(shape, np.int32), num_replicas=1, num_partitions=1)


# ---------------------------------------------------------------- questions


def test_analyses(add):
    assert executables.cost_analysis(add)["flops"] == 4
    assert executables.memory_analysis(add).argument_size_in_bytes == 32
    assert "add(" in executables.hlo_text(add)


def test_has_collectives(add, client, parse):
    module = parse(
        "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {"
        '  %0 = "stablehlo.all_reduce"(%a) ({'
        "    ^bb0(%x: tensor<f32>, %y: tensor<f32>):"
        "      %s = stablehlo.add %x, %y : tensor<f32>"
        "      stablehlo.return %s : tensor<f32>"
        "  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}"
        "  : (tensor<4xf32>) -> tensor<4xf32>"
        "  return %0 : tensor<4xf32> }"
    )
    devices = client.devices()[:2]
    assert executables.has_collectives(
        executables.compile_module(client, module, devices, num_replicas=2)
    )
    assert not executables.has_collectives(add)
    assert executables.output_shardings(add) is None or executables.output_shardings(add)
    assert executables.parameter_shardings(add) is None or executables.parameter_shardings(add)


def test_serialize(client, device, add, put, call):
    data = executables.serialize(client, add)
    assert isinstance(data, bytes)
    again = executables.deserialize(client, data, [device])
    x = put(F4)
    (y,) = call(again, [x, x], [AVAL])
    np.testing.assert_array_equal(to_numpy(y), 2 * F4)


# ---------------------------------------------------------------- several devices


def test_second_device_and_replicas(run_python):
    def body():
        import numpy as np

        from mjaxlib_shim import arrays, client, executables, mlir, shardings

        cpu = client.cpu_client()
        devices = cpu.local_devices()
        text = """
        func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.add %a, %a : tensor<2xf32>
          return %0 : tensor<2xf32> }"""
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(text)
        aval = arrays.PlainAval((2,), np.dtype(np.float32))
        value = np.array([1, 2], np.float32)

        second = arrays.single_device_sharding(devices[1])
        program = executables.compile_module(cpu, module, devices[1:])
        assert program.local_devices() == devices[1:]
        again = executables.deserialize(cpu, executables.serialize(cpu, program), devices[1:])
        for p in (program, again):
            x = arrays.put(value, aval, second, devices[1])
            handler = arrays.result_handler(aval, second, True)
            (y,) = p.execute_sharded([x]).consume_with_handlers([handler])
            assert arrays.to_numpy(y).tolist() == [2, 4]
            assert y._sharding is second

        cut = shardings.gspmd_sharding(devices, shardings.tiled([2]))
        whole = arrays.PlainAval((4,), np.dtype(np.float32))
        program = executables.compile_module(cpu, module, devices, num_replicas=2)
        x = arrays.put_shards([value, value + 2], whole, cut, devices)
        handler = arrays.result_handler(whole, cut, True)
        (y,) = program.execute_sharded([x]).consume_with_handlers([handler])
        # By shard: from 0.11.2 on jaxlib has its own idea of a replicated program's result.
        assert [arrays.to_numpy(s).tolist() for s in arrays.shards(y)] == [[2, 4], [6, 8]]

    run_python(body, devices=2)


def test_shardy(run_python):
    def body():
        import numpy as np

        from mjaxlib_shim import arrays, client, executables, mlir, shardings

        cpu = client.cpu_client()
        devices = cpu.local_devices()
        text = """
        module @jit_sum attributes {mhlo.num_partitions = 2 : i32} {
          sdy.mesh @mesh = <["x"=2]>
          func.func public @main(
              %a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
              -> (tensor<4xf32>, tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
            %0 = stablehlo.add %a, %a : tensor<4xf32>
            %1 = sdy.manual_computation(%a)
                in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>]
                manual_axes={"x"} (%b: tensor<2xf32>) {
              %2 = "stablehlo.all_reduce"(%b) ({
                ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                  %s = stablehlo.add %x, %y : tensor<f32>
                  stablehlo.return %s : tensor<f32>
              }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
                  channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
                  use_global_device_ids} : (tensor<2xf32>) -> tensor<2xf32>
              sdy.return %2 : tensor<2xf32>
            } : (tensor<4xf32>) -> tensor<2xf32>
            return %0, %1 : tensor<4xf32>, tensor<2xf32>
          }
        }"""
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(text)
        program = executables.compile_module(
            cpu,
            module,
            devices,
            num_partitions=2,
            options={"allow_spmd_sharding_propagation_to_output": [True, False]},
        )
        chosen = executables.output_shardings(program)
        assert chosen == [shardings.tiled([2]), shardings.replicated()]
        assert executables.parameter_shardings(program) == [shardings.tiled([2])]

        long, short = (arrays.PlainAval((n,), np.dtype(np.float32)) for n in (4, 2))
        cut, same = (shardings.gspmd_sharding(devices, sharding) for sharding in chosen)
        value = np.arange(4, dtype=np.float32)
        x = arrays.put_shards([value[:2], value[2:]], long, cut, devices)
        outputs = [(long, cut), (short, same)]
        handlers = [arrays.result_handler(aval, sharding, True) for aval, sharding in outputs]
        y, total = program.execute_sharded([x]).consume_with_handlers(handlers)
        assert arrays.to_numpy(y).tolist() == [0, 2, 4, 6]
        assert arrays.to_numpy(total).tolist() == [2, 4]

    run_python(body, devices=2)
