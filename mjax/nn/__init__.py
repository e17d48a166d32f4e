"""Functions of neural networks: activations, softmax, attention; initializers in a submodule."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._nn.attention import dot_product_attention
from mjax._nn.normalizing import log_softmax, logmeanexp, softmax, standardize
from mjax._nn.one_hot import one_hot
from mjax._nn.quantized import get_scaled_dot_general_config, scaled_dot_general
from mjax._nn.rectifiers import (
    celu,
    elu,
    gelu,
    glu,
    hard_silu,
    hard_swish,
    leaky_relu,
    mish,
    relu,
    selu,
    silu,
    swish,
)
from mjax._nn.scaled import scaled_matmul
from mjax._nn.sigmoids import (
    hard_sigmoid,
    hard_tanh,
    identity,
    log1mexp,
    log_sigmoid,
    relu6,
    sigmoid,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
)
from mjax._numpy.elementary import tanh
from mjax._scipy.special.sums import logsumexp

if TYPE_CHECKING:
    from mjax.nn import initializers

__all__ = [
    "celu", "dot_product_attention", "elu", "gelu", "get_scaled_dot_general_config", "glu",
    "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "log1mexp",
    "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish", "one_hot", "relu", "relu6",
    "scaled_dot_general", "scaled_matmul", "selu", "sigmoid", "silu", "soft_sign", "softmax",
    "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh",
    "initializers",
]

face("mjax.nn")
