"""Initializers: functions `(key, shape, dtype) -> array` that make the weights of layers."""

from mjax._engine.base.faces import face
from mjax._nn.initializers import (
    Initializer,
    constant,
    normal,
    ones,
    truncated_normal,
    uniform,
    variance_scaling,
    zeros,
)
from mjax._nn.named_initializers import (
    delta_orthogonal,
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    orthogonal,
    xavier_normal,
    xavier_uniform,
)

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]

face("mjax.nn.initializers")
