"""Checkpoints of one process; tests/distributed has those of several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import mjax
import mjax.numpy as jnp
from mjax import random
from mjax._engine.ir import dtypes
from mjax._tools import checkpoint as engine
from mjax._tools import checkpoint_files
from mjax.experimental.checkpoint import latest_step, restore, save
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P

SHARDS = "shards-0-of-1.safetensors"


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
    with safetensors.safe_open(tmp_path / "step_0" / SHARDS, framework="numpy") as file:
        counts = {}
        for member in file.keys():  # noqa: SIM118  # it is not a dictionary
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
    for other in (3, b"folder", None):
        with pytest.raises(TypeError, match="latest_step: directory must be a string or a path"):
            latest_step(other)
    for step in (2, 10, 9):
        save(tmp_path, [np.array(step)], step, keep=2)
    assert latest_step(tmp_path) == 10
    assert sorted(os.listdir(tmp_path)) == ["step_10", "step_9"]
    assert restore(tmp_path, [np.array(0)], 9) == [np.array(9)]


def test_a_crash_before_the_manifest(tmp_path, monkeypatch):
    save(tmp_path, [jnp.ones(3)], 1)
    monkeypatch.setattr(engine, "write_manifest", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(tmp_path, [jnp.zeros(3)], 2)
    monkeypatch.undo()
    assert os.listdir(tmp_path / "step_2") == [SHARDS]
    assert latest_step(tmp_path) == 1
    np.testing.assert_array_equal(restore(tmp_path, [jnp.zeros(3)])[0], np.ones(3))
    save(tmp_path, [jnp.full(3, 2.0)], 2)
    np.testing.assert_array_equal(restore(tmp_path, [jnp.zeros(3)])[0], [2, 2, 2])


def test_a_crash_within_a_file(tmp_path, monkeypatch):
    def broken(members, path):
        with open(path, "wb") as file:
            file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(safetensors.numpy, "save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path, [jnp.zeros(3)], 2)
    assert os.listdir(tmp_path / "step_2") == []
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
    with open(tmp_path / "step_1" / SHARDS, "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=r"safetensors is damaged: it has \d+ bytes, not the"):
        restore(tmp_path, {"a": jnp.ones(3), "b": jnp.ones(2)})


def test_a_file_where_a_folder_is_to_be(tmp_path):
    (tmp_path / "step_3").write_text("")
    for folder, step in ((tmp_path, 3), (tmp_path / "step_3", 0)):
        with pytest.raises(FileExistsError, match="step_3' is a file, where a folder is written"):
            save(folder, {"a": np.ones(2)}, step)
    assert latest_step(tmp_path) is None
    save(tmp_path, {"a": np.ones(2)}, 4)
    assert latest_step(tmp_path) == 4


def test_byte_orders(tmp_path):
    tree = [np.arange(3, dtype=">f4"), np.arange(3, dtype="<i8"), np.array(1 + 2j, ">c16")]
    save(tmp_path, tree, 1)
    trees_equal(restore(tmp_path, [np.zeros(3, "<f4"), np.zeros(3, ">i8"), np.array(0j)]), tree)
    again = restore(tmp_path, tree)
    trees_equal(again, tree)
    assert [x.dtype for x in again] == [x.dtype for x in tree]


@pytest.mark.parametrize("step, error, text", [
    (2.0, TypeError, "checkpoint.save: step must be an integer, got 2.0 of type float"),
    (True, TypeError, "step must be an integer, got True"),
    ("../../x", TypeError, "step must be an integer, got '../../x' of type str"),
    (-1, ValueError, "step must be 0 or more, got -1")])
def test_steps_are_integers(tmp_path, step, error, text):
    with pytest.raises(error, match=text):
        save(tmp_path, [np.ones(2)], step)
    with pytest.raises(error, match=text.replace("save", "restore")):
        restore(tmp_path, [np.ones(2)], step)
    assert os.listdir(tmp_path) == []
    save(tmp_path, [np.ones(2)], np.int64(3))
    assert os.listdir(tmp_path) == ["step_3"]


def test_keep(tmp_path):
    for keep, error in [(-1, ValueError), (0, ValueError), (True, TypeError), (1.5, TypeError)]:
        with pytest.raises(error, match=f"keep must be .* got {keep}"):
            save(tmp_path, [np.ones(2)], 1, keep=keep)
    assert os.listdir(tmp_path) == []
    save(tmp_path, [np.ones(2)], 8)
    save(tmp_path, [np.full(2, 3.0)], 3, keep=1)
    assert sorted(os.listdir(tmp_path)) == ["step_3", "step_8"]
    trees_equal(restore(tmp_path, [np.ones(2)], 3), [np.full(2, 3.0)])
    save(tmp_path, [np.ones(2)], 9, keep=1)
    assert os.listdir(tmp_path) == ["step_9"]


@pytest.mark.parametrize("leaf", [
    "text", object(), b"bytes", np.array(["a"]), np.zeros(2, "M8[s]"), np.longdouble(1), 2**70,
    np.zeros(2, mjax.dtypes.float0), np.ma.array([1.0, 2.0], mask=[0, 1]),
    mjax.ShapeDtypeStruct((2,), np.float32)], ids=lambda leaf: type(leaf).__name__)
def test_what_is_not_stored(tmp_path, leaf):
    with pytest.raises(TypeError, match=r"leaf at \['b'\]\[0\] is"):
        save(tmp_path, {"a": jnp.ones(2), "b": [leaf]}, 1)
    assert os.listdir(tmp_path) == []


def test_traced_values_are_refused(tmp_path):
    save(tmp_path, {"w": jnp.ones(3)}, 1)
    for f in (lambda x: save(tmp_path, {"w": x}, 2), lambda x: restore(tmp_path, {"w": x}, 1)):
        with pytest.raises(mjax.errors.ConcretizationTypeError, match="outside of the traced"):
            mjax.jit(f)(jnp.ones(3))
    assert latest_step(tmp_path) == 1


def test_nothing_is_written_of_a_deleted_array(tmp_path):
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        save(tmp_path, [x], 1)
    assert os.listdir(tmp_path) == []


def test_every_dtype(tmp_path):
    kinds = [*dtypes.NUMPY_DTYPES, np.dtype("longlong"), np.dtype("ulonglong")]
    # Ones, which all of them have.
    tree = [np.ones(shape, dtype) for dtype in kinds for shape in ((), (2, 3), (0, 2))]
    save(tmp_path, tree, 1)
    again = restore(tmp_path, tree)
    trees_equal(tree, again)
    assert [(x.dtype, x.shape) for x in again] == [(x.dtype, x.shape) for x in tree]
    # Others read what is not ours alone.
    plain = safetensors.numpy.load_file(tmp_path / "step_1" / SHARDS)
    n = next(n for n, x in enumerate(tree) if x.dtype == np.float32 and x.ndim == 2)
    np.testing.assert_array_equal(plain[f"{n}@0:2,0:3"], tree[n])


def test_without_safetensors(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (lambda: save(tmp_path, [1], 1), lambda: restore(tmp_path, [1])):
        with pytest.raises(ImportError, match=r"pip install 'mjax\[checkpoint\]'"):
            call()
    assert latest_step(tmp_path) is None
    assert os.listdir(tmp_path) == []


# -- damage --


TREE = {"a": np.arange(24, dtype=np.float32).reshape(4, 6), "b": np.array(7, np.int16),
        "c": np.arange(3, dtype=ml_dtypes.bfloat16), "d": np.array([1j, 2.0])}


def rewritten(folder, **changes):
    """Changes the manifest, and makes its checksum right again."""
    path = folder / "manifest.json"
    content = {**json.loads(path.read_text()), **changes}
    del content["sha256"]
    path.write_text(json.dumps({**content, "sha256": checkpoint_files._own_checksum(content)}))


def with_members(folder, members):
    """Replaces the file of parts; its size and checksum in the manifest are right."""
    summary = checkpoint_files._write(
        str(folder / SHARDS), lambda path: safetensors.numpy.save_file(members, path))
    rewritten(folder, files={SHARDS: summary})


@pytest.mark.parametrize("changes, text", [
    ({"format": 99}, "has format 99; this version of mjax reads format 2"),
    ({"step": 4}, "is of step 4, and its folder is that of step 1"),
    ({"step": True}, "has the wrong type"),
    ({"files": {"../../x.safetensors": {"bytes": 1, "sha256": ""}}}, "not those of 1 processes"),
    ({"files": {"shards-0-of-2.safetensors": {"bytes": 1, "sha256": ""}}}, "not those of 1 proc"),
    ({"files": {}}, "do not make up its shape"),
    ({"files": {SHARDS: 3}}, "does not have `bytes` and `sha256`"),
    ({"leaves": 3}, "has the wrong type"),
    ({"leaves": [3]}, "is not a leaf's path, shape and dtype"),
    ({"more": 1}, "its keys are")])
def test_wrong_manifests(tmp_path, changes, text):
    save(tmp_path, TREE, 1)
    rewritten(tmp_path / "step_1", **changes)
    with pytest.raises(ValueError, match=text) as caught:
        restore(tmp_path, TREE)
    assert str(tmp_path / "step_1" / "manifest.json") in str(caught.value)


@pytest.mark.parametrize("members, text", [
    ({"0@0:2": np.ones(2)}, "do not make up its shape"),
    ({"0@0:3": np.ones(3), "0@1:4": np.ones(3)}, "do not make up its shape"),
    ({"0@0:2": np.ones(2), "0@1:3": np.ones(2)}, "do not make up its shape"),
    ({"0@0:4": np.ones(1)}, r"has dtype and shape \('F64', \(1,\)\), not \('F64', \(4,\)\)"),
    ({"0@0:4": np.ones((4, 1))}, "has dtype and shape"),
    ({"0@0:4": np.ones(4, np.int64)}, "has dtype and shape"),
    ({"0@0:5": np.ones(5)}, "is not a part of a leaf"),
    ({"0@": np.ones(4)}, "is not a part of a leaf"),
    ({"1@0:4": np.ones(4)}, "is not a part of a leaf"),
    ({"../x": np.ones(4)}, "is not a part of a leaf")])
def test_wrong_members(tmp_path, members, text):
    save(tmp_path, [np.ones(4)], 1)
    with_members(tmp_path / "step_1", members)
    with pytest.raises(ValueError, match=text) as caught:
        restore(tmp_path, [np.ones(4)])
    assert str(tmp_path / "step_1") in str(caught.value)


def test_a_missing_file(tmp_path):
    save(tmp_path, TREE, 1)
    os.remove(tmp_path / "step_1" / SHARDS)
    with pytest.raises(FileNotFoundError, match=f"{SHARDS}, which the manifest names, is not the"):
        restore(tmp_path, TREE)


def outcomes(folder, path, versions):
    """Restores with each version of a file: what it gives, or the error; both checked."""
    found = set()
    for version in versions:
        path.write_bytes(version)
        try:
            trees_equal(restore(folder, TREE), TREE)
            found.add("right")
        except (ValueError, FileNotFoundError) as error:
            assert path.name in str(error) or "manifest.json" in str(error), error
            found.add("refused")
    return found


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["manifest.json", SHARDS])
def test_every_byte_and_every_length(tmp_path, name, stride):
    save(tmp_path, TREE, 1)
    path = tmp_path / "step_1" / name
    good = path.read_bytes()
    assert sum(os.path.getsize(file) for file in (tmp_path / "step_1").iterdir()) <= 4096
    places = range(0, len(good), stride)
    flipped = (good[:n] + bytes([good[n] ^ flip]) + good[n + 1:]
               for n in places for flip in (1 << n % 8, 0xff))
    # Blanks of the manifest may be others.
    assert "refused" in outcomes(tmp_path, path, flipped) <= (
        {"right", "refused"} if name == "manifest.json" else {"refused"})
    assert outcomes(tmp_path, path, (good[:n] for n in places)) == {"refused"}
    assert outcomes(tmp_path, path, [good]) == {"right"}
    # An earlier step is read all the same.
    save(tmp_path, TREE, 2)
    (tmp_path / "step_2" / name).write_bytes(good[:-1])
    with pytest.raises(ValueError, match="Restore another step"):
        restore(tmp_path, TREE)
    trees_equal(restore(tmp_path, TREE, 1), TREE)


@pytest.mark.slow
def test_saves_killed_at_any_moment(tmp_path):
    body = """
        import os, random, signal, sys, time
        import numpy as np
        from mjax.experimental.checkpoint import latest_step, restore, save

        directory, last = sys.argv[1], -1
        tree = lambda step: [np.full((8, n), step, np.float32) for n in (1, 7, 40)]
        moments = random.Random(0)
        for _ in range(50):
            told, tell = os.pipe()
            child = os.fork()
            if child == 0:
                step = last + 1
                while True:
                    save(directory, tree(step), step, keep=2)
                    os.write(tell, b".")
                    step += 1
            os.read(told, 1)  # the first is saved
            time.sleep(moments.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            step = latest_step(directory)
            assert step > last, (step, last)
            for value in restore(directory, tree(0)):
                assert (value == step).all(), (step, value)
            last = step
        print("steps:", last)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body), str(tmp_path)],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "steps:" in done.stdout, done.stderr


def test_one_step_in_two_directories(tmp_path, monkeypatch):
    """Two runs of the same processes that save at once do not read each other's summaries."""
    keys, barriers = [], []

    class Store:
        is_initialized = staticmethod(lambda: True)
        key_value_get = staticmethod(lambda key: "{}")
        key_value_delete = staticmethod(keys.append)
        barrier = staticmethod(barriers.append)

        @staticmethod
        def key_value_set(key, value, overwrite):
            keys.append(key)

    monkeypatch.setattr(engine, "distributed", Store)
    monkeypatch.setattr(engine, "_check_seen", lambda folder, written: None)
    for name in ("a", "b"):
        save(tmp_path / name, {"x": 1.0}, 1)
    assert len(set(keys)) == len(keys) == 4
    assert len(set(barriers)) == len(barriers) == 4
