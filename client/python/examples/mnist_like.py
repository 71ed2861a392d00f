# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with two trainers and two servers, kills a server on the way, and compares
the outcome with the same training in one process.

    mnist_like.py --data a9a --test a9a.t [--epochs 6] [--curve curve.svg]

Needs the program pserver on the PATH or in PSERVER_PROGRAM, and the package pserver. Ends with 1
when a push was lost or applied twice, or when the accuracies differ by more than a hundredth.
"""

import argparse
import os
import subprocess
import sys

import numpy as np
import pserver
from pserver.testing import Server

import dense_network as network

TRAINERS = 2
HERE = os.path.dirname(os.path.realpath(__file__))


def train_alone(data: str, epochs: int) -> tuple[dict[str, network.Array], list[float]]:
    """The same steps in one process, with Adam in numpy."""
    x, y = network.load(data)
    values = network.first_values(x.shape[1])
    optimizer = network.Adam(1e-3)
    losses = []
    for rows in network.batches(len(y), epochs, 0, 1):
        gradients, loss = network.gradients(values, x[rows], y[rows])
        losses.append(loss)
        optimizer.step(values, gradients)
    return values, losses


def train_together(data: str, epochs: int) -> tuple[dict[str, network.Array], list[list[float]]]:
    """Two trainers over two servers, of which one is killed when a third of the steps is done."""
    with Server() as first, Server() as second:
        addresses = f"{first.address},{second.address}"
        trainers = [subprocess.Popen(
            [sys.executable, os.path.join(HERE, "dense_trainer.py"), addresses, data, str(member),
             str(TRAINERS), str(epochs)], stdout=subprocess.PIPE, text=True)
            for member in range(TRAINERS)]
        with pserver.connect(addresses, timeout=120.0) as ps:
            kill_on_the_way(ps, second, trainers, count_rows(data) * epochs // network.BATCH // 3)
            losses = [[float(line) for line in trainer.communicate()[0].splitlines()]
                      for trainer in trainers]
            if any(trainer.returncode != 0 for trainer in trainers):
                raise RuntimeError("a trainer failed")
            pushes = sum(map(len, losses))
            versions = {info.version for info in ps.parameters().values()}
            print(f"{pushes} pushes of each parameter were acknowledged, "
                  f"{', '.join(map(str, versions))} applied")
            if versions != {pushes}:
                raise RuntimeError("a push was lost or applied twice")
            return ps.pull(into=network.first_values(network.COLUMNS)), losses


def count_rows(path: str) -> int:
    """Lines of a file."""
    with open(path, encoding="ascii") as file:
        return sum(1 for _ in file)


def kill_on_the_way(ps: pserver.Client, server: Server, trainers: list["subprocess.Popen[str]"],
                    steps: int) -> None:
    """kill -9 after so many steps; the server comes back with its journal."""
    ps.pull()  # waits until a trainer has initialised the job
    replica = ps.replica(network.first_values(network.COLUMNS))
    while min(replica.update().values()) < steps:
        if any(trainer.poll() for trainer in trainers):
            raise RuntimeError("a trainer failed")
    replica.close()
    server.kill()
    print("killed one server with -9")
    server.start()
    print("it is back")


def smooth(losses: list[float], width: int = 25) -> list[float]:
    """The mean of `width` losses for each step."""
    return [float(np.mean(losses[max(0, i - width):i + 1])) for i in range(len(losses))]


def draw(path: str, curves: dict[str, list[float]]) -> None:
    """A picture of the losses by the share of the training that was done, and of the kill."""
    top = max(max(curve) for curve in curves.values())
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="360" '
             'font-family="sans-serif" font-size="13">',
             '<rect width="640" height="360" fill="white"/>']
    for row, (name, curve) in enumerate(curves.items()):
        color = ("#1f77b4", "#d62728", "#2ca02c")[row % 3]
        points = " ".join(f"{40 + 580 * i / len(curve):.1f},{330 - 300 * loss / top:.1f}"
                          for i, loss in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>'
                     f'<text x="400" y="{40 + 18 * row}" fill="{color}">{name}</text>')
    killed = 40 + 580 / 3
    parts.append(f'<path d="M{killed:.1f} 60V330" stroke="gray" stroke-dasharray="4"/>'
                 f'<text x="{killed + 6:.1f}" y="72" fill="gray">kill -9 of a server</text>')
    parts.append('<path d="M40 30V330H620" fill="none" stroke="black"/>'
                 f'<text x="4" y="36">{top:.2f}</text><text x="24" y="334">0</text>'
                 '<text x="200" y="352">mean logistic loss, by the share of the training</text>'
                 '</svg>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(parts))


def main() -> int:
    """Both trainings, and what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="rows to train on, a LIBSVM file")
    parser.add_argument("--test", required=True, help="rows to test with")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--curve", help="an SVG file to write")
    options = parser.parse_args()
    alone, losses = train_alone(options.data, options.epochs)
    together, parts = train_together(options.data, options.epochs)
    x, y = network.load(options.test)
    one, two = network.accuracy(alone, x, y), network.accuracy(together, x, y)
    print(f"test accuracy: {one:.4f} in one process, {two:.4f} with two trainers and a crash")
    if options.curve:
        draw(options.curve, {"one process": smooth(losses),
                             **{f"trainer {i} of {TRAINERS}": smooth(part)
                                for i, part in enumerate(parts)}})
    return 0 if abs(one - two) < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
