"""Generators of random numbers, and how to write one.

`define_prng_impl` makes a generator of four functions of one key, which all of `mjax.random`, `jit`
and `vmap` work with: see `docs/prng.md`. `check_prng_impl` finds what is wrong with one.
`wrap_key_data`, which is also in `mjax.random`, is `random_wrap` for users.

- `threefry_prng_impl`, `rbg_prng_impl`, `unsafe_rbg_prng_impl`: generators of mjax.
- `threefry2x32_p`: the primitive of the hash behind the first.
"""

from __future__ import annotations

from mjax._engine.base.faces import face
from mjax._engine.primitives.keys import PRNGImpl
from mjax._engine.primitives.rng import rbg_prng as rbg_prng_impl
from mjax._engine.primitives.rng import unsafe_rbg_prng as unsafe_rbg_prng_impl
from mjax._engine.primitives.threefry import threefry2x32_p, threefry_2x32
from mjax._engine.primitives.threefry import threefry_prng as threefry_prng_impl
from mjax._numpy.random.keys import wrap_key_data
from mjax_ext.random._checking import PRNGReport, check_prng_impl
from mjax_ext.random._keys import (
    define_prng_impl,
    random_seed,
    random_unwrap,
    random_wrap,
    seed_with_impl,
)

__all__ = [
    # generators
    "PRNGImpl", "PRNGReport", "check_prng_impl", "define_prng_impl", "rbg_prng_impl",
    "threefry_prng_impl", "unsafe_rbg_prng_impl",
    # keys
    "random_seed", "random_unwrap", "random_wrap", "seed_with_impl", "wrap_key_data",
    # a hash
    "threefry2x32_p", "threefry_2x32",
]

face("mjax_ext.random")
