#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast push_pull of the Python package is beside the same calls in C, in alternating rounds.

    bench_python.py BENCH_PYTHON_LOOP [--rounds 7] [--seconds 0.3]

Needs PYTHONPATH and PSERVER_PROGRAM of one build. Prints a table for docs/performance-calls.md:
medians in microseconds, and the ratio of C's time to Python's, with the lowest and highest round.
"""

import argparse
import os
import statistics
import subprocess
import time

import numpy as np
import pserver
from pserver.testing import Server

CASES = [("4 KiB", "small", 1, 4 << 10), ("1 MiB", "large", 1, 1 << 20),
         ("100 x 4 KiB", "many", 100, 4 << 10)]


def median_us(call, seconds):
    """The median of one call, over as many as fit into the time."""
    times = []
    until = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        call()
        times.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(times)


def python_us(client, prefix, count, size, seconds):
    gradients = {f"{prefix}{i}": np.zeros(size // 4, np.float32) for i in range(count)}
    into = {name: np.empty_like(gradient) for name, gradient in gradients.items()}
    return median_us(lambda: client.push_pull(gradients, into), seconds)


def c_us(loop, address, prefix, count, size, seconds):
    done = subprocess.run([loop, address, prefix, str(count), str(size), str(seconds)],
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loop")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    values = {f"{prefix}{i}": np.zeros(size // 4, np.float32)
              for _, prefix, count, size in CASES for i in range(count)}
    rows = {case[0]: [] for case in CASES}
    with Server("--ack=memory", data=False) as server, pserver.connect(server.address) as client:
        client.initialize(values)
        for _ in range(options.rounds):
            for name, *case in CASES:
                rows[name].append((c_us(options.loop, server.address, *case, options.seconds),
                                   python_us(client, *case, options.seconds)))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, numpy {np.__version__}")
    print("| push_pull | C, us | Python, us | C / Python | lowest | highest |")
    print("|---|---|---|---|---|---|")
    for name, pairs in rows.items():
        ratios = [c / python for c, python in pairs]
        print(f"| {name} | {statistics.median(c for c, _ in pairs):.1f} "
              f"| {statistics.median(python for _, python in pairs):.1f} "
              f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |")


if __name__ == "__main__":
    main()
