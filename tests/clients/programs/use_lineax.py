"""lineax: linear solves by several methods, with their derivatives."""

import json

import jax
import jax.numpy as jnp
import lineax as lx

jax.config.update("jax_enable_x64", True)


def main():
    key = jax.random.key(2)
    a = jax.random.normal(key, (4, 4)) + 4 * jnp.eye(4)
    spd, b, tall = a @ a.T, jnp.arange(4.0), jax.random.normal(key, (6, 4))
    found = {}
    for name, operator, solver, rhs in (
            ("LU", lx.MatrixLinearOperator(a), lx.LU(), b),
            ("QR", lx.MatrixLinearOperator(tall), lx.QR(), jnp.arange(6.0)),
            ("SVD", lx.MatrixLinearOperator(tall), lx.SVD(), jnp.arange(6.0)),
            ("Cholesky", lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag),
             lx.Cholesky(), b),
            ("CG", lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag),
             lx.CG(1e-12, 1e-12), b),
            ("GMRES", lx.MatrixLinearOperator(a), lx.GMRES(1e-12, 1e-12), b),
            ("BiCGStab", lx.MatrixLinearOperator(a), lx.BiCGStab(1e-12, 1e-12), b),
            ("diagonal", lx.DiagonalLinearOperator(b + 1), lx.Diagonal(), b),
            ("tridiagonal", lx.TridiagonalLinearOperator(b + 3, b[1:], b[:3]),
             lx.Tridiagonal(), b)):
        found[name] = lx.linear_solve(operator, rhs, solver).value.tolist()

    def loss(a, b):
        return jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(a), b).value ** 2)

    found["gradients"] = [g.tolist() for g in jax.jit(jax.grad(loss, (0, 1)))(a, b)]
    found["tangent"] = float(jax.jvp(loss, (a, b), (jnp.ones_like(a), b))[1])
    found["batch"] = jax.vmap(loss, (None, 0))(a, jnp.stack([b, b + 1])).tolist()
    function = lx.FunctionLinearOperator(
        lambda x: {"u": 2 * x["u"] + x["v"].sum(), "v": 3 * x["v"]},
        jax.eval_shape(lambda: {"u": jnp.zeros(()), "v": jnp.zeros(2)}))
    solution = lx.linear_solve(function, {"u": jnp.asarray(1.0), "v": jnp.asarray([2.0, 3.0])})
    found["trees"] = [solution.value["u"].tolist(), solution.value["v"].tolist()]
    singular = lx.linear_solve(lx.MatrixLinearOperator(jnp.zeros((2, 2))), jnp.ones(2), throw=False)
    found["singular"] = bool(singular.result == lx.RESULTS.successful)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
