"""Errors of references, and the names in their messages."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mjax
import mjax.export
import mjax.numpy as jnp
from mjax import lax

HERE = r"test_errors\.py:\d+"


def ref():
    return mjax.new_ref(jnp.zeros(3))


def frozen():
    r = ref()
    mjax.freeze(r)
    return r


def used_after_freeze(x):
    r = mjax.new_ref(x)
    return mjax.freeze(r) + r[...]


def new_scalar():
    return mjax.new_ref(1.0)


def read_both(a, b):
    return a[0] + b[0]


def write(r, x):
    r[...] = x


CASES = {
    "twice": (lambda r: mjax.jit(lambda a, b: a[0] + b[0])(r, r), ValueError,
              rf"same reference.*as a and as b.*made at .*{HERE}"),
    "twice inside": (lambda r: mjax.jit(lambda c: mjax.jit(lambda a, b: a[0] + b[0])(c, c))(r),
                     ValueError, "same reference.*as a and as b"),
    "closed over, too": (lambda r: mjax.jit(lambda a: a[0] + r[0])(r), ValueError,
                         "as a closed-over value and as a"),
    "twice in cond": (lambda r: lax.cond(True, read_both, read_both, r, r), ValueError,
                      "same reference.*as a and as b"),
    "closed over by a branch": (lambda r: lax.cond(True, lambda a: a[0] + r[0], lambda a: a[0], r),
                                ValueError, "as a closed-over value and as a"),
    "twice in vmap": (lambda r: mjax.vmap(read_both)(r, r), ValueError, "as a and as b"),
    "returned": (lambda r: mjax.jit(lambda a: a)(r), ValueError,
                 rf"{HERE} returns a reference of type Ref\{{float32\[3\]\}}, given as a"),
    "made and returned": (lambda r: mjax.jit(lambda: mjax.new_ref(1.0))(), ValueError,
                          rf"made at .*{HERE}"),
    "scan carry": (lambda r: lax.scan(lambda c, x: (c, x), r, jnp.ones(3)), ValueError,
                   "scan.*nor be carried by loops"),
    "while carry": (lambda r: lax.while_loop(lambda c: c[0] < 2, lambda c: c, r), ValueError,
                    "while_loop.*nor be carried"),
    "xs twice": (lambda r: lax.scan(lambda c, x: (c, x[0][...]), 0.0, (r, r)), ValueError,
                 r"same reference.*as x\[0\] and as x\[1\].*made at"),
    "xs closed over": (lambda r: lax.scan(lambda c, x: (c + r[0], x[...]), 0.0, r), ValueError,
                       "same reference.*as a closed-over value and as x"),
    "element returned": (lambda r: lax.scan(lambda c, x: (c, x), 0.0, r), ValueError,
                         "scan.*returns a reference.*given as x"),
    "element ended": (lambda r: lax.scan(lambda c, x: (c, mjax.freeze(x)), 0.0, r), ValueError,
                      "ended by freeze"),
    "jaxpr that returns": (mjax.make_jaxpr(lambda a: a), ValueError,
                           "make_jaxpr.*returns a reference.*given as a"),
    **{f"returned from {name}": (lambda r, f=f: f(mjax.new_ref)(1.0), error,
                                 rf"returns a reference of type Ref.*, made at .*{HERE}")
       for name, f, error in (
           ("grad", lambda f: mjax.grad(lambda x: f(x)), TypeError),
           ("vjp", lambda f: lambda x: mjax.vjp(lambda x: f(x), x)[1](f(x)), TypeError))},
    "branch": (lambda r: lax.cond(True, lambda: r, lambda: r), ValueError, "cond.*returns a ref"),
    "after freeze": (lambda r: frozen()[...], ValueError, rf"made at .*{HERE}.*after freeze at .*"),
    "frozen twice": (lambda r: mjax.freeze(frozen()), ValueError, "after freeze"),
    "freed": (lambda r: (mjax.free_ref(r), r[0]), ValueError, "after free_ref"),
    "frozen argument": (lambda r: mjax.jit(lambda r: r[0])(frozen()), ValueError, "after freeze"),
    "after freeze in a program": (lambda r: mjax.jit(used_after_freeze)(1.0), ValueError,
                                  rf"used by get at .*{HERE}.*after freeze at .*{HERE}"),
    "pickled": (pickle.dumps, TypeError, rf"made at .*{HERE}.*pickle its array"),
    "ended where it was not made": (lambda r: mjax.jit(mjax.freeze)(r), ValueError,
                                    r"ended by freeze at .*in a program that is given it"),
    **{name: (f, TypeError, rf"reference.*where an array is needed: read it with ref\[.*{HERE}")
       for name, f in {
           "function": jnp.sin, "asarray": jnp.asarray, "array": jnp.array, "identity": jnp.ravel,
           "sum": jnp.sum, "operator": lambda r: r + 1, "comparison": lambda r: r < 1,
           "in a list": lambda r: jnp.array([r, r]), "scalar": lambda r: jnp.max(new_scalar())
       }.items()},
    **{f"method {name}": (lambda r, name=name: getattr(r, name), AttributeError,
                          rf"does not have {name}: read the reference with ref\[.*{HERE}")
       for name in ("T", "sum", "real", "reshape", "copy")},
    "gradient": (mjax.grad(lambda r: r[0]), TypeError,
                 rf"grad: argument 0 .*derivatives are taken in arrays.*new_ref\(x\).*{HERE}"),
    "jacobian": (mjax.jacfwd(lambda r: r[0]), TypeError, rf"jacfwd: argument.*{HERE}"),
    "vjp": (lambda r: mjax.vjp(lambda r: r[0], r)[1](1.0), TypeError,
            "reference among the arguments.*derivatives are taken in arrays"),
    **{f"unchanged by {name}": (lambda r, f=f: mjax.jit(lambda r: f(r)[...])(r), TypeError,
                                r"reference of type Ref\{float32\[3\]\}.*read it with ref\[")
       for name, f in {
           "collapse": lambda r: lax.collapse(r, 0), "reshape": lambda r: lax.reshape(r, (3,)),
           "transpose": lambda r: lax.transpose(r, (0,)), "squeeze": lambda r: lax.squeeze(r, ()),
           "concatenate": lambda r: lax.concatenate([r], 0), "stage": lax.stage,
           "convert_element_type": lambda r: lax.convert_element_type(r, "float32"),
           "broadcast_to_rank": lambda r: lax.broadcast_to_rank(r, 1),
           "broadcast_like": lambda r: lax.broadcast_like(r, jnp.ones(3)),
           "broadcast": lambda r: lax.broadcast(r, ())}.items()},
    "method of an array": (lambda r: mjax.jit(lambda x: x.addupdate(1.0, 0))(r[...]),
                           AttributeError, "does not have addupdate: only references do"),
    "primitive": (lambda r: lax.add(r, 1.0), ValueError, "add takes arrays, but was given a ref"),
    "traced": (lambda r: mjax.jit(jnp.sin)(r), TypeError, "where an array is needed.*as x"),
    "array read": (lambda r: mjax.ref.get(jnp.ones(3)), ValueError, "takes a reference.*float32"),
    "array frozen": (lambda r: mjax.freeze(jnp.ones(3)), ValueError, "freeze takes a reference"),
    "reference to one": (mjax.new_ref, ValueError, "where an array is needed"),
    "reference written": (lambda r: write(r, r), ValueError, "write ref"),
    "dtype": (lambda r: write(r, jnp.ones(3, int)), ValueError,
              r"dtype.*int32\[3\], but its place has type float32\[3\].*astype\('float32'\)"),
    "shape": (lambda r: mjax.jit(write)(r, jnp.ones(2)), ValueError,
              r"shape.*float32\[2\], but its place has type float32\[3\].*reshape it to \(3,\)"),
    "out of bounds": (lambda r: r[3], ValueError, "index 3 is out of bounds for axis 0, of size 3"),
    "array out of bounds": (lambda r: r[jnp.int32(4)], ValueError, "index 4 is out of bounds"),
    "vmap without a batch": (lambda r: mjax.vmap(lambda x: mjax.jit(lambda: write(r, r[...]))())(
        jnp.ones(2)), ValueError, rf"vmap of jit.*all batch elements share is written.*{HERE}"),
    "vmap": (lambda r: mjax.vmap(lambda x: write(r, x))(jnp.ones((2, 3))), ValueError,
             "vmap of swap.*all batch elements share"),
    "vmap of jit": (lambda r: mjax.vmap(mjax.jit(lambda x: write(r, x)))(jnp.ones((2, 3))),
                    ValueError, "vmap of jit.*all batch elements share"),
    "tangent": (lambda r: mjax.grad(lambda x: (write(r, x), x.sum())[1])(jnp.ones(3)), ValueError,
                "differentiated is written to a reference.*stop_gradient"),
    "exported": (lambda r: mjax.export.export(mjax.jit(lambda r: r[0]))(r), NotImplementedError,
                 r"references, and an artifact.*returns mjax\.freeze\(ref\)"),
    "compiled for a reference": (lambda r: mjax.jit(lambda r: r[0]).lower(r).compile()(jnp.ones(3)),
                                 TypeError, r"r was compiled for a reference.*mjax\.new_ref"),
    "compiled for an array": (lambda r: mjax.jit(lambda x: x[0]).lower(r[...]).compile()(r),
                              TypeError, r"compiled for float32.*called with Ref"),
    "compiled for others": (lambda r: mjax.jit(lambda r: r[0]).lower(r).compile()(new_scalar()),
                            TypeError, r"argument r: compiled for float32\[3\], called with"),
    "compiled, twice": (lambda r: mjax.jit(read_both).lower(r, ref()).compile()(r, r), ValueError,
                        "same reference.*as a and as b"),
    "memory space": (lambda r: mjax.new_ref(1.0, memory_space="hbm"), NotImplementedError,
                     "memory_space"),
    "float0": (lambda r: mjax.new_ref(np.zeros(3, mjax.dtypes.float0)), TypeError, "float0"),
    "key written": (lambda r: write(r, mjax.random.split(mjax.random.key(0), 3)), ValueError,
                    r"key<fry>\[3\].*write a value of dtype float32"),
    "tangent of integers": (lambda r: mjax.jvp(lambda n: n[...], (mjax.new_ref(1),),
                                               (mjax.new_ref(1),)), TypeError, "float0"),
    "shards": (lambda r: r.addressable_shards, TypeError,
               rf"cannot ask for addressable_shards of a reference.*made at .*{HERE}"),
    "bool": (bool, TypeError, "read it with ref"),
    "bool in programs": (mjax.jit(lambda r: 1 if r else 2), TypeError, "read it with ref.*as r"),
}


@pytest.mark.parametrize("name", CASES)
def test_refusals(name):
    f, error, match = CASES[name]
    with pytest.raises(error, match=f"(?s){match}"):
        f(ref())


def test_a_leak_names_the_line():
    kept = []

    @mjax.jit
    def leak(x):
        kept.append(mjax.new_ref(x))
        return x

    leak(1.0)
    with pytest.raises(mjax.errors.UnexpectedTracerError, match=rf"by new_ref at .*{HERE}"):
        kept[0][...]


@pytest.mark.parametrize("wrap", [
    mjax.grad, lambda f: lambda x: mjax.vmap(f)(jnp.ones(2) * x),
    lambda f: lambda x: mjax.jvp(f, (x,), (x,)), lambda f: mjax.jit(mjax.grad(f))])
def test_a_leak_out_of_transformations_names_the_line(wrap):
    kept = []

    def leak(x):
        kept.append(mjax.new_ref(x))
        return x

    wrap(leak)(1.0)
    with pytest.raises(mjax.errors.UnexpectedTracerError, match=rf"(made|new_ref) at .*{HERE}"):
        kept[0][...]


def in_thread(f):
    """The exception that a function raises in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).exception()


def test_references_of_traces_in_another_thread():
    found = []

    @mjax.jit
    def f(x):
        ref = mjax.new_ref(x)
        found.extend(map(in_thread, (lambda: ref[...], lambda: write(ref, 1.0), lambda: x + 1)))
        return x

    f(1.0)
    for error in found:
        assert type(error) is mjax.errors.UnexpectedTracerError
        assert "outside of the jit trace that made it, or in another thread" in str(error)
    assert "test_errors.py" in str(found[0]).partition("by new_ref at")[2]


def test_two_threads_that_write_one_reference():
    """One has donated its memory when the other asks for it."""
    ref = mjax.new_ref(jnp.zeros(2))
    ref._content.delete()
    for use in (lambda: ref.addupdate(1.0, 0), lambda: mjax.jit(lambda r: r.swap(1.0, 0))(ref),
                lambda: mjax.jit(lambda r: r[0]).lower(ref).compile()(ref)):
        with pytest.raises(RuntimeError, match=rf"(?s)made at .*{HERE}.*two threads at once"):
            use()


def test_attributes_that_references_lack():
    lacks = lambda r: not any(hasattr(r, name) for name in ("T", "real", "mT"))
    assert lacks(ref())
    mjax.jit(lambda r: [None for ok in [lacks(r)] if not ok or None])(ref())


@pytest.mark.parametrize("use", [
    lambda r: mjax.debug.print("{}", r), lambda r: mjax.pure_callback(lambda x: x, r[...], r),
    lambda r: mjax.vmap(lambda x: lax.psum(r, "i"), axis_name="i")(jnp.zeros(2))])
def test_callbacks_and_collectives_in_programs(use):
    with pytest.raises(TypeError, match=r"takes arrays, but was given a reference.*ref\[\.\.\.\]"):
        mjax.jit(lambda r: (use(r), None)[1])(mjax.new_ref(jnp.zeros(2)))


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_keys_are_not_added(wrap):
    with pytest.raises(TypeError, match=r"addupdate: values of type key<fry>\[\] cannot be added"):
        wrap(lambda r: mjax.ref.addupdate(r, ..., r[...]))(mjax.new_ref(mjax.random.key(0)))
