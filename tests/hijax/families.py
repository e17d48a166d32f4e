"""Types and primitives of authors, for mjax and for JAX: the same code on either."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace


def family(m, hijax, mapping_spec):
    """The types and functions of these tests.

    Args:
      m: mjax or jax.
      hijax: its `experimental.hijax`.
      mapping_spec: the base of specs.
    """
    return SimpleNamespace(**quantized(m, hijax), **tuples(m, hijax, mapping_spec),
                           **powers(m, hijax))


def quantized(m, hijax):
    """Matrices of 8-bit numbers with a scale for each row, whose tangents are float matrices."""
    jnp = m.numpy
    float32, int8 = jnp.dtype("float32"), jnp.dtype("int8")

    @dataclass(frozen=True)
    class Quantized:
        numbers: object
        scale: object

    @dataclass(frozen=True)
    class QuantizedType(hijax.HiType):
        shape: tuple

        def lo_ty(self):
            return [hijax.ShapedArray(self.shape, int8), hijax.ShapedArray(self.shape[:1], float32)]

        def lower_val(self, q):
            return [q.numbers, q.scale]

        def raise_val(self, numbers, scale):
            return Quantized(numbers, scale)

        def to_tangent_aval(self):
            return hijax.ShapedArray(self.shape, float32)

    hijax.register_hitype(Quantized, lambda q: QuantizedType(q.numbers.shape))

    class Quantize(hijax.HiPrimitive):
        def abstract_eval(self, x):
            return QuantizedType(x.shape), set()

        def to_lojax(self, x):
            scale = jnp.abs(x).max(1) / 127
            return Quantized(jnp.round(x / scale[:, None]).astype(int8), scale)

        def jvp(self, primals, tangents):
            return self.bind(*primals), tangents[0]

    class Dequantize(hijax.HiPrimitive):
        def abstract_eval(self, q):
            return hijax.ShapedArray(q.shape, float32), set()

        def to_lojax(self, q):
            return q.numbers.astype(float32) * q.scale[:, None]

        def jvp(self, primals, tangents):
            return self.bind(*primals), tangents[0]

    return {"Quantized": Quantized, "QuantizedType": QuantizedType,
            "quantize": Quantize("to rows").bind, "dequantize": Dequantize("of rows").bind}


def tuples(m, hijax, mapping_spec):
    """Tuples as one value."""
    jnp = m.numpy

    @dataclass(frozen=True)
    class Tuple:
        parts: tuple

    @dataclass(frozen=True)
    class TupleSpec(mapping_spec):
        axes: tuple

    @dataclass(frozen=True)
    class TupleType(hijax.HiType):
        types: tuple

        def __repr__(self):
            return f"Tuple({', '.join(map(str, self.types))})"

        def lo_ty(self):
            return [low for t in self.types for low in t.lo_ty()]

        def lower_val(self, value):
            return [low for t, part in zip(self.types, value.parts) for low in t.lower_val(part)]

        def raise_val(self, *lows):
            rest = iter(lows)
            return Tuple(tuple(t.raise_val(*itertools.islice(rest, len(t.lo_ty())))
                               for t in self.types))

        def to_tangent_aval(self):
            return TupleType(tuple(t.to_tangent_aval() for t in self.types))

        def normalize(self):
            return TupleType(tuple(t.normalize() for t in self.types))

        def vspace_zero(self):
            return pack(*[jnp.zeros(t.shape, t.dtype) for t in self.types])

        def vspace_add(self, x, y):
            return pack(*[part(x, i) + part(y, i) for i in range(len(self.types))])

        def dec_rank(self, size, spec):
            return TupleType(tuple(t.dec_rank(size, s) for t, s in zip(self.types, spec.axes)))

        def inc_rank(self, size, spec):
            return TupleType(tuple(t.inc_rank(size, s) for t, s in zip(self.types, spec.axes)))

        def leading_axis_spec(self):
            return TupleSpec(tuple(t.leading_axis_spec() for t in self.types))

        count = hijax.aval_property(lambda value: len(m.typeof(value).types))
        part = hijax.aval_method(lambda value, i: part(value, i))
        _getitem = staticmethod(lambda value, i: part(value, i))
        _radd = staticmethod(lambda value, y: pack(*[y + part(value, i) for i in (0, 1)]))

    hijax.register_hitype(Tuple, lambda t: TupleType(tuple(map(m.typeof, t.parts))))

    class Pack(hijax.VJPHiPrimitive):
        def __init__(self, types):
            self.in_avals, self.out_aval, self.params = types, TupleType(types), {}
            super().__init__()

        def expand(self, *parts):
            return Tuple(parts)

        def vjp_fwd(self, nzs_in, *parts):
            return pack(*parts), None

        def vjp_bwd_retval(self, res, ct):
            return tuple(part(ct, i) for i in range(len(self.in_avals)))

        def jvp(self, primals, tangents):
            return pack(*primals), pack(*map(hijax.instantiate_zeros, tangents))

        def batch(self, axis_data, args, dims):
            return pack(*args), TupleSpec(dims)

        def transpose(self, ct, *accums):
            for i, accum in enumerate(accums):
                accum.accum(part(ct, i))

    class Part(hijax.VJPHiPrimitive):
        def __init__(self, whole, i):
            self.in_avals, self.out_aval, self.params = (whole,), whole.types[i], {"i": i}
            super().__init__()

        def expand(self, value):
            return value.parts[self.i]

        def vjp_fwd(self, nzs_in, value):
            return part(value, self.i), None

        def vjp_bwd_retval(self, res, ct):
            return (self._of_part(ct),)

        def jvp(self, primals, tangents):
            return part(*primals, self.i), part(hijax.instantiate_zeros(tangents[0]), self.i)

        def batch(self, axis_data, args, dims):
            return part(*args, self.i), dims[0].axes[self.i]

        def transpose(self, ct, accum):
            accum.accum(self._of_part(ct))

        def _of_part(self, ct):
            return pack(*[ct if i == self.i else jnp.zeros(t.shape, t.dtype)
                          for i, t in enumerate(self.in_avals[0].types)])

    def pack(*parts):
        return Pack(tuple(map(m.typeof, parts)))(*parts)

    def part(value, i):
        return Part(m.typeof(value), i)(value)

    return {"Tuple": Tuple, "TupleType": TupleType, "TupleSpec": TupleSpec, "pack": pack,
            "part": part}


def powers(m, hijax):
    """Powers, with each rule in turn."""

    class Power(hijax.VJPHiPrimitive):
        def __init__(self, x, n):
            self.in_avals, self.out_aval, self.params = (x,), x, {"n": n}
            super().__init__()

        def expand(self, x):
            return x ** self.n

        def batch_dim_rule(self, axis_data, dims):
            return dims[0]

        def _slope(self, x):
            return self.n * x ** (self.n - 1)

    class Pulled(Power):
        def vjp_fwd(self, nzs_in, x):
            assert nzs_in == (True,)
            return self(x), x

        def vjp_bwd(self, x, ct, accum):
            accum.accum(ct * self._slope(x))

        def jvp(self, primals, tangents):
            return self(*primals), tangents[0] * self._slope(*primals)

    class Returned(Power):
        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd_retval(self, x, ct):
            return (ct * self._slope(x),)

    class Linearized(Power):
        def lin(self, nzs_in, x):
            return self(x), self._slope(x)

        def linearized(self, slope, t):
            return t * slope

    class Weighted(hijax.VJPHiPrimitive):
        """`w * x`, and `x`: several operands and results."""

        def __init__(self, w, x):
            self.in_avals, self.out_aval = ({"w": w, "x": x},), [x, x]
            self.params = {}
            super().__init__()

        def expand(self, tree):
            return [tree["w"] * tree["x"], tree["x"]]

        def vjp_fwd(self, nzs_in, tree):
            return self(tree), tree

        def vjp_bwd_retval(self, tree, cts):
            ct, same = map(hijax.instantiate_zeros, cts)
            return ({"w": (ct * tree["x"]).sum(), "x": ct * tree["w"] + same},)

        def batch_dim_rule(self, axis_data, dims):
            tree, = dims
            dim = next(d for d in (tree["w"], tree["x"]) if d is not None)
            return [dim, dim]

        def dce(self, used):
            if any(used):
                return True, True, self
            return False, False, None

    return {"Power": Power, "Weighted": Weighted,
            "pulled": lambda x, n: Pulled(m.typeof(x), n)(x),
            "returned": lambda x, n: Returned(m.typeof(x), n)(x),
            "linearized": lambda x, n: Linearized(m.typeof(x), n)(x),
            "weighted": lambda w, x: Weighted(m.typeof(w), m.typeof(x))({"w": w, "x": x})}
