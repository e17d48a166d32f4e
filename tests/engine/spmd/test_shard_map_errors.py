"""What shard_map refuses: types and texts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.spmd.shard_map import shard_map

from .mapped import P, mesh, sharded

X = np.ones((8, 4), "float32")
CUT, WHOLE = P("i"), P()


def plus(x, y):
    return x + y


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: sharded(lambda x: x, P("i", None, "j"), CUT)(X), ValueError,
     r"argument\[0\] has type float32\[8,4\], with 2 dimensions, but its in_specs entry .* has 3"),
    (lambda: sharded(lambda x: x[0, 0], CUT, CUT)(X), ValueError,
     r"result has type float32\[\]\{V:i\}, with 0 dimensions.* give it one \(x\[None\]\)"),
    (lambda: sharded(lambda x: x, P("k"), CUT), ValueError,
     "in_specs: .* names the mesh axis 'k', but the mesh has the axes 'i', 'j'"),
    (lambda: sharded(lambda x: x, CUT, P("k")), ValueError, "out_specs: .* names the mesh axis"),
    (lambda: sharded(lambda x: x, P("i", "i"), CUT), ValueError, "names the mesh axis 'i' twice"),
    (lambda: sharded(lambda x: x, CUT, CUT)(X[:7]), ValueError,
     r"dimension 0 of an array of shape \(7, 4\) has 7 elements, .* into 4 pieces, .*"
     r"7 = 1 \* 4 \+ 3\. Pad it by 1 elements"),
    (lambda: sharded(lambda x: x, (CUT, CUT), CUT)(X), ValueError,
     r"in_specs must be a tree prefix of the arguments of <lambda>"
     r".*, the arguments are \(ShapedArray\(float32\[8,4\]\),"),
    (lambda: sharded(lambda x: x, CUT, (CUT, CUT))(X), ValueError,
     "out_specs must be a tree prefix of the results of <lambda>"),
    (lambda: sharded(lambda x: x, "i", CUT), TypeError,
     r"in_specs must be a tree of PartitionSpecs, got 'i' of type str: write PartitionSpec\('i'\)"),
    (lambda: sharded(lambda x: x, P(P.UNCONSTRAINED), CUT), ValueError, "write None in place of"),
    (lambda: sharded(3, CUT, CUT), TypeError, "shard_map expects a function, got 3"),
    (lambda: shard_map(lambda x: x, mesh=mesh(), out_specs=CUT), TypeError, "needs in_specs"),
    (lambda: sharded(lambda x: x, CUT, CUT, check_vma="no"), ValueError, "check_vma must be True"),
    (lambda: sharded(lambda x: x, P("j"), CUT, axis_names={"i"}), ValueError,
     "names the mesh axis 'j', but the map is over 'i' alone. Add it to axis_names"),
    (lambda: sharded(lambda x: x, CUT, CUT, axis_names={"q"}), ValueError, "axis_names has 'q'"),
    (lambda: sharded(lambda x: x, CUT, CUT, axis_names="i"), TypeError,
     r"axis_names must be a set of names, got 'i': write \{'i'\}"),
    (lambda: shard_map(lambda x: x, mesh="i", in_specs=CUT, out_specs=CUT), TypeError,
     "mesh must be a Mesh or an AbstractMesh, got 'i' of type str"),
    (lambda: sharded(plus, (CUT, WHOLE), CUT)(X, y=X), TypeError,
     "shard_map of plus takes arguments by position alone, .* got y by keyword"),
    (lambda: sharded(lambda x: x, CUT, CUT)("x"), TypeError, "is not a valid array"),
    (lambda: sharded(lambda x: "x", CUT, CUT)(X), TypeError, "result is not a valid array"),
    (lambda: sharded(lambda x: lax.psum(x, "k"), CUT, CUT)(X), NameError,
     r"unbound axis name: k, used by psum\. Axes in scope: i \(size 4\), j \(size 2\)"),
    (lambda: sharded(lambda x: lax.psum(x, "j"), CUT, CUT, axis_names={"i"})(X), NameError,
     r"unbound axis name: j.*Axes in scope: i \(size 4\)\."),
])
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_result_that_varies_is_explained():
    def f(params, x):
        h = x @ params["w"]
        return {"loss": jnp.sin(h).sum(), "h": h}

    with pytest.raises(ValueError) as error:
        sharded(f, (WHOLE, CUT), {"loss": WHOLE, "h": CUT})({"w": np.ones((4, 4), "float32")}, X)
    text = str(error.value)
    here = re.escape(__file__)
    assert re.search(rf"result\['loss'\] of .*f at {here}:\d+ has type float32\[\]\{{V:i\}}: along "
                     r"mesh axis 'i' its 4 devices may hold different values", text)
    assert "does not name 'i', which says that they are the same" in text
    assert re.search(rf"It is the result of reduce_sum at {here}:\d+", text)
    assert "It varies along 'i' because x does, which in_specs cut by PartitionSpec('i',)" in text
    assert "lax.psum" in text and "all_gather_invariant" in text
    assert "P('i') for x[None]" in text


def test_the_input_is_named_where_others_are_not_cut():
    with pytest.raises(ValueError, match=r"because second\['a'\] does, which in_specs cut by"):
        sharded(lambda first, scale, second: second["a"] * scale + first, (WHOLE, None, CUT),
                WHOLE)(X[:2], 2.0, {"a": X})


def test_what_made_a_value_vary_may_be_an_equation():
    with pytest.raises(ValueError, match=r"because of axis_index at .*test_shard_map_errors"):
        sharded(lambda x: x * lax.axis_index("j"), WHOLE, WHOLE)(X)


def test_the_other_remedy_names_the_axis():
    for spec, out_spec, ndim, expected in [
            (CUT, WHOLE, 2, "PartitionSpec('i',)"),
            (P(("i", "j")), CUT, 2, "PartitionSpec('i', 'j')"),
            (P(("i", "j")), CUT, 1, "PartitionSpec(('i', 'j'),)")]:
        with pytest.raises(ValueError) as error:
            sharded(lambda x: x * 2, spec, out_spec)(X if ndim == 2 else X.reshape(-1))
        assert f"one after another: {expected}." in str(error.value)


def test_no_text_is_built_for_an_error_that_is_dropped(monkeypatch):
    from mjax._engine.spmd import shard_map_errors

    monkeypatch.setattr(shard_map_errors, "_why", lambda *args: pytest.fail("built"))
    try:
        sharded(lambda x: x, CUT, WHOLE)(X)
    except ValueError:
        pass


def test_unbound_axis_outside():
    with pytest.raises(NameError, match="Axes in scope: none"):
        mjax.jit(lambda x: lax.psum(x, "i"))(X)


def halves():
    """Two meshes of four devices each, none in both."""
    devices = np.array(mjax.devices()[:8])
    return [mjax.sharding.Mesh(half, ("i",)) for half in (devices[:4], devices[4:])]


def test_meshes_and_devices_that_differ():
    first, second = halves()
    f, g = (shard_map(lambda x: x * 2, mesh=m, in_specs=CUT, out_specs=CUT)
            for m in (first, second))
    elsewhere = mjax.device_put(X, mjax.NamedSharding(second, CUT))
    there, here = r"cpu:\[4, 5, 6, 7\]", r"cpu:\[0, 1, 2, 3\]"
    with pytest.raises(ValueError, match=rf"different devices: argument 0 to {there}, shard_map at "
                                         rf".*test_shard_map_errors.py:\d+ .* to {here}"):
        f(elsewhere)
    with pytest.raises(ValueError, match=rf"shard_map at .* to {here}, shard_map at .* to {there}"):
        mjax.jit(lambda x: g(f(x)))(X)
    with pytest.raises(ValueError, match=rf"shard_map at .* to {here}, an array of type "
                                         rf"float32\[8,4\] that it closes over to {there}"):
        shard_map(lambda x: x + elsewhere[0], mesh=first, in_specs=CUT, out_specs=CUT)(X)
    same = mjax.sharding.Mesh(first.devices.reshape(2, 2), ("a", "b"))
    of_two = shard_map(lambda x: x * 2, mesh=same, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_array_equal(mjax.jit(lambda x: of_two(f(x)))(X), X * 4)


def test_an_abstract_mesh_where_the_program_runs_on_one_device():
    f = shard_map(lambda x: lax.psum(x, "i") + lax.axis_index("i"), in_specs=CUT, out_specs=CUT,
                  mesh=mesh().abstract_mesh)
    text = (r"AbstractMesh\('i': 4, 'j': 2\) is of 8 devices, but the program runs on 1\. .*"
            r"NamedSharding\(mesh, spec\).* or say where the program runs by mjax\.set_mesh")
    for call in (f, mjax.jit(f), mjax.grad(lambda x: f(x).sum())):
        for x in (X, mjax.device_put(X, mjax.devices()[1])):
            with pytest.raises(ValueError, match=text):
                call(x)
    expected = np.repeat(np.arange(4.0) + 4, 2)[:, None] * np.ones(4)
    np.testing.assert_array_equal(
        f(mjax.device_put(X, mjax.NamedSharding(mesh(), CUT))), expected)
    with mjax.set_mesh(mesh()):
        np.testing.assert_array_equal(f(X), expected)
    one = shard_map(lambda x: lax.psum(x, "i"), in_specs=CUT, out_specs=P(),
                    mesh=mjax.sharding.AbstractMesh((1,), ("i",)))
    np.testing.assert_array_equal(one(X), X)


def test_another_mesh_than_the_one_that_is_set():
    other = mjax.make_mesh((2, 4), ("i", "j"))
    for m in (mesh(), mesh().abstract_mesh):
        f = shard_map(lambda x: x * 2, mesh=m, in_specs=CUT, out_specs=CUT)
        for call in (f, mjax.jit(f)):
            with mjax.set_mesh(other), pytest.raises(ValueError, match=(
                    r"shard_map: mesh is .*Mesh\('i': 4, 'j': 2\), but set_mesh has set "
                    r"Mesh\('i': 2, 'j': 4\)\. .* leave out mesh=")):
                call(X)
            with mjax.set_mesh(mesh()):
                np.testing.assert_array_equal(call(X), X * 2)
    with other:
        np.testing.assert_array_equal(sharded(lambda x: x * 2, CUT, CUT)(X), X * 2)


def test_one_device_for_what_runs_on_all():
    four, x = mjax.make_mesh((4,), ("x",)), np.arange(4.0)

    def mapped(device):
        return mjax.shard_map(lambda x: mjax.device_put(x, device), mesh=four,
                              in_specs=mjax.P("x"), out_specs=mjax.P("x"))

    with pytest.raises(ValueError, match="was given in the body of a shard_map"):
        mapped(mjax.devices()[0])(x)
    np.testing.assert_array_equal(mapped(None)(x), x)
