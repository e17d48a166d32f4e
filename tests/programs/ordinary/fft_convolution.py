"""A signal under a filter, by Fourier transforms: its power in each band."""

import numpy as np
import scipy.signal

import mjax
import mjax.numpy as jnp
from mjax.scipy.signal import fftconvolve


def convolved(x, kernel):
    n = x.shape[-1] + kernel.shape[-1] - 1
    return jnp.fft.irfft(jnp.fft.rfft(x, n) * jnp.fft.rfft(kernel, n), n)


@mjax.jit
def program(x, kernel):
    full = mjax.vmap(convolved, in_axes=(0, None))(x, kernel)
    same = mjax.vmap(lambda row: fftconvolve(row, kernel, mode="same"))(x)
    power = jnp.abs(jnp.fft.fft(full * jnp.hanning(full.shape[-1]))) ** 2
    return jnp.sum(jnp.log1p(power)) + jnp.sum(jnp.sin(same))


def arguments(rng):
    return rng.normal(size=(2, 16)), rng.normal(size=5)


def expected(x, kernel):
    full = np.array([np.convolve(row, kernel) for row in x])
    same = np.array([scipy.signal.convolve(row, kernel, "same", "direct") for row in x])
    power = np.abs(np.fft.fft(full * np.hanning(20))) ** 2
    return np.sum(np.log1p(power)) + np.sum(np.sin(same))
