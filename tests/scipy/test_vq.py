"""`cluster.vq`: against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.vq

import mjax
from mjax.scipy.cluster.vq import vq

rng = np.random.default_rng(0)
OBS, CODES = rng.normal(size=(7, 3)).astype("f"), rng.normal(size=(4, 3)).astype("f")


@pytest.mark.parametrize(("obs", "codes"), [
    (OBS, CODES), (OBS[:, 0], CODES[:, 0]), (OBS.astype("i"), CODES.astype("i")),
    (OBS[:0], CODES), (OBS.astype(np.float16), CODES.astype(np.float16))],
    ids=lambda x: f"{x.dtype}{list(x.shape)}")
def test_against_scipy(obs: np.ndarray, codes: np.ndarray) -> None:
    for f in (vq, mjax.jit(vq)):
        code, distance = f(obs, codes)
        wide = obs.astype("d"), codes.astype("d")
        expected = scipy.cluster.vq.vq(*wide)
        np.testing.assert_array_equal(code, expected[0])
        np.testing.assert_allclose(np.asarray(distance, "f"), expected[1], 2e-3, 2e-3)
        assert distance.dtype == (obs.dtype if obs.dtype.kind == "f" else np.float32)


def test_batches_and_gradients() -> None:
    many = np.stack([OBS, 2 * OBS])
    codes, distances = mjax.vmap(vq, (0, None))(many, CODES)
    slope = mjax.grad(lambda codes: vq(OBS, codes)[1].sum())(CODES)
    expected = np.zeros_like(CODES)
    for i, o in enumerate(many):
        np.testing.assert_array_equal(codes[i], scipy.cluster.vq.vq(o, CODES)[0])
    for o, c, d in zip(OBS, codes[0], distances[0], strict=True):
        expected[c] += (CODES[c] - o) / d
    np.testing.assert_allclose(slope, expected, 1e-5)


def test_errors() -> None:
    for args in ((OBS, CODES[0]), (OBS[0, 0], CODES[0, 0]), (OBS[None], CODES[None])):
        with pytest.raises(ValueError, match="must both be matrices"):
            vq(*args)
    with pytest.raises(TypeError, match="equally many components"):
        vq(OBS, CODES[:, :2])
    with pytest.raises(TypeError, match="vq requires ndarray or scalar"):
        vq([[1.0]], CODES)
