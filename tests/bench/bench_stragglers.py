# SPDX-License-Identifier: Apache-2.0
"""One of four workers is ten times slower for a while: how fast the others are meanwhile, and how
long they wait, under ASP, SSP(3) and BSP.

    PS_BIN=build/release/bin python3 tests/bench/bench_stragglers.py --svg docs/stragglers.svg

The workers are threads that sleep for as long as they would compute, with a jitter, and talk to a
real server by gRPC: pull at their clock, push, clock. Prints one JSON line for each model; needs
grpcio and the programs of a build."""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in "blackbox", "cluster":
    sys.path.insert(0, os.path.join(HERE, "..", "integration", folder))

from blackbox import Server  # noqa: E402
from calls import MESSAGES, Calls  # noqa: E402

WORKERS, SLOW = 4, 3
MODELS = (("ASP", 0, 0), ("SSP(3)", 1, 3), ("BSP", 2, 0))
COLOURS = {"ASP": "#1b7837", "SSP(3)": "#2166ac", "BSP": "#b2182b"}


class Worker(threading.Thread):
    """Trains until the end, and notes of each iteration when it ended, when its pull began, and how
    long that took."""

    def __init__(self, address, name, rank, plan):
        super().__init__()
        self.calls, self.name_of_clocks, self.rank, self.plan = Calls(address), name, rank, plan
        self.session, self.sequence, self.rows = time.time_ns() // 1000, 0, []

    def number(self):
        self.sequence += 1
        return MESSAGES["pserver.v1.RequestId"](client_id=b"worker-%d" % self.rank,
                                                session=self.session, sequence=self.sequence)

    def compute(self, now):
        """One iteration's work: evenly between half and one and a half of the mean."""
        begin, end = self.plan.slow
        slower = 10 if self.rank == SLOW and begin <= now < end else 1
        time.sleep(self.plan.step * slower * (0.5 + random.random()))

    def run(self):
        clock = 0
        while (now := time.monotonic() - self.plan.began) < self.plan.seconds:
            self.calls.call("GetParam", MESSAGES["pserver.v1.GetParamRequest"](
                name="w", worker=1 + self.rank, clock=clock, clocks=self.name_of_clocks))
            waited = time.monotonic() - self.plan.began - now
            self.compute(now + waited)
            self.calls.push("w", [0.0] * 4)
            clock += 1
            self.calls.call("Clock", MESSAGES["pserver.v1.ClockRequest"](
                name=self.name_of_clocks, worker=1 + self.rank, clock=clock,
                request=self.number()))
            self.rows.append((time.monotonic() - self.plan.began, now, waited))
        # Whoever ends is not waited for: without this the others would stand still with it.
        self.calls.call("Clock", MESSAGES["pserver.v1.ClockRequest"](
            name=self.name_of_clocks, worker=1 + self.rank, clock=1 << 40, request=self.number()))


class Plan:
    def __init__(self, seconds, step):
        self.seconds, self.step, self.began = seconds, step, time.monotonic()
        self.slow = (seconds / 3, seconds * 2 / 3)


def train(server, model, consistency, staleness, options):
    """The plan, and the iterations of the fast workers."""
    server.calls.call("SetClocks", MESSAGES["pserver.v1.SetClocksRequest"](
        name=model, workers=WORKERS, consistency=consistency, staleness=staleness))
    plan = Plan(options.seconds, options.step)
    workers = [Worker(server.address, model, rank, plan) for rank in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return plan, [row for worker in workers if worker.rank != SLOW for row in worker.rows]


def rates(rows, begin, end):
    """Between two moments: iterations per second of a fast worker, and the share of its time in
    which it waits."""
    seconds = (end - begin) * (WORKERS - 1)
    ended = sum(begin <= at < end for at, _, _ in rows)
    waits = sum(max(0.0, min(end, pulled + waited) - max(begin, pulled))
                for _, pulled, waited in rows)
    return ended / seconds, waits / seconds


def mean_of(rows, begin, end):
    rate, waits = rates(rows, begin, end)
    longest = max((waited for at, _, waited in rows if begin <= at < end), default=0.0)
    return {"iterations_per_s": round(rate, 2), "waits": round(waits, 3),
            "longest_wait_s": round(longest, 3)}


def picture(results, bins, note):
    """Two panels over one time axis: throughput above, waiting below."""
    width, height, left, top, gap = 720, 200, 60, 60, 50
    plan = next(iter(results.values()))[0]
    highest = max(rate for _, rows in results.values() for rate, _ in rows)
    top_rate = 4 * (int(highest / 4) + 1)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 160} '
           f'{2 * height + gap + top + 60}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="22" '
           f'font-size="14">Three workers beside one that is ten times slower for a while</text>']
    for panel, (label, most) in enumerate((("iterations per second", top_rate),
                                           ("share of time that waits", 1.0))):
        base = top + panel * (height + gap) + height
        begin, end = (left + width * part / plan.seconds for part in plan.slow)
        out.append(f'<rect x="{begin:.1f}" y="{base - height}" width="{end - begin:.1f}" '
                   f'height="{height}" fill="#eeeeee"/>')
        out.append(f'<path d="M{left} {base - height}V{base}H{left + width}" fill="none" '
                   f'stroke="black"/><text x="{left}" y="{base - height - 6}">{label}</text>')
        for tick in range(5):
            y = base - height * tick / 4
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">'
                       f'{most * tick / 4:.3g}</text>')
        for row, (model, (_, rows)) in enumerate(results.items()):
            points = " ".join(f"{left + width * (i + 0.5) / bins:.1f},"
                              f"{base - height * values[panel] / most:.1f}"
                              for i, values in enumerate(rows))
            out.append(f'<polyline points="{points}" fill="none" stroke-width="2" '
                       f'stroke="{COLOURS[model]}"/>')
            if panel == 0:
                out.append(f'<text x="{left + width + 12}" y="{top + 20 + 18 * row}" '
                           f'fill="{COLOURS[model]}">{model}</text>')
    base = top + 2 * height + gap
    for tick in range(7):
        x = left + width * tick / 6
        out.append(f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle">'
                   f'{plan.seconds * tick / 6:.3g} s</text>')
    out.append(f'<text x="{left}" y="{base + 38}" fill="#555555">{note}</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=12, help="of each model")
    parser.add_argument("--step", type=float, default=0.04, help="mean seconds of an iteration")
    parser.add_argument("--bins", type=int, default=24, help="points of a curve")
    parser.add_argument("--svg", help="where the picture goes")
    options = parser.parse_args()
    random.seed(1)
    results = {}
    with Server() as server:
        server.make_ready()
        for model, consistency, staleness in MODELS:
            plan, rows = train(server, model, consistency, staleness, options)
            width = plan.seconds / options.bins
            results[model] = plan, [rates(rows, i * width, (i + 1) * width)
                                    for i in range(options.bins)]
            begin, end = plan.slow
            print(json.dumps({"model": model, "before": mean_of(rows, 0, begin),
                              "beside_the_straggler": mean_of(rows, begin, end),
                              "after": mean_of(rows, end, plan.seconds)}), flush=True)
    if options.svg:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, check=False,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        note = (f"an iteration takes {options.step * 1000:.0f} ms on average; grey: one of four "
                f"takes ten times that; {os.cpu_count()} {platform.machine()} cores, {commit}")
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(picture(results, options.bins, note))


if __name__ == "__main__":
    main()
