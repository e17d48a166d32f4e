"""Checkpoints of one process; tests/distributed has those of several."""

from __future__ import annotations

import json
import os

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import random
from mjax._engine.runtime import checkpoint as engine
from mjax.experimental.checkpoint import latest_step, restore, save
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P


def trees_equal(one, other):
    mjax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)),
                  one, other)


def some_tree():
    mesh = mjax.make_mesh((4, 2), ("i", "j"))
    cut = NamedSharding(mesh, P("i", "j"))
    value = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    return {
        "cut": mjax.device_put(value, cut),
        "rows": mjax.device_put(value, NamedSharding(mesh, P("i"))),
        "whole": mjax.device_put(value, NamedSharding(mesh, P())),
        "plain": jnp.arange(5), "scalar": jnp.float32(2.5), "empty": jnp.zeros((0, 3)),
        "half": jnp.arange(3, dtype=jnp.bfloat16), "bools": jnp.array([True, False]),
        "complex": jnp.array([1 + 2j]), "numpy": np.arange(3, dtype=np.int16),
        "fp8": jnp.ones(2, ml_dtypes.float8_e4m3fn), "step": 7, "rate": 0.1, "flag": True,
        "list": [jnp.ones(2), (jnp.zeros(()),)],
    }


def test_round_trip(tmp_path):
    tree = some_tree()
    save(tmp_path, tree, 3)
    again = restore(tmp_path, mjax.tree.map(lambda x: x, tree))
    trees_equal(tree, again)
    for (path, a), (_, b) in zip(mjax.tree.leaves_with_path(tree),
                                 mjax.tree.leaves_with_path(again)):
        assert type(a) is type(b), path
        if isinstance(a, mjax.Array):
            assert (a.sharding, a.committed, a.dtype) == (b.sharding, b.committed, b.dtype)


def test_copies_are_written_once(tmp_path):
    save(tmp_path, some_tree(), 0)
    with np.load(tmp_path / "step_0" / "shards-0-of-1.npz") as file:
        counts = {}
        for member in file.files:
            counts[member.split("@")[0]] = counts.get(member.split("@")[0], 0) + 1
    # Leaves in the order of the keys.
    assert [counts[str(n)] for n, key in enumerate(sorted(set(some_tree()) - {"list"}))
            if key in ("cut",)] == [8]
    assert sorted(counts.values())[-2:] == [4, 8]


def test_onto_other_shardings(tmp_path):
    value = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    wide, tall = mjax.make_mesh((8,), ("a",)), mjax.make_mesh((2, 2), ("a", "b"))
    shardings = [NamedSharding(wide, P("a")), NamedSharding(wide, P(None, "a")),
                 NamedSharding(tall, P("b", "a")), NamedSharding(tall, P(("a", "b"))), None]
    for n, source in enumerate(shardings):
        save(tmp_path, [jnp.asarray(value) if source is None else mjax.device_put(value, source)],
             n)
        for target in shardings:
            like = mjax.ShapeDtypeStruct((8, 8), np.float32, sharding=target)
            (found,) = restore(tmp_path, [like], n)
            np.testing.assert_array_equal(found, value)
            assert target is None or found.sharding == target


def test_keys(tmp_path):
    mesh = mjax.make_mesh((8,), ("a",))
    tree = {"one": random.key(3),
            "many": mjax.device_put(random.split(random.key(0), 8), NamedSharding(mesh, P("a")))}
    save(tmp_path, tree, 1)
    again = restore(tmp_path, tree)
    trees_equal(mjax.tree.map(random.key_data, tree), mjax.tree.map(random.key_data, again))
    assert again["many"].sharding == tree["many"].sharding


def test_steps(tmp_path):
    assert latest_step(tmp_path) is latest_step(tmp_path / "none") is None
    for step in (2, 10, 9):
        save(tmp_path, [np.array(step)], step, keep=2)
    assert latest_step(tmp_path) == 10
    assert sorted(os.listdir(tmp_path)) == ["step_10", "step_9"]
    assert restore(tmp_path, [np.array(0)], 9) == [np.array(9)]


def test_a_crash_before_the_manifest(tmp_path, monkeypatch):
    save(tmp_path, [jnp.ones(3)], 1)
    monkeypatch.setattr(engine, "_complete", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(tmp_path, [jnp.zeros(3)], 2)
    monkeypatch.undo()
    assert os.listdir(tmp_path / "step_2") == ["shards-0-of-1.npz"]
    assert latest_step(tmp_path) == 1
    np.testing.assert_array_equal(restore(tmp_path, [jnp.zeros(3)])[0], np.ones(3))
    save(tmp_path, [jnp.full(3, 2.0)], 2)
    np.testing.assert_array_equal(restore(tmp_path, [jnp.zeros(3)])[0], [2, 2, 2])


def test_a_crash_within_a_file(tmp_path, monkeypatch):
    def broken(file, **members):
        file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path, [jnp.zeros(3)], 2)
    assert os.listdir(tmp_path / "step_2") == ["shards-0-of-1.npz.partial"]
    assert latest_step(tmp_path) is None


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no complete checkpoint in"):
        restore(tmp_path, [1])
    save(tmp_path, {"a": jnp.ones(3), "b": jnp.ones(2)}, 1)
    with pytest.raises(FileNotFoundError, match="no complete checkpoint 4 in"):
        restore(tmp_path, [1], 4)
    with pytest.raises(FileExistsError, match="step 1 is saved already"):
        save(tmp_path, {"a": 1}, 1)
    for like, text in [
            ({"a": jnp.ones(4), "b": jnp.ones(2)}, "has ['a']: float32[3], `like` has ['a']: floa"),
            ({"a": jnp.ones(3, int), "b": jnp.ones(2)}, "float32[3], `like` has ['a']: int32[3]"),
            ({"a": jnp.ones(3), "c": jnp.ones(2)}, "['b']: float32[2], `like` has ['c']: float32"),
            ({"a": jnp.ones(3)}, "the checkpoint has 2 leaves, `like` has 1")]:
        with pytest.raises(ValueError) as caught:
            restore(tmp_path, like)
        assert text in str(caught.value)
    manifest = json.loads((tmp_path / "step_1" / "manifest.json").read_text())
    assert manifest["leaves"] == [["['a']", [3], "float32"], ["['b']", [2], "float32"]]
    with open(tmp_path / "step_1" / "shards-0-of-1.npz", "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="has not the size it was saved with"):
        restore(tmp_path, {"a": jnp.ones(3), "b": jnp.ones(2)})
