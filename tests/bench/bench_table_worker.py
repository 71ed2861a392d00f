# SPDX-License-Identifier: Apache-2.0
"""What a worker that is killed costs the others: three processes train a table under SSP 2, one of
them is killed with -9, and the longest time without a push is measured, beside the time after which
a silent worker is not waited for.

    PS_BIN=build/release/bin /usr/bin/python3 tests/bench/bench_table_worker.py --grace 2

Trains on a9a where ../shared/data has it, otherwise on generated rows. Prints one JSON line; needs
grpcio and the programs of a build."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in "blackbox", "cluster":
    sys.path.insert(0, os.path.join(HERE, "..", "integration", folder))

from blackbox import Server, program, run, wait_until  # noqa: E402
from calls import MESSAGES  # noqa: E402

WORKERS = 3
LOOK_S = 0.005
DATA = os.path.join(HERE, "..", "..", "..", "shared", "data", "a9a")


def data(folder):
    if os.path.exists(DATA):
        return DATA
    path = os.path.join(folder, "train.svm")
    run("pstrain", "generate", "--out", path, "--rows", "30000", "--features", "123", check=True)
    return path


def begin(server, path, part, grace):
    return subprocess.Popen(
        [program("pstrain"), "--data", path, "--servers", server.address, "--model",
         "sparse-logistic", "--optimizer", "ftrl", "--consistency", "ssp:2", "--grace", f"{grace}s",
         "--part", str(part), "--parts", str(WORKERS), "--epochs", "200"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def table_of(server):
    """The one table that pstrain has defined; None before that."""
    done = server.psctl("params", "--output", "json")
    rows = json.loads(done.stdout) if done.returncode == 0 else []
    return next((row["name"] for row in rows if row["version"] > 100), None)


def version(server, name):
    reply = server.calls.call("GetParam", MESSAGES["pserver.v1.GetParamRequest"](name=name))
    return MESSAGES["pserver.v1.GetParamResponse"].FromString(reply).version


def longest_stand(server, name, seconds):
    """Longest time in which no push came, while it is looked at for so long."""
    until = time.monotonic() + seconds
    seen, since, longest = version(server, name), time.monotonic(), 0.0
    while time.monotonic() < until:
        time.sleep(LOOK_S)
        now = version(server, name)
        if now != seen:
            longest = max(longest, time.monotonic() - since)
            seen, since = now, time.monotonic()
    return max(longest, time.monotonic() - since)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--grace", type=int, default=2, help="seconds of silence; default 2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        path = data(folder)
        trainers = [begin(server, path, part, options.grace) for part in range(WORKERS)]
        try:
            wait_until(lambda: table_of(server), "100 pushes")
            name = table_of(server)
            before = longest_stand(server, name, 3)
            trainers[-1].kill()
            after = longest_stand(server, name, 3 * options.grace + 3)
        finally:
            for trainer in trainers:
                trainer.kill()
                trainer.wait()
    print(json.dumps({"grace_s": options.grace, "longest_before_s": round(before, 3),
                      "longest_after_s": round(after, 3)}))


if __name__ == "__main__":
    main()
