"""The prompt inside of compiled programs, fed from a stream."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

X = np.arange(3, dtype="float32")
stop = mjax.debug.breakpoint
GLOBAL = "seen from everywhere"


@pytest.fixture(autouse=True)
def clean():
    mjax.effects_barrier()
    yield
    mjax.effects_barrier()


class Session:
    """A stream of commands, and what was answered to each."""

    def __init__(self, *commands):
        self.stdin, self.stdout = io.StringIO("".join(f"{c}\n" for c in commands)), io.StringIO()

    @property
    def streams(self):
        return {"stdin": self.stdin, "stdout": self.stdout}

    def answers(self):
        mjax.effects_barrier()
        return [a.strip("\n") for a in self.stdout.getvalue().split("(mjdb) ")[1:]]


TRANSFORMS = {
    "at once": lambda f: f,
    "jit": mjax.jit,
    "grad": mjax.grad,
    "jit grad": lambda f: mjax.jit(mjax.grad(f)),
    "grad jit": lambda f: mjax.grad(mjax.jit(f)),
    "jvp": lambda f: lambda x: mjax.jvp(f, (x,), (x,))[1],
    "checkpoint": mjax.checkpoint,
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("ordered", [False, True])
def test_locals_have_their_values_under_transformations(transform, ordered):
    session = Session("p float(y)", "p float(x + y)", "y.shape, float(names['z'])", "c")

    def f(x):
        y = 2 * x
        names = {"z": y + 1, "text": "no array"}
        stop(ordered=ordered, **session.streams)
        return y * names["z"]

    transform(f)(np.float32(3))
    assert session.answers() == ["6.0", "9.0", "((), 7.0)", ""]


def test_frames_can_be_walked():
    session = Session("p here", "u", "p outer", "p inner[0] + outer", "p x", "d", "p here", "u 2",
                      "p place", "d 2", "bt", "c")

    def called(here):
        stop(**session.streams)
        return here

    @mjax.jit
    def f(x):
        outer, inner = x + 1, [x * 10]
        return called(outer + inner[0])

    def main():
        place = "main"
        return f(np.float32(1)), place

    main()
    answers = session.answers()
    assert "12." in answers[0]
    assert answers[1].startswith(f"> {__file__}(") and ") f\n" in answers[1]
    assert any(line.startswith("->") and "called(outer + inner[0])" in line
               for line in answers[1].splitlines())
    assert "2." in answers[2] and "12." in answers[3] and "1." in answers[4]
    assert ") called\n" in answers[5] and "12." in answers[6]
    assert ") main\n" in answers[7] and answers[8] == "'main'"
    where = answers[10].splitlines()
    assert where[-2].startswith(">") and where[-2].endswith(" called")
    assert where[-1].strip() == "stop(**session.streams)"
    names = [line.split()[-1] for line in where if not line.startswith("      ")]
    assert names[-3:] == ["main", "f", "called"]
    assert not any("_engine" in line for line in where)


def test_ends_of_the_stack_and_what_makes_no_sense():
    session = Session("d", "u 1000", "u two", "p nope", "p 1 +", "nonsense here", "", "GLOBAL",
                      "[GLOBAL for _ in x]", "help", "help p", "c")

    def f(x):
        stop(num_frames=1, **session.streams)
        return x

    mjax.jit(f)(X)
    answers = session.answers()
    assert answers[:2] == ["*** this is the innermost frame", "*** this is the outermost frame"]
    assert answers[2] == "*** a number of frames, not 'two'"
    assert answers[3] == "*** NameError: name 'nope' is not defined"
    assert answers[4].startswith("*** SyntaxError") and answers[5].startswith("*** SyntaxError")
    assert answers[6] == "" and answers[7] == repr(GLOBAL) and answers[8] == repr([GLOBAL] * 3)
    assert "continue" in answers[9] and "quit" in answers[9]
    assert answers[10].startswith("p expression:")


def test_all_ways_to_look():
    session = Session("l", "list", "w", "where", "pp {'a': x}", "locals", "continue")

    def f(x):
        text = "local"
        stop(num_frames=0, **session.streams)
        return x, text

    mjax.jit(lambda x: f(x)[0])(X)
    listing, again, where, same, pretty, names, _ = session.answers()
    assert listing == again
    assert [line.split()[2:] for line in listing.splitlines() if line.startswith("->")] == [
        ["stop(num_frames=0,", "**session.streams)"]]
    assert where == same and len(where.splitlines()) == 2
    assert pretty == "{'a': Array([0., 1., 2.], dtype=float32)}"
    assert names.splitlines() == ["x = Array([0., 1., 2.], dtype=float32)", "text = 'local'",
                                  *[n for n in names.splitlines() if n.startswith("session = ")]]


def test_under_vmap_once_per_element():
    session = Session(*["p x", "c"] * 3)

    def f(x):
        stop(**session.streams)
        return x

    mjax.jit(mjax.vmap(f))(X)
    assert session.answers()[::2] == [f"Array({x}, dtype=float32)" for x in ("0.", "1.", "2.")]


def test_in_loops_and_branches():
    session = Session(*["p c", "c"] * 3, "p even", "c")

    def step(c, _):
        stop(ordered=True, **session.streams)
        return c + 1, None

    def branch(even):
        stop(ordered=True, **session.streams)
        return even

    f = mjax.jit(lambda x: lax.cond(x > 0, branch, lambda x: x, lax.scan(step, x, None, 3)[0]))
    assert f(2) == 5
    answers = session.answers()
    assert [a.split(",")[0] for a in answers[::2]] == [f"Array({n}" for n in (2, 3, 4, 5)]


@pytest.mark.parametrize("last", [["q"], ["quit"], []], ids=["q", "quit", "end of input"])
def test_quitting_ends_the_program(last):
    session = Session("p x", *last)
    seen = []

    @mjax.jit
    def f(x):
        stop(ordered=True, **session.streams)
        mjax.debug.callback(seen.append, x, ordered=True)
        return x

    with pytest.raises(SystemExit) as end:
        mjax.block_until_ready(f(X))
        mjax.effects_barrier()
    assert end.value.code == 0 and not seen
    assert f.lower(X) and mjax.jit(lambda x: x + 1)(1) == 2


def test_a_token_says_when():
    session = Session(*["p y", "c"] * 6)

    def f(x):
        y = jnp.sin(x)
        (y,) = stop(token=(y,), **session.streams)
        return y * 2

    for transform in (mjax.jit, lambda f: f):
        np.testing.assert_allclose(transform(f)(np.float32(1)), 2 * np.sin(1), rtol=1e-6)
        np.testing.assert_allclose(transform(mjax.grad(f))(np.float32(1)), 2 * np.cos(1),
                                   rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(f)(X[:2]), 2 * np.sin(X[:2]), rtol=1e-6)
    answers = session.answers()
    # The value of what is differentiated is not used by its compiled derivative: no prompt there.
    assert len(answers) == 10 and all(a.startswith("Array(0.8414") for a in answers[:6:2])
    mjax.jit(lambda x: (stop(token=x, **session.streams), x)[1])(np.float32(1))
    assert len(session.answers()) == 10


def test_several_threads_talk_one_after_the_other():
    sessions = [Session("p x", "c") for _ in range(4)]

    def work(i):
        def f(x):
            stop(**sessions[i].streams)
            return x

        mjax.jit(f)(np.int32(i))
        mjax.effects_barrier()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [s.answers()[0] for s in sessions] == [f"Array({i}, dtype=int32)" for i in range(4)]


def test_locals_of_any_kind():
    """Locals that cannot be flattened, and values of ended traces, are kept as they are."""
    session = Session("p mixed", "p type(leaked).__name__", "p type(same) is type(x)", "c")
    kept = []
    mjax.jit(lambda x: kept.append(x) or x)(X)

    @mjax.jit
    def f(x):
        mixed, leaked, same = {1: 2, "a": 3}, kept[0], (x, x, {"x": x})[0]
        stop(**session.streams)
        assert mixed[1] == 2 and leaked is kept[0] and same is x
        return x

    f(X)
    mixed, leaked, same, _ = session.answers()
    assert mixed == "{1: 2, 'a': 3}" and "Tracer" in leaked and same == "True"


@pytest.mark.parametrize("kwargs, text", [
    ({"backend": "web"}, "backend must be 'cli' or None, got 'web'"),
    ({"num_frames": -1}, "num_frames must not be negative, got -1"),
    ({"ordered": True, "token": 1.0}, "ordered=True does not go with one"),
])
def test_bad_arguments(kwargs, text):
    with pytest.raises(ValueError, match=f"debug.breakpoint: .*{text}"):
        mjax.debug.breakpoint(**kwargs)


def test_at_the_terminal():
    code = """
        import mjax
        @mjax.jit
        def f(x):
            y = x * 2
            mjax.debug.breakpoint()
            return y
        print("result", f(4))
    """
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], input="p y\nc\n",
                             capture_output=True, text=True, timeout=100, check=False,
                             env=os.environ)
    assert process.returncode == 0, process.stderr
    assert "Array(8, dtype=int32" in process.stdout and "result 8" in process.stdout
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], input="q\n",
                             capture_output=True, text=True, timeout=100, check=False,
                             env=os.environ)
    assert process.returncode == 0 and "result" not in process.stdout, process.stderr
