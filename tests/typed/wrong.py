"""Calls that type checkers must reject: each line that ends in `# wrong`, and no other."""

from __future__ import annotations

import functools

import mjax
import mjax.numpy as jnp
from mjax import Array, lax, random

x: Array = jnp.arange(3.0)
key = random.key(0)
mesh = mjax.make_mesh((1,), ("i",))


def loss(p: dict[str, Array], y: Array) -> Array:
    return jnp.sum(p["w"] * y)


def f(x: Array) -> Array:
    return x


def g(x: Array, n: int) -> Array:
    return x


def carry(c: Array, y: Array) -> tuple[Array, Array]:
    return c, y


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
jnp.linalg.svdd(x)  # wrong
mjax.scipy.special.gamln(x)  # wrong
mjax.scipy.stats.norm.logpfd(x)  # wrong
mjax.scipy.linalgg.inv(x)  # wrong
mjax.experimental.checkifi  # wrong
mjax.nn.initializers.glorot_norml()  # wrong
mjax.random.PRNGkey(0)  # wrong
mjax.lax.linalg.cholesk(x)  # wrong
jnp.fft.fftt(x)  # wrong
mjax.export.exprt(f)  # wrong
mjax.debug.prin("a")  # wrong
mjax.profiler.trac("a")  # wrong
mjax.ffi.ffi_cal("a")  # wrong

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
x[2.5:3.0]  # wrong
x[0.0, 1]  # wrong
x[1j]  # wrong
x[None, "a"]  # wrong
x[{0: 1}]  # wrong
x[:, 1.0]  # wrong
x[0] += 1.0  # wrong
del x[0]  # wrong
x.T = x  # wrong
x.at[0].set()  # wrong
x.at["a"].get()  # wrong
x.dot("a")  # wrong
x.mean(axis=1.5)  # wrong
x.clip("a")  # wrong
x.squeeze(axs=0)  # wrong
x.flatten(0, 1)  # wrong
x.foo  # wrong
x()  # wrong
x.shape()  # wrong
x.ndim()  # wrong
x.dtype()  # wrong
x.dtype.kinds  # wrong
x.item("a")  # wrong
x ** "a"  # wrong
"a" + x  # wrong
x[0] @ "b"  # wrong
x & "a"  # wrong
-key.foo  # wrong
x.addressable_shards[0].indx  # wrong

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
jnp.linspace(0, 1, "a")  # wrong
jnp.arange()  # wrong
jnp.ones((3, "a"))  # wrong
jnp.ones(3.0)  # wrong
jnp.full((2,))  # wrong
jnp.reshape(x, "a")  # wrong
jnp.stack(x, axs=0)  # wrong
jnp.where(x > 0, x)  # wrong
jnp.clip(x, "a")  # wrong
jnp.linalg.svd(x).W  # wrong
jnp.linalg.svd(x, compute_uv=False).U  # wrong
jnp.linalg.eigh(x).eigenvalue  # wrong
jnp.dot(x)  # wrong
jnp.astype(x, 3.5)  # wrong
jnp.asarray(x, dtype=3)  # wrong
jnp.zeros_like()  # wrong
random.normal(key, 3.0)  # wrong
random.normal(key, shap=(3,))  # wrong
random.uniform()  # wrong
random.uniform(key, (3,), minvalue=0)  # wrong
random.split(key, num=1.5)  # wrong
random.choice(key)  # wrong
random.key("a")  # wrong
mjax.nn.relu("a")  # wrong
mjax.nn.one_hot(x)  # wrong
mjax.nn.gelu(x, aprox=True)  # wrong

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
mjax.grad(f)(x, x)  # wrong
mjax.grad(f)("a")  # wrong
mjax.grad(3)  # wrong
mjax.grad(loss, argnums="a")  # wrong
mjax.grad(loss, has_aux=1.5)  # wrong
mjax.grad(loss)({"w": x}, x)["w"].foo  # wrong
mjax.value_and_grad(f)(x)[0].foo  # wrong
mjax.value_and_grad(f, has_aux=True)(x)  # wrong
mjax.grad(f, has_aux=True)  # wrong
mjax.vmap(f)(x, x)  # wrong
mjax.vmap(f)("a")  # wrong
mjax.vmap(3)  # wrong
mjax.jit(g, static_argnums=1)(x, "a")  # wrong
mjax.jit(static_argnames="n")(g)(x, "a")  # wrong
mjax.jit(f)(x).foo  # wrong
mjax.jit(f).lower(x).compil()  # wrong
mjax.checkpoint(f)(x, x)  # wrong
mjax.checkpoint(f, polcy=None)  # wrong
mjax.jvp(f, (x,))  # wrong
mjax.vjp(3, x)  # wrong
mjax.custom_jvp(f)(x, x)  # wrong
functools.partial(mjax.jit, static_argnums=0)(f)("a")  # wrong
functools.partial(mjax.jit, inline=True)(f)(x).foo  # wrong
mjax.jit(static_argnums=0)("a")  # wrong
mjax.jit(static_argnums=0)(f)(x, x)  # wrong
mjax.shard_map(out_specs=mjax.P(), in_specs=mjax.P())(f)("a")  # wrong
functools.partial(mjax.shard_map, out_specs=mjax.P())(f)(x, x)  # wrong
mjax.custom_vjp(f).defvjp(f)  # wrong
mjax.custom_vjp(f).defjvp(f)  # wrong
mjax.custom_vjp(f)("a")  # wrong
mjax.custom_vjp(f).defvjp(3, f)  # wrong
mjax.named_call(f, name="a")(x, x)  # wrong
mjax.eval_shape(3, x)  # wrong
mjax.make_jaxpr(f)(x).foo  # wrong
mjax.jit(f).trace(x).jaxpr.eqn  # wrong
mjax.block_until_ready()  # wrong
mjax.device_put()  # wrong
mjax.pure_callback(f)  # wrong
mjax.debug.print(3)  # wrong
mjax.debug.callback(3)  # wrong

# ---- control flow and trees
lax.scan(lambda c: c, x, x)  # wrong
lax.while_loop(lambda c: True, lambda c: "a", x)  # wrong
lax.fori_loop(0, 3, lambda c: c, x)  # wrong
lax.cond(True, jnp.sin, jnp.cos)  # wrong
mjax.tree_util.tree_mapp(f, x)  # wrong
lax.scan(carry, "a", x)  # wrong
lax.scan(carry, x, x)[0].foo  # wrong
lax.scan(lambda c, y: c, x, x)  # wrong
lax.while_loop(lambda c: c > 0, f)  # wrong
lax.while_loop(f, lambda c, d: c, x)  # wrong
lax.while_loop(lambda c: True, f, "a")  # wrong
lax.fori_loop(0, 3, f, x)  # wrong
lax.fori_loop(0, 3, lambda i, c: "a", x)  # wrong
lax.cond(True, f, f, x, x)  # wrong
lax.cond(True, f, x)  # wrong
lax.cond(True, f, lambda: x, x)  # wrong
lax.switch(0, [f, f], x, x)  # wrong
lax.map(f, "a")  # wrong
lax.map(x, f)  # wrong
mjax.tree.map(f)  # wrong
mjax.tree.map(3, x)  # wrong
mjax.tree.map(f, {"w": x}).foo  # wrong
mjax.tree.flatten(x)[1].leaves  # wrong
mjax.tree.unflatten(x, [x])  # wrong
mjax.tree.leaves(x).foo  # wrong
mjax.tree.structure(x).num_leafs  # wrong

# ---- meshes and settings
mjax.sharding.NamedShardin(mesh, mjax.P())  # wrong
mesh.axis_name  # wrong
mesh.size()  # wrong
mesh.axis_names = ("j",)  # wrong
mjax.Mesh  # wrong
mjax.sharding.Mesh()  # wrong
mjax.NamedSharding(mesh, spec=mjax.P("i"), memory="a")  # wrong
mjax.shard_map(f, in_specs=mjax.P())  # wrong
mjax.shard_map(f, mesh=mesh, in_specs=mjax.P(), out_specs=mjax.P())(x, x)  # wrong
mjax.enable_x64("a")  # wrong
mjax.enable_x64(new=True)  # wrong
mjax.disable_jit(new_val=True)  # wrong
mjax.config.updat("enable_x64", True)  # wrong
mjax.config.update("jax_enable_x46", True)  # wrong
mjax.config.enable_x46  # wrong
mjax.config.debug_nan = True  # wrong
mjax.config.debug_nans = "yes"  # wrong
mjax.make_mesh(1, "i")  # wrong
mjax.devices(3.0)  # wrong
mjax.local_device_count(backend=3)  # wrong
mjax.ShapeDtypeStruct((3,))  # wrong
mjax.distributed.initialize(adress="a")  # wrong
mjax.devices()[0].platfrom  # wrong
x.sharding.devise_set  # wrong

# ---- what used to be Any
ref = mjax.new_ref(x)
ref[...] = "a"  # wrong
mjax.freeze(ref).summ()  # wrong
jnp.finfo(jnp.float32).epsilon  # wrong
jnp.mgrid[0:3].summ()  # wrong
jnp.result_type(x, 1).item_size  # wrong
jnp.add.reduce(x).foo  # wrong
mjax.debug.print("{}", x).foo  # wrong
jnp.linalg.norm(x, ord=[1])  # wrong
