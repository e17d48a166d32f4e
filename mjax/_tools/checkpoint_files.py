"""The files of one checkpoint: safetensors with the parts of leaves, and the manifest.

Their content is not trusted: an unexpected name, shape, size or checksum raises an error that names
the file.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir.types import ShapedArray

MANIFEST = "manifest.json"
FORMAT = 2

#: The start and the end of a leaf's part, per dimension.
Bounds = tuple[tuple[int, int], ...]
#: The member of a file that holds a part, with the shape and dtype stated in the file.
Member = tuple["_File", str]

#: Dtypes that safetensors stores, by its names; others are stored as bytes.
_NATIVE = {np.dtype(t): code for t, code in (
    (np.bool_, "BOOL"), (np.int8, "I8"), (np.uint8, "U8"), (np.int16, "I16"), (np.uint16, "U16"),
    (np.int32, "I32"), (np.uint32, "U32"), (np.int64, "I64"), (np.uint64, "U64"),
    (np.float16, "F16"), (ml_dtypes.bfloat16, "BF16"), (np.float32, "F32"), (np.float64, "F64"))}
_PART = re.compile(r"(\d+)@((?:\d+:\d+(?:,\d+:\d+)*)?)")


def library() -> Any:
    """Imports safetensors.

    Raises:
      ImportError: it is not installed; says how to install it.
    """
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError as error:
        msg = ("mjax.experimental.checkpoint stores arrays with safetensors, which cannot be "
               f"imported ({error}). Install it with:\n  python -m pip install 'mjax[checkpoint]'")
        raise ImportError(msg) from error


def shards(process: int, count: int) -> str:
    """The name of the file that a process writes."""
    return f"shards-{process}-of-{count}.safetensors"


# -- writing --


def write_shards(folder: str, name: str, parts: Mapping[tuple[int, Bounds], np.ndarray[Any, Any]]
                 ) -> dict[str, Any]:
    """Writes parts of leaves; returns the file's size and checksum."""
    members = {f"{leaf}@{_text(part)}": _storable(value) for (leaf, part), value in parts.items()}
    write = library().numpy.save_file
    return _write(os.path.join(folder, name), lambda partial: write(members, partial))


def write_manifest(folder: str, step: int, files: Mapping[str, Any],
                   leaves: Iterable[tuple[str, ShapedArray]]) -> None:
    """Writes the manifest, which completes the checkpoint."""
    content = {"format": FORMAT, "step": step, "files": files,
               "leaves": [[path, list(aval.shape), str(aval.dtype)] for path, aval in leaves]}
    text = json.dumps({**content, "sha256": _own_checksum(content)}, indent=1)

    def write(partial: str) -> None:
        with open(partial, "wb") as file:
            file.write(text.encode())

    _write(os.path.join(folder, MANIFEST), write)


def _text(part: Bounds) -> str:
    return ",".join(f"{start}:{stop}" for start, stop in part)


def _storable(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a dtype that safetensors holds; if necessary, bytes in a new last dimension."""
    value = np.ascontiguousarray(value).reshape(value.shape)
    if value.dtype in _NATIVE:
        return value
    return value.reshape(-1).view(np.uint8).reshape(*value.shape, value.dtype.itemsize)


def _write(path: str, write: Any) -> dict[str, Any]:
    """Writes a file that gets its name once it is on the disk; returns its size and checksum."""
    partial = f"{path}.partial"
    try:
        write(partial)
        with open(partial, "rb+") as file:
            summary = {"bytes": os.path.getsize(partial),
                       "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise
    sync_folder(os.path.dirname(path))
    return summary


def sync_folder(folder: str) -> None:
    """Returns when the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _own_checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# -- reading --


def damaged(path: str, why: str) -> ValueError:
    """The error for a damaged file."""
    return ValueError(f"checkpoint.restore: {path} is damaged: {why}. Restore another step, with "
                      "step=, or remove this one.")


def read_manifest(folder: str, step: int) -> dict[str, Any]:
    """The manifest of a step, with `files` by name and `leaves`; checked.

    Raises:
      ValueError: it is damaged, or of another version or step; names it.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:  # of UTF-8 and of JSON
        raise damaged(path, f"it is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise damaged(path, "it is not a JSON object")
    if content.get("format", FORMAT) != FORMAT:
        msg = (f"checkpoint.restore: {path} has format {content['format']!r}; this version of mjax "
               f"reads format {FORMAT}. Another version wrote it, or it is damaged.")
        raise ValueError(msg)
    if content.pop("sha256", None) != _own_checksum(content):
        raise damaged(path, "it does not have the checksum (sha256) that it says")
    if (wrong := _misfit(content)) is not None:
        raise damaged(path, wrong)
    if content["step"] != step:
        msg = (f"checkpoint.restore: {path} is of step {content['step']}, and its folder is that "
               f"of step {step}. Give the folder back its name.")
        raise ValueError(msg)
    return content


def _misfit(content: dict[str, Any]) -> str | None:
    """Describes an error in a manifest with a correct checksum; None if there is none."""
    if set(content) != {"format", "step", "files", "leaves"}:
        return f"its keys are {sorted(content)}"
    files, leaves = content["files"], content["leaves"]
    if type(content["step"]) is not int or not isinstance(files, dict) or not (
            isinstance(leaves, list)):
        return "`step`, `files` or `leaves` has the wrong type"
    if set(files) != {shards(process, len(files)) for process in range(len(files))}:
        return f"its files are not those of {len(files)} processes: {sorted(files)}"
    for name, summary in files.items():
        if not isinstance(summary, dict) or set(summary) != {"bytes", "sha256"}:
            return f"{name} does not have `bytes` and `sha256`"
    for leaf in leaves:
        if not (isinstance(leaf, list) and len(leaf) == 3 and isinstance(leaf[1], list)):
            return f"{leaf!r} is not a leaf's path, shape and dtype"
    return None


class _File:
    """One file of parts; its checksum is verified before the first part is read."""

    def __init__(self, path: str, summary: Mapping[str, Any]):
        self.path = path
        self._summary = summary
        self._verified = False
        if not os.path.exists(path):
            msg = f"checkpoint.restore: {path}, which the manifest names, is not there."
            raise FileNotFoundError(msg)
        if os.path.getsize(path) != summary["bytes"]:
            raise damaged(path, f"it has {os.path.getsize(path)} bytes, not the "
                                f"{summary['bytes']} it was saved with")
        safetensors = library()
        try:
            self._open = safetensors.safe_open(path, framework="numpy")
            self.members = tuple(self._open.keys())
        except safetensors.SafetensorError as error:
            raise damaged(path, str(error)) from None

    def header(self, member: str) -> tuple[str, tuple[int, ...]]:
        """The dtype, as safetensors calls it, and the shape of a member."""
        view = self._open.get_slice(member)
        return view.get_dtype(), tuple(view.get_shape())

    def verify(self) -> None:
        """Compares the file with its checksum, the first time it is called."""
        if not self._verified:
            with open(self.path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != self._summary["sha256"]:
                raise damaged(self.path, "it does not have the checksum (sha256) that the manifest "
                                         "has")
            self._verified = True

    def read(self, member: str, part: Sequence[slice]) -> np.ndarray[Any, Any]:
        """A part of a member."""
        self.verify()
        value: np.ndarray[Any, Any] = (
            self._open.get_slice(member)[tuple(part)] if part else self._open.get_tensor(member))
        return value


class Saved:
    """The parts of leaves in the files of a checkpoint."""

    def __init__(self, folder: str, manifest: Mapping[str, Any]):
        self._manifest = os.path.join(folder, MANIFEST)
        self._parts: list[dict[Bounds, Member]] = [{} for _ in manifest["leaves"]]
        self._shapes = [tuple(shape) for _, shape, _ in manifest["leaves"]]
        self._files = [_File(os.path.join(folder, name), summary)
                       for name, summary in manifest["files"].items()]
        for file in self._files:
            for member in file.members:
                leaf, part = self._place(file, member)
                self._parts[leaf][part] = file, member
        for leaf, (path, shape, _) in enumerate(manifest["leaves"]):
            if not _covers(tuple(self._parts[leaf]), tuple(shape)):
                self._incomplete(path)

    def _place(self, file: _File, member: str) -> tuple[int, Bounds]:
        """The leaf of a member, and the member's place in it."""
        found = _PART.fullmatch(member)
        if found is not None and int(found[1]) < len(self._shapes):
            pairs = [piece.split(":") for piece in found[2].split(",") if piece]
            part = tuple([(int(start), int(stop)) for start, stop in pairs])
            shape = self._shapes[int(found[1])]
            if len(part) == len(shape) and all(
                    start <= stop <= size for (start, stop), size in zip(part, shape)):
                return int(found[1]), part
        raise damaged(file.path, f"its member {member!r} is not a part of a leaf")

    def _incomplete(self, path: str) -> None:
        for file in self._files:
            file.verify()
        raise damaged(self._manifest, f"the parts of the leaf {path} that its files have do not "
                                      "make up its shape")

    def part(self, leaf: int, wanted: Bounds, stored: ShapedArray) -> np.ndarray[Any, Any]:
        """One part of a leaf, assembled from the saved parts."""
        rest = stored.shape[len(wanted):]
        raw = () if stored.dtype in _NATIVE else (stored.dtype.itemsize,)
        code = _NATIVE.get(stored.dtype, "U8")
        result = np.empty((*[stop - start for start, stop in wanted], *rest), stored.dtype)
        for have, (file, member) in self._parts[leaf].items():
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, have, strict=True)]
            if not all(start < stop for start, stop in common):
                continue
            expected = code, (*[stop - start for start, stop in have], *rest, *raw)
            if file.header(member) != expected:
                file.verify()
                raise damaged(file.path, f"its member {member!r} has dtype and shape "
                                         f"{file.header(member)}, not {expected}")
            target = tuple([slice(a - o, b - o) for (a, b), (o, _) in zip(common, wanted)])
            source = [slice(a - o, b - o) for (a, b), (o, _) in zip(common, have)]
            value = np.ascontiguousarray(file.read(member, source)).view(stored.dtype)
            result[target] = value.reshape(result[target].shape)
        return result


@functools.lru_cache(maxsize=64)
def _covers(parts: tuple[Bounds, ...], shape: tuple[int, ...]) -> bool:
    """Whether parts make up a whole array, each element once."""
    ranges = np.array(parts, np.int64).reshape(len(parts), len(shape), 2)
    starts, stops = ranges[..., 0], ranges[..., 1]
    full = [n for n, size in enumerate((stops - starts).prod(1).tolist()) if size]
    total = int((stops - starts).prod(1).sum())
    if total != int(np.prod(shape, dtype=np.int64)):
        return False
    starts, stops = starts[full], stops[full]
    return all(not ((starts[n + 1:] < stops[n]) & (starts[n] < stops[n + 1:])).all(1).any()
               for n in range(len(full)))
