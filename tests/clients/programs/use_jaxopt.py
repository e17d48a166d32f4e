"""jaxopt: minimizers, root finders and proximal methods, and derivatives of their solutions."""

import json

import jax
import jax.numpy as jnp
import jaxopt

jax.config.update("jax_enable_x64", True)


def main():
    keys = jax.random.split(jax.random.key(4), 2)
    xs, weights = jax.random.normal(keys[0], (12, 3)), jnp.array([1.0, -2.0, 0.5])
    ys = xs @ weights + 0.1 * jax.random.normal(keys[1], (12,))

    def ridge(w, penalty):
        return jnp.mean((xs @ w - ys) ** 2) + penalty * jnp.sum(w ** 2)

    found = {}
    for solver in (jaxopt.LBFGS(ridge, tol=1e-10), jaxopt.BFGS(ridge, tol=1e-10),
                   jaxopt.GradientDescent(ridge, tol=1e-10, maxiter=2000),
                   jaxopt.NonlinearCG(ridge, tol=1e-10)):
        found[type(solver).__name__] = solver.run(jnp.zeros(3), 0.1).params.tolist()
    implicit = jaxopt.LBFGS(ridge, tol=1e-12, implicit_diff=True)
    found["derivative"] = jax.jacobian(
        lambda penalty: implicit.run(jnp.zeros(3), penalty).params)(0.1).tolist()
    found["batch"] = jax.vmap(
        lambda penalty: implicit.run(jnp.zeros(3), penalty).params)(
            jnp.array([0.0, 0.1, 1.0])).tolist()

    lasso = jaxopt.ProximalGradient(
        lambda w, data: jnp.mean((data[0] @ w - data[1]) ** 2), prox=jaxopt.prox.prox_lasso,
        maxiter=500, tol=1e-10)
    found["lasso"] = lasso.run(jnp.zeros(3), 0.3, (xs, ys)).params.tolist()
    simplex = jaxopt.ProjectedGradient(
        lambda w: jnp.sum((w - weights) ** 2), jaxopt.projection.projection_simplex, tol=1e-10)
    found["simplex"] = simplex.run(jnp.ones(3) / 3).params.tolist()
    found["bisection"] = float(jaxopt.Bisection(
        lambda x: x ** 3 - 2, lower=0.0, upper=2.0, tol=1e-12).run().params)
    newton = jaxopt.GaussNewton(lambda w: jnp.exp(w) - jnp.array([1.0, 2.0]), tol=1e-10)
    found["Gauss-Newton"] = newton.run(jnp.zeros(2)).params.tolist()
    fixed = jaxopt.AndersonAcceleration(lambda x, a: jnp.cos(a * x), tol=1e-10)
    found["fixed point"] = [float(fixed.run(jnp.array([0.5]), 0.9).params[0]), jax.grad(
        lambda a: fixed.run(jnp.array([0.5]), a).params[0])(0.9).item()]
    quadratic = jaxopt.OSQP(tol=1e-8)
    solution = quadratic.run(
        params_obj=(jnp.eye(2), jnp.array([-1.0, -3.0])), params_eq=None,
        params_ineq=(jnp.eye(2), jnp.array([0.5, 2.0])))
    found["quadratic program"] = solution.params.primal.tolist()
    scipy = jaxopt.ScipyMinimize(fun=ridge, method="BFGS", tol=1e-10)
    found["SciPy"] = scipy.run(jnp.zeros(3), 0.1).params.tolist()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
