# SPDX-License-Identifier: Apache-2.0
"""One attack on one server, and what an honest trainer sees beside it."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration", "blackbox"))

import grpc  # noqa: E402

from blackbox import Server, descriptors  # noqa: E402
from calls import Calls  # noqa: E402
from front_attacks import ATTACKS  # noqa: E402

DESCRIPTORS = 1024
KEPT_MIB = 96  # of gigabytes that were held, the allocator may keep so many
VALUES = [0.0] * 1024  # a gradient of 4 KiB


def train(address):
    """Pushes 4 KiB again and again, until the end of its input; says how long each push took."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    calls = Calls(address)
    times, failures = [], []
    # Connected before the attack begins: hosts that attack have their new connections refused for
    # some time, and the trainer comes from the same one.
    while True:
        try:
            calls.push("w", VALUES, timeout=120)
            break
        except grpc.RpcError:
            time.sleep(0.1)
    print("begun", flush=True)
    while not ended.is_set():
        start = time.monotonic()
        try:
            calls.push("w", VALUES, timeout=120)
        except grpc.RpcError as error:
            failures.append(str(error.code()))
        times.append(time.monotonic() - start)
        # A trainer computes between two pushes, and leaves the processors to others.
        time.sleep(0.002)
    print(json.dumps({"times": times, "failures": failures}), flush=True)


class Trainer:
    """That trainer, in a process of its own."""

    def __init__(self, address):
        self.child = subprocess.Popen(["/usr/bin/python3", os.path.realpath(__file__), address],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout.readline() == "begun\n"

    def end(self):
        self.child.stdin.close()
        said = json.loads(self.child.stdout.readline())
        self.child.wait()
        self.child.stdout.close()
        times = sorted(said["times"])
        return {"pushes": len(times), "failed": len(said["failures"]),
                "p99_ms": 1000 * times[min(len(times) - 1, int(len(times) * 0.99))],
                "most_ms": 1000 * times[-1]}


class Watch:
    """The largest of what is looked at while it lasts: memory, descriptors, the time of a probe."""

    def __init__(self, server):
        self.server = server
        self.rss_mib = self.descriptors = 0
        self.probe_ms = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def _look(self):
        while not self.ended.wait(0.05):
            self.rss_mib = max(self.rss_mib, self.server.rss_kib() // 1024)
            self.descriptors = max(self.descriptors, descriptors(self.server.pid))
            start = time.monotonic()
            with contextlib.suppress(OSError):
                page(self.server, "/livez")
            self.probe_ms = max(self.probe_ms, 1000 * (time.monotonic() - start))

    def end(self):
        self.ended.set()
        self.thread.join()


def http_port(server):
    return server.process.wait_event("http listening")["port"]


def page(server, path, timeout=40):
    return server.get(path, timeout)[1]


def refusals(server):
    """What the server has refused so far, by reason."""
    lines = page(server, "/metrics").splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if line.startswith("ps_refused_total{")]
    return {name.split('"')[1]: int(float(value)) for name, value in rows if float(value) > 0}


def start_server():
    server = Server(http=True)
    server.make_ready("w", VALUES)
    # What a shell gives a program, so that a bound by descriptors is met at all.
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    return server


def attack(server, name, count, seconds, size=None, patience=60):
    """Runs one attack from `count` processes; a row of figures."""
    row = {"attack": name, "row": ATTACKS[name][1], "count": count,
           "rss_before_mib": server.rss_kib() // 1024}
    trainer = Trainer(server.address)
    watch = Watch(server)
    time.sleep(0.5)
    # Peers of a real attack have processors of their own; here they take what is left over.
    subprocess.run(["nice", "-n", "19", "/usr/bin/python3",
                    os.path.join(HERE, "front_attacks.py"), name,
                    str(server.port), str(http_port(server)), str(size or ATTACKS[name][2]),
                    str(seconds), str(count)], check=True)
    watch.end()
    row.update(trainer.end(), rss_mib=watch.rss_mib, descriptors=watch.descriptors,
               probe_ms=watch.probe_ms)
    start = time.monotonic()
    row["enough_mib"] = row["rss_before_mib"] + KEPT_MIB
    while server.rss_kib() // 1024 > row["enough_mib"] and time.monotonic() < start + patience:
        time.sleep(0.5)
    row.update(rss_after_mib=server.rss_kib() // 1024, after_s=time.monotonic() - start)
    with contextlib.suppress(OSError):
        row["refused"] = refusals(server)
    return row


if __name__ == "__main__":
    train(sys.argv[1])
