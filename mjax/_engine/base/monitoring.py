"""Events of tracing, lowering, compilation and caches, and their listeners.

Names of events are JAX's, so that listeners written for it work. Listeners are called in the thread
of the event, in the order in which they were registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]

TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"

_events: list[Listener] = []
_durations: list[Listener] = []
_spans: list[Listener] = []
_scalars: list[Listener] = []


def record_event(event: str, **kwargs: Any) -> None:
    """Tells the listeners of events that an event happened.

    Args:
      event: its name, like a path: `"/my_library/step"`.
      kwargs: further facts for the listeners, by name.

    Raises:
      Exception: a listener raises it; those registered after it are not called.

    Example:
      >>> from mjax import monitoring
      >>> seen = []
      >>> monitoring.register_event_listener(lambda event, **kwargs: seen.append((event, kwargs)))
      >>> monitoring.record_event('/my_library/step', number=3)
      >>> seen
      [('/my_library/step', {'number': 3})]
      >>> monitoring.clear_event_listeners()
    """
    for listener in tuple(_events):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tells the listeners of durations how many seconds something took.

    Args:
      event: the name of what happened, such as `"/my_library/load"`.
      duration: seconds.
      kwargs: metadata that listeners are given, too.

    Raises:
      Exception: a listener raises it; those registered after it are not called.

    Example:
      >>> from mjax import monitoring
      >>> seen = []
      >>> monitoring.register_event_duration_secs_listener(lambda event, s: seen.append(s))
      >>> monitoring.record_event_duration_secs("/my_library/step", 0.5)
      >>> seen
      [0.5]
      >>> monitoring.clear_event_listeners()
    """
    for listener in tuple(_durations):
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any
                           ) -> None:
    """Tells the listeners of time spans when something began and ended, as `time.time()` says.

    Args:
      event: the name of what happened.
      start_time: when it began, in seconds since the epoch.
      end_time: when it ended.
      kwargs: metadata that listeners are given, too.

    Raises:
      Exception: a listener raises it; those registered after it are not called.

    Example:
      >>> mjax.monitoring.record_event_time_span("/my/span", 1.0, 2.0)
    """
    for listener in tuple(_spans):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tells the listeners of scalars a number.

    Args:
      event: the name of the number.
      value: the number.
      kwargs: metadata that listeners are given, too.

    Raises:
      Exception: a listener raises it; those registered after it are not called.

    Example:
      >>> from mjax import monitoring
      >>> seen = []
      >>> monitoring.register_scalar_listener(lambda event, value: seen.append(value))
      >>> monitoring.record_scalar("/my_library/loss", 0.25)
      >>> seen
      [0.25]
      >>> monitoring.clear_event_listeners()
    """
    for listener in tuple(_scalars):
        listener(event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """`callback(event, **metadata)` is called for each `record_event`.

    Args:
      callback: the function.

    Example:
      >>> heard = []
      >>> listener = lambda event, **metadata: heard.append(event)
      >>> mjax.monitoring.register_event_listener(listener)
      >>> mjax.monitoring.record_event("/my/event")
      >>> mjax.monitoring.unregister_event_listener(listener)
      >>> heard
      ['/my/event']
    """
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """`callback(event, seconds, **metadata)` is called for each `record_event_duration_secs`.

    Args:
      callback: the function.

    Example:
      >>> heard = []
      >>> listener = lambda event, seconds, **metadata: heard.append(seconds)
      >>> mjax.monitoring.register_event_duration_secs_listener(listener)
      >>> mjax.monitoring.record_event_duration_secs("/my/event", 0.5)
      >>> mjax.monitoring.unregister_event_duration_listener(listener)
      >>> heard
      [0.5]
    """
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """`callback(event, start, end, **metadata)` is called for each `record_event_time_span`.

    Args:
      callback: the function.

    Example:
      >>> heard = []
      >>> listener = lambda event, start, end, **metadata: heard.append(end - start)
      >>> mjax.monitoring.register_event_time_span_listener(listener)
      >>> mjax.monitoring.record_event_time_span("/my/span", 1.0, 3.0)
      >>> mjax.monitoring.unregister_event_time_span_listener(listener)
      >>> heard
      [2.0]
    """
    _spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """`callback(event, value, **metadata)` is called for each `record_scalar`.

    Args:
      callback: the function.

    Example:
      >>> heard = []
      >>> listener = lambda event, value, **metadata: heard.append(value)
      >>> mjax.monitoring.register_scalar_listener(listener)
      >>> mjax.monitoring.record_scalar("/my/size", 3)
      >>> mjax.monitoring.unregister_scalar_listener(listener)
      >>> heard
      [3]
    """
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Undoes a `register_event_listener`.

    Args:
      callback: the function that was registered.

    Raises:
      ValueError: the function is not registered.

    Example:
      >>> listener = lambda event, **metadata: None
      >>> mjax.monitoring.register_event_listener(listener)
      >>> mjax.monitoring.unregister_event_listener(listener)
    """
    _remove(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Undoes a `register_event_duration_secs_listener`.

    Args:
      callback: the function that was registered.

    Raises:
      ValueError: the function is not registered.

    Example:
      >>> listener = lambda event, seconds, **metadata: None
      >>> mjax.monitoring.register_event_duration_secs_listener(listener)
      >>> mjax.monitoring.unregister_event_duration_listener(listener)
    """
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Undoes a `register_event_time_span_listener`.

    Args:
      callback: the function that was registered.

    Raises:
      ValueError: the function is not registered.

    Example:
      >>> listener = lambda event, start, end, **metadata: None
      >>> mjax.monitoring.register_event_time_span_listener(listener)
      >>> mjax.monitoring.unregister_event_time_span_listener(listener)
    """
    _remove(_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Undoes a `register_scalar_listener`.

    Args:
      callback: the function that was registered.

    Raises:
      ValueError: the function is not registered.

    Example:
      >>> listener = lambda event, value, **metadata: None
      >>> mjax.monitoring.register_scalar_listener(listener)
      >>> mjax.monitoring.unregister_scalar_listener(listener)
    """
    _remove(_scalars, callback)


def clear_event_listeners() -> None:
    """Forgets all listeners, of every kind.

    Example:
      >>> mjax.monitoring.clear_event_listeners()
    """
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()


def _remove(listeners: list[Listener], callback: Listener) -> None:
    if callback not in listeners:
        msg = f"{callback!r} is not registered as a listener of this kind of events."
        raise ValueError(msg)
    listeners.remove(callback)
