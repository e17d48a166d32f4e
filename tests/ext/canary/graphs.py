"""An exporter: programs as graphs in JSON, written and read by the schemas of their primitives.

`dump(jaxpr)` gives the text of a program, `load(text)` the program again; `numpy_backend.py` runs a
graph without mjax. No primitive has code of its own here. A schema says how each param is written:
classes of enumerations and of records, tuples, dtypes, and which params are programs. Functions in
params cannot be written. If such an equation holds one program of its operands and results, as
functions with derivatives of their own do, that program takes its place.
"""

from __future__ import annotations

import base64
import enum
import json
import pickle
import types
import typing

import numpy as np

import mjax
from mjax_ext import core, source_info_util
from mjax_ext.core import primitives

VERSION = 1
PRIMITIVES = {getattr(primitives, name).name: getattr(primitives, name)
              for name in primitives.__all__}


class CannotExportError(Exception):
    """A program has a value that cannot be written."""


class _UnwritableError(Exception):
    """A value that cannot be written."""


# ---- schemas -----------------------------------------------------------------------------------


def describe(kind):
    """The type of a param, as data."""
    if kind is typing.Any:
        return "any"
    if kind is None or kind is type(None):
        return "nothing"
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return {"class": kind.__name__}
    if origin in (typing.Union, types.UnionType):
        return {"one of": [describe(a) for a in args]}
    if origin is typing.Literal:
        return {"among": list(args)}
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return {"each": describe(args[0])}
    if origin in (tuple, frozenset):
        return {origin.__name__: [describe(a) for a in args]}
    return {"class": origin.__name__}


def signature(primitive):
    """Reads a schema: param -> its type, whether it may be absent, whether it is a program."""
    schema = primitive.schema
    return {name: {"type": describe(kind), "optional": name not in schema.required,
                   "program": name in schema.bodies} for name, kind in schema.params.items()}


# ---- values ------------------------------------------------------------------------------------


def write_array(x):
    """An array; one of keys as the numbers behind it."""
    dtype = mjax.typeof(x).dtype
    if mjax.dtypes.issubdtype(dtype, mjax.dtypes.prng_key):
        return {"keys": write_array(mjax.random.key_data(x)), "impl": str(mjax.random.key_impl(x))}
    x = np.asarray(x)
    return {"dtype": x.dtype.name, "shape": list(x.shape),
            "data": base64.b64encode(x.tobytes()).decode()}


def read_array(data):
    if "keys" in data:
        return mjax.random.wrap_key_data(read_array(data["keys"]), impl=data["impl"])
    dtype = mjax.numpy.dtype(data["dtype"])
    return np.frombuffer(base64.b64decode(data["data"]), dtype).reshape(data["shape"])


def write_type(aval):
    if not isinstance(aval, core.ShapedArray):
        raise _UnwritableError(f"a value of type {aval}")
    dtype = aval.dtype.name if isinstance(aval.dtype, np.dtype) else _write_any(aval.dtype)
    return {"shape": list(aval.shape), "dtype": dtype, "weak": aval.weak_type}


def write(kind, value):
    """A value of a type of a schema, as data."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if value is None:
        return None
    if isinstance(value, core.Jaxpr):
        return write_program(value)
    if origin in (typing.Union, types.UnionType):
        return write(_member(args, value), value)
    if origin is tuple and args[0] is not typing.Any:
        return [write(k, v) for k, v in zip(_kinds(args, value), value, strict=True)]
    if origin is frozenset:
        return [write(args[0], v) for v in sorted(value, key=str)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value.name
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return [write(typing.Any, v) for v in value]
    if kind is np.dtype:
        return value.name
    if kind is core.Primitive:
        return {"primitive": value.name}
    if kind is core.AbstractValue and isinstance(value, core.ShapedArray):
        return write_type(value)
    if kind in (int, float, bool, str):
        return kind(value)
    return _write_any(value)


def read(kind, data):
    """The value of such data."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if data is None:
        return None
    if origin in (typing.Union, types.UnionType):
        return read(_member_of_data(args, data), data)
    if origin is tuple and args[0] is not typing.Any:
        return tuple(read(k, v) for k, v in zip(_kinds(args, data), data, strict=True))
    if origin is frozenset:
        return frozenset(read(args[0], v) for v in data)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[data]
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*[read(typing.Any, v) for v in data])
    if kind is np.dtype:
        return mjax.numpy.dtype(data)
    if kind is core.Primitive:
        return PRIMITIVES[data["primitive"]]
    if kind is core.AbstractValue and "shape" in data:
        return read_type(data)
    if kind is core.Jaxpr:
        return read_program(data)
    return data if kind in (int, float, bool, str) else _read_any(data)


def _kinds(args, values):
    return [args[0]] * len(values) if args[-1] is ... else args


def _member(args, value):
    """The type of a union that a value is of."""
    classes = [a for a in args if isinstance(a, type) and isinstance(value, a)]
    return (classes or [a for a in args if a is not type(None)])[0]


def _member_of_data(args, data):
    """The same for data: records are lists, members of enumerations and dtypes are texts."""
    for a in args:
        is_text = a in (str, np.dtype) or (isinstance(a, type) and issubclass(a, enum.Enum))
        if a is not type(None) and is_text == isinstance(data, str):
            return a
    raise AssertionError((args, data))


def _write_any(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) is tuple:
        return {"tuple": [_write_any(v) for v in value]}
    if isinstance(value, (np.generic, np.ndarray, mjax.Array)):
        return {"scalar" if isinstance(value, np.generic) else "array": write_array(value)}
    if callable(value) and not isinstance(value, type):
        raise _UnwritableError("a function")
    try:
        return {"pickle": base64.b64encode(pickle.dumps(value)).decode()}
    except Exception as error:
        raise _UnwritableError(f"a value of the class {type(value).__name__}") from error


def _read_any(data):
    if not isinstance(data, dict):
        return data
    (how, inner), = data.items()
    if how == "tuple":
        return tuple(map(_read_any, inner))
    if how in ("array", "scalar"):
        return read_array(inner)[() if how == "scalar" else ...]
    return pickle.loads(base64.b64decode(inner))


# ---- programs ----------------------------------------------------------------------------------


def write_program(jaxpr):
    """A program as data; the variables of each program have numbers of their own."""
    numbers = {}
    number = lambda v: numbers.setdefault(v, len(numbers))
    atom = lambda a: (number(a) if isinstance(a, core.Var) else
                      {"literal": write_array(a.val), "type": write_type(a.aval)})
    graph = {
        "constants": [[number(v), write_array(c)]
                      for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True)],
        "inputs": [[number(v), write_type(v.aval)] for v in jaxpr.invars], "nodes": []}
    for eqn in jaxpr.eqns:
        try:
            graph["nodes"].append({
                "in": list(map(atom, eqn.invars)), **_write_equation(eqn),
                "out": list(map(number, eqn.outvars)),
                "types": [write_type(v.aval) for v in eqn.outvars]})
        except _UnwritableError as error:
            raise CannotExportError(
                f"{eqn.primitive.name} at {source_info_util.summarize(eqn.source_info)}: "
                f"{error}") from None
    return graph | {"results": list(map(atom, jaxpr.outvars))}


def _write_equation(eqn):
    schema, params = eqn.primitive.schema, {}
    for name, value in eqn.params.items():
        try:
            params[name] = write(schema.params[name], value)
        except _UnwritableError as error:
            body = _body_in_place(eqn)
            if body is not None:
                return {"name": "inlined", "was": eqn.primitive.name, "params": {
                    "program": write_program(body)}}
            raise _UnwritableError(f"the param {name!r} holds {error}") from None
    return {"name": eqn.primitive.name, "params": params}


def _body_in_place(eqn):
    """The only program of an equation, if it is one of the operands and results."""
    bodies = [body for _, body in eqn.primitive.schema.jaxprs(eqn.params)]
    if len(bodies) == 1 and bodies[0].in_avals == [a.aval for a in eqn.invars] and (
            bodies[0].out_avals == [v.aval for v in eqn.outvars]):
        return bodies[0]
    return None


def read_type(data):
    dtype = data["dtype"]
    dtype = mjax.numpy.dtype(dtype) if isinstance(dtype, str) else _read_any(dtype)
    return core.ShapedArray(tuple(data["shape"]), dtype, data["weak"])


def read_program(graph):
    """The program of a graph; the types of its results are inferred anew."""
    builder = core.JaxprBuilder()
    atoms = {number: builder.constant(read_array(value)) for number, value in graph["constants"]}
    atoms |= {number: builder.input(read_type(data)) for number, data in graph["inputs"]}
    _add_nodes(builder, graph, atoms)
    return builder.build(*[_read_atom(atoms, a) for a in graph["results"]])


def _add_nodes(builder, graph, atoms):
    for node in graph["nodes"]:
        operands = [_read_atom(atoms, a) for a in node["in"]]
        if node["name"] == "inlined":
            outs = _inlined(builder, node["params"]["program"], operands)
        else:
            primitive = PRIMITIVES[node["name"]]
            schema = primitive.schema
            params = {k: read(schema.params[k], v) for k, v in node["params"].items()}
            outs = builder.apply(primitive, *operands, **params)
            outs = outs if primitive.multiple_results else [outs]
        found = [write_type(a.aval) for a in outs]
        if found != node["types"]:
            raise TypeError(f"{node['name']} gives {found}; the graph has {node['types']}")
        atoms.update(zip(node["out"], outs, strict=True))


def _inlined(builder, graph, operands):
    atoms = {number: builder.constant(read_array(value)) for number, value in graph["constants"]}
    atoms |= {number: a for (number, _), a in zip(graph["inputs"], operands, strict=True)}
    _add_nodes(builder, graph, atoms)
    return [_read_atom(atoms, a) for a in graph["results"]]


def _read_atom(atoms, data):
    if isinstance(data, int):
        return atoms[data]
    value = read_array(data["literal"])[()]
    aval = read_type(data["type"])
    return core.Literal(value.item() if aval.weak_type else value, aval)


def dump(jaxpr):
    """The text of a program."""
    try:
        return json.dumps({"version": VERSION, "program": write_program(jaxpr)})
    except _UnwritableError as error:
        raise CannotExportError(f"an input is {error}") from None


def load(text):
    """The program of a text, type-checked."""
    data = json.loads(text)
    if data["version"] != VERSION:
        raise ValueError(f"a graph of version {data['version']}; this reads {VERSION}")
    jaxpr = read_program(data["program"])
    core.check_jaxpr(jaxpr)
    return jaxpr
