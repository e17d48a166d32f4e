"""As jax2onnx has it: a name is put back, and params of a primitive are read by release."""

from jax.extend.core.primitives import scan_p
from jax.interpreters import batching

NOT_MAPPED = getattr(batching, "not_mapped", None)
if not hasattr(batching, "not_mapped"):
    batching.not_mapped = NOT_MAPPED


def arity(eqn, operands):
    assert eqn.primitive is scan_p
    if "ft_in" in eqn.params:
        consts, carry, _ = eqn.params["ft_in"].unpack()
        return len(consts), len(carry), operands - len(consts) - len(carry)
    consts, carry = eqn.params["num_consts"], eqn.params["num_carry"]
    return consts, carry, operands - consts - carry
