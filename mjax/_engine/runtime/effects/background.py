"""Runs programs that call Python in the background: a slow callback delays only those that wait.

On a CPU jaxlib runs a program with Python callbacks synchronously, within the call (0.5.3 and
newer; on 0.4.36 the shim waits, because reads of a failed program need it). So each thread that
calls such programs has a worker thread. It runs them in the order of their calls, and uses the
tokens of the thread that it works for. Results are arrays that get their buffers when the program
has run.

Some programs run synchronously: those that a callback calls, that donate, stop at a breakpoint or
run over several devices; and all of them if the flag `cpu_enable_async_dispatch` is off. If they
have ordered effects, the background programs of their thread come first.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr, subjaxprs
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.donation import ArgumentNames, refuse_same
from mjax._engine.runtime.arrays.placement import Placement
from mjax._engine.runtime.effects.pending import PendingArray, Promise
from mjax._engine.runtime.effects.tokens import ThreadTokens, local, settle_all
from mjaxlib_shim import arrays as shim
from mjaxlib_shim import guards

if TYPE_CHECKING:
    from concurrent.futures import Future

#: The most programs in the background of a thread before it waits for the oldest.
_MOST = 64
#: The most pairs of buffers compared one by one, which takes half as long as a set.
_FEW = 4
#: The jobs that may still read their arguments.
_unfinished: set[Job] = set()


class Job(Promise):
    """A program with its arguments, to be run in the background.

    Attributes:
      compute: computes the buffers of the results; None once it has run.
      buffers: the buffers that it reads; empty once it has run.
      tokens: the tokens of the thread that it is run for.
      future: done when it has run, even if it failed.
    """

    __slots__ = ("_context", "_error", "_told", "_unfilled", "buffers", "compute", "future",
                 "tokens")
    future: Future[None]

    def __init__(self, compute: Callable[..., Sequence[Any]], args: Sequence[Array],
                 constants: Sequence[Any], tokens: ThreadTokens):
        self.compute: Any = lambda: compute(*args)
        self._context = (contextvars.copy_context(), thread.settings, thread.options,
                         guards.levels())
        self.buffers = [*constants, *(arg._buffer for arg in args)]
        self.tokens = tokens
        self._unfilled: list[weakref.ref[PendingArray]] = []
        self._error: BaseException | None = None
        self._told = False

    def results(self, placements: Sequence[Placement]) -> list[Array]:
        """The arrays that it will fill, unless they have been freed by then."""
        arrays = [PendingArray(self, placement) for placement in placements]
        self._unfilled = list(map(weakref.ref, arrays))
        return list[Array](arrays)

    def run(self) -> None:
        """Runs it and fills the arrays of its results; called by the worker."""
        context, thread.settings, thread.options, levels = self._context
        guards.set_levels(levels)
        try:
            buffers = context.run(self.compute)
        except BaseException as error:
            # Without this frame, which refers to the job.
            trace = error.__traceback__
            self._error = error.with_traceback(trace.tb_next if trace else None)
            self.tokens.failed.append(self)
        else:
            for reference, buffer in zip(self._unfilled, buffers, strict=True):
                array = reference()
                if array is not None:
                    array.fill(buffer)
        finally:
            self.buffers = []
            self.compute = None  # before it is discarded, for a caller about to add it
            _unfinished.discard(self)

    def reads(self, buffers: Sequence[Any]) -> bool:
        """Whether one of these buffers, or its memory, is among its arguments."""
        mine = list(self.buffers)
        if not {id(buffer) for buffer in mine}.isdisjoint(map(id, buffers)):
            return True
        with contextlib.suppress(Exception):  # one was deleted, or its computation failed
            return not _addresses(mine).isdisjoint(_addresses(buffers))
        return False

    def wait(self) -> None:
        """Waits until it has run.

        Raises:
          RuntimeError: the worker itself waits, in a callback, which would never end.
        """
        if local.works and local.tokens is self.tokens and not self.future.done():
            msg = ("a Python callback reads the result of a program that can run only after the "
                   "callback, so it would wait forever: pass values to callbacks as arguments, or "
                   "switch mjax.config.cpu_enable_async_dispatch off.")
            raise RuntimeError(msg)
        self.future.result()

    def is_done(self) -> bool:
        """Whether it has run."""
        return self.future.done()

    def check(self) -> None:
        """Waits, and raises the error of the program."""
        self.wait()
        error = self._error
        if error is not None:
            self._told = True
            with contextlib.suppress(ValueError):
                self.tokens.failed.remove(self)
            trace = error.__traceback__
            try:
                raise error
            finally:
                error.__traceback__ = trace

    def block_until_ready(self) -> None:
        """Waits like a token: raises an error that was not raised before."""
        self.wait()
        if not self._told:
            self.check()


def holds_caller(jaxpr: Jaxpr) -> bool:
    """Whether a program calls a Python function that has to block the caller of the program."""
    functions = (getattr(e.params.get("callback"), "function", None) for e in jaxpr.eqns)
    return any(getattr(f, "holds_caller", False) for f in functions) or any(
        map(holds_caller, subjaxprs(jaxpr)))


def _addresses(buffers: Sequence[Any]) -> set[int]:
    return {shim.unsafe_pointer(shard) for buffer in buffers for shard in shim.shards(buffer)}


def in_background(compute: Callable[..., Sequence[Any]], placements: Sequence[Placement],
                  constants: Sequence[Any]) -> Callable[..., list[Array]]:
    """A function that lets the worker of its thread compute.

    Args:
      compute: computes the buffers of the results.
      placements: the placements of the results.
      constants: buffers that it reads in addition to those of its arguments.
    """

    def start(*args: Array) -> list[Array]:
        now = local.works or thread.in_callback or not thread.options.cpu_enable_async_dispatch
        if now or any([arg._buffer.is_deleted() for arg in args]):  # the call raises the error
            return list(map(Array, compute(*args), placements))
        tokens = local.tokens
        job = Job(compute, args, constants, tokens)
        arrays = job.results(placements)
        while len(tokens.jobs) >= _MOST:
            tokens.jobs[0].wait()
            tokens.jobs.popleft()
        if local.worker is None:
            # Loaded when first needed: it is 2 % of `import mjax`.
            futures = importlib.import_module("concurrent.futures")
            local.worker = futures.ThreadPoolExecutor(
                1, "mjax-callbacks", local.work_for, (tokens,))
        try:
            job.future = local.worker.submit(job.run)
        except RuntimeError:  # the interpreter is about to exit, or has no more threads
            local.worker = None
            return list(map(Array, compute(*args), placements))
        _unfinished.add(job)
        if job.compute is None:  # it has run, and does not need its arguments any more
            _unfinished.discard(job)
        tokens.jobs.append(job)
        return arrays

    return start


def wait_for_readers(buffers: Sequence[Any]) -> None:
    """Waits for programs of any thread that may still read buffers, before these are deleted.

    In a callback it does not wait for jobs of its own thread, which may include its own program.
    """
    if thread.in_callback and not local.works:
        return
    for job in list(_unfinished):
        if not (local.works and job.tokens is local.tokens) and job.reads(buffers):
            job.wait()


sockets.wait_for_readers = wait_for_readers


def before_donating(run: Callable[[Sequence[Any]], Any], names: ArgumentNames, kept: Sequence[int],
                    donated: Collection[int]) -> Callable[[Sequence[Any]], Any]:
    """A function of the buffers of all arguments, for a program that deletes some of them.

    It waits for programs that may still read these, and refuses calls with a donated argument that
    is given twice.

    Args:
      run: the function.
      names: the names of the program and its arguments.
      kept: the arguments that are passed.
      donated: those that are donated.
    """

    pairs = [(i, j) for j in kept for i in kept if i < j and (i in donated or j in donated)]

    def waiting(buffers: Sequence[Any]) -> Any:
        if _unfinished:
            wait_for_readers([buffers[i] for i in donated])
        if len({*map(id, buffers)}) < len(buffers):
            refuse_same(names, kept, [buffers[i] for i in kept], donated)
        return run(buffers)

    def waiting_few(buffers: Sequence[Any]) -> Any:
        if _unfinished:
            wait_for_readers([buffers[i] for i in donated])
        for i, j in pairs:
            if buffers[i] is buffers[j]:
                refuse_same(names, kept, [buffers[n] for n in kept], donated)
        return run(buffers)

    return waiting_few if len(pairs) <= _FEW else waiting


def _forget() -> None:
    """Clears the state in a forked process, which does not have the workers."""
    local.worker = None
    local.tokens.jobs.clear()
    _unfinished.clear()


os.register_at_fork(after_in_child=_forget)
# At this time executors, which callbacks may use, still take work.
threading._register_atexit(settle_all)  # type: ignore[attr-defined]
