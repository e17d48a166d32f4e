"""Profiles: files, ranges, errors, memory; what a bug report says."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import socket
import threading
import tomllib

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import profiler
from mjax._tools import profiling
from mjaxlib_shim import gates
from tests.processes import free_port


@profiler.annotate_function
def annotated(x):
    return jnp.sin(x).block_until_ready()


def test_a_trace(tmp_path):
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        with profiler.TraceAnnotation("a range of ours", size=3):
            annotated(np.ones(3, np.float32))
        with profiler.StepTraceAnnotation("a step", step_num=7):
            mjax.jit(lambda x: x + 1)(1.0)
    (profile,) = tmp_path.rglob("*.xplane.pb")
    data = profile.read_bytes()
    assert b"a range of ours" in data and b"a step" in data and b"annotated" in data
    (perfetto,) = tmp_path.rglob("perfetto_trace.json.gz")
    with gzip.open(perfetto) as file:
        content = json.load(file)
    assert "metadata" not in content
    events = {event.get("name") for event in content["traceEvents"]}
    assert {"a range of ours", "annotated"} <= events
    if gates.PROFILE_DATA.open:
        planes = profiler.ProfileData.from_file(str(profile)).planes
        names = {event.name for plane in planes for line in plane.lines for event in line.events}
        assert "a range of ours" in names
    else:
        with pytest.raises(NotImplementedError, match="needs jaxlib 0.7.1"):
            profiler.ProfileData.from_file(str(profile))


def test_one_trace_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="no profile is being recorded"):
        profiler.stop_trace()
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    profiler.start_trace(tmp_path, profiler_options=options)
    try:
        with pytest.raises(RuntimeError, match="a profile is being recorded"):
            profiler.start_trace(tmp_path)
    finally:
        profiler.stop_trace()
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_others_record_while_a_link_is_shown(tmp_path, monkeypatch):
    shown, opened = threading.Event(), threading.Event()

    def serve(file):
        shown.set()
        assert opened.wait(60)

    monkeypatch.setattr(profiling, "_serve_once", serve)
    profiler.start_trace(tmp_path / "first", create_perfetto_link=True)
    thread = threading.Thread(target=profiler.stop_trace, daemon=True)
    thread.start()
    assert shown.wait(60)
    second = threading.Thread(target=lambda: [profiler.start_trace(tmp_path / "second"),
                                              profiler.stop_trace()], daemon=True)
    second.start()
    second.join(60)
    assert not second.is_alive()
    opened.set()
    thread.join(60)
    assert list((tmp_path / "second").rglob("*.xplane.pb"))


def test_server():
    with pytest.raises(ValueError, match="no server runs"):
        profiler.stop_server()
    server = profiler.start_server(free_port())
    with pytest.raises(ValueError, match="only one server"):
        profiler.start_server(free_port())
    del server
    profiler.stop_server()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        for port, text in [(taken, f"port {taken} is taken"), (1 << 20, "write host:port")]:
            with pytest.raises((RuntimeError, ValueError), match=text):
                profiler.start_server(port)
    with pytest.raises(ValueError, match="no server runs"):
        profiler.stop_server()


def test_subprocesses_on_an_older_jaxlib():
    if not gates.PROFILED_SUBPROCESSES.open:
        with pytest.raises(NotImplementedError, match="needs jaxlib 0.10.1 or newer"):
            profiler.register_subprocess(1, 1)


def test_memory(tmp_path):
    x = jnp.ones((1000, 1000))
    assert len(gzip.decompress(profiler.device_memory_profile())) > 50
    profiler.save_device_memory_profile(tmp_path / "memory.prof", backend="cpu")
    assert gzip.decompress((tmp_path / "memory.prof").read_bytes())
    x.delete()


def test_environment_info(capsys, monkeypatch):
    monkeypatch.setenv("JAX_OF_OURS", "7")
    monkeypatch.setenv("JAX_LEGACY_PRNG_KEY", "warn")
    secrets = ("JAX_API_TOKEN", "XLA_SERVICE_KEY", "MJAX_PASSWORD")
    for name in secrets:
        monkeypatch.setenv(name, "abracadabra")
    text = mjax.print_environment_info(return_string=True)
    for part in (f"mjax:   {mjax.__version__}", f"numpy:  {np.__version__}", "process_count: 1",
                 f"{mjax.local_device_count()} local devices", "JAX_OF_OURS=7",
                 "JAX_LEGACY_PRNG_KEY=warn", os.uname().release,
                 *(f"{name}=<hidden>" for name in secrets)):
        assert part in text
    assert "abracadabra" not in text
    assert mjax.print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"


def test_version():
    project = tomllib.loads(
        (pathlib.Path(mjax.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert mjax.version.__version__ == mjax.__version__ == project["version"]
    assert mjax.version.__version_info__ == tuple(map(int, project["version"].split(".")))
