"""Host values among the arguments of short calls: NumPy arrays, and Python's and NumPy's scalars.

A transfer takes jaxlib 3 µs, as long as a small program. So programs on a CPU read small values
from staging buffers: memory of the device that a call writes, and that the next call may write once
the results of this one are computed. No result shares it, because programs copy arguments that they
return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.runtime.arrays.placement import Placement
from mjax._engine.runtime.arrays.transfer import SCALARS, from_scalar, host, own_scalar
from mjax._engine.runtime.dispatch.forms import maker
from mjaxlib_shim import guards
from mjaxlib_shim.memory import writable_view

#: Takes buffers of all arguments to the results.
Run = Callable[[list[Any]], Any]
#: The most bytes of a staging buffer; the transfer of a larger array is mostly its copy.
_MOST_BYTES = 2**14
#: The most results of a program per staging buffer: asking twelve takes as long as a transfer.
_MOST_RESULTS = 8


def is_host_value(value: Any) -> bool:
    """Whether a value is not on a device yet."""
    return type(value) is np.ndarray or type(value) in SCALARS


def with_host_values(run: Run, values: Sequence[Any]) -> Run:
    """A function like `run` that takes host values in some places. It changes the list it is given.

    Args:
      run: a function of the list of the buffers of all arguments.
      values: arguments of a call: buffers, and host values in these places.

    Values are written to staging buffers if `run` has an attribute `stages`: the number of results,
    and what makes the runner that says when all are computed. Then the program, on a CPU, has read
    all arguments.
    """
    staging: Any = getattr(run, "stages", (0, None))
    results, stages = staging
    places = [(i, *_transfer_of(value)) for i, value in enumerate(values) if is_host_value(value)]
    puts = [(i, put) for i, put, _ in places]

    def transferred(values: list[Any]) -> Any:
        for i, put in puts:
            values[i] = put(values[i])
        return run(values)

    small = [(i, value, placement) for (i, _, placement), value in zip(
        places, filter(is_host_value, values)) if stages and _fits(value, placement)]
    if not small or results > _MOST_RESULTS * len(small):
        return transferred
    return _staged(stages(), transferred, small, [
        (i, put) for i, put in puts if i not in {j for j, _, _ in small}])


def _transfer_of(value: Any) -> tuple[Callable[[Any], Any], Placement]:
    """The function that transfers values of the type of this one, and their placement."""
    if type(value) is np.ndarray:
        return host(value)
    placement = from_scalar(value)._placement
    if _is_rounded(value, placement):
        return (lambda value: from_scalar(float(value))._buffer), placement
    return (lambda value: from_scalar(value)._buffer), placement


def _is_rounded(value: Any, placement: Placement) -> bool:
    """Whether a value is a double of NumPy that arrays do not hold. It is passed as Python's:
    NumPy would warn in each call if it is too large."""
    return type(value) is np.float64 and value.dtype != placement.aval.dtype


def _fits(value: Any, placement: Placement) -> bool:
    """Whether a value can be written to a staging buffer: NumPy's own dtypes are as on devices."""
    aval = placement.aval
    if isinstance(value, np.integer) and value.dtype != aval.dtype:
        return False  # assignment refuses an int64 beyond int32, which transfers wrap around
    return bool(aval.dtype.isbuiltin == 1 and aval.dtype.kind in "biufc"
                and 0 < aval.size * aval.dtype.itemsize <= _MOST_BYTES)


def _staged(run: Callable[..., Any], transferred: Run, small: Sequence[tuple[int, Any, Placement]],
            puts: Sequence[tuple[int, Callable[[Any], Any]]]) -> Run:
    """`with_host_values` for programs that read some of them from staging buffers.

    Args:
      run: takes the buffers, and what to call when the results are computed, with its argument.
      transferred: the function that transfers all values.
      small: the places of small values, with values of their types, and their placements.
      puts: the places of values that are transferred, and the functions that do.
    """
    #: Tuples of the memories and the buffers of all places, which no call uses.
    free: list[tuple[Any, ...]] = []
    owners = [(i, host(value)[0] if type(value) is np.ndarray else
               _own_rounded if _is_rounded(value, placement) else _own_buffer,
               type(value) in (bool, int, float) or _is_rounded(value, placement), placement.aval)
              for i, value, placement in small]
    writes = "".join(f"""
    m{i}[...] = values[{i}]
    values[{i}] = b{i}""" for i, *_ in small)
    transfers = "".join(f"""
    values[{i}] = p{i}(values[{i}])""" for i, _ in puts)
    text = f"""
def make(take, give_back, first, transferred, is_guarded, run, puts):
  {"".join(f"p{i}, " for i, _ in puts) or "()"} = puts
  def staged(values):
    try:
      slots = take()
    except IndexError:
      return first(values)
    if is_guarded("host_to_device"):  # jaxlib logs or refuses transfers
      give_back(slots)
      return transferred(values)
    {"".join(f"m{i}, b{i}, " for i, *_ in small)} = slots{writes}{transfers}
    return run(values, give_back, slots)
  return staged
"""

    def first(values: list[Any]) -> Any:
        """Transfers the values to buffers that become staging buffers."""
        for i, put in puts:
            values[i] = put(values[i])
        for i, put, _, _ in owners:
            values[i] = put(values[i])
        return run(values, keep, values)

    def keep(buffers: list[Any]) -> None:
        """Makes staging buffers of the buffers of a call."""
        free.append(tuple([part for i, _, python, aval in owners for part in (
            _memory_of(buffers[i], aval, python), buffers[i])]))

    staged: Run = maker(text)(free.pop, free.append, first, transferred, guards.is_guarded, run,
                              [put for _, put in puts])
    return staged


def _own_buffer(value: Any) -> Any:
    """A scalar in a buffer of its own; guards do not apply, as in `from_scalar`."""
    with guards.unguarded():
        return own_scalar(value)._buffer


def _own_rounded(value: Any) -> Any:
    """`_own_buffer` for doubles that are rounded."""
    return _own_buffer(float(value))


def _memory_of(buffer: Any, aval: Any, python: bool) -> Any:
    """The memory of a buffer. That of a scalar passed as Python's is a memoryview, which rounds
    floats to infinity without a warning, as the transfer does."""
    memory = writable_view(buffer, aval.shape, aval.dtype)
    return memoryview(memory.data) if python else memory
