"""Images that are turned, shifted and flipped, in batches."""

import numpy as np
import scipy.ndimage

import mjax
import mjax.numpy as jnp
from mjax.scipy.ndimage import map_coordinates
from mjax.scipy.spatial.transform import Rotation


def warped(image, angle, shift, flip):
    rows, columns = jnp.meshgrid(jnp.arange(6.0) - 2.5, jnp.arange(6.0) - 2.5, indexing="ij")
    turn = Rotation.from_rotvec(jnp.array([0.0, 0.0, 1.0]) * angle).as_matrix()[:2, :2]
    places = jnp.einsum("ij,jab->iab", turn, jnp.stack([rows, columns])) + 2.5
    moved = map_coordinates(image, places + shift[:, None, None], order=1, mode="nearest")
    return jnp.where(flip, moved[:, ::-1], moved)


@mjax.jit
def program(images, angles, shifts, flips):
    out = mjax.vmap(warped)(images, angles, shifts, flips)
    out = (out - out.mean((1, 2), keepdims=True)) / out.std((1, 2), keepdims=True)
    return jnp.sum(jnp.tanh(out) * jnp.arange(6.0))


def arguments(rng):
    return (rng.normal(size=(3, 6, 6)), rng.uniform(-0.5, 0.5, 3), rng.normal(size=(3, 2)),
            np.array([True, False, True]))


def expected(images, angles, shifts, flips):
    total = 0.0
    for image, angle, shift, flip in zip(images, angles, shifts, flips, strict=True):
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s], [s, c]])
        out = scipy.ndimage.affine_transform(
            image, turn, 2.5 - turn @ [2.5, 2.5] + shift, order=1, mode="nearest")
        out = out[:, ::-1] if flip else out
        total += np.sum(np.tanh((out - out.mean()) / out.std()) * np.arange(6))
    return total
