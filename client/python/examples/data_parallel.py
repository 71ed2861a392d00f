# SPDX-License-Identifier: Apache-2.0
"""Data parallel training that several processes do as one, bit by bit.

    data_parallel.py --data a9a [--workers 4] [--epochs 1]        all of it: a server, the workers
    data_parallel.py --data a9a --workers 4 --servers HOST:PORT --worker 0      one of the workers

Each worker computes the gradient of its share of every batch. The servers average what the workers
of a round contribute, in the workers' order, and make one step of it. The whole run is done twice
over servers, the second time with one of them killed on the way, and once in a single process that
adds the shares' gradients up in the same order: all three end with the same bits.

Needs the program pserver on the PATH or in PSERVER_PROGRAM, and the package pserver. Ends with 1
when the bits differ.
"""

import argparse
import os
import subprocess
import sys
import zlib

import numpy as np
import pserver
from pserver.testing import Server

import dense_network as network

HERE = os.path.realpath(__file__)


def work(servers: str, data: str, epochs: int, workers: int, worker: int) -> None:
    """One worker: the only line that a trainer without rounds has not is `worker=worker`."""
    x, y = network.load(data)
    count = len(y) // workers * workers
    with pserver.connect(servers, timeout=120.0, wait=60.0) as ps:
        optimizer = pserver.SGD(0.5, rounds=pserver.Rounds(workers))
        ps.initialize(network.first_values(x.shape[1]), optimizer)
        values = ps.pull()
        for rows in network.batches(count, epochs, worker, workers):
            gradients, _ = network.gradients(values, x[rows], y[rows])
            values = ps.push_pull(gradients, worker=worker)


def train_alone(data: str, epochs: int, workers: int) -> dict[str, network.Array]:
    """The same in one process: as many gradients for each step, added up in the same order."""
    x, y = network.load(data)
    count = len(y) // workers * workers
    values = network.first_values(x.shape[1])
    shares = [network.batches(count, epochs, worker, workers) for worker in range(workers)]
    for step in zip(*shares):
        parts = [network.gradients(values, x[rows], y[rows])[0] for rows in step]
        for name, value in values.items():
            total = parts[0][name].astype(np.float32)
            for part in parts[1:]:
                total += part[name].astype(np.float32)
            value -= np.float32(0.5) * (total / np.float32(workers))
    return values


def train_together(arguments: argparse.Namespace, kill: bool) -> dict[str, network.Array]:
    """All workers, each a process, over two servers."""
    with Server() as first, Server() as second:
        addresses = f"{first.address},{second.address}"
        workers = [subprocess.Popen(
            [sys.executable, "-B", HERE, "--data", arguments.data, "--epochs",
             str(arguments.epochs), "--workers", str(arguments.workers), "--servers", addresses,
             "--worker", str(worker)]) for worker in range(arguments.workers)]
        with pserver.connect(addresses, timeout=120.0) as ps:
            if kill:
                ps.pull()
                second.kill()
                second.start()
            if any([worker.wait() != 0 for worker in workers]):
                raise RuntimeError("a worker failed")
            values = ps.pull(into=network.first_values(network.COLUMNS))
            print(f"{max(ps.versions.values())} rounds", "through a kill -9" if kill else "")
            return values


def digest(values: dict[str, network.Array]) -> int:
    """Equal for values that are equal to the bit."""
    return zlib.crc32(b"".join(values[name].tobytes() for name in sorted(values)))


def main() -> int:
    """Everything, or one worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers")
    parser.add_argument("--worker", type=int)
    arguments = parser.parse_args()
    if arguments.servers is not None:
        work(arguments.servers, arguments.data, arguments.epochs, arguments.workers,
             arguments.worker)
        return 0
    results = {"together": train_together(arguments, kill=False),
               "together, a server killed": train_together(arguments, kill=True),
               "alone": train_alone(arguments.data, arguments.epochs, arguments.workers)}
    x, y = network.load(arguments.data)
    for name, values in results.items():
        print(f"{name:26} accuracy {network.accuracy(values, x, y):.4f}  bits {digest(values):08x}")
    return 0 if len(set(map(digest, results.values()))) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
