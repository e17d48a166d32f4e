"""Trees of arrays on disk: sharded, by any number of processes, whole or not at all.

Of the libraries that work without `jax` none does this: safetensors writes one file of whole
arrays, tensorstore (60 MB) writes single arrays; neither says when a tree is complete; orbax and
flax need `jax`. So it is done here, with NumPy's own format:

    directory/step_12/shards-0-of-2.npz     what process 0 has, copies left out
                      shards-1-of-2.npz
                      manifest.json         written last: the checkpoint is complete

Each file is written under another name, flushed to the disk and renamed. A step without a manifest
is what a crash left; it is never read, and written over by the next save of that step. Members of
a file are named `leaf@start:stop,...`, so parts fit together again on any number of devices.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir.pytree import keystr, tree_flatten_with_path, tree_unflatten
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.runtime import distributed
from mjax._engine.runtime.array import Array
from mjax._engine.runtime.devices import default_device, process_count, process_index
from mjax._engine.runtime.resharding import layout_of
from mjax._engine.runtime.shardings import SingleDeviceSharding, bounds
from mjaxlib_shim import arrays as shim

_MANIFEST = "manifest.json"
_FORMAT = 1

Bounds = tuple[tuple[int, int], ...]


@boundary
def save(directory: str | os.PathLike[str], tree: Any, step: int, *, keep: int | None = None
         ) -> None:
    """Writes a tree of arrays, and returns when it is on the disk of all processes.

    All processes call it with the same tree; each writes what its devices have. The directory is
    on a file system that they share.

    Args:
      directory: where the checkpoints of a run are.
      tree: of arrays, NumPy arrays, Python numbers. Those that are no sharded arrays are
        written by process 0.
      step: the number of the checkpoint.
      keep: how many complete checkpoints are kept, the newest; default: all.

    Raises:
      FileExistsError: the step is saved already.
      FileNotFoundError: process 0 does not see what the others wrote.
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
    folder = _folder(directory, step)
    if os.path.exists(os.path.join(folder, _MANIFEST)):
        msg = f"checkpoint.save: step {step} is saved already in {os.fspath(directory)!r}."
        raise FileExistsError(msg)
    os.makedirs(folder, exist_ok=True)
    leaves = tree_flatten_with_path(tree)[0]
    members = {f"{n}@{_text(part)}": value for n, (_, leaf) in enumerate(leaves)
               for part, value in _parts(leaf)}
    with _Replacing(os.path.join(folder, _shards(process_index()))) as file:
        np.savez(file, **members)  # type: ignore[arg-type]
    _meet(f"checkpoint {step} written")
    if process_index() == 0:
        _complete(folder, step, [(keystr(path), _type(leaf)) for path, leaf in leaves])
        for old in _steps(directory)[:-keep] if keep else ():
            _remove(_folder(directory, old))
    _meet(f"checkpoint {step} complete")


@boundary
def restore(directory: str | os.PathLike[str], like: Any, step: int | None = None) -> Any:
    """Reads a tree of arrays; each process reads what its devices need.

    Devices, shardings and the number of processes may be others than when it was saved.

    Args:
      directory: as it was given to `save`.
      like: a tree of the same structure: its leaves (arrays, or `ShapeDtypeStruct` with or without
        a sharding) say types and shardings. Where a leaf is a NumPy array or a Python number, so
        is the result.
      step: the checkpoint; default: the newest complete one.

    Raises:
      FileNotFoundError: there is none, or it is not complete.
      ValueError: the tree, a shape or a dtype differs from what was saved; says where.
    """
    step = latest_step(directory) if step is None else step
    folder = "" if step is None else _folder(directory, step)
    if step is None or not os.path.exists(os.path.join(folder, _MANIFEST)):
        which = "no complete checkpoint" if step is None else f"no complete checkpoint {step}"
        msg = f"checkpoint.restore: there is {which} in {os.fspath(directory)!r}."
        raise FileNotFoundError(msg)
    with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
        manifest = json.load(file)
    leaves, structure = tree_flatten_with_path(like)
    _check_alike(manifest["leaves"], [(keystr(path), _type(leaf)) for path, leaf in leaves])
    with _Saved(folder, manifest["files"]) as saved:
        return tree_unflatten(structure, [_leaf(saved, n, leaf)
                                          for n, (_, leaf) in enumerate(leaves)])


def latest_step(directory: str | os.PathLike[str]) -> int | None:
    """The newest complete checkpoint in a directory; None: there is none."""
    steps = _steps(directory)
    return steps[-1] if steps else None


# -- names --


def _folder(directory: str | os.PathLike[str], step: int) -> str:
    return os.path.join(os.fspath(directory), f"step_{step}")


def _shards(process: int) -> str:
    return f"shards-{process}-of-{process_count()}.npz"


def _steps(directory: str | os.PathLike[str]) -> list[int]:
    """The complete steps, in order."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    numbers = [name.removeprefix("step_") for name in names if name.startswith("step_")]
    return sorted(int(number) for number in numbers if number.isdecimal() and os.path.exists(
        os.path.join(_folder(directory, int(number)), _MANIFEST)))


def _text(part: Bounds) -> str:
    return ",".join(f"{start}:{stop}" for start, stop in part)


def _bounds(text: str) -> Bounds:
    pairs = [piece.split(":") for piece in text.split(",") if piece]
    return tuple([(int(start), int(stop)) for start, stop in pairs])


def _type(leaf: Any) -> ShapedArray:
    """The type of a leaf; NumPy arrays and Python numbers keep their 64 bits."""
    if hasattr(leaf, "sharding"):
        return typeof(leaf)
    value = np.asarray(leaf)
    return ShapedArray(value.shape, value.dtype)


# -- writing --


def _parts(leaf: Any) -> Iterator[tuple[Bounds, np.ndarray[Any, Any]]]:
    """What this process writes of a leaf: of parts with copies the first, of its own the rest."""
    if not isinstance(leaf, Array) or type(leaf.sharding) is SingleDeviceSharding:
        if process_index() == 0:
            value = leaf._stored() if isinstance(leaf, Array) else np.asarray(leaf)
            yield tuple([(0, size) for size in np.shape(leaf)]), _storable(value)
        return
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0 and shard.data is not None:
            yield bounds(shard.index, leaf.shape), _storable(shard.data._stored())


def _storable(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Types that NumPy's format does not know are written as unsigned integers."""
    if value.dtype.kind in "biufc":
        return value
    return np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").reshape(value.shape)


class _Replacing:
    """A file that gets its name when it is complete and on the disk."""

    def __init__(self, path: str):
        self._path = path
        self._file = open(f"{path}.partial", "wb")  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> Any:
        return self._file

    def __exit__(self, kind: object, *rest: object) -> None:
        with self._file:
            if kind is not None:
                return
            self._file.flush()
            os.fsync(self._file.fileno())
        os.replace(f"{self._path}.partial", self._path)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _complete(folder: str, step: int, leaves: list[tuple[str, ShapedArray]]) -> None:
    files = {_shards(process): 0 for process in range(process_count())}
    for name in files:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            msg = (f"checkpoint.save: {path} is not there. The directory has to be on a file "
                   "system that all processes share.")
            raise FileNotFoundError(msg)
        files[name] = os.path.getsize(path)
    manifest = {"format": _FORMAT, "step": step, "files": files,
                "leaves": [[path, list(aval.shape), str(aval.dtype)] for path, aval in leaves]}
    with _Replacing(os.path.join(folder, _MANIFEST)) as file:
        file.write(json.dumps(manifest, indent=1).encode())


def _remove(folder: str) -> None:
    """Removes a checkpoint; incomplete from its first moment on."""
    os.remove(os.path.join(folder, _MANIFEST))
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


class _Saved:
    """The parts in the files of a checkpoint."""

    def __init__(self, folder: str, files: dict[str, int]):
        self._files = []
        self._parts: dict[int, dict[Bounds, Any]] = {}
        for name, size in files.items():
            path = os.path.join(folder, name)
            if os.path.getsize(path) != size:
                msg = f"checkpoint.restore: {path} has not the size it was saved with."
                raise ValueError(msg)
            file = np.load(path)
            self._files.append(file)
            for member in file.files:
                leaf, _, text = member.partition("@")
                self._parts.setdefault(int(leaf), {})[_bounds(text)] = (file, member)

    def __enter__(self) -> _Saved:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def part(self, leaf: int, wanted: Bounds, stored: ShapedArray) -> np.ndarray[Any, Any]:
        """One part of a leaf, put together from those that were saved."""
        shape = [stop - start for start, stop in wanted]
        result = np.empty((*shape, *stored.shape[len(shape):]), stored.dtype)
        for have, (file, member) in self._parts[leaf].items():
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, have, strict=True)]
            if all(start < stop for start, stop in common):
                target = tuple([slice(a - o, b - o) for (a, b), (o, _) in zip(common, wanted)])
                source = tuple([slice(a - o, b - o) for (a, b), (o, _) in zip(common, have)])
                value = file[member]
                result[target] = value.view(stored.dtype).reshape(value.shape)[source]
        return result


def _leaf(saved: _Saved, n: int, like: Any) -> Any:
    aval = _type(like)
    if not hasattr(like, "sharding"):
        value = saved.part(n, tuple([(0, size) for size in aval.shape]), aval)
        return value if isinstance(like, np.ndarray) else type(like)(value[()])
    committed = like.committed if isinstance(like, Array) else like.sharding is not None
    layout = layout_of(aval, like.sharding or SingleDeviceSharding(default_device()), committed)
    values = [saved.part(n, bounds(part, aval.shape), layout.aval) for part in layout.parts]
    return Array(shim.put_shards(values, layout.aval, layout.native, layout.devices),
                 layout.placement)
