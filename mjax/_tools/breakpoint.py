"""`debug.breakpoint`: a prompt inside of compiled programs.

When the function is traced, the frames that led to the call are recorded, with their places and
locals. Traced locals are passed to a `debug.callback`. When the program runs, the prompt shows the
frames with values in place of tracers.
"""

from __future__ import annotations

import cmd
import linecache
import sys
import threading
from collections.abc import Callable, Sequence
from pprint import pformat
from types import FrameType
from typing import Any

from mjax._engine.base.errors import UnexpectedTracerError
from mjax._engine.base.folding import boundary, is_engine_file
from mjax._engine.base.records import Record
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir.pytree import tree_flatten, tree_unflatten
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.effects.callbacks import debug_callback, pure_callback
from mjax._engine.tracing.interpreter import Tracer, check_alive

#: The number of lines shown before the current one, and one more than after it.
_AROUND = 3


class _Traced(Record):
    """A local that holds traced values.

    Attributes:
      tree: its structure.
      leaves: its leaves, without the traced ones.
      places: leaf -> its place among all traced values.
    """

    tree: Any
    leaves: list[Any]
    places: dict[int, int]

    def filled(self, values: Sequence[Any]) -> Any:
        """The local with values in place of tracers."""
        return tree_unflatten(self.tree, [
            values[self.places[i]] if i in self.places else leaf
            for i, leaf in enumerate(self.leaves)])


class _Frame(Record):
    """A frame as it was when the function was traced."""

    file: str
    function: str
    line: int
    source: list[str]
    globals: dict[str, Any]
    locals: dict[str, Any]

    def filled(self, values: Sequence[Any]) -> _Frame:
        """The frame with values in place of tracers."""
        return self._replace(locals={
            name: v.filled(values) if type(v) is _Traced else v for name, v in self.locals.items()})

    def listing(self) -> str:
        """The lines around the current one."""
        first = max(1, self.line - _AROUND)
        lines = self.source[first - 1:self.line + _AROUND - 1]
        return "\n".join([f"> {self.file}({self.line}) {self.function}", *(
            f"{'->' if n == self.line else '  '} {n:4}  {text.rstrip()}"
            for n, text in enumerate(lines, first))])


def _capture(frame: FrameType | None, filter_frames: bool, num_frames: int | None,
             values: list[Any]) -> list[_Frame]:
    """Records frames, innermost first; appends traced values to `values`."""
    found: list[_Frame] = []
    known: dict[int, int] = {}
    while frame is not None and (num_frames is None or len(found) <= num_frames):
        code = frame.f_code
        if not (filter_frames and is_engine_file(code.co_filename)):
            found.append(_Frame(
                code.co_filename, code.co_name, frame.f_lineno,
                linecache.getlines(code.co_filename, frame.f_globals), frame.f_globals,
                {name: _captured(v, known, values) for name, v in frame.f_locals.items()}))
        frame = frame.f_back
    return found


def _captured(local: Any, known: dict[int, int], values: list[Any]) -> Any:
    """A local as it is, or a `_Local` to fill in when the program runs."""
    try:
        leaves, tree = tree_flatten(local)
    except Exception:  # any exception: the local is kept as it is
        return local
    places = {}
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tracer):
            place = known.get(id(leaf))
            if place is None:
                try:
                    check_alive(leaf)
                except UnexpectedTracerError:
                    continue
                place = known[id(leaf)] = len(values)
                values.append(leaf)
            places[i] = place
    if not places:
        return local
    return _Traced(tree, [None if i in places else leaf for i, leaf in enumerate(leaves)], places)


class _Prompt(cmd.Cmd):
    """Reads commands until one continues the program.

    Args:
      frames: innermost first.
      stdin: the stream of commands.
      stdout: the stream of answers.
    """

    prompt = "(mjdb) "
    doc_header = "Commands (help <command>; anything else is evaluated):"

    def __init__(self, frames: list[_Frame], stdin: Any, stdout: Any):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is sys.__stdin__
        self.frames = frames
        self.depth = 0

    @property
    def frame(self) -> _Frame:
        """The current frame."""
        return self.frames[self.depth]

    def say(self, text: str) -> None:
        """Answers."""
        print(text, file=self.stdout)

    def evaluated(self, expression: str, show: Callable[[Any], str]) -> None:
        """Shows the value of an expression in the current frame, or its exception."""
        try:
            # One namespace: otherwise comprehensions would not see locals.
            value = eval(expression, {**self.frame.globals, **self.frame.locals})
            self.say(show(value))
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")

    def default(self, line: str) -> None:
        if line == "EOF":
            self.do_quit("")
        self.evaluated(line, repr)

    def emptyline(self) -> bool:
        return False

    def do_p(self, arg: str) -> None:
        """p expression: its value in the current frame."""
        self.evaluated(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression: its value, laid out in lines."""
        self.evaluated(arg, pformat)

    def do_locals(self, _: str) -> None:
        """locals: names and values of the current frame."""
        for name in self.frame.locals:
            self.evaluated(name, f"{name} = {{!r}}".format)

    def do_list(self, _: str) -> None:
        """l(ist): the lines around the current one."""
        self.say(self.frame.listing())

    def do_up(self, arg: str) -> None:
        """u(p) [count]: to the caller."""
        self._go(arg, 1)

    def do_down(self, arg: str) -> None:
        """d(own) [count]: back towards the breakpoint."""
        self._go(arg, -1)

    def _go(self, arg: str, sign: int) -> None:
        if arg and not arg.isdecimal():
            self.say(f"*** a number of frames, not {arg!r}")
            return
        depth = self.depth + sign * int(arg or 1)
        if not 0 <= depth < len(self.frames):
            self.say("*** this is the outermost frame" if sign > 0 else
                     "*** this is the innermost frame")
            return
        self.depth = depth
        self.say(self.frame.listing())

    def do_where(self, _: str) -> None:
        """w(here), bt: the frames, the innermost last; the current one is marked."""
        for i, frame in reversed(list(enumerate(self.frames))):
            text = frame.source[frame.line - 1:frame.line]
            self.say(f"{'>' if i == self.depth else ' '} {frame.file}({frame.line}) "
                     f"{frame.function}" + "".join(f"\n      {line.strip()}" for line in text))

    def do_continue(self, _: str) -> bool:
        """c(ontinue): lets the program go on."""
        return True

    def do_quit(self, _: str) -> None:
        """q(uit), or the end of the input: ends the program with SystemExit."""
        raise SystemExit(0)

    do_l, do_u, do_d, do_c, do_q = do_list, do_up, do_down, do_continue, do_quit
    do_w = do_bt = do_where


#: One prompt at a time, whichever threads programs run in.
_talking = threading.Lock()


@boundary
def breakpoint(*, backend: str | None = None, filter_frames: bool = True,
               num_frames: int | None = None, ordered: bool = False, token: Any = None,
               stdin: Any = None, stdout: Any = None) -> Any:
    """Stops a compiled program at a prompt that shows the calling frames with their values.

    Commands are `p` and `pp` (values of expressions), `locals`, `l` (the lines around), `u` and `d`
    (up and down the frames), `bt` or `w` (all frames), `c` (continue), `q` (end the program) and
    `help`. Anything else is evaluated. Under `vmap` the prompt comes for each element, in the order
    of the batch. Under differentiation it shows primals.

    Args:
      backend: "cli" or None.
      filter_frames: whether mjax's own frames are left out.
      num_frames: how many callers are shown; None: all.
      ordered: whether it comes in the program's order. Ordered ones cannot be batched.
      token: a pytree of arrays that the call returns. The prompt comes when they are computed, and
        only if the returned tree is used.
      stdin: a stream to read commands from, in place of the terminal.
      stdout: a stream for answers.

    Returns:
      `token`.

    Raises:
      ValueError: another `backend`, a negative `num_frames`, or `ordered` with a `token`.
      SystemExit: when the program runs: the user quits, or the input has ended.

    Example:
      >>> import io
      >>> @mjax.jit
      ... def f(x):
      ...   y = x * 2
      ...   mjax.debug.breakpoint(stdin=io.StringIO("p y + 1\\nc\\n"))
      ...   return y
      >>> _ = f(3)
      (mjdb) Array(7, dtype=int32)
      (mjdb)

    Source: the public interface of `jax.debug.breakpoint`.
    """
    if backend not in (None, "cli"):
        msg = f"debug.breakpoint: backend must be 'cli' or None, got {backend!r}."
        raise ValueError(msg)
    if num_frames is not None and num_frames < 0:
        msg = f"debug.breakpoint: num_frames must not be negative, got {num_frames}."
        raise ValueError(msg)
    if ordered and token is not None:
        msg = "debug.breakpoint: a token says when it comes; ordered=True does not go with one."
        raise ValueError(msg)
    values: list[Any] = []
    # This frame and that of its wrapper are not shown.
    frames = _capture(sys._getframe(2), filter_frames, num_frames, values)

    def talk(*values: Any) -> None:
        with _talking:
            _Prompt([f.filled(values) for f in frames], stdin or sys.stdin,
                    stdout or sys.stdout).cmdloop()

    talk.holds_caller = True  # type: ignore[attr-defined]
    if token is None:
        debug_callback(talk, *values, ordered=ordered)
        return None
    return _after(token, talk, values)


def _after(token: Any, talk: Callable[..., None], values: Sequence[Any]) -> Any:
    """The token, once the prompt has been answered."""
    leaves, tree = tree_flatten(token)

    @custom_jvp
    def through(leaves: Any, values: Any) -> Any:
        def call(leaves: Any, values: Any) -> Any:
            talk(*values)
            return leaves

        call.holds_caller = True  # type: ignore[attr-defined]
        return pure_callback(call, list(map(typeof, leaves)), leaves, values,
                             vmap_method="sequential")

    through.defjvp(lambda primals, tangents: (through(*primals), tangents[0]))
    return tree_unflatten(tree, through(leaves, list(values)))


__all__ = ["breakpoint"]
