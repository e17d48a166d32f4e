"""Trains the network of digits.py on several processes, and survives the death of one.

    python examples/data_parallel.py

starts three trainings on this machine: one process with one device; 2 processes with 2 devices
each, which reach the same weights; and 2 processes of which one is killed. The other one ends with
an error that names it. Both are restarted and resume from the last checkpoint, with the same final
weights. On a cluster, start one of

    python examples/data_parallel.py --train DIRECTORY [--epochs N]

per process, by a launcher or with MJAX_COORDINATOR_ADDRESS, MJAX_NUM_PROCESSES, MJAX_PROCESS_ID.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import digits
import numpy as np
from digits_picture import Numbers
from sklearn.datasets import load_digits

import mjax
from mjax import random
from mjax.experimental import checkpoint
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P

SIZES, BATCH, RATE, SEED = (64, 128, 10), 64, 0.05, 0
HEARTBEAT = 5

# ---- every process runs this --------------------------------------------------------------


def train(directory: str, epochs: int, die_in: int | None = None) -> None:
    """Trains from the last checkpoint on; writes one after each epoch."""
    data = load_digits()
    images, labels = (data.data / 16.0).astype(np.float32), data.target.astype(np.int32)
    mesh = mjax.make_mesh((mjax.device_count(),), ("data",))
    split, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    # The batch is split, the weights are on every device: XLA sums the gradients.
    step = mjax.jit(digits.step, out_shardings=everywhere)

    params = mjax.device_put(digits.init(random.key(SEED), SIZES), everywhere)
    velocity = mjax.tree.map(mjax.numpy.zeros_like, params)
    done = checkpoint.latest_step(directory) or 0
    if done:
        params, velocity = checkpoint.restore(directory, (params, velocity))
    for epoch in range(done, epochs):
        order = np.random.default_rng((SEED, epoch)).permutation(len(images))
        losses = []
        for n, i in enumerate(range(0, len(order) - BATCH + 1, BATCH)):
            chosen = order[i:i + BATCH]
            if die_in == epoch and n == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            # Each process places the data of its own devices.
            x, y = mjax.device_put((images[chosen], labels[chosen]), split)
            params, velocity, value = step(params, velocity, x, y, RATE)
            losses.append(value)
        checkpoint.save(directory, (params, velocity), epoch + 1, keep=2)
        if mjax.process_index() == 0:
            print(f"epoch {epoch + 1}: loss {float(losses[-1]):.4f}", flush=True)


# ---- the demonstration --------------------------------------------------------------------


def launch(directory: str, epochs: int, processes: int, devices: int,
           victim_dies_in: int | None = None) -> list[tuple[str, str, int]]:
    """Runs the processes of one training, of which the last may kill itself; their outcomes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    started = []
    for rank in range(processes):
        command = [sys.executable, __file__, "--train", directory, "--epochs", str(epochs)]
        if victim_dies_in is not None and rank == processes - 1:
            command += ["--die-in", str(victim_dies_in)]
        environment = os.environ | {
            "MJAX_COORDINATOR_ADDRESS": address, "MJAX_NUM_PROCESSES": str(processes),
            "MJAX_PROCESS_ID": str(rank), "MJAX_NUM_CPU_DEVICES": str(devices), "XLA_FLAGS": ""}
        started.append(subprocess.Popen(command, env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    ends = [(*process.communicate(timeout=300), process.returncode) for process in started]
    if victim_dies_in is None and any(code for _, _, code in ends):
        raise SystemExit("\n".join(err for _, err, _ in ends))
    return ends


def weights(directory: str) -> list[Numbers]:
    """The weights of the last checkpoint, as NumPy arrays."""
    like = mjax.tree.map(np.asarray, digits.init(random.key(SEED), SIZES))
    return mjax.tree.leaves(checkpoint.restore(directory, (like, like))[0])


def furthest(one: Sequence[Numbers], other: Sequence[Numbers]) -> float:
    """The largest difference between two trees of weights."""
    return max(float(np.max(np.abs(a - b))) for a, b in zip(one, other, strict=True))


def demonstrate(epochs: int) -> None:
    """Runs all three trainings and compares their weights."""
    with tempfile.TemporaryDirectory() as folder:
        alone, both, broken = (os.path.join(folder, name) for name in ("1", "2x2", "killed"))
        launch(alone, epochs, processes=1, devices=1)
        launch(both, epochs, processes=2, devices=2)
        reference = weights(alone)
        apart = furthest(reference, weights(both))
        print(f"1 process against 2 x 2 devices   weights differ by at most {apart:.1e}")

        start = time.perf_counter()
        (_, error, code), _ = launch(broken, epochs, 2, 2, victim_dies_in=epochs // 2)
        last = checkpoint.latest_step(broken)
        print(f"one process killed in epoch {epochs // 2 + 1}     "
              f"the other one ended with status {code}:")
        print("  " + "\n  ".join(error[error.index("mjax.errors.ProcessLostError"):]
                                 .strip().splitlines()[:3]))
        (output, _, _), _ = launch(broken, epochs, 2, 2)
        first = next(line for line in output.splitlines() if line.startswith("epoch"))
        resumed = furthest(reference, weights(broken))
        print(f"started again after checkpoint {last}  first line: {first!r}")
        print(f"1 process against the resumed     weights differ by at most {resumed:.1e}")
        print(f"seconds, death and rest           {time.perf_counter() - start:.1f}")
    if not (apart < 1e-4 and resumed < 1e-4 and code == 1 and last == epochs // 2
            and first.startswith(f"epoch {epochs // 2 + 1}:")):
        raise SystemExit("this is not what should have happened")


def main() -> None:
    """One process of a training with --train, else the demonstration."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--train", metavar="DIRECTORY")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--die-in", type=int, help="the epoch in which this process kills itself")
    options = parser.parse_args()
    if options.train is None:
        demonstrate(options.epochs)
        return
    mjax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT)
    train(options.train, options.epochs, options.die_in)


if __name__ == "__main__":
    main()
