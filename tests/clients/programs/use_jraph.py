"""jraph: graphs of several sizes in one batch, a graph network and attention."""

import json

import jax
import jax.numpy as jnp
import jraph

jax.config.update("jax_enable_x64", True)


def graph(nodes, key):
    keys = jax.random.split(key, 2)
    places = jnp.arange(nodes)
    return jraph.GraphsTuple(
        nodes=jax.random.normal(keys[0], (nodes, 2)), edges=jax.random.normal(keys[1], (nodes, 3)),
        senders=places, receivers=(places + 1) % nodes, n_node=jnp.array([nodes]),
        n_edge=jnp.array([nodes]), globals=jnp.ones((1, 1)))


def main():
    keys = jax.random.split(jax.random.key(7), 3)
    batch = jraph.batch([graph(n, key) for n, key in zip((2, 3, 4), keys, strict=True)])
    padded = jraph.pad_with_graphs(batch, n_node=12, n_edge=11, n_graph=5)

    def update(width):
        return lambda *parts: jnp.tanh(
            jnp.concatenate(parts, -1) @ jnp.ones((sum(p.shape[-1] for p in parts), width)) / 5)

    network = jraph.GraphNetwork(
        update_edge_fn=update(3), update_node_fn=update(2), update_global_fn=update(1))
    once = jax.jit(network)(padded)
    attention = jraph.GAT(
        attention_query_fn=lambda x: x * 0.5,
        attention_logit_fn=lambda s, r, e: (s * r).sum(-1, keepdims=True))(
            padded._replace(edges=None))
    back = jraph.unbatch(jraph.unpad_with_graphs(once))
    slope = jax.grad(lambda nodes: network(padded._replace(nodes=nodes)).globals.sum())(
        padded.nodes)
    print(json.dumps({
        "nodes": once.nodes.tolist(), "globals": once.globals.tolist(),
        "mask": jraph.get_graph_padding_mask(padded).tolist(),
        "attention": attention.nodes.tolist(), "slope": slope.tolist(),
        "sizes": [int(g.n_node[0]) for g in back],
        "softmax": jraph.segment_softmax(
            padded.edges[:, 0], padded.receivers, num_segments=12).tolist(),
    }))


if __name__ == "__main__":
    main()
