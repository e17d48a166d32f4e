"""Runs a program on the real jax: `python on_jax.py program.py`.

distrax and rlax import TensorFlow Probability 0.25, which reads
`jax.interpreters.xla.pytype_aval_mappings`. jax 0.10.2 has it in `jax.core` alone; `mjax_ext` has
it in `interpreters.xla`, too.
"""

import runpy
import sys
import warnings

import jax
import jax.interpreters.xla

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    jax.interpreters.xla.pytype_aval_mappings = jax.core.pytype_aval_mappings
runpy.run_path(sys.argv[1], run_name="__main__")
