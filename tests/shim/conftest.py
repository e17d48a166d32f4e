"""Fixtures of the shim's tests: one CPU client, small modules, and subprocesses."""

from __future__ import annotations

import inspect
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from mjaxlib_shim import arrays, executables, mlir
from mjaxlib_shim import client as clients

ROOT = pathlib.Path(__file__).parents[2]

ADD = """
module @jit_add {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


@pytest.fixture(scope="session")
def client():
    return clients.cpu_client()


@pytest.fixture(scope="session")
def device(client):
    return client.local_devices()[0]


@pytest.fixture(scope="session")
def put(device):
    """`put(value, copy=...)`: a NumPy array to the first device."""

    def put(value, copy="during_call"):
        value = np.asarray(value)
        aval = arrays.PlainAval(value.shape, value.dtype)
        sharding = arrays.single_device_sharding(device)
        return arrays.put(value, aval, sharding, device, copy=copy)

    return put


@pytest.fixture(scope="session")
def parse():
    """`parse(text)`: an ir.Module in this thread's context."""

    def parse(text):
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(text)
            module.operation.verify()
        return module

    return parse


@pytest.fixture(scope="session")
def add(client, device, parse):
    """A compiled program: float32[4], float32[4] -> their sum."""
    return executables.compile_module(client, parse(ADD), [device])


@pytest.fixture(scope="session")
def call(device):
    """`call(exe, buffers, avals)`: runs a program on one device."""

    def call(executable, buffers, avals):
        sharding = arrays.single_device_sharding(device)
        handlers = [arrays.result_handler(aval, sharding, True) for aval in avals]
        return executable.execute_sharded(buffers).consume_with_handlers(handlers)

    return call


@pytest.fixture
def run_python():
    """`run_python(body, ...)`: runs a function without arguments, by its source, elsewhere.

    Some things are once per process: the number of devices, which imports have happened.
    """

    def run_python(body, *, devices=None, path=(), arguments=(), **environment):
        code = textwrap.dedent(inspect.getsource(body)) + f"\n{body.__name__}()\n"
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, path), str(ROOT), *_python_path()])
        inherited = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
        if devices is not None:
            environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *arguments],
            env={**inherited, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result

    def _python_path():
        return [entry for entry in [os.environ.get("PYTHONPATH")] if entry]

    return run_python
