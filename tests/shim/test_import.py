"""The modules that `import mjaxlib_shim` loads, and others."""

from __future__ import annotations


def test_every_module_without_jax_mlir_or_scipy(run_python):
    def body():
        import sys

        import mjaxlib_shim.arrays
        import mjaxlib_shim.custom_calls
        import mjaxlib_shim.executables
        import mjaxlib_shim.profiler
        import mjaxlib_shim.shardings
        import mjaxlib_shim.tracebacks
        import mjaxlib_shim.trees  # noqa: F401
        from mjaxlib_shim import client, mlir

        names = set(sys.modules)
        assert "jaxlib.xla_client" in names
        assert not {"jax", "scipy", "packaging"} & names
        assert not {name for name in names if name.startswith("jaxlib.mlir")}
        assert not {name for name in names if name.startswith("jaxlib.lapack")}
        # The proxies answer for the first attribute.
        assert mlir.ir.Context is mlir.ir.Context
        assert "jaxlib.mlir.ir" in sys.modules and "jax" not in sys.modules
        client.cpu_client()
        assert "jax" not in sys.modules and "scipy" not in sys.modules

    run_python(body)


def test_a_whole_program_without_jax(run_python):
    def body():
        import sys

        import numpy as np

        from mjaxlib_shim import arrays, client, executables, mlir, tracebacks  # noqa: F401

        cpu = client.cpu_client()
        device = cpu.local_devices()[0]
        sharding = arrays.single_device_sharding(device)
        aval = arrays.PlainAval((2,), np.dtype(np.float64))
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(
                "func.func public @main(%a: tensor<2xf64>) -> tensor<2xf64> {"
                "  %0 = stablehlo.add %a, %a : tensor<2xf64>"
                "  return %0 : tensor<2xf64> }"
            )
        program = executables.compile_module(cpu, module, [device])
        x = arrays.put(np.array([1.0, 2.0]), aval, sharding, device)
        handler = arrays.result_handler(aval, sharding, True)
        (y,) = program.execute_sharded([x]).consume_with_handlers([handler])
        assert arrays.to_numpy(y).tolist() == [2.0, 4.0]
        assert not {name for name in sys.modules if name.partition(".")[0] in ("jax", "scipy")}

    result = run_python(body)
    assert result.stderr == ""


def test_names():
    import mjaxlib_shim as shim

    assert sorted(shim.__all__) == sorted(set(shim.__all__))
    assert all(hasattr(shim, name) for name in shim.__all__)
    assert issubclass(shim.JaxlibVersionError, ImportError)
    assert issubclass(shim.JaxlibMissingError, ImportError)


def test_every_module_exports_what_it_has():
    import importlib
    import pkgutil

    import mjaxlib_shim

    for info in pkgutil.iter_modules(mjaxlib_shim.__path__):
        module = importlib.import_module(f"mjaxlib_shim.{info.name}")
        assert module.__doc__, info.name
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        assert not missing, info.name


def test_modules_are_short():
    import ast
    import pathlib

    import mjaxlib_shim

    for file in pathlib.Path(mjaxlib_shim.__path__[0]).glob("*.py"):
        text = file.read_text()
        lines = {i for i, line in enumerate(text.splitlines(), 1) if line.strip()}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (
                    ast.get_docstring(node)):
                lines -= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
        assert len(lines) <= 240, file.name
