"""Trees of arrays on disk: sharded, written by any number of processes, complete or not at all.

safetensors writes one file of whole arrays, tensorstore (60 MB) writes single arrays; neither
records when a tree is complete; orbax and flax need `jax`. So this module assembles trees:

    directory/step_12/shards-0-of-2.safetensors     the parts of process 0, without copies
                      shards-1-of-2.safetensors
                      manifest.json                 written last: the checkpoint is complete

Each file is written under another name, flushed to the disk and renamed. A crash leaves a step
without a manifest. Such a step is never read, and the next save of that step overwrites it. Members
of a file are named `leaf@start:stop,...`, so parts can be assembled on any number of devices. The
manifest has the checksums of the files and its own (`checkpoint_files`).
"""

from __future__ import annotations

import json
import operator
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import keystr, tree_flatten_with_path, tree_unflatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.devices import default_device, process_count, process_index
from mjax._engine.runtime.arrays.resharding import layout_of
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import SingleDeviceSharding, bounds
from mjax._engine.runtime.processes import distributed
from mjax._engine.tracing.interpreter import Tracer
from mjax._tools.checkpoint_files import (
    MANIFEST,
    Bounds,
    Saved,
    library,
    read_manifest,
    shards,
    sync_folder,
    write_manifest,
    write_shards,
)
from mjaxlib_shim import arrays as shim


@boundary
def save(directory: str | os.PathLike[str], tree: Any, step: int, *, keep: int | None = None
         ) -> None:
    """Writes a tree of arrays, and returns when it is on the disk of all processes.

    All processes call it with the same tree; each writes the parts on its devices. The directory is
    on a file system that they share, and has the same name in all of them.

    Args:
      directory: the directory of a run's checkpoints.
      tree: of arrays, NumPy arrays, Python numbers. Leaves that are not sharded arrays are written
        by process 0.
      step: the number of the checkpoint, 0 or more.
      keep: the number of complete checkpoints to keep, newest first, and in any case the one just
        written; default: all.

    Raises:
      ImportError: safetensors is not installed; `mjax[checkpoint]` installs it.
      TypeError: `step` or `keep` is not an integer, or a leaf is neither an array nor a number;
        nothing is written then.
      ValueError: `step` is negative, or `keep` is below 1.
      FileExistsError: the step is saved already, or a file has the name of its folder.
      FileNotFoundError: process 0 does not see the files of the others.
      ProcessLostError: a process is gone; then the step is not complete, and earlier ones are.

    Example:
      >>> import tempfile
      >>> directory = tempfile.mkdtemp()
      >>> save(directory, {'w': jnp.arange(3.0)}, step=1)
      >>> latest_step(directory)
      1
      >>> restore(directory, {'w': jnp.zeros(3)})
      {'w': Array([0., 1., 2.], dtype=float32)}
    """
    library()
    step = _checked_step(step, "save")
    if keep is not None and _integer(keep, "save: keep") < 1:
        msg = f"checkpoint.save: keep must be 1 or more, or None to keep all, got {keep!r}."
        raise ValueError(msg)
    folder = _folder(directory, step)
    if os.path.exists(os.path.join(folder, MANIFEST)):
        msg = f"checkpoint.save: step {step} is saved already in {os.fspath(directory)!r}."
        raise FileExistsError(msg)
    for path in (os.fspath(directory), folder):
        if os.path.exists(path) and not os.path.isdir(path):
            msg = (f"checkpoint.save: {path!r} is a file, where a folder is written. Move it away, "
                   "or save elsewhere.")
            raise FileExistsError(msg)
    leaves = tree_flatten_with_path(tree)[0]
    types = [(keystr(path), _type(leaf, keystr(path), Array)) for path, leaf in leaves]
    parts = {(n, part): value for n, (_, leaf) in enumerate(leaves)
             for part, value in _parts(leaf)}
    os.makedirs(folder, exist_ok=True)
    sync_folder(os.fspath(directory))
    name = shards(process_index(), process_count())
    meeting = _meeting(folder)
    written = _gathered(meeting, write_shards(folder, name, parts))
    if process_index() == 0:
        _check_seen(folder, written)
        write_manifest(folder, step, written, types)
        for old in _steps(directory)[:-keep] if keep else ():
            if old != step:
                _remove(_folder(directory, old))
    _meet(f"{meeting}: complete")


@boundary
def restore(directory: str | os.PathLike[str], like: Any, step: int | None = None) -> Any:
    """Reads a tree of arrays; each process reads the parts for its devices.

    Devices, shardings and the number of processes may differ from those at the time of saving.

    Args:
      directory: the directory, as for `save`.
      like: a tree of the same structure. Its leaves (arrays, or `ShapeDtypeStruct` with or without
        a sharding) set types and shardings. NumPy arrays and Python numbers stay such in the
        result.
      step: the checkpoint; default: the newest complete one.

    Returns:
      A tree of the structure of `like`.

    Raises:
      ImportError: safetensors is not installed; `mjax[checkpoint]` installs it.
      FileNotFoundError: the checkpoint does not exist, or is not complete.
      TypeError: `step` is not an integer.
      ValueError: the tree, a shape or a dtype differs from the saved one; says where. Or a file is
        damaged; names it. Each process verifies the checksums of the files that it reads.

    Example:
      >>> import tempfile
      >>> from mjax.experimental import checkpoint
      >>> tree = {"w": jnp.ones(2)}
      >>> with tempfile.TemporaryDirectory() as directory:
      ...   checkpoint.save(directory, tree, 3)
      ...   print(checkpoint.restore(directory, tree))
      {'w': Array([1., 1.], dtype=float32)}
    """
    library()
    step = latest_step(directory) if step is None else _checked_step(step, "restore")
    folder = "" if step is None else _folder(directory, step)
    if step is None or not os.path.exists(os.path.join(folder, MANIFEST)):
        which = "no complete checkpoint" if step is None else f"no complete checkpoint {step}"
        msg = f"checkpoint.restore: there is {which} in {os.fspath(directory)!r}."
        raise FileNotFoundError(msg)
    manifest = read_manifest(folder, step)
    leaves, structure = tree_flatten_with_path(like)
    types = [(keystr(path), _type(leaf, keystr(path), (Array, ShapeDtypeStruct)))
             for path, leaf in leaves]
    _check_alike(manifest["leaves"], types)
    saved = Saved(folder, manifest)
    return tree_unflatten(structure, [_leaf(saved, n, leaf, types[n][1])
                                      for n, (_, leaf) in enumerate(leaves)])


def latest_step(directory: str | os.PathLike[str]) -> int | None:
    """The step of the newest complete checkpoint in a directory; None if there is none.

    Args:
      directory: the directory that `save` was given.

    Returns:
      An int, or None.

    Raises:
      TypeError: the directory is neither a string nor a path.

    Example:
      >>> import tempfile
      >>> from mjax.experimental import checkpoint
      >>> with tempfile.TemporaryDirectory() as directory:
      ...   checkpoint.save(directory, {"w": jnp.ones(2)}, 3)
      ...   print(checkpoint.latest_step(directory))
      3
    """
    if isinstance(directory, bytes) or not isinstance(directory, (str, os.PathLike)):
        msg = ("checkpoint.latest_step: directory must be a string or a path, got "
               f"{directory!r} of type {type(directory).__name__}.")
        raise TypeError(msg)
    steps = _steps(directory)
    return steps[-1] if steps else None


# -- names and types --


def _integer(value: Any, what: str) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    msg = f"checkpoint.{what} must be an integer, got {value!r} of type {type(value).__name__}."
    raise TypeError(msg)


def _checked_step(step: Any, function: str) -> int:
    number = _integer(step, f"{function}: step")
    if number < 0:
        msg = f"checkpoint.{function}: step must be 0 or more, got {number}."
        raise ValueError(msg)
    return number


def _folder(directory: str | os.PathLike[str], step: int) -> str:
    return os.path.join(os.fspath(directory), f"step_{step}")


def _steps(directory: str | os.PathLike[str]) -> list[int]:
    """The complete steps, in order."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    numbers = [name.removeprefix("step_") for name in names if name.startswith("step_")]
    return sorted(int(number) for number in numbers
                  if number.isdecimal() and str(int(number)) == number
                  and os.path.exists(os.path.join(_folder(directory, int(number)), MANIFEST)))


def _type(leaf: Any, path: str, ours: type | tuple[type, ...]) -> ShapedArray:
    """The type of a leaf: an object of our classes, or a NumPy value, which keeps its 64 bits."""
    if isinstance(leaf, Tracer):
        leaf._refuse("have it in a checkpoint")
    if isinstance(leaf, ours):
        return typeof(leaf)
    value = np.asarray(leaf)
    dtype = value.dtype.newbyteorder("=")
    if dtype not in dtypes.NUMPY_DTYPES or isinstance(leaf, np.ma.MaskedArray):
        msg = (f"checkpoint: the leaf at {path or 'the root'} is {leaf!r} of type "
               f"{type(leaf).__name__} (dtype {value.dtype}); checkpoints hold arrays of numbers, "
               "booleans and keys, and Python numbers.")
        raise TypeError(msg)
    return ShapedArray(value.shape, dtype)


# -- writing --


def _parts(leaf: Any) -> Iterator[tuple[Bounds, np.ndarray[Any, Any]]]:
    """The parts of a leaf that this process writes: of copies only the first."""
    if not isinstance(leaf, Array) or type(leaf.sharding) is SingleDeviceSharding:
        if process_index() == 0:
            value = leaf._stored() if isinstance(leaf, Array) else _native(np.asarray(leaf))
            yield tuple([(0, size) for size in np.shape(leaf)]), value
        return
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0 and shard.data is not None:
            yield bounds(shard.index, leaf.shape), shard.data._stored()


def _native(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values in this machine's byte order."""
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def _meeting(folder: str) -> str:
    """A name by which processes that write the same checkpoint find each other."""
    folder = os.path.normpath(folder)
    return f"checkpoint {os.path.basename(folder)} ({sha256(folder.encode()).hexdigest()[:32]})"


def _gathered(meeting: str, own: dict[str, Any]) -> dict[str, Any]:
    """The summaries of all processes' files, by their names; in process 0."""
    count = process_count()
    if not distributed.is_initialized():
        return {shards(0, count): own}
    distributed.key_value_set(f"{meeting}/{process_index()}", json.dumps(own), overwrite=True)
    _meet(f"{meeting}: all parts written")
    if process_index() != 0:
        return {}
    written = {shards(n, count): json.loads(distributed.key_value_get(f"{meeting}/{n}"))
               for n in range(count)}
    distributed.key_value_delete(meeting)
    return written


def _check_seen(folder: str, written: dict[str, Any]) -> None:
    for name, summary in written.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path) or os.path.getsize(path) != summary["bytes"]:
            msg = (f"checkpoint.save: {path} is not there as it was written. The directory has to "
                   "be on a file system that all processes share.")
            raise FileNotFoundError(msg)


def _remove(folder: str) -> None:
    """Removes a checkpoint; incomplete from its first moment on."""
    os.remove(os.path.join(folder, MANIFEST))
    shutil.rmtree(folder)


def _meet(what: str) -> None:
    if distributed.is_initialized():
        distributed.barrier(what)


# -- reading --


def _check_alike(saved: list[Any], wanted: list[tuple[str, ShapedArray]]) -> None:
    texts = [[f"{path}: {name}{list(shape)}" for path, shape, name in saved],
             [f"{path}: {aval.dtype}{list(aval.shape)}" for path, aval in wanted]]
    for have, want in zip(*texts, strict=False):
        if have != want:
            msg = f"checkpoint.restore: the checkpoint has {have}, `like` has {want}."
            raise ValueError(msg)
    if len(saved) != len(wanted):
        msg = (f"checkpoint.restore: the checkpoint has {len(saved)} leaves, `like` has "
               f"{len(wanted)}.")
        raise ValueError(msg)


def _leaf(saved: Saved, n: int, like: Any, aval: ShapedArray) -> Any:
    if not isinstance(like, (Array, ShapeDtypeStruct)):
        value = saved.part(n, tuple([(0, size) for size in aval.shape]), aval)
        if isinstance(like, np.ndarray):
            return value.astype(like.dtype, copy=False)  # its byte order may differ
        return type(like)(value[()])
    committed = like.committed if isinstance(like, Array) else like.sharding is not None
    layout = layout_of(aval, like.sharding or SingleDeviceSharding(default_device()), committed)
    values = [saved.part(n, bounds(part, aval.shape), layout.aval) for part in layout.parts]
    return Array(shim.put_shards(values, layout.aval, layout.native, layout.devices),
                 layout.placement)
