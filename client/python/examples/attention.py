# SPDX-License-Identifier: Apache-2.0
"""Attention and feed-forward apart, as StepMesh's example has them: workers that hold attention
push two tensors each step and pull one, and a server program answers all of them at once.

    attention.py server  SERVERS RANK  WORKERS STEPS
    attention.py worker  SERVERS RANK  WORKERS STEPS [TRACE.svg]

The program takes one request of every worker, computes with one matrix product for all of them, and
answers each with its own rows. Each worker checks every value of every step. The last steps' traces
are printed as a table, and drawn.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pserver
from pserver.serving import SERVER, WORKER, Serving, Trace

Matrix = npt.NDArray[Any]

ROWS, WIDTH = 4, 32
STAGES = ("begun", "sent", "arrived", "taken", "answered", "replied", "received", "waited")


def weights() -> Matrix:
    """What the feed-forward part multiplies with: small whole numbers, so that sums are exact."""
    return (np.arange(WIDTH * WIDTH, dtype=np.float32) % 5).reshape(WIDTH, WIDTH)


def inputs(rank: int, step: int) -> tuple[Matrix, Matrix]:
    base = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) % 7
    return base + np.float32(rank + step % 11), base * np.float32(step % 3)


def serve(serving: Serving, workers: int, steps: int) -> None:
    matrix = weights()
    for _ in range(steps):
        batch = serving.get_batch(range(workers), timeout=60)
        if not batch:
            raise TimeoutError("not all workers have asked")
        hidden = np.concatenate([np.asarray(request.tensors[0]) + np.asarray(request.tensors[1])
                                 for request in batch])
        serving.respond_vec(np.ascontiguousarray(hidden @ matrix), [ROWS] * len(batch),
                            [request.handler for request in batch])
        del batch


def work(serving: Serving, rank: int, steps: int, picture: str | None) -> None:
    matrix = weights()
    pulled = np.empty((ROWS, WIDTH), np.float32)
    handler = 0
    for step in range(steps):
        first, second = inputs(rank, step)
        handler = serving.push_pull([first, second], [0, 1], [pulled], [2])
        serving.wait(handler, timeout=60)
        if not np.array_equal(pulled, (first + second) @ matrix):
            raise AssertionError(f"step {step}: wrong values")
    rows = serving.fetch_trace(handler)
    print("server  " + "  ".join(f"{name:>9}" for name in STAGES) + "   microseconds")
    for row in rows:
        print(f"{row.server:6}  " + "  ".join(
            f"{(getattr(row, name) - row.begun) / 1000:9.1f}" for name in STAGES))
    if picture is not None:
        draw(rows, picture)
    print(f"worker {rank}: {steps} steps, every value checked")


def draw(rows: list[Trace], path: str) -> None:
    """A bar for each server, in the colours of the stages."""
    colours = ("#4c78a8", "#9ecae9", "#f58518", "#ffbf79", "#54a24b", "#88d27a", "#b279a2")
    total = max(max(row.waited - row.begun, 1) for row in rows)
    parts = []
    for place, row in enumerate(rows):
        times = [getattr(row, name) - row.begun for name in STAGES]
        for stage, colour in enumerate(colours):
            left, right = times[stage] / total, times[stage + 1] / total
            parts.append(f'<rect x="{10 + 780 * left:.1f}" y="{20 + 30 * place}" height="20" '
                         f'width="{max(780 * (right - left), 0.5):.1f}" fill="{colour}">'
                         f"<title>server {row.server}: {STAGES[stage]} to {STAGES[stage + 1]}"
                         "</title></rect>")
    height = 40 + 30 * len(rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{height}">'
                   + "".join(parts) + "</svg>\n")


def main() -> None:
    role, servers = sys.argv[1], sys.argv[2]
    rank, workers, steps = (int(word) for word in sys.argv[3:6])
    picture = sys.argv[6] if len(sys.argv) > 6 else None
    with pserver.connect(servers) as client:
        serving = Serving(client, SERVER if role == "server" else WORKER, rank=rank,
                          workers=workers)
        try:
            if role == "server":
                serve(serving, workers, steps)
            else:
                work(serving, rank, steps, picture)
        finally:
            serving.stop(0)


if __name__ == "__main__":
    main()
