"""Listeners: what they are told, in which order, and how they are taken back."""

import numpy as np
import pytest

import mjax
from mjax import monitoring


@pytest.mark.parametrize("record, register, unregister, args", [
    (monitoring.record_event, monitoring.register_event_listener,
     monitoring.unregister_event_listener, ()),
    (monitoring.record_event_duration_secs, monitoring.register_event_duration_secs_listener,
     monitoring.unregister_event_duration_listener, (0.5,)),
    (monitoring.record_event_time_span, monitoring.register_event_time_span_listener,
     monitoring.unregister_event_time_span_listener, (1.0, 2.0)),
    (monitoring.record_scalar, monitoring.register_scalar_listener,
     monitoring.unregister_scalar_listener, (7,))])
def test_listeners(record, register, unregister, args):
    heard = []

    def first(*args, **kwargs):
        heard.append(("first", args, kwargs))

    def second(*args, **kwargs):
        heard.append(("second", args, kwargs))
        unregister(second)  # while others are told

    register(second)
    register(first)
    record("/a", *args, size=3)
    assert heard == [(name, ("/a", *args), {"size": 3}) for name in ("second", "first")]
    record("/b", *args)
    assert heard[2:] == [("first", ("/b", *args), {})]
    unregister(first)
    record("/c", *args)
    assert len(heard) == 3
    with pytest.raises(ValueError, match="is not registered"):
        unregister(first)


def test_programs_are_named_as_jax_names_them():
    heard = []

    def f(x):
        return x * 2

    def listen(event, *_, fun_name):
        heard.append((event.rpartition("/")[2], fun_name))

    monitoring.register_event_duration_secs_listener(listen)
    monitoring.register_event_time_span_listener(listen)
    try:
        mjax.jit(f)(np.ones(3, np.float32))
    finally:
        monitoring.unregister_event_duration_listener(listen)
        monitoring.unregister_event_time_span_listener(listen)
    assert heard[::2] == heard[1::2] == [
        ("jaxpr_trace_duration", "f"), ("jaxpr_to_mlir_module_duration", "jit(f)"),
        ("backend_compile_duration", "jit(f)")]


def test_clear():
    heard = []
    for register in (monitoring.register_event_listener, monitoring.register_scalar_listener):
        register(lambda *args, **_: heard.append(args))
    monitoring.clear_event_listeners()
    monitoring.record_event("/a")
    monitoring.record_scalar("/a", 1)
    assert heard == []
