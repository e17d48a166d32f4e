"""Functions that say how they are cut over devices, in mjax and in jax."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import custom_partitioning_sharding_rule as theirs_
from jax._src.interpreters import mlir

import mjax
import mjax.numpy as mnp
from mjax._engine.spmd import sharding_rules as ours_
from mjaxlib_shim.mlir import new_context

LIBRARIES = (jax, jnp), (mjax, mnp)
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def module(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.custom_partitioning")


# ---- rules ---------------------------------------------------------------------------------------

TEXTS = ["i j, j k -> i k", "->", "i ->", "... i -> ... i", "...1 a, ...2 -> ...1, ...02",
         "(a b) c -> a b c", "a b c -> (a b) c", "(a b)c,->c", "...->...", "  a_1  B2 ,  c ->  ",
         "(a b) -> (b a)", "...(a b) -> ... a b", "i, i -> i",
         # refused
         "i j", "i -> j -> k", "i ... -> i", "(... i) -> i", "(i -> i", "i) -> i", "((i j) k) -> i",
         "(i) -> i", "i. -> i", "1i -> i", "_i -> i", "i? -> i", "é -> é", "() -> ", "… -> …"]
SIZES = [{}, {"a": 2, "b": 3}, {"z": 2}]
SHAPES = [([(2, 3)], [(2, 3)]), ([(2, 3), (3, 4)], [(2, 4)]), ([(6, 4)], [(2, 3, 4)]),
          ([(6,)], [(6,)]), ([()], [()]), ([(5, 6)], [(5, 2, 3)]), ([(4,), (2,)], [(3,)])]


def outcome(f):
    try:
        return f()
    except (ValueError, TypeError) as error:
        return ValueError if isinstance(error, ValueError) else TypeError


def text_of(attribute):
    return str(attribute).replace(", custom>", ">")


def both(text, **options):
    return [outcome(lambda f=f: f(text, **options)) for f in (
        ours_.rule_of_text, theirs_.str_to_sdy_sharding_rule)]


def attributes(ours, theirs, ins, outs):
    with new_context():
        mine = outcome(lambda: text_of(ours_.rule_attribute(ours, ins, outs)))
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        types = [[mlir.ir.RankedTensorType.get(shape, mlir.ir.F32Type.get()) for shape in shapes]
                 for shapes in (ins, outs)]
        return mine, outcome(lambda: text_of(theirs_.sdy_sharding_rule_to_mlir(theirs, *types)))


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    for sizes in SIZES:
        ours, theirs = both(text, **sizes)
        assert (str(ours), theirs is ValueError) == (str(theirs), ours is ValueError)
        for ins, outs in SHAPES if ours is not ValueError else ():
            mine, other = attributes(ours, theirs, ins, outs)
            assert mine == other, (ins, outs)


@pytest.mark.parametrize("kinds", [
    {"reduction_factors": ("j",)}, {"need_replication_factors": ("i", "j")},
    {"permutation_factors": ("k",), "reduction_factors": ("j",)},
    {"reduction_factors": ["j"]}, {"reduction_factors": ("z",)},
    {"reduction_factors": ("j", "j")},
    {"reduction_factors": ("j",), "permutation_factors": ("j",)}])
def test_kinds_of_factors(kinds):
    ours, theirs = both("i j, j k -> i k", **kinds)
    assert str(ours) == str(theirs)
    if ours is not ValueError:
        mine, other = attributes(ours, theirs, [(2, 3), (3, 4)], [(2, 4)])
        assert mine == other


# ---- programs ------------------------------------------------------------------------------------


def _mesh(lib):
    options = ({"axis_types": (jax.sharding.AxisType.Auto,) * 2} if lib is jax else {})
    return lib.make_mesh((4, 2), ("x", "y"), **options)


def product(lib, np_, log, **options):
    f = module(lib).custom_partitioning(lambda x, w: np_.matmul(x, w))
    named = lambda mesh, *spec: lib.NamedSharding(mesh, lib.P(*spec))

    def partition(mesh, args, result):
        log.append([tuple(a.sharding.spec) for a in (*args, result)]
                   + [a.shape for a in (*args, result)] + [str(result.dtype)])
        rows, inner = args[0].sharding.spec

        def pieces(x, w):
            out = np_.matmul(x, w)
            return out if inner is None else lib.lax.psum(out, inner)

        return mesh, pieces, named(mesh, rows, None), (
            named(mesh, rows, inner), named(mesh, inner, None))

    f.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    return f


@pytest.mark.parametrize("left", [("x", "y"), ("x",), (None, "x"), ("y", "x"), (("x", "y"),), ()],
                         ids=str)
def test_a_product(left):
    def run(lib, np_):
        log, mesh = [], _mesh(lib)
        f = product(lib, np_, log)
        put = lambda v, *spec: lib.device_put(v, lib.NamedSharding(mesh, lib.P(*spec)))
        with lib.set_mesh(mesh):
            out = lib.jit(lambda x, w: f(x, w))(put(X, *left), put(X[:, :4]))
        np.testing.assert_allclose(out, X @ X[:, :4])
        return log, [*out.sharding.spec, None, None][:2]

    theirs, ours = (run(*library) for library in LIBRARIES)
    assert theirs == ours


def test_static_arguments_and_rules_by_a_function():
    def run(lib, np_):
        seen, mesh = [], _mesh(lib)
        f = module(lib).custom_partitioning(lambda n, x, b=1.0: n * x + b, static_argnums=(0,))

        def rule(n, mesh, operands, results):
            seen.append((n, tuple(mesh.shape.items()), [*map(str, operands)],
                         [*map(str, results)]))
            return "... i, -> ... i"

        f.def_partition(lambda n, mesh, args, result: (
            mesh, lambda x, b: n * x + b, args[0].sharding,
            (args[0].sharding, lib.NamedSharding(mesh, lib.P()))), sharding_rule=rule)
        with lib.set_mesh(mesh):
            out = lib.jit(lambda x: f(3, b=2.0, x=x))(
                lib.device_put(X, lib.NamedSharding(mesh, lib.P("x"))))
        np.testing.assert_array_equal(out, 3 * X + 2)
        return seen, out.sharding.spec[0]

    theirs, ours = (run(*library) for library in LIBRARIES)
    assert theirs == ours


@pytest.mark.parametrize("library", LIBRARIES, ids=["jax", "mjax"])
def test_what_is_refused(library):
    lib, f = library[0], product(*library, [])
    with pytest.raises(NotImplementedError):
        lib.vmap(f)(np.ones((2, 8, 8), "f4"), np.ones((2, 8, 8), "f4"))
    with pytest.raises(NotImplementedError):
        lib.grad(lambda x: f(x, x).sum())(X)
