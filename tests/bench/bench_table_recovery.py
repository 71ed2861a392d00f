# SPDX-License-Identifier: Apache-2.0
"""How long a server takes to come back with a large table: from its start to its first answer, and
what it says of the loading, beside reading the same file and copying it in memory.

    PS_BIN=build/release/bin /usr/bin/python3 tests/bench/bench_table_recovery.py --rows 10000000

The file is read before each start, so that it comes from memory and not from the disk. Prints one
JSON line; needs grpcio and the programs of a build, and 150 bytes of disk and memory for a row."""

import argparse
import json
import os
import platform
import statistics
import struct
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in "blackbox", "cluster":
    sys.path.insert(0, os.path.join(HERE, "..", "integration", folder))

from blackbox import Server  # noqa: E402
from calls import FLOAT32, MESSAGES  # noqa: E402

BATCH = 10000
ENCODING_ROWS = 16
SPREAD = 0x9E3779B97F4A7C15  # keys all over their range, none twice
PIECE = 1 << 20


def configuration(options):
    config = MESSAGES["paddle.OptimizerConfig"]()
    if options.adagrad:
        config.optimizer = config.Adagrad
    config.table.width = options.width
    return config.SerializeToString()


def fill(server, options):
    server.calls.call("DefineParam", MESSAGES["pserver.v1.InitParamRequest"](
        name="t", element_type=FLOAT32, config=configuration(options)))
    for first in range(0, options.rows, BATCH):
        keys = [key * SPREAD % (1 << 64) for key in range(first, first + BATCH)]
        rows = struct.pack("<f", 0.25) * (BATCH * options.width)
        server.calls.call("SendGrad", MESSAGES["pserver.v1.SendGradRequest"](
            name="t", element_type=FLOAT32, encoding=ENCODING_ROWS,
            row_width=options.width,
            content=struct.pack(f"<{BATCH}Q", *keys) + rows))


def largest_file(folder):
    paths = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    return max(paths, key=os.path.getsize)


def read_seconds(path):
    """Of every byte, by one thread, into memory that is there already."""
    room = bytearray(PIECE)
    began = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(room):
            pass
    return time.monotonic() - began


def answer_seconds(server):
    """From the start of a process to its answer about a row."""
    key = struct.pack("<Q", SPREAD)
    began = time.monotonic()
    server.start()
    while True:
        try:
            server.calls.call("GetParam",
                              MESSAGES["pserver.v1.GetParamRequest"](name="t", keys=key))
            return time.monotonic() - began
        except Exception:  # noqa: BLE001: it is not ready yet
            time.sleep(0.002)


def measure(options):
    with Server() as server:
        server.make_ready()
        began = time.monotonic()
        fill(server, options)
        filled = time.monotonic() - began
        began = time.monotonic()
        done = server.psctl("checkpoint", timeout="600s")
        assert done.returncode == 0, done.stderr
        saved = time.monotonic() - began
        path = largest_file(server.data)
        reads, answers = [], []
        for _ in range(options.repeat):
            server.process.kill()
            read_seconds(path)  # from the disk, perhaps
            reads.append(read_seconds(path))
            answers.append(answer_seconds(server))
        return {"rows": options.rows, "width": options.width, "adagrad": options.adagrad,
                "file_bytes": os.path.getsize(path), "fill_s": round(filled, 2),
                "save_s": round(saved, 2), "read_s": round(statistics.median(reads), 3),
                "recover_s": round(statistics.median(answers), 3),
                "recover_s_all": [round(one, 3) for one in answers],
                "ratio": round(statistics.median(answers) / statistics.median(reads), 2),
                "rss_kib": server.rss_kib(), "machine": platform.machine(),
                "cores": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description="recovery of a large table")
    parser.add_argument("--rows", type=int, default=10000000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--adagrad", action="store_true", help="rows have a state")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options)), flush=True)


if __name__ == "__main__":
    main()
