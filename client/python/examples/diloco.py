# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on islands that talk once in H steps (DiLoCo), and on as many that talk in
every step, and compares the two.

    diloco.py --data a9a --test a9a.t [--islands 4] [--local-steps 32] [--steps 2048]
              [--encoding bfloat16] [--curve curve.svg]

Needs the program pserver on the PATH or in PSERVER_PROGRAM, and the package pserver. Ends with 1
when the accuracies differ by more than the tolerance.
"""

import argparse
import json
import math
import multiprocessing
import sys
import urllib.request
from multiprocessing.connection import Connection

import numpy as np
import pserver
from pserver.testing import Server

import dense_network as network

BATCH = 64
Curve = list[tuple[int, float]]


def walk(values: dict[str, network.Array], inner: network.Adam,
         batches: list[tuple[network.Array, network.Array]]) -> dict[str, network.Array]:
    """Steps of the inner optimizer. Returns where the values were minus where they are: a gradient
    whose descent leads there."""
    begun = {name: value.copy() for name, value in values.items()}
    for x, y in batches:
        inner.step(values, network.gradients(values, x, y)[0])
    return {name: begun[name] - values[name] for name in values}


def island(servers: str, options: argparse.Namespace, rank: int, local: int,
           report: Connection) -> None:
    """Trains on its own share of the rows. Every `local` steps all islands take the average of what
    they found, and the servers make one step with it."""
    x, y = network.load(options.data)
    x, y = x[rank::options.islands], y[rank::options.islands]
    test = network.load(options.test)
    random = np.random.default_rng(rank)
    inner = network.Adam(1e-3)
    curve = []
    with pserver.connect(servers, timeout=120.0, wait=60.0, encoding=options.encoding,
                         shared_memory=False) as ps:
        values = ps.pull()
        for step in range(0, options.steps, local):
            if step % options.local_steps == 0 and rank == 0:
                curve.append((step, network.accuracy(values, *test)))
            batches = [(x[rows], y[rows]) for rows in random.integers(0, len(y), (local, BATCH))]
            if local == 1:
                pushed, _ = network.gradients(values, *batches[0])
            else:
                pushed = walk(values, inner, batches)
            ps.push_pull(pushed, into=values, worker=rank)
        curve.append((options.steps, network.accuracy(values, *test)))
    report.send(curve)


def train(options: argparse.Namespace, local: int) -> tuple[Curve, float]:
    """The accuracy by steps of each island, and all bytes that the server has sent and received."""
    rounds = pserver.Rounds(options.islands)
    often, seldom = pserver.Adam(1e-3, rounds=rounds), pserver.Outer(0.7, 0.9, rounds=rounds)
    with Server("--http=127.0.0.1:0") as server, pserver.connect(server.address) as ps:
        ps.initialize(network.first_values(network.COLUMNS), seldom if local > 1 else often)
        before = traffic(server)
        spawn = multiprocessing.get_context("spawn")
        ends = [spawn.Pipe(duplex=False) for _ in range(options.islands)]
        islands = [spawn.Process(target=island, args=(server.address, options, rank, local, end),
                                 daemon=True)
                   for rank, (_, end) in enumerate(ends)]
        for process, (_, end) in zip(islands, ends):
            process.start()
            end.close()  # so that an island that fails is the end of its pipe
        curves: list[Curve] = [end.recv() for end, _ in ends]
        for process in islands:
            process.join()
        return curves[0], traffic(server) - before


def traffic(server: Server) -> float:
    """Bytes of all messages that a server has had and sent so far, from its metrics."""
    with open(server.log_path, encoding="utf-8") as log:
        where = next(line for line in map(json.loads, log) if line["msg"] == "http listening")
    with urllib.request.urlopen(f"http://127.0.0.1:{where['port']}/metrics") as page:
        lines = [line.split() for line in page.read().decode().splitlines()]
    return sum(float(line[-1]) for line in lines if line[0] in
               ("ps_rpc_received_bytes_total", "ps_rpc_sent_bytes_total"))


def draw(path: str, runs: dict[str, tuple[Curve, float]], samples_per_step: int) -> None:
    """The curves by the samples of all islands, and beside them by the bytes that travelled."""
    found = [accuracy for curve, _ in runs.values() for _, accuracy in curve[1:]]
    low, high = min(found), max(found)
    most = max(sent for _, sent in runs.values())
    least = min(sent / len(curve) for curve, sent in runs.values())
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="880" height="330" '
             'font-family="sans-serif" font-size="13">',
             '<rect width="880" height="330" fill="white"/>']
    for row, (name, (curve, sent)) in enumerate(runs.items()):
        color, last = ("#1f77b4", "#d62728")[row], curve[-1][0]
        heights = [290 - 260 * (accuracy - low) / (high - low) for _, accuracy in curve[1:]]
        shares = [step / last for step, _ in curve[1:]]
        bytes_of = [math.log(share * sent / least) / math.log(most / least) for share in shares]
        for left, places in ((50, shares), (480, bytes_of)):
            points = " ".join(f"{left + 370 * x:.1f},{y:.1f}" for x, y in zip(places, heights))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        parts.append(f'<text x="180" y="{230 + 18 * row}" fill="{color}">talking {name}: '
                     f'{sent / 1e6:.1f} MB</text>')
    samples = samples_per_step * max(curve[-1][0] for curve, _ in runs.values())
    for left, title in ((50, f"samples, 0 to {samples}"),
                        (480, f"bytes, {least / 1e6:.1f} to {most / 1e6:.1f} MB, logarithmic")):
        parts.append(f'<path d="M{left} 30V290H{left + 370}" fill="none" stroke="black"/>'
                     f'<text x="{left - 40}" y="36">{high:.3f}</text>'
                     f'<text x="{left - 40}" y="294">{low:.3f}</text>'
                     f'<text x="{left + 40}" y="312">test accuracy by {title}</text>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join([*parts, "</svg>"]))


def main() -> int:
    """Both trainings, and what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="rows to train on, a LIBSVM file")
    parser.add_argument("--test", required=True, help="rows to test with")
    parser.add_argument("--islands", type=int, default=4)
    parser.add_argument("--local-steps", type=int, default=32, help="H")
    parser.add_argument("--encoding", default="bfloat16", choices=("float32", "bfloat16", "int8"),
                        help="of what is pushed")
    parser.add_argument("--steps", type=int, default=2048, help="of each island")
    parser.add_argument("--tolerance", type=float, default=0.005, help="of the accuracies")
    parser.add_argument("--curve", help="an SVG file to write")
    options = parser.parse_args()
    runs = {}
    for name, local in (("every step", 1), (f"every {options.local_steps} steps",
                                            options.local_steps)):
        curve, sent = runs[name] = train(options, local)
        print(f"{name}: test accuracy {curve[-1][1]:.4f}, {sent / 1e6:.2f} MB", flush=True)
    (often, much), (seldom, little) = runs.values()
    print(f"1/{much / little:.1f} of the bytes")
    if options.curve:
        draw(options.curve, runs, BATCH * options.islands)
    return 0 if abs(often[-1][1] - seldom[-1][1]) <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
