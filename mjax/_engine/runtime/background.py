"""Programs that call Python run in the background: a slow callback holds up only who waits for it.

On a CPU jaxlib runs a program with Python callbacks while it is called (0.5.3 and newer; on
0.4.36 the shim waits, which reads of a failed program need). So each thread that calls such
programs has a worker, a thread that runs them in the order of their calls and uses the tokens of
the thread that it works for. Results are arrays whose buffers come when their program has run.

Some run while they are called, after what their thread has in its background: programs that a
callback calls, those that donate, stop at a breakpoint or run over several devices, and all of
them where the flag `cpu_enable_async_dispatch` is off.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from mjax._engine.base.context import ctx
from mjax._engine.ir.jaxpr import Jaxpr, subjaxprs
from mjax._engine.runtime.array import Array, Placement, before_deletion
from mjax._engine.runtime.pending import PendingArray, Promise
from mjax._engine.runtime.tokens import ThreadTokens, local
from mjax._engine.runtime.turns import here

#: So many programs may wait in the background of a thread before it waits for the oldest.
_MOST = 64
#: Those that may still read their arguments.
_unfinished: set[Job] = set()


class Job(Promise):
    """A program with its arguments, to be run in the background.

    Attributes:
      future: done when it has run, whether it failed or not.
    """

    __slots__ = ("_compute", "_error", "_tokens", "_told", "_traceback", "_unfilled", "future")
    future: Future[None]

    def __init__(self, compute: Callable[[], Sequence[Any]], tokens: ThreadTokens):
        self._compute: Any = compute
        self._tokens = tokens
        self._unfilled: list[weakref.ref[PendingArray]] = []
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._told = False

    def results(self, placements: Sequence[Placement]) -> list[Array]:
        """The arrays that it will fill, unless they are gone by then."""
        arrays = [PendingArray(self, placement) for placement in placements]
        self._unfilled = list(map(weakref.ref, arrays))
        return list[Array](arrays)

    def run(self) -> None:
        """Runs it and fills the arrays of its results; called by the worker."""
        try:
            buffers = self._compute()
        except BaseException as error:
            self._error, self._traceback = error, error.__traceback__
            self._tokens.failed.append(self)
        else:
            for reference, buffer in zip(self._unfilled, buffers, strict=True):
                array = reference()
                if array is not None:
                    array.fill(buffer)
        finally:
            self._compute = None  # before it is discarded, for who is about to add it
            _unfinished.discard(self)

    @property
    def has_run(self) -> bool:
        """Whether it needs its arguments no more."""
        return self._compute is None

    def wait(self) -> None:
        """Waits until it has run.

        Raises:
          RuntimeError: it is the worker that asks, in a callback, and would wait for ever.
        """
        if local.works and local.tokens is self._tokens and not self.future.done():
            msg = ("a Python callback reads the result of a program that runs when the callback "
                   "is done, and would wait for ever: pass values to callbacks as arguments, or "
                   "switch mjax.config.cpu_enable_async_dispatch off.")
            raise RuntimeError(msg)
        self.future.result()

    def is_done(self) -> bool:
        """Whether it has run."""
        return self.future.done()

    def check(self) -> None:
        """Waits, and raises what the program raised."""
        self.wait()
        if self._error is not None:
            self._told = True
            raise self._error.with_traceback(self._traceback)

    def block_until_ready(self) -> None:
        """As a token: raises what nobody was told before."""
        self.wait()
        if not self._told:
            self.check()


def holds_caller(jaxpr: Jaxpr) -> bool:
    """Whether a program calls a Python function that is to hold up who calls the program."""
    functions = (getattr(e.params.get("callback"), "function", None) for e in jaxpr.eqns)
    return any(getattr(f, "holds_caller", False) for f in functions) or any(
        map(holds_caller, subjaxprs(jaxpr)))


def in_background(compute: Callable[..., Sequence[Any]], placements: Sequence[Placement]
                  ) -> Callable[..., list[Array]]:
    """A function that lets the worker of its thread compute.

    Args:
      compute: gives the buffers of the results.
      placements: of the results.
    """

    def start(*args: Any) -> list[Array]:
        if local.works or here.in_callback or not ctx.options.cpu_enable_async_dispatch:
            return list(map(Array, compute(*args), placements))
        tokens = local.tokens
        job = Job(functools.partial(compute, *args), tokens)
        arrays = job.results(placements)
        while len(tokens.jobs) >= _MOST:
            tokens.jobs.popleft().wait()
        if local.worker is None:
            local.worker = ThreadPoolExecutor(1, "mjax-callbacks", local.work_for, (tokens,))
        try:
            job.future = local.worker.submit(job.run)
        except RuntimeError:  # the interpreter is about to exit
            return list(map(Array, compute(*args), placements))
        _unfinished.add(job)
        if job.has_run:
            _unfinished.discard(job)
        tokens.jobs.append(job)
        return arrays

    return start


def wait_for_readers() -> None:
    """Waits for programs of any thread that may still read their arguments, before some of
    these are deleted; not in a callback, which one of the programs waits for."""
    if _unfinished and not (local.works or here.in_callback):
        for job in list(_unfinished):
            job.wait()


before_deletion.append(wait_for_readers)


def after_readers(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute_sharded` of a program that deletes arguments."""

    def waiting(buffers: Sequence[Any], with_tokens: bool = False) -> Any:
        if _unfinished:
            wait_for_readers()
        return execute(buffers, with_tokens=with_tokens)

    return waiting
