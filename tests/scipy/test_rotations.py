"""`spatial.transform`: against SciPy."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.spatial.transform
import scipy.stats

import mjax
import mjax.numpy as jnp
from mjax.scipy.spatial.transform import Rotation, Slerp
from mjax.test_util import check_grads

Reference = scipy.spatial.transform.Rotation
rng = np.random.default_rng(0)
QUATS = rng.normal(size=(5, 4)).astype("f")
#: Also rotations by π, by nearly nothing, and about one axis.
SPECIAL = np.array([[1, 0, 0, 0], [0, 0.6, 0.8, 0], [1e-4, 0, 2e-4, 1], [0, 0, 1, 1],
                    [0, -1, 0, 1], [-0.5, 0.5, -0.5, -0.5]], "f")
ALL = np.concatenate([QUATS, SPECIAL])
OURS, THEIRS = Rotation.from_quat(ALL), Reference.from_quat(ALL.astype("d"))
ANGLES = rng.uniform(-3, 3, size=(4, 3)).astype("f")
SEQUENCES = ["".join(s) for s in itertools.product("xyz", repeat=3)
             if s[0] != s[1] and s[1] != s[2]]


def assert_same(ours: Rotation, theirs: Any, tolerance: float = 2e-5) -> None:
    """The same rotations: quaternions up to their signs."""
    a, b = np.asarray(ours.quat), theirs.as_quat()
    assert a.shape == b.shape
    np.testing.assert_allclose(a * np.sign(np.sum(a * b, -1, keepdims=True)), b, tolerance,
                               tolerance)


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), b, 5e-5, 5e-5)


def test_other_forms() -> None:
    assert_same(OURS, THEIRS)
    close(OURS.as_matrix(), THEIRS.as_matrix())
    close(OURS.magnitude(), THEIRS.magnitude())
    half = np.abs(THEIRS.magnitude() - np.pi) < 1e-3  # either axis may be meant
    close(OURS.as_mrp()[~half], THEIRS.as_mrp()[~half])
    close(OURS.as_rotvec()[~half], THEIRS.as_rotvec()[~half])
    close(OURS.as_rotvec(degrees=True)[~half] / 60, THEIRS.as_rotvec(True)[~half] / 60)
    close(OURS.as_quat(canonical=True), THEIRS.as_quat(canonical=True))
    close(OURS.as_quat(scalar_first=True)[:, 0], OURS.quat[:, 3])
    for f in (lambda r: type(r).from_matrix(r.as_matrix()), lambda r: type(r).from_mrp(r.as_mrp()),
              lambda r: type(r).from_rotvec(r.as_rotvec()), lambda r: r.inv(),
              lambda r: type(r).from_rotvec(r.as_rotvec(True), degrees=True)):
        assert_same(f(OURS), f(THEIRS), 1e-3)


def test_products_and_vectors() -> None:
    assert_same(OURS * OURS[0], THEIRS * THEIRS[0])
    assert_same(OURS[0] * OURS[1], THEIRS[0] * THEIRS[1])
    assert_same(Rotation.concatenate([OURS[:2], OURS]), Reference.concatenate(
        [THEIRS[:2], THEIRS]))
    vectors = rng.normal(size=(len(ALL), 3)).astype("f")
    for inverse in (False, True):
        close(OURS.apply(vectors, inverse), THEIRS.apply(vectors, inverse))
        close(OURS[3].apply(vectors, inverse=inverse), THEIRS[3].apply(vectors, inverse))
    close(OURS.apply(vectors[0], jnp.array(True)), THEIRS.apply(vectors[0], True))
    close(OURS[1].apply([1, 2, 3]), THEIRS[1].apply([1, 2, 3]))
    assert_same(OURS[:5].mean(), THEIRS[:5].mean())
    weights = np.array([1, 2, 0.5, 1, 1], "f")
    assert_same(OURS[:5].mean(weights), THEIRS[:5].mean(weights))


def test_stacks() -> None:
    assert len(OURS) == len(ALL) and not OURS.single and OURS[2].single
    assert_same(OURS[1:4], THEIRS[1:4])
    close(Rotation.identity().as_matrix(), np.eye(3))
    assert_same(Rotation.identity(2), Reference.identity(2))
    assert Rotation.identity(dtype=np.float16).quat.dtype == np.float16
    for f in (pickle.loads(pickle.dumps(OURS)), mjax.jit(lambda r: r)(OURS)):
        assert type(f) is Rotation
        close(f.quat, OURS.quat)
    assert type(mjax.vmap(lambda r: r.inv())(OURS)) is Rotation


def test_random_rotations() -> None:
    matrices = Rotation.random(mjax.random.key(0), 2000).as_matrix()
    assert Rotation.random(mjax.random.key(1)).single
    close(matrices @ matrices.mT, np.broadcast_to(np.eye(3), (2000, 3, 3)))
    # Images of an axis are uniform on the sphere: each coordinate from -1 to 1.
    for i in range(3):
        assert scipy.stats.kstest(np.asarray(matrices[:, i, 0]), "uniform", (-1, 2)).pvalue > 1e-3


@pytest.mark.parametrize("seq", [SEQUENCES[0], SEQUENCES[2].upper(), "zxz", *[
    pytest.param(form(s), marks=pytest.mark.slow) for s in SEQUENCES
    for form in (str.lower, str.upper)]])
def test_euler_angles(seq: str) -> None:
    for degrees in (False, True):
        ours = Rotation.from_euler(seq, ANGLES, degrees)
        theirs = Reference.from_euler(seq, ANGLES.astype("d"), degrees)
        assert_same(ours, theirs)
        close(ours.as_euler(seq, degrees) / 60, theirs.as_euler(seq, degrees) / 60)
    # The angles differ where outer axes coincide; the rotation is the same.
    assert_same(Rotation.from_euler(seq, OURS.as_euler(seq)), THEIRS, 2e-3)


def test_few_angles() -> None:
    assert_same(Rotation.from_euler("z", 90, degrees=True), Reference.from_euler("z", 90, True))
    assert_same(Rotation.from_euler("XY", ANGLES[:, :2]), Reference.from_euler(
        "XY", ANGLES[:, :2]))
    assert_same(Rotation.from_euler("y", ANGLES[:, :1]), Reference.from_euler("y", ANGLES[:, :1]))
    turned = mjax.jit(Rotation.from_euler, static_argnums=0)("z", np.float32(90), True)
    assert_same(turned, Reference.from_euler("z", 90, True))


def test_slerp() -> None:
    times = np.array([0.0, 1.0, 1.5, 4.0])
    ours = Slerp.init(times, OURS[:4])
    theirs = scipy.spatial.transform.Slerp(times, THEIRS[:4])
    places = np.array([0.0, 0.3, 1.0, 1.2, 2.0, 4.0])
    assert_same(ours(places), theirs(places))
    assert_same(ours(2.5), theirs(2.5))
    assert_same(mjax.jit(lambda s, t: s(t))(ours, places), theirs(places))


@pytest.mark.slow
def test_derivatives() -> None:
    with mjax.enable_x64(True):
        quats = QUATS.astype("d")
        for f in (lambda q: Rotation.from_quat(q).as_matrix(),
                  lambda q: Rotation.from_quat(q).as_rotvec(),
                  lambda q: Rotation.from_quat(q).as_euler("xyz"),
                  lambda q: Rotation.from_quat(q).as_mrp(),
                  lambda q: Rotation.from_matrix(Rotation.from_quat(q).as_matrix()).quat,
                  lambda q: (Rotation.from_quat(q) * Rotation.from_rotvec(q[:, :3])).magnitude(),
                  lambda q: Slerp.init([0, 1, 2, 3, 4], Rotation.from_quat(q))(1.7).quat):
            check_grads(f, (quats,), 2)


ERRORS = [
    (ValueError, "seq must be up to three of x, y, z", lambda: Rotation.from_euler("xa", 1.0)),
    (ValueError, "seq must be up to three", lambda: Rotation.from_euler("xY", ANGLES[:, :2])),
    (ValueError, "neighbouring axes must differ", lambda: Rotation.from_euler("xx", ANGLES)),
    (ValueError, r"angles must have shape \(..., 2\)", lambda: Rotation.from_euler("xy", ANGLES)),
    (ValueError, "must have three axes", lambda: OURS.as_euler("xy")),
    (ValueError, r"matrix must have shape \(..., 3, 3\)", lambda: Rotation.from_matrix(QUATS)),
    (ValueError, r"quat must have shape \(..., 4\)", lambda: Rotation.from_quat(ANGLES)),
    (ValueError, "rotvec must have shape", lambda: Rotation.from_rotvec(QUATS)),
    (ValueError, "mrp must have shape", lambda: Rotation.from_mrp(QUATS)),
    (ValueError, "vectors must have shape", lambda: OURS.apply(QUATS)),
    (ValueError, r"Rotation.apply got incompatible shapes for broadcasting: \(11,\), \(4,\)",
     lambda: OURS.apply(np.ones((4, 3)))),
    (ValueError, "Rotation.__mul__ got incompatible shapes", lambda: OURS * OURS[:4]),
    (TypeError, "multiplied by a Rotation, got int. Rotation.apply rotates", lambda: OURS * 3),
    (ValueError, r"weights of 11 rotations must have shape \(11,\)", lambda: OURS.mean(
        np.ones(3))),
    (TypeError, "cannot be indexed", lambda: OURS[0][0]),
    (TypeError, "has no len", lambda: len(OURS[0])),
    (TypeError, "rotations must be a Rotation", lambda: Slerp.init([0, 1], QUATS)),
    (ValueError, "at least two rotations", lambda: Slerp.init([0], OURS[:1])),
    (ValueError, r"times of 2 rotations must have shape \(2,\)", lambda: Slerp.init(
        [0, 1, 2], OURS[:2])),
    (ValueError, "times must be a number or a vector", lambda: Slerp.init(
        [0, 1], OURS[:2])(np.zeros((1, 1)))),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:25] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=text):
        use()


def test_derivatives_at_the_identity() -> None:
    x, units = np.array([1.0, 2.0, 3.0]), np.eye(3)

    def back(v: Any) -> Any:
        return Rotation.from_rotvec(v).as_rotvec()

    @mjax.jit
    def found(v: Any) -> Any:
        return (back(v), mjax.jacfwd(back)(v), mjax.jacrev(back)(v),
                mjax.hessian(lambda v: Rotation.from_rotvec(v).apply(x))(v))

    with mjax.enable_x64(True):
        # The rotation by v is the exponential of its cross product.
        twice = np.array([[np.cross(a, np.cross(b, x)) for b in units] for a in units])
        expected = np.moveaxis(twice + twice.swapaxes(0, 1), -1, 0) / 2
        for rotvec in (np.zeros(3), np.array([1e-5, 2e-5, 0.0])):
            value, forward, reverse, second = found(rotvec)
            np.testing.assert_allclose(value, rotvec, rtol=1e-12)
            np.testing.assert_allclose(forward, units, atol=1e-12)
            np.testing.assert_allclose(reverse, units, atol=1e-12)
            np.testing.assert_allclose(second, expected, atol=1e-4)
