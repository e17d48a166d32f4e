"""Sources of equations and tracebacks: as interpreters of users set them and read them."""

from __future__ import annotations

import operator
import os
import sys
import traceback

import pytest

import mjax
from mjax import lax
from mjax_ext import core, source_info_util, traceback_util
from mjax_ext.source_info_util import NameStack, SourceInfo, new_name_stack


def stacks(f, *args):
    """The texts of the name stacks of the equations of a function."""
    return [str(eqn.source_info.name_stack) for eqn in mjax.make_jaxpr(f)(*args).eqns]


def again(jaxpr):
    """A function that applies the equations of a program again, with their sources."""

    def run(*args):
        env = dict(zip(jaxpr.invars, args, strict=True))
        read = lambda v: v.val if isinstance(v, core.Literal) else env[v]
        for eqn in jaxpr.eqns:
            names = source_info_util.current_name_stack() + eqn.source_info.name_stack
            with source_info_util.user_context(eqn.source_info.traceback, name_stack=names), \
                    eqn.ctx.manager:
                out = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
            env[eqn.outvars[0]] = out
        return read(jaxpr.outvars[0])

    return run


def two(x):
    with mjax.named_scope("a"):
        y = lax.sin(x)
    return lax.cos(y)


LINE = two.__code__.co_firstlineno + 2


def test_equations_that_are_applied_again_have_their_sources():
    jaxpr = mjax.make_jaxpr(two)(1.0)
    copy = mjax.make_jaxpr(again(jaxpr))(1.0)
    for eqn, line in zip(copy.eqns, (LINE, LINE + 1), strict=True):
        assert source_info_util.summarize(eqn.source_info) == f"{__file__}:{line} (two)"
    assert [str(e.source_info.name_stack) for e in copy.eqns] == ["a", ""]
    with_outer = mjax.named_call(again(jaxpr), name="outer")
    assert stacks(with_outer, 1.0) == ["outer/a", "outer"]
    assert stacks(lambda x: mjax.jvp(again(jaxpr), (x,), (x,))[0], 1.0)[0] == "jvp(a)"


def test_a_program_may_have_the_source_of_the_call_that_evaluates_it():
    jaxpr = mjax.make_jaxpr(two)(1.0)

    def lines(**options):
        copy = mjax.make_jaxpr(lambda x: core.eval_jaxpr(jaxpr, [], x, **options))(1.0)
        return [source_info_util.summarize(eqn.source_info) for eqn in copy.eqns]

    assert lines() == [f"{__file__}:{line} (two)" for line in (LINE, LINE + 1)]
    assert all(__file__ in line and "two" not in line
               for line in lines(propagate_source_info=False))


def test_the_innermost_frame_is_the_last_line_of_a_summary():
    def inner():
        return source_info_util.current()

    first = inner.__code__.co_firstlineno
    lines = source_info_util.summarize(inner(), num_frames=2).splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        f"{__file__}:{first + 4}", f"{__file__}:{first + 1}"]
    assert source_info_util.summarize(source_info_util.new_source_info()) == "<unknown source>"


def test_stacks_of_names():
    stack = new_name_stack("a").extend("b").transform("jvp").extend("c")
    assert str(stack) == "a/b/jvp(c)" and len(stack) == 4 and stack[0] == "a"
    assert str(stack.transform("vmap").transform("jvp")) == "a/b/jvp(c)/vmap(jvp())"
    assert str(new_name_stack("x") + stack) == "x/a/b/jvp(c)" == str(("x",) + stack)
    assert type(stack[1:]) is NameStack and str(stack[2:]) == "jvp(c)"
    assert new_name_stack() == () == NameStack()
    assert new_name_stack().transform("jvp") != new_name_stack("jvp")
    assert hash(stack) == hash(new_name_stack("a").extend("b").transform("jvp").extend("c"))
    info = SourceInfo(None).replace(name_stack=stack)
    assert info.name_stack is stack and info.replace() == info
    marked = core.new_jaxpr_eqn([], [], core.primitives.sin_p, {}, source_info=info)
    assert marked.source_info.name_stack == ("a", "b", "jvp(c)")


def test_scopes_are_opened_and_closed():
    def f(x):
        with source_info_util.extend_name_stack("a") as stack:
            assert str(stack) == "a" == str(source_info_util.current_name_stack())
            y = lax.sin(x)
            with source_info_util.transform_name_stack("t"), mjax.named_scope("b"):
                y = lax.sin(y)
                assert str(source_info_util.current_name_stack()) == "a/t(b)"
                with source_info_util.reset_name_stack():
                    y = lax.sin(y)
                with source_info_util.set_name_stack(new_name_stack("z").transform("u")):
                    y = lax.sin(y)
                    with mjax.named_scope("c"):
                        y = lax.sin(y)
                y = source_info_util.extend_name_stack("d")(lax.sin)(y)
        return lax.sin(y)

    assert stacks(f, 1.0) == ["a", "a/t(b)", "", "z/u()", "z/u(c)", "a/t(b)/d", ""]
    assert source_info_util.current_name_stack() == ()


def test_scopes_know_the_transformations_inside_of_them():
    def f(x):
        with mjax.named_scope("outer"):
            return mjax.vmap(lambda y: source_info_util.extend_name_stack("inner")(lax.sin)(y))(x)

    assert stacks(f, mjax.numpy.ones(2)) == ["outer/vmap(inner)"]
    seen = []
    mjax.vmap(mjax.named_call(lambda x: seen.append(str(
        source_info_util.current_name_stack())) or x, name="in"))(mjax.numpy.ones(2))
    assert seen == ["in"]


def test_a_traceback_is_kept_within_scopes():
    eqn = mjax.make_jaxpr(two)(1.0).eqns[0]

    def f(x):
        with source_info_util.user_context(eqn.source_info.traceback):
            with mjax.named_scope("n"):
                y = lax.cos(x)
            with source_info_util.extend_name_stack("e"):
                z = lax.cos(y)
            with source_info_util.user_context(None, name_stack=new_name_stack("s")):
                return lax.cos(z)

    eqns = mjax.make_jaxpr(f)(1.0).eqns
    assert [str(e.source_info.name_stack) for e in eqns] == ["n", "e", "s"]
    lines = [source_info_util.summarize(e.source_info) for e in eqns]
    assert lines[1:] == [f"{__file__}:{LINE} (two)"] * 2


def test_errors_say_where_the_equation_came_from():
    eqn = mjax.make_jaxpr(two)(1.0).eqns[0]
    context = lambda: source_info_util.user_context(eqn.source_info.traceback)
    with pytest.raises(ZeroDivisionError) as caught, context(), context():
        operator.floordiv(1, 0)
    notes = [n for n in caught.value.__notes__ if n.startswith("Raised by an operation")]
    assert notes == [f"Raised by an operation that was applied at {__file__}:{LINE} (two)."]
    with pytest.raises(ZeroDivisionError) as caught, source_info_util.user_context(None):
        operator.floordiv(1, 0)
    assert not hasattr(caught.value, "__notes__")


# ---- tracebacks --------------------------------------------------------------------------


def library(tmp_path):
    """A function of a module outside of the tests, which calls its argument."""
    path = tmp_path / "somebodys.py"
    path.write_text("def call(f, *args):\n    return f(*args)\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return str(path), names["call"]


def files(tb):
    return [os.path.basename(frame.filename) for frame in traceback.extract_tb(tb)]


def test_files_of_libraries_are_left_out(tmp_path):
    path, call = library(tmp_path)
    here, there = os.path.basename(__file__), "somebodys.py"

    def fail():
        raise ValueError("mine")

    wrapped = traceback_util.api_boundary(lambda: call(fail), repro_api_name="wrapped")
    for shown in (True, False):
        with pytest.raises(ValueError) as caught:
            call(fail)
        assert files(caught.value.__traceback__) == [here, there, here]
        kept = traceback_util.filter_traceback(caught.value.__traceback__)
        assert files(kept) == ([here, there, here] if shown else [here, here])
        with pytest.raises(ValueError) as caught:
            wrapped()
        assert (there in files(caught.value.__traceback__)) is shown
        assert traceback_util.include_frame(call(sys._getframe)) is shown
        assert traceback_util.include_frame(sys._getframe())
        eqn = mjax.make_jaxpr(lambda x: call(lax.sin, x))(1.0).eqns[0]
        assert (path in source_info_util.summarize(eqn.source_info)) is shown
        traceback_util.register_exclusion(path)
    assert source_info_util.register_exclusion is traceback_util.register_exclusion
