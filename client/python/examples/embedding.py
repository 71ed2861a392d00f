# SPDX-License-Identifier: Apache-2.0
"""Learns who clicks on what, with a factorisation machine whose rows are those of a table: some
workers, two servers of which one is killed on the way, and the same training in one process.

    embedding.py [--workers 3] [--steps 400] [--staleness 2] [--seed 1]

Needs the program pserver on the PATH or in PSERVER_PROGRAM, and the package pserver. Ends with 1
when the accuracies differ by more than the tolerance.
"""

import argparse
import multiprocessing
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pserver
from pserver.testing import Server

USERS, ITEMS, HIDDEN = 400, 300, 4
FACTORS = 8  # and one more element of a row: the weight of its feature
BATCH = 256
RATE = 0.1
FIRST = pserver.Normal(0.0, 0.1, seed=7)
Array = npt.NDArray[Any]


def clicks(random: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Users and items that meet, as keys of two features, and who clicked: those who like it."""
    hidden = np.random.default_rng(0)
    users, items = (hidden.normal(size=(many, HIDDEN)) for many in (USERS, ITEMS))
    user, item = random.integers(0, USERS, count), random.integers(0, ITEMS, count)
    liked = (users[user] * items[item]).sum(1) + 0.2 * random.normal(size=count) > 0
    keys = np.stack([hashed("user", user), hashed("item", item)], axis=1)
    return keys, liked.astype(np.float32)


def hashed(feature: str, value: Array) -> Array:
    """A key for each value of a feature. Any 64 bits will do: servers keep rows, and no numbers of
    rows."""
    salt = np.uint64(int.from_bytes(feature.encode(), "little"))
    mixed: Array = (value.astype(np.uint64) ^ salt) * np.uint64(0x9E3779B97F4A7C15)
    key: Array = mixed ^ mixed >> np.uint64(29)
    return key


def scores(rows: Array) -> Array:
    """Of each example, of the rows of its features: batch x features x (1 + FACTORS)."""
    weights, factors = rows[..., 0], rows[..., 1:]
    summed = factors.sum(1)
    paired: Array = 0.5 * ((summed ** 2).sum(1) - (factors ** 2).sum((1, 2)))
    found: Array = weights.sum(1) + paired
    return found


def gradients(rows: Array, clicked: Array) -> Array:
    """Of the logistic loss, for every row that was read."""
    factors = rows[..., 1:]
    error = (1 / (1 + np.exp(-scores(rows))) - clicked) / len(clicked)
    others = factors.sum(1, keepdims=True) - factors
    slopes = np.concatenate([np.ones_like(rows[..., :1]), others], axis=-1)
    found: Array = slopes * error[:, None, None].astype(np.float32)
    return found


def accuracy(rows: Array, clicked: Array) -> float:
    """The share of examples whose score has the right sign."""
    return float(np.mean((scores(rows) > 0) == (clicked > 0.5)))


def define(ps: pserver.Client) -> pserver.Table:
    """Every worker makes the same call; the first one defines the table."""
    return ps.table("clicks", 1 + FACTORS, pserver.Adagrad(RATE), init=FIRST)


def work(servers: str, rank: int, options: argparse.Namespace) -> None:
    """A worker: reads the rows of its batch, adds their gradients, and says how far it is."""
    random = np.random.default_rng(options.seed + rank)
    with pserver.connect(servers, timeout=120.0, wait=60.0) as ps:
        table = define(ps)
        clocks = ps.clocks("clicks", options.workers, "ssp", staleness=options.staleness)
        for step in range(options.steps):
            keys, clicked = clicks(random, BATCH)
            table.at(clocks.at(rank, step))
            table.add(keys, gradients(table.get(keys), clicked))
            clocks.clock(rank, step + 1)


def train(options: argparse.Namespace, test: tuple[Array, Array]) -> float:
    """The workers beside each other, and a server that dies when a third is done."""
    with Server() as first, Server() as second:
        servers = f"{first.address},{second.address}"
        with pserver.connect(servers, timeout=120.0) as ps:
            ps.initialize({})
            table = define(ps)
            clocks = ps.clocks("clicks", options.workers, "ssp", staleness=options.staleness)
            spawn = multiprocessing.get_context("spawn")
            workers = [spawn.Process(target=work, args=(servers, rank, options), daemon=True)
                       for rank in range(options.workers)]
            for worker in workers:
                worker.start()
            third = options.steps // 3
            while clocks.progress(at_least=third, timeout=1.0).minimum < third:
                if any(worker.exitcode for worker in workers):
                    raise RuntimeError("a worker failed")
            second.kill()
            second.start()
            print("killed one server, and started it again", flush=True)
            for worker in workers:
                worker.join()
            if any(worker.exitcode for worker in workers):
                raise RuntimeError("a worker failed")
            return accuracy(table.get(test[0]), test[1])


def alone(options: argparse.Namespace, test: tuple[Array, Array]) -> float:
    """One process, without servers: as many steps, and the same rule over arrays."""
    every = np.concatenate([hashed("user", np.arange(USERS)), hashed("item", np.arange(ITEMS))])
    every.sort()
    values = np.random.default_rng(FIRST.seed).normal(
        FIRST.mean, FIRST.deviation, (len(every), 1 + FACTORS)).astype(np.float32)
    squares = np.zeros_like(values)
    randoms = [np.random.default_rng(options.seed + rank) for rank in range(options.workers)]
    for _ in range(options.steps):
        for random in randoms:
            keys, clicked = clicks(random, BATCH)
            places = np.searchsorted(every, keys)
            summed = np.zeros_like(values)
            np.add.at(summed, places, gradients(values[places], clicked))
            squares += summed ** 2
            values -= RATE * summed / (np.sqrt(squares) + 1e-10)
    return accuracy(values[np.searchsorted(every, test[0])], test[1])


def main() -> int:
    """Both trainings, and what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400, help="of each worker")
    parser.add_argument("--staleness", type=int, default=2, help="steps between the workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=0.02, help="of the accuracies")
    options = parser.parse_args()
    test = clicks(np.random.default_rng(options.seed + 1000), 20_000)
    beside = train(options, test)
    print(f"{options.workers} workers over two servers: test accuracy {beside:.4f}", flush=True)
    single = alone(options, test)
    print(f"one process: test accuracy {single:.4f}")
    return 0 if abs(beside - single) <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
