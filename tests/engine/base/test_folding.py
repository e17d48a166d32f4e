"""Tracebacks that users see: engine frames left out, the user's kept in order."""

import dataclasses
import pickle
import traceback

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.config import traceback_filtering
from mjax._engine.base.folding import boundary, fold, is_engine_file, register_exclusion
from mjax_ext import core


def files(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def caught(f, *args):
    try:
        f(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def wrong(x):
    return lax.add(x, lax.full((3,), 1.0)) if x.shape == (2,) else lax.dot(x, "text")


TRANSFORMED = [
    mjax.jit(wrong), mjax.vmap(wrong), mjax.grad(wrong), mjax.make_jaxpr(wrong),
    lambda x: mjax.jvp(wrong, (x,), (x,)), lambda x: mjax.vjp(wrong, x),
    lambda x: mjax.linearize(wrong, x), lambda x: mjax.eval_shape(wrong, x),
    mjax.jacfwd(wrong), mjax.jacrev(mjax.jit(wrong)), mjax.jit(mjax.vmap(mjax.grad(wrong))),
]


@pytest.mark.parametrize("f", TRANSFORMED)
def test_no_engine_frames_remain(f):
    error = caught(f, lax.full((4, 4), 1.0))
    assert not [file for file in files(error) if is_engine_file(file)]
    assert functions(error)[-1] == "wrong"


def test_the_note_is_added_once():
    error = caught(mjax.jit(mjax.vmap(mjax.jit(wrong))), lax.full((4, 4), 1.0))
    notes = [n for n in error.__notes__ if "MJAX_TRACEBACK_FILTERING=off" in n]
    assert len(notes) == 1


def test_filtering_can_be_turned_off():
    with traceback_filtering("off"):
        error = caught(mjax.jit(wrong), lax.full((4, 4), 1.0))
    assert [file for file in files(error) if is_engine_file(file)]
    assert not getattr(error, "__notes__", [])


def test_errors_of_users_pass_as_they_are():
    class Mine(Exception):
        pass

    mine = Mine("text")

    def f(x):
        raise mine

    error = caught(mjax.jit(mjax.grad(f)), 1.0)
    assert error is mine and functions(error)[-1] == "f" and str(error) == "text"


def test_user_frames_between_engine_frames_are_kept_in_order():
    def inner(x):
        return lax.dot(x, "text")

    def outer(x):
        return mjax.vmap(inner)(x)

    names = functions(caught(mjax.jit(outer), lax.full((4, 4), 1.0)))
    assert [n for n in names if n in ("outer", "inner")] == ["outer", "inner"]


def test_fold_without_engine_frames_changes_nothing():
    error = caught(lambda: 1 / 0)
    before = error.__traceback__
    fold(error)
    assert error.__traceback__ is before and not getattr(error, "__notes__", [])


def test_boundary_keeps_name_and_signature():
    @boundary
    def f(x, *, y=2):
        """Says."""
        return x, y

    assert f(1, y=3) == (1, 3) and f.__name__ == "f" and f.__doc__ == "Says."


def test_base_exceptions_are_left_alone():
    @boundary
    def f():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as info:
        f()
    assert not getattr(info.value, "__notes__", [])


def test_files_may_be_declared_engine_code(tmp_path):
    path = tmp_path / "library" / "part.py"
    path.parent.mkdir()
    path.write_text("def call(f, *args):\n    return f(*args)\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    f = mjax.jit(lambda x: scope["call"](wrong, x))
    assert str(path) in files(caught(f, lax.full((4, 4), 1.0)))
    register_exclusion(str(path.parent))
    assert is_engine_file(str(path)) and not is_engine_file(__file__)
    assert str(path) not in files(caught(f, lax.full((4, 4), 1.0)))


def test_siblings_of_a_declared_folder_are_not_engine_code(tmp_path):
    register_exclusion(str(tmp_path / "lib"))
    register_exclusion(str(tmp_path / "one.py"))
    assert is_engine_file(str(tmp_path / "lib" / "a.py")) and is_engine_file(
        str(tmp_path / "one.py"))
    assert not is_engine_file(str(tmp_path / "library.py"))


def test_derivatives_as_functions_fold_too():
    for derivative in (mjax.vjp(lax.sin, 1.0)[1], mjax.linearize(lax.sin, 1.0)[1]):
        assert set(files(caught(derivative, np.ones(3, np.float32)))) == {__file__}


def test_methods_of_arrays_fold():
    x, dead = jnp.arange(3.0), jnp.ones(3)
    dead.delete()
    leaked = []
    mjax.vmap(lambda y: leaked.append(y) or y)(x)

    def raises(value):
        raise ValueError("text")

    def failed():
        return mjax.jit(lambda y: mjax.pure_callback(
            raises, mjax.ShapeDtypeStruct((), "float32"), y))(1.0)

    def assigns(y):
        y[0] = 1.0

    for f, *args in [
            (lambda: x + jnp.ones(4),), (lambda: jnp.ones(4) @ x,), (lambda: np.ones(4) + x,),
            (assigns, x), (list, x[0]), (float, x), (int, x), (complex, x),
            (bool, x), (np.zeros(3).__getitem__, x), (lambda: x.item(),), (str, dead),
            (np.asarray, dead), (lambda: dead.tolist(),), (pickle.dumps, dead),
            (lambda: f"{x:.2f}",), (float, leaked[0]), (bool, leaked[0]), (np.asarray, leaked[0]),
            (lambda: leaked[0].item(),)]:
        error = caught(f, *args)
        assert not [file for file in files(error) if is_engine_file(file)], f
    for read in (str, float, bool, np.asarray, mjax.block_until_ready,
                 lambda y: y.block_until_ready(), lambda y: y.item()):
        error = caught(lambda read=read: read(failed()))
        assert str(error) == "text" and functions(error)[-1] == "raises"
        assert not [file for file in files(error) if is_engine_file(file)], read


def test_trees_meshes_flags_and_primitives_fold():
    @dataclasses.dataclass
    class Pair:
        a: int
        b: int

    mesh = mjax.make_mesh((1,), ("i",))
    leaves, treedef = mjax.tree.flatten((1, 2))
    for f in [
            lambda: jnp.nothing, lambda: lax.nothing, lambda: len(jnp.float32(1)),
            lambda: mjax.jit(len)(1.0), lambda: mjax.default_matmul_precision("hi"),
            lambda: mjax.config.update("mesh", None), lambda: jnp.float32("x"),
            lambda: jnp.result_type("nothing"), lambda: lax.dtype("nothing"),
            lambda: pickle.dumps(jnp.ones(2).sharding),
            lambda: mjax.tree.map(lambda x, y: x, {"a": 1}, {"b": 1}),
            lambda: mjax.tree.map(lambda x: 1 / x, [0]), lambda: mjax.tree.leaves({1: 2, "a": 3}),
            lambda: mjax.tree.unflatten(treedef, [1]), lambda: mjax.tree.structure({1: 2, "a": 3}),
            lambda: mjax.tree.transpose(treedef, treedef, leaves),
            lambda: mjax.tree_util.register_dataclass(Pair, ["a"], []),
            lambda: mjax.tree_util.register_pytree_node(dict, None, None),
            lambda: mjax.sharding.Mesh(mjax.devices(), ("a", "b")),
            lambda: mjax.NamedSharding(mesh, mjax.P("j")), lambda: mjax.NamedSharding(mesh, "i"),
            lambda: mjax.devices("text"), lambda: mjax.config.update("enable_x64", "text"),
            lambda: mjax.config.enable_x65, lambda: core.Primitive("text").bind(1.0)]:
        error = caught(f)
        assert not [file for file in files(error) if is_engine_file(file)], error


def test_lookups_that_the_engine_missed_are_not_shown():
    def of_shape(x, n):
        return jnp.tile(x, n)

    @mjax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda residuals, g: g)
    for call in (lambda: mjax.jit(of_shape)(jnp.ones(3), 2), lambda: mjax.grad(f)(1.0),
                 lambda: mjax.random.normal(mjax.random.key(0), dtype=int)):
        error = caught(call)
        assert error.__context__ is None or error.__suppress_context__, call


def test_errors_that_users_handle_stay_as_context():
    def f(x):
        try:
            return {}["text"]
        except KeyError:
            return jnp.tile(x, x)

    error = caught(mjax.jit(f), 1.0)
    assert isinstance(error.__context__, KeyError)
    with traceback_filtering("off"):
        error = caught(lambda: mjax.random.normal(mjax.random.key(0), dtype=int))
    assert isinstance(error.__context__, KeyError)
