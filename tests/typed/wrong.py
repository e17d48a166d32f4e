"""Calls that type checkers must reject: each line that ends in `# wrong`, and no other."""

from __future__ import annotations

import mjax
import mjax.numpy as jnp
from mjax import Array, lax, random

x: Array = jnp.arange(3.0)
key = random.key(0)


def loss(p: dict[str, Array], y: Array) -> Array:
    return jnp.sum(p["w"] * y)


# ---- names
jnp.sinn(1.0)  # wrong
mjax.gradd(loss)  # wrong
lax.ad(x, x)  # wrong
random.norml(key)  # wrong
mjax.nn.rellu(x)  # wrong
mjax.scipy.special.erff(x)  # wrong
mjax.nmpy.sin(x)  # wrong
jnp.linalg.nrm(x)  # wrong
x.summ()  # wrong
x.shap  # wrong
x.at[0].sett(1.0)  # wrong
jnp.float23(1)  # wrong
mjax.tree.mapp(jnp.sin, x)  # wrong
mjax.errors.TracerErorr  # wrong
mjax.custom_jvp(jnp.sin).defjpv  # wrong

# ---- arrays
x[0] = 1.0  # wrong
x[1.0]  # wrong
x["a"]  # wrong
x[[0, 1]]  # wrong
x + "a"  # wrong
x + None  # wrong
x @ [1.0, 2.0, 3.0]  # wrong
x < "a"  # wrong
x.reshape("a")  # wrong
x.sum(axis="a")  # wrong
x.sum(keepdim=True)  # wrong
x.astype(3)  # wrong
x.shape = (1, 3)  # wrong
x.at[0] = 1.0  # wrong
x.at[1.0].set(1.0)  # wrong
x.transpose("a")  # wrong

# ---- functions
jnp.sin("a")  # wrong
jnp.sin([1.0, 2.0])  # wrong
jnp.sin()  # wrong
jnp.sin(x, x, x, x)  # wrong
jnp.sum(x, axis=1.0)  # wrong
jnp.sum(x, axs=0)  # wrong
jnp.zeros()  # wrong
jnp.zeros("a")  # wrong
jnp.zeros(3, dtype=3)  # wrong
jnp.add(x)  # wrong
jnp.add(x, "a")  # wrong
jnp.concatenate(x, axis="a")  # wrong
jnp.where(x > 0, x, "a")  # wrong
lax.add(x)  # wrong
lax.add(x, "a")  # wrong
random.normal((3,))  # wrong
random.split(key, "a")  # wrong
mjax.nn.softmax(x, axes=0)  # wrong
jnp.linalg.norm()  # wrong
mjax.device_count("cpu", 1)  # wrong

# ---- transformations
mjax.jit(loss)(x)  # wrong
mjax.jit(loss)({"w": x}, "a")  # wrong
mjax.jit(3)  # wrong
mjax.jit(loss, static_argnum=0)  # wrong
mjax.jit(loss).lowr({"w": x}, x)  # wrong
mjax.grad(loss)(x, x)  # wrong
mjax.grad(loss, argnum=0)  # wrong
mjax.vmap(loss, in_axis=0)  # wrong
mjax.vmap(loss)(x, x)  # wrong
mjax.checkpoint(loss)(x)  # wrong
mjax.grad(loss)({"w": x}, x).sum()  # wrong
mjax.value_and_grad(loss)({"w": x}, x).sum()  # wrong
mjax.custom_jvp(loss)(x)  # wrong
lax.scan(lambda c: c, x, x)  # wrong
lax.while_loop(lambda c: True, lambda c: "a", x)  # wrong
lax.fori_loop(0, 3, lambda c: c, x)  # wrong
lax.cond(True, jnp.sin, jnp.cos)  # wrong
