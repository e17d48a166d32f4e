"""Random numbers from generators that keep their own state, as `jax.experimental.random`."""

from mjax._engine.base.faces import face
from mjax._library.stateful_random import StatefulPRNG, stateful_rng

__all__ = ["StatefulPRNG", "stateful_rng"]

face("mjax.experimental.random")
