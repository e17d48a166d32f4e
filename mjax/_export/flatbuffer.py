"""A reader and a writer of flatbuffers, for the tables of a schema.

A flatbuffer is a tree of tables. A table starts with the distance back to its vtable, which holds
the offset of each field, or 0 if it is left out. Strings, vectors and tables are referenced by the
distance forward to them. All numbers are little-endian.

Here a table is a dict. A schema is, per table, the kind of each field and its number:

    kind ::= "bool" | "i8" | "i16" | "u16" | "u32" | "string" | "bytes" | Table | [kind]

The reader does not trust its input: for any bytes it returns dicts of these kinds or raises.

Source: the specification of FlatBuffers, "FlatBuffers Internals".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

#: Table -> field -> (number, kind).
Schema = Mapping[str, Mapping[str, tuple[int, Any]]]

_SCALARS = {"bool": "<?", "i8": "<b", "i16": "<h", "u16": "<H", "u32": "<I"}
_DEEPEST = 200


class MalformedError(ValueError):
    """Bytes that are not a flatbuffer of the schema."""


def write(schema: Schema, table: str, value: Mapping[str, Any], room: int = 0) -> bytearray:
    """The bytes of a table.

    Args:
      schema: the fields of the tables.
      table: the name of the outermost one.
      value: its fields. Missing fields, None, 0 and an empty vector are not written.
      room: the number of bytes after the first four that are reserved for the caller.
    """
    out = bytearray(4 + room)
    _refer(out, 0, _write_table(schema, table, value, out))
    return out


def _refer(out: bytearray, place: int, target: int) -> None:
    struct.pack_into("<I", out, place, target - place)


def _align(out: bytearray, size: int) -> None:
    out += bytes(-len(out) % size)


def _write_table(schema: Schema, table: str, value: Mapping[str, Any], out: bytearray) -> int:
    fields = schema[table]
    unknown = value.keys() - fields.keys()
    if unknown:
        msg = f"{table} does not have the fields {sorted(unknown)}"
        raise KeyError(msg)
    present = sorted((fields[name], v) for name, v in value.items() if v or type(v) is dict)
    count = 1 + max((number for (number, _), _ in present), default=-1)
    _align(out, 4)
    vtable = len(out)
    out += bytes(4 + 2 * count)
    _align(out, 4)
    start = len(out)
    out += struct.pack("<i", start - vtable) + bytes(4 * len(present))
    struct.pack_into("<HH", out, vtable, 4 + 2 * count, 4 + 4 * len(present))
    for i, ((number, kind), v) in enumerate(present):
        place = start + 4 + 4 * i  # each field has four bytes, so all are aligned
        struct.pack_into("<H", out, vtable + 4 + 2 * number, place - start)
        if kind in _SCALARS if type(kind) is str else False:
            struct.pack_into(_SCALARS[kind], out, place, v)
        else:
            _refer(out, place, _write_value(schema, kind, v, out))
    return start


def _write_value(schema: Schema, kind: Any, value: Any, out: bytearray) -> int:
    if type(kind) is list:
        return _write_vector(schema, kind[0], value, out)
    if kind in ("string", "bytes"):
        _align(out, 4)
        start, data = len(out), value.encode() if kind == "string" else bytes(value)
        out += struct.pack("<I", len(data)) + data + (b"\0" if kind == "string" else b"")
        return start
    return _write_table(schema, kind, value, out)


def _write_vector(schema: Schema, kind: Any, values: Any, out: bytearray) -> int:
    _align(out, 4)
    start = len(out)
    out += struct.pack("<I", len(values))
    if kind in _SCALARS:
        for value in values:
            out += struct.pack(_SCALARS[kind], value)
        return start
    out += bytes(4 * len(values))
    for i, value in enumerate(values):
        _refer(out, start + 4 + 4 * i, _write_value(schema, kind, value, out))
    return start


def read(schema: Schema, table: str, data: bytes) -> dict[str, Any]:
    """The outermost table; fields that are left out are 0, None or an empty list.

    Raises:
      MalformedError: the bytes are not a flatbuffer of the schema.
    """
    reader = _Reader(schema, data)
    return reader.table(table, reader.target(0), 0)


class _Reader:
    """Reads one buffer."""

    def __init__(self, schema: Schema, data: bytes):
        self.schema, self.data = schema, data
        #: Shared parts are read once per reference, so malicious buffers could be endless.
        self.left = 4 * len(data)

    def number(self, form: str, place: int) -> Any:
        """A number; each reference goes forward, hence `place` is never negative."""
        try:
            return struct.unpack_from(form, self.data, place)[0]
        except struct.error:
            msg = f"a number is beyond the end of the {len(self.data)} bytes"
            raise MalformedError(msg) from None

    def target(self, place: int) -> int:
        """The place that a reference points to."""
        distance = self.number("<I", place)
        if distance < 4:
            msg = f"a reference at byte {place} leads nowhere"
            raise MalformedError(msg)
        return int(place + distance)

    def table(self, name: str, start: int, depth: int) -> dict[str, Any]:
        """A table."""
        self.left -= 1
        if depth > _DEEPEST or self.left < 0:
            msg = "tables are nested too deeply, or refer to each other too often"
            raise MalformedError(msg)
        vtable = start - self.number("<i", start)
        if vtable < 0:
            msg = f"the vtable of a {name} is in front of the first byte"
            raise MalformedError(msg)
        size, found = self.number("<H", vtable), {}
        for field, (number, kind) in self.schema[name].items():
            entry = 4 + 2 * number
            offset = self.number("<H", vtable + entry) if entry + 2 <= size else 0
            found[field] = (self.value(kind, start + offset, depth + 1) if offset
                            else _left_out(kind))
        return found

    def value(self, kind: Any, place: int, depth: int) -> Any:
        """A field of a table, or an element of a vector."""
        if type(kind) is list:
            return self.vector(kind[0], self.target(place), depth)
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], place)
        if kind not in ("string", "bytes"):
            return self.table(kind, self.target(place), depth)
        start = self.target(place)
        end = start + 4 + self.number("<I", start)
        if end > len(self.data):
            msg = f"a {kind} is longer than the rest of the data"
            raise MalformedError(msg)
        data = bytes(self.data[start + 4:end])
        if kind == "bytes":
            return data
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise MalformedError(str(error)) from None

    def vector(self, kind: Any, start: int, depth: int) -> list[Any]:
        """A vector."""
        count = self.number("<I", start)
        size = struct.calcsize(_SCALARS[kind]) if kind in _SCALARS else 4
        self.left -= count
        if start + 4 + count * size > len(self.data) or self.left < 0:
            msg = "a vector is longer than the rest of the data"
            raise MalformedError(msg)
        return [self.value(kind, start + 4 + i * size, depth) for i in range(count)]


def _left_out(kind: Any) -> Any:
    if type(kind) is list:
        return []
    return 0 if kind in _SCALARS else None
