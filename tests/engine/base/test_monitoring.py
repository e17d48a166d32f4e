"""Listeners: what they are told, in which order, and how they are taken back."""

import pytest

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


def test_clear():
    heard = []
    for register in (monitoring.register_event_listener, monitoring.register_scalar_listener):
        register(lambda *args, **_: heard.append(args))
    monitoring.clear_event_listeners()
    monitoring.record_event("/a")
    monitoring.record_scalar("/a", 1)
    assert heard == []
