"""The clients: where their tests are, the share of them that is run, and which have programs."""

from __future__ import annotations

from typing import NamedTuple


class Suite(NamedTuple):
    """A client's tests."""

    client: str
    version: str
    tests: str  #: a folder of its wheel or sdist
    sdist: bool = False
    one_in: int = 1  #: the sample
    options: tuple[str, ...] = ("-c", "/dev/null")


SUITES = [
    Suite("chex", "0.1.92", "chex/_src"),
    Suite("optax", "0.2.8", "optax", one_in=8),
    Suite("mctx", "0.0.71", "mctx/_src/tests"),
    Suite("haiku", "0.0.17", "haiku/_src", one_in=16),
    Suite("tinygp", "0.3.1", "tests", sdist=True, options=()),
    # Its tests take their seeds from the day.
    Suite("blackjax", "1.7.1", "tests", sdist=True, one_in=16, options=("--today=2026-11-26",)),
]

#: Programs that have to give the values of jax.
GOALS = ["distrax", "equinox", "jaxtyping", "lineax", "numpyro", "optimistix", "rlax"]
#: Programs of further libraries.
ALSO = ["diffrax", "e3nn", "flax", "flowjax", "jaxopt", "jraph", "quax"]

#: Suites that were tried and do not run, with the reason.
MISSING = {
    "flax.nnx 0.12.8": "its variables are mutable types of users (`hijax.MutableHiType`), which "
                       "mjax does not have. `flax.linen` and `flax.serialization` run.",
    "orbax-checkpoint 0.12.8": "its import replaces private functions of "
                               "`jax.experimental.colocated_python`, which mjax does not have. "
                               "`mjax.experimental.checkpoint` writes checkpoints.",
}
