# SPDX-License-Identifier: Apache-2.0
"""A whole job on this machine for one test: a real etcd, real pservers, and what they logged.

Everything lives in a folder of its own and on free ports of 127.0.0.1, and ends with the test.
The programs come from the folder named in PS_BIN (ctest sets it).
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BIN = os.environ.get("PS_BIN", os.path.join(REPOSITORY, "build", "release", "bin"))
DATA = os.environ.get("PS_DATA", os.path.join(REPOSITORY, "..", "shared", "data"))

# How long a broken system may hang, in seconds. No test passes or fails by it: a machine that is
# ten times slower needs less.
PATIENCE = 120


def free_port():
    """Outside the range from which the kernel takes ports: none of those is free for long."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(20000, 32000)))
            except OSError:
                continue
            return probe.getsockname()[1]


def wait_until(question, what):
    """Asks until the answer is true; `what` is a text, or gives it when it is wanted."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            what = what() if callable(what) else what
            raise AssertionError(f"waited {PATIENCE} s in vain: {what}")
        time.sleep(0.05)


class Process:
    """A child with its output in a file."""

    def __init__(self, name, arguments, folder, environment=None):
        self.name = name
        self.log_path = os.path.join(folder, name + ".log")
        self.log_file = open(self.log_path, "ab")
        self.start_offset = os.path.getsize(self.log_path)
        self.child = subprocess.Popen(
            arguments, stdout=self.log_file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})})

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            file.seek(self.start_offset)
            return file.read()

    def events(self):
        """What a program logged with --log-format json."""
        rows = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass  # the line that is being written
        return rows

    def event(self, message):
        return next((row for row in self.events() if row["msg"] == message), None)

    def wait_event(self, message):
        """An event of a program that runs, or ended with it."""
        def logged():
            ended = not self.alive()
            event = self.event(message)
            assert event or not ended, f"{self.name} ended without \"{message}\": {self.log()}"
            return event
        return wait_until(
            logged, lambda: f"{self.name} logs \"{message}\"; its log:\n{self.log()[-3000:]}")

    def signal(self, number):
        self.child.send_signal(number)
        if number == signal.SIGSTOP:  # the threads stop one by one
            os.waitid(os.P_PID, self.child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def alive(self):
        return self.child.poll() is None

    def kill(self):
        if self.alive():
            self.child.kill()
        self.child.wait()

    def wait_exit(self):
        return self.child.wait(timeout=PATIENCE)


class Cluster:
    """`ttl` is longer than a busy machine stops a server for; shorter where a test is about a lease
    that runs out. A lease in the data directory ends with the server's process, and kill_server
    ends one in etcd, so that nobody waits for either."""

    def __init__(self, shards=2, ttl="60s", interval="1s", etcd=True):
        self.folder = tempfile.mkdtemp(prefix="pserver-test-")
        self.data = os.path.join(self.folder, "data")
        self.shards = shards
        self.ttl = ttl
        self.interval = interval
        self.processes = []
        self.etcd = None
        self.etcd_port = free_port()
        self.peer_port = free_port()
        if etcd:
            self.start_etcd()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.alive():
                process.signal(signal.SIGCONT)
            process.kill()
            process.log_file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, name, arguments, environment=None):
        process = Process(name, arguments, self.folder, environment)
        self.processes.append(process)
        return process

    # ---- etcd ----

    @property
    def etcd_url(self):
        return f"http://127.0.0.1:{self.etcd_port}"

    def start_etcd(self):
        peer = f"http://127.0.0.1:{self.peer_port}"
        self.etcd = self.run("etcd", [
            "etcd", "--name", "test", "--data-dir", os.path.join(self.folder, "etcd"),
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"test={peer}"])
        wait_until(self.etcd_healthy, lambda: f"etcd becomes healthy: {self.etcd.log()[-3000:]}")

    def etcd_healthy(self):
        try:
            with urllib.request.urlopen(self.etcd_url + "/health", timeout=10) as reply:
                return b"true" in reply.read()
        except OSError:
            return False

    def etcdctl(self, *arguments):
        return subprocess.run(
            ["etcdctl", "--endpoints", self.etcd_url, *arguments], check=True,
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True).stdout

    def end_lease(self, server):
        """As if the lease of a server that was killed had run out."""
        epochs = [row["epoch"] for row in server.events() if row["msg"] == "index claimed"]
        keys = json.loads(self.etcdctl("get", "--prefix", "/", "--write-out", "json"))
        for lease in {key["lease"] for key in keys.get("kvs", [])
                      if key["create_revision"] in epochs}:
            self.etcdctl("lease", "revoke", f"{lease:x}")

    # ---- pserver ----

    def pserver(self, name, *flags, etcd=None, environment=None):
        with_etcd = self.etcd is not None if etcd is None else etcd
        arguments = [os.path.join(BIN, "pserver"), "--listen", "127.0.0.1:0", "--data-dir",
                     self.data, "--checkpoint-interval", self.interval, "--etcd-ttl", self.ttl,
                     "--log-format", "json"]
        if with_etcd:
            arguments += ["--etcd", self.etcd_url, "--num-pservers", str(self.shards)]
        return self.run(name, arguments + list(flags), environment)

    def start_servers(self, *flags):
        servers = [self.pserver(f"pserver-{i}", *flags) for i in range(self.shards)]
        for server in servers:
            server.wait_event("listening")
        self.wait_states("uninitialized")
        return servers

    def kill_server(self, server):
        server.kill()
        if self.etcd is not None:
            self.end_lease(server)

    def server_of(self, index):
        """The running process that serves a shard."""
        address = next(row["address"] for row in self.status() if row["index"] == index)
        for process in self.processes:
            listening = process.event("listening") if process.name.startswith("pserver") else None
            if process.alive() and listening and listening["address"] == address:
                return process
        raise AssertionError(f"no process listens on {address}")

    # ---- tools ----

    def where(self, servers=None):
        return ["--servers", servers] if servers else ["--etcd", self.etcd_url]

    def psctl(self, *words, servers=None, timeout="60s"):
        done = subprocess.run(
            [os.path.join(BIN, "psctl"), *words, *self.where(servers), "--output", "json",
             "--timeout", timeout], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout, done.stderr

    def status(self, servers=None):
        code, out, err = self.psctl("status", servers=servers, timeout="10s")
        if not out:
            raise AssertionError(f"psctl status: exit {code}: {err}")
        return json.loads(out)

    def wait_states(self, state, servers=None):
        def all_are():
            try:
                rows = self.status(servers)
            except AssertionError:
                return False
            return len(rows) > 0 and all(row["state"] == state for row in rows)
        wait_until(all_are, f"every server is {state}")

    def pstrain(self, name, *flags, servers=None):
        """Starts a training whose JSON document is `result` of the returned process."""
        result = os.path.join(self.folder, name + ".json")
        with open(result, "wb") as file, \
                open(os.path.join(self.folder, name + ".err"), "wb") as errors:
            child = subprocess.Popen(
                [os.path.join(BIN, "pstrain"), *self.where(servers), "--output", "json", *flags],
                stdout=file, stderr=errors)
        return Training(child, result, os.path.join(self.folder, name + ".err"))


class Training:
    def __init__(self, child, result, errors):
        self.child = child
        self.path = result
        self.errors = errors

    def result(self):
        code = self.child.wait(timeout=2 * PATIENCE)
        with open(self.errors, encoding="utf-8") as file:
            errors = file.read()
        if code != 0:
            raise AssertionError(f"pstrain: exit {code}: {errors[-2000:]}")
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)
