"""Trains a small network on real handwritten digits, with a custom primitive inside.

The data are scikit-learn's `load_digits`: 1,797 images of 8 x 8 pixels. The network is a
perceptron with one hidden layer; its activation is a primitive defined here through
`mjax_ext`. `vmap` turns the loss of one image into that of a batch, `grad` differentiates it,
`jit` compiles a whole step.

    python examples/digits.py [--epochs N] [--picture digits.svg]

At the end it draws the loss curve and the digits that it misread (digits_picture.py).
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import digits_picture
import numpy as np
from digits_picture import Numbers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import mjax
import mjax.numpy as jnp
from mjax import Array, random
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir
from mjaxlib_shim import jaxlib_version

# ---- the activation: LeCun's scaled tanh, as a primitive ---------------------------------

scaled_tanh_p = core.Primitive("scaled_tanh")
SCALE, SLOPE = 1.7159, 2 / 3


def scaled_tanh(x: Array) -> Array:
    """1.7159 tanh(2x/3): variance 1 in, variance 1 out (LeCun et al. 1998, section 4.4)."""
    result: Array = scaled_tanh_p.bind(x)
    return result


@scaled_tanh_p.def_abstract_eval
def scaled_tanh_type(x: core.ShapedArray) -> core.ShapedArray:
    return core.ShapedArray(x.shape, x.dtype)


def scaled_tanh_lowering(ctx: mlir.LoweringRuleContext, x: Any) -> Any:
    hlo = mlir.hlo
    scale, slope = (mlir.ir_constant(np.full(ctx.avals_in[0].shape, value, ctx.avals_in[0].dtype))
                    for value in (SCALE, SLOPE))
    return hlo.MulOp(scale, hlo.TanhOp(hlo.MulOp(slope, x).result).result).results


def scaled_tanh_derivative(tangent: Array, out: Array, x: Array) -> Array:
    return SLOPE / SCALE * (SCALE**2 - out**2) * tangent


mlir.register_lowering(scaled_tanh_p, scaled_tanh_lowering)
ad.defjvp2(scaled_tanh_p, scaled_tanh_derivative)
batching.defvectorized(scaled_tanh_p)

# ---- the network -------------------------------------------------------------------------


Params: TypeAlias = list[dict[str, Array]]


def init(key: Array, sizes: Sequence[int]) -> Params:
    """Weights and biases of the layers, as a list of dicts."""
    keys = random.split(key, len(sizes) - 1)
    return [{"w": random.normal(k, (m, n)) / m**0.5, "b": jnp.zeros(n)}
            for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def logits(params: Params, image: Array) -> Array:
    """Scores of the ten digits for one image of 64 pixels."""
    *hidden, last = params
    for layer in hidden:
        image = scaled_tanh(image @ layer["w"] + layer["b"])
    return image @ last["w"] + last["b"]


def loss(params: Params, images: Array, labels: Array) -> Array:
    """Mean cross-entropy of a batch."""

    def one(image: Array, label: Array) -> Array:
        scores = logits(params, image)
        shifted = scores - jnp.max(scores)
        return jnp.log(jnp.sum(jnp.exp(shifted))) - shifted[label]

    return jnp.mean(mjax.vmap(one)(images, labels))


@mjax.jit
def step(params: Params, velocity: Params, images: Array, labels: Array, rate: float
         ) -> tuple[Params, Params, Array]:
    """One step of stochastic gradient descent with momentum 0.9."""
    value, grads = mjax.value_and_grad(loss)(params, images, labels)
    velocity = mjax.tree.map(lambda v, g: 0.9 * v - rate * g, velocity, grads)
    return mjax.tree.map(jnp.add, params, velocity), velocity, value


@mjax.jit
def read(params: Params, images: Array) -> Array:
    """The digit with the highest score, for each image."""
    return jnp.argmax(mjax.vmap(logits, in_axes=(None, 0))(params, images), axis=-1)


class Trained(NamedTuple):
    """The outcome: losses by epoch, and what was read of the test images."""

    seconds_per_epoch: float
    losses: list[float]
    images: Numbers
    labels: Numbers
    guesses: Numbers

    @property
    def accuracy(self) -> float:
        """The share of test images that were read right."""
        return float(np.mean(self.guesses == self.labels))

    @property
    def misread(self) -> tuple[Numbers, Numbers, Numbers]:
        """Images, labels and guesses of the others."""
        wrong = self.guesses != self.labels
        return self.images[wrong].reshape(-1, 8, 8), self.labels[wrong], self.guesses[wrong]


def train(epochs: int = 30, batch: int = 64, rate: float = 0.05, seed: int = 0,
          progress: bool = True) -> Trained:
    """Trains on three quarters of the images, and reads the others."""
    digits = load_digits()
    images, labels = (digits.data / 16.0).astype(np.float32), digits.target.astype(np.int32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.25, random_state=seed, stratify=labels)
    params = init(random.key(seed), (64, 128, 10))
    velocity = mjax.tree.map(jnp.zeros_like, params)
    shuffle, seconds, means = np.random.default_rng(seed), [], []
    bar = tqdm(range(epochs), desc="training", unit="epoch", disable=not progress)
    for _ in bar:
        start = time.perf_counter()
        order = shuffle.permutation(len(train_x))
        losses = []
        for i in range(0, len(order) - batch + 1, batch):
            chosen = order[i : i + batch]
            params, velocity, value = step(params, velocity, train_x[chosen], train_y[chosen],
                                           rate)
            losses.append(value)
        means.append(float(jnp.mean(jnp.stack(losses))))
        seconds.append(time.perf_counter() - start)
        bar.set_postfix(loss=f"{means[-1]:.4f}")
    # The first epoch compiles; the median is what an epoch costs.
    return Trained(float(np.median(seconds)), means, test_x, test_y,
                   np.asarray(read(params, test_x)))


def main() -> None:
    """Trains, prints the accuracy and the release of jaxlib, and draws the picture."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("digits.svg"))
    options = parser.parse_args()
    trained = train(options.epochs)
    print(f"test accuracy      {trained.accuracy:.4f}")
    print(f"seconds per epoch  {trained.seconds_per_epoch:.4f}")
    print(f"jaxlib             {jaxlib_version}")
    options.picture.write_text(digits_picture.svg(trained.losses, *trained.misread))
    print(f"picture            {options.picture.resolve()}")
    shown, colour = digits_picture.terminal()
    if shown:
        print("\n" + digits_picture.text(trained.losses, *trained.misread, colour))
    if trained.accuracy < 0.95:
        raise SystemExit(f"test accuracy {trained.accuracy:.4f} is below 0.95")


if __name__ == "__main__":
    main()
