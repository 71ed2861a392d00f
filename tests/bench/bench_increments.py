# SPDX-License-Identifier: Apache-2.0
"""What an increment costs beside a whole checkpoint of the same table: bytes, seconds, and how long
a server takes to come back with it.

    PS_BIN=build/release/bin /usr/bin/python3 tests/bench/bench_increments.py --rows 10000000

A table is filled and saved whole; then a share of its rows, all over it, is pushed to, and saved as
an increment. Nobody pushes meanwhile. Prints one JSON line; needs grpcio and the programs of a
build, and 250 bytes of disk and 150 of memory for a row."""

import argparse
import glob
import json
import os
import platform
import statistics
import struct
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from bench_table_recovery import (BATCH, ENCODING_ROWS, SPREAD, answer_seconds, fill,  # noqa: E402
                                  read_seconds)
from blackbox import Server  # noqa: E402
from calls import FLOAT32, MESSAGES  # noqa: E402


def touch(server, options):
    """Pushes to every so manieth row, to the same ones each time."""
    picked = list(range(0, options.rows, round(100 / options.percent)))
    for first in range(0, len(picked), BATCH):
        keys = [key * SPREAD % (1 << 64) for key in picked[first:first + BATCH]]
        rows = struct.pack("<f", 0.25) * (len(keys) * options.width)
        server.calls.call("SendGrad", MESSAGES["pserver.v1.SendGradRequest"](
            name="t", element_type=FLOAT32, encoding=ENCODING_ROWS,
            row_width=options.width,
            content=struct.pack(f"<{len(keys)}Q", *keys) + rows))


def save(server):
    """The log's row of the checkpoint that is written now."""
    done = server.psctl("checkpoint", timeout="600s")
    assert done.returncode == 0, done.stderr
    return [row for row in server.process.events() if row["msg"] == "checkpoint saved"][-1]


def recover(server, options):
    """Killed and started, again and again with the same files, which are in memory. Nothing is
    saved in between: rows that were loaded are written in another order, which loads faster."""
    taken = []
    for _ in range(options.repeat):
        server.process.kill()
        for path in glob.glob(os.path.join(server.data, "**", "*.safetensors"), recursive=True):
            read_seconds(path)
        taken.append(answer_seconds(server))
    return taken


def median(numbers):
    return round(statistics.median(numbers), 3)


def filled(options):
    """A server with the table, and the log's row of its whole checkpoint."""
    server = Server("--increments", "1000")
    server.make_ready()
    fill(server, options)
    # Neither kind is written over an old file here, since there is none yet.
    whole = save(server)
    assert whole["kind"] == "whole", whole
    return server, whole


def measure(options):
    result = {"rows": options.rows, "width": options.width, "adagrad": options.adagrad,
              "percent": options.percent, "machine": platform.machine(), "cores": os.cpu_count()}
    server, whole = filled(options)
    with server:
        result["whole_bytes"], result["whole_ms"] = whole["bytes"], whole["duration_ms"]
        by_whole = recover(server, options)
    server, whole = filled(options)
    with server:
        taken = []
        for _ in range(options.repeat):
            touch(server, options)
            row = save(server)
            assert row["kind"] == "increment on", row
            taken.append(row["duration_ms"])
        by_increment = recover(server, options)
    result["increment_bytes"], result["increment_ms"] = row["bytes"], median(taken)
    for kind, seconds in ("increment", by_increment), ("whole", by_whole):
        result[f"recover_{kind}_s"] = median(seconds)
        result[f"recover_{kind}_s_least"] = round(min(seconds), 3)
    result["bytes_share"] = round(result["increment_bytes"] / result["whole_bytes"], 4)
    result["ms_share"] = round(result["increment_ms"] / max(result["whole_ms"], 1), 3)
    return result


def main():
    parser = argparse.ArgumentParser(description="increments of a large table")
    parser.add_argument("--rows", type=int, default=10000000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--adagrad", action="store_true", help="rows have a state")
    parser.add_argument("--percent", type=float, default=1, help="of the rows are pushed to")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options)), flush=True)


if __name__ == "__main__":
    main()
