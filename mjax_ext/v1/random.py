"""Generation v1 (candidate) of `mjax_ext.random`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.random import (
        PRNGImpl,
        PRNGReport,
        check_prng_impl,
        define_prng_impl,
        random_seed,
        random_unwrap,
        random_wrap,
        rbg_prng_impl,
        seed_with_impl,
        threefry2x32_p,
        threefry_2x32,
        threefry_prng_impl,
        unsafe_rbg_prng_impl,
        wrap_key_data,
    )

__all__ = [
    "check_prng_impl", "define_prng_impl", "PRNGImpl", "PRNGReport", "random_seed",
    "random_unwrap", "random_wrap", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p",
    "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl", "wrap_key_data",
]

namespace("mjax_ext.v1.random")
