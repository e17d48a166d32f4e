"""Where equations come from: user frames, engine frames, no pinned locals."""

import gc
import sys
import weakref

import pytest

import mjax
from mjax import lax
from mjax._engine.base.folding import is_engine_file
from mjax._engine.ir import source
from mjax._engine.ir.source import (
    Frame,
    SourceInfo,
    current_traceback,
    source_info_of,
    summarize,
    user_frame,
    user_frames,
)


def line():
    return sys._getframe(1).f_lineno


def test_equations_know_the_users_line():
    lines = []

    def f(x):
        lines.append(line() + 1)
        y = lax.sin(x)
        lines.append(line() + 1)
        return lax.mul(y, y)

    eqns = mjax.make_jaxpr(f)(1.0).eqns
    frames = [user_frame(e.source) for e in eqns]
    assert [f.line for f in frames] == lines
    assert {f.file for f in frames} == {__file__} and {f.function.split(".")[-1]
                                                      for f in frames} == {"f"}
    assert summarize(eqns[0].source).startswith(f"{__file__}:{lines[0]} (")


@pytest.mark.parametrize("transform", [mjax.jit, mjax.vmap, mjax.grad,
                                       lambda f: lambda x: mjax.jvp(f, (x,), (x,)),
                                       lambda f: mjax.jit(mjax.grad(mjax.jit(f)))])
def test_lines_survive_transformations(transform):
    def f(x):
        return lax.sin(lax.reshape(x, ()) if x.shape else x)

    first = f.__code__.co_firstlineno + 1
    value = lax.full((2,), 1.0) if transform is mjax.vmap else 1.0

    def eqns(jaxpr):
        for e in jaxpr.eqns:
            yield e
            if "jaxpr" in e.params:
                yield from eqns(e.params["jaxpr"])

    found = [user_frame(e.source) for e in eqns(mjax.make_jaxpr(transform(f))(value))
             if e.primitive.name in ("sin", "cos")]
    assert found and {f.line for f in found} == {first} and {f.file for f in found} == {__file__}


def test_callers_are_listed_innermost_first():
    def inner(x):
        return lax.sin(x)

    def outer(x):
        return inner(x)

    frames = user_frames(mjax.make_jaxpr(outer)(1.0).eqns[0].source)
    assert [f.function.split(".")[-1] for f in frames[:3]] == [
        "inner", "outer", "test_callers_are_listed_innermost_first"]
    assert not any(is_engine_file(f.file) for f in frames) and type(frames[0]) is Frame


def test_what_has_no_source():
    assert user_frames(None) == [] and user_frame(None) is None
    assert summarize(None) == "<unknown source>"
    assert source_info_of(None) == SourceInfo(None, ())


def test_source_info_carries_names():
    traceback = current_traceback()
    info = SourceInfo(traceback, ("outer", "inner"))
    assert source_info_of(info) is info and source_info_of(traceback) == SourceInfo(traceback)
    assert user_frame(info).file == __file__
    eqn = mjax.make_jaxpr(lax.sin)(1.0).eqns[0]
    assert type(eqn.source_info) is SourceInfo and eqn.source_info.name_stack == ()


def test_engine_files():
    assert is_engine_file(source.__file__) and is_engine_file(lax.__file__)
    assert is_engine_file(sys.modules["mjaxlib_shim"].__file__)
    assert not is_engine_file(__file__) and not is_engine_file("<stdin>")
    assert not is_engine_file("/home/user/mjax_project/model.py")


def test_locals_of_the_user_are_not_kept_alive():
    class Big:
        pass

    refs = []

    def f(x):
        big = Big()
        refs.append(weakref.ref(big))
        return lax.sin(x)

    jaxpr = mjax.make_jaxpr(f)(1.0)
    gc.collect()
    assert jaxpr.eqns and refs[0]() is None
