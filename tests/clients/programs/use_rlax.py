"""rlax: returns, targets and losses of reinforcement learning, with derivatives and batches."""

import json

import jax
import jax.numpy as jnp
import rlax

jax.config.update("jax_enable_x64", True)


def main():
    keys = jax.random.split(jax.random.key(5), 6)
    q, q_next = jax.random.normal(keys[0], (4, 3)), jax.random.normal(keys[1], (4, 3))
    rewards, discounts = jax.random.normal(keys[2], (4,)), jnp.full(4, 0.9)
    values, actions = jax.random.normal(keys[3], (4,)), jnp.asarray([0, 2, 1, 0])
    found = {
        "returns": rlax.discounted_returns(rewards, discounts, values).tolist(),
        "lambda returns": rlax.lambda_returns(rewards, discounts, values, 0.8).tolist(),
        "n step": rlax.n_step_bootstrapped_returns(rewards, discounts, values, 2).tolist(),
        "advantages": rlax.truncated_generalized_advantage_estimation(
            rewards[:3], discounts[:3], 0.95, values).tolist(),
        "q learning": jax.vmap(rlax.q_learning)(q, actions, rewards, discounts, q_next).tolist(),
        "double": jax.vmap(rlax.double_q_learning)(
            q, actions, rewards, discounts, q_next, q).tolist(),
        "vtrace": rlax.vtrace(values, values + 0.1, rewards, discounts,
                              jnp.exp(0.1 * values), 0.9).tolist(),
        "transformed": rlax.SIGNED_HYPERBOLIC_PAIR.apply(rewards).tolist(),
        "huber": rlax.huber_loss(rewards, 0.5).tolist(),
        "two hot": rlax.transform_to_2hot(rewards, -2.0, 2.0, 5).tolist(),
        "epsilon greedy": rlax.epsilon_greedy(0.1).probs(q).tolist(),
        "softmax": [float(rlax.softmax(0.7).sample(keys[4], q)[0]),
                    rlax.softmax(0.7).entropy(q).tolist()],
    }

    def loss(logits):
        return rlax.policy_gradient_loss(logits, actions, values, jnp.ones(4)) + (
            0.1 * rlax.entropy_loss(logits, jnp.ones(4)))

    found["policy gradient"] = jax.jit(jax.grad(loss))(q).tolist()
    atoms = jnp.linspace(-1.0, 1.0, 5)
    logits = jax.random.normal(keys[5], (3, 5))
    found["categorical"] = float(rlax.categorical_q_learning(
        atoms, logits, actions[1], rewards[0], discounts[0], atoms, logits + 0.1))
    found["quantile"] = float(rlax.quantile_q_learning(
        logits.T, jnp.linspace(0.1, 0.9, 5), actions[1], rewards[0], discounts[0],
        logits.T, logits.T, 1.0))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
