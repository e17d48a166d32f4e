"""Real programs with loops, on either library: tested in tests/programs, timed here.

Each is a function of the library (`mjax`, `jax`, or NumPy with Python's loops) and arrays that
returns a scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.programs.hmc import hmc_args, sample_mean
from benchmarks.programs.kalman import filtered_in_parallel, kalman_args, log_likelihood
from benchmarks.programs.newton import kepler, kepler_args
from benchmarks.programs.ode import final_position, ode_args
from benchmarks.programs.recurrent import lstm, lstm_args, rnn, rnn_args
from benchmarks.programs.transformer import transformer, transformer_args


class Program(NamedTuple):
    """A program and its arguments.

    Attributes:
      name: its name.
      run: `(library, *args) -> scalar`.
      args: `(rng, size) -> arguments`; size 1 is for tests, larger ones are for timing.
      differentiated: the arguments it is differentiated in.
      large: the size that is timed.
    """

    name: str
    run: Callable[..., Any]
    args: Callable[..., tuple[Any, ...]]
    differentiated: tuple[int, ...] = (0,)
    large: int = 8


PROGRAMS = [
    Program("RNN", rnn, rnn_args),
    Program("LSTM", lstm, lstm_args),
    Program("transformer", transformer, transformer_args, large=4),
    Program("ODE with adjoint", final_position, ode_args, (0, 1)),
    Program("Newton's method", kepler, kepler_args, (0, 1)),
    Program("Kalman filter", log_likelihood, kalman_args),
    Program("Kalman filter in parallel", filtered_in_parallel, kalman_args),
    Program("Hamiltonian Monte Carlo", sample_mean, hmc_args, (0, 1), large=4),
]
