"""Arrays and shardings as HTML, and in treescope."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P, random
from mjax._engine.runtime.arrays.part_grid import part_grid
from mjax.sharding import AbstractMesh, NamedSharding, SingleDeviceSharding
from tests.html import Page


@pytest.fixture(scope="module")
def mesh():
    return mjax.make_mesh((2, 4), ("i", "j"))


def _labels(page):
    return [[e.text for e in picture.iter() if (e.text or "").startswith("CPU")]
            for picture in page.pictures]


def test_an_array():
    x = jnp.array([[1.5, -2.0], [0.0, 4.0]])
    page = Page(x._repr_html_())
    assert page.text == f"float32[2,2] on cpu:{x.device.id}" + np.array2string(
        np.asarray(x), separator=", ")
    assert page.pictures == []
    assert "weakly typed" in jnp.asarray(1.0)._repr_html_()


@pytest.mark.parametrize("x, text", [
    (jnp.zeros((0, 3)), "[]"), (random.key(3), "key<fry>[]"), (jnp.float32(2), "2."),
    (jnp.array([True]), "[ True]"), (jnp.arange(5000), "4999]")])
def test_values(x, text):
    page = Page(x._repr_html_())
    assert text in page.text and len(page.text) < 400


def test_a_deleted_array():
    x = jnp.ones(3) + 1
    x.delete()
    assert Page(x._repr_html_()).text.endswith("deleted")


@pytest.mark.parametrize("spec, labels", [
    (P("i", "j"), [f"CPU {i}" for i in range(8)]),
    (P("j"), ["CPU 0,4", "CPU 1,5", "CPU 2,6", "CPU 3,7"]),
    (P(), ["CPU 0,1,2,3,4,5,6,7"]),
    (P(None, None, "i"), ["CPU 0,1,2,3", "CPU 4,5,6,7"])])
def test_shardings(mesh, spec, labels):
    sharding = NamedSharding(mesh, spec)
    shape = (4, 4, 4)
    shown = [label for picture in _labels(Page(sharding._repr_html_())) for label in picture]
    assert shown == labels
    array = mjax.device_put(jnp.ones(shape), sharding)
    shown = [label for picture in _labels(Page(array._repr_html_())) for label in picture]
    assert shown == labels
    # Against the parts themselves.
    grid = part_grid(shape, sharding.devices_indices_map(shape))
    pieces = {tuple((s.start or 0) for s in shard.index) for shard in array.addressable_shards}
    assert grid.size == len(pieces) == len(labels)


def test_shardings_without_parts(mesh):
    single = SingleDeviceSharding(mjax.devices()[0])
    assert Page(single._repr_html_()).text == repr(single)
    abstract = NamedSharding(AbstractMesh((2,), ("<i>",)), P("<i>"))
    page = Page(abstract._repr_html_())
    assert len(page.pictures) == 1 and "<i>" in page.text


def test_tracers_do_not_have_values():
    shown = []
    mjax.jit(lambda x: shown.append(hasattr(x, "_repr_html_")) or x)(1.0)
    assert shown == [False]


# ---------------------------------------------------------------------------- treescope


#: It reads all names of NumPy, deprecated ones too.
_of_treescope = pytest.mark.filterwarnings("ignore:The chararray class:DeprecationWarning")


@pytest.fixture
def treescope():
    return pytest.importorskip("treescope")


@_of_treescope
def test_treescope_shows_arrays(treescope, mesh):
    x = jnp.arange(6.0).reshape(2, 3)
    text = treescope.render_to_text({"x": x, "key": random.key(0)})
    assert "<float32[2,3] ≈2.5 ±1.7 [≥0, ≤5]>" in text and "key<fry>[]" in text
    page = treescope.render_to_html(x)
    assert "<treescope-run-here>" in page or "<script" in page
    adapter = x.__treescope_ndarray_adapter__()
    sharded = mjax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P("i")))
    info = adapter.get_sharding_info_for_array_data(sharded)
    assert info.shard_shape == (2, 4) and len(info.device_index_to_shard_slices) == 8
    assert adapter.get_sharding_info_for_array_data(x) is None
    assert treescope.render_array(sharded) is not None


@pytest.mark.parametrize("x, text", [
    (jnp.array([True, False]), "bool[2] 1 of 2 true"), (jnp.int32(3), "int32[] 3"),
    (jnp.array([1.0, jnp.inf]), "float32[2] ≈1 ±0 [≥1, ≤1], 1 not finite"),
    (jnp.array([1j, jnp.nan]), "complex64[2] 1 of 2 finite"), (jnp.ones((0,)), "float32[0]")])
def test_treescope_summaries(treescope, x, text):
    adapter = x.__treescope_ndarray_adapter__()
    assert adapter.get_array_summary(x, False) == text
    assert adapter.get_array_summary(x, True) == text.partition(" ")[0]


def test_treescope_cuts_arrays(treescope):
    x = jnp.arange(20).reshape(2, 10)
    adapter = x.__treescope_ndarray_adapter__()
    values, mask = adapter.get_array_data_with_truncation(x, None, (None, 2))
    np.testing.assert_array_equal(values[:, [0, 1, 3, 4]], np.asarray(x)[:, [0, 1, 8, 9]])
    np.testing.assert_array_equal(mask, [[True, True, False, True, True]] * 2)


@_of_treescope
def test_treescope_shows_programs_and_shardings(treescope, mesh):
    jaxpr = mjax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    sharding = NamedSharding(mesh, P("i"))
    text = treescope.render_to_text([jaxpr, sharding, mesh.abstract_mesh])
    assert "<Jaxpr <lambda>: 2 equations>" in text
    assert "NamedSharding(" in text and f"spec={P('i')}" in text
    assert "AbstractMesh(" in text and "axis_names=('i', 'j')" in text
