# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: programs that run to their end, and a server to talk to."""

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cluster"))

from calls import Calls  # noqa: E402
from cluster import BIN, PATIENCE, Cluster, wait_until  # noqa: E402,F401


def program(name):
    return os.path.join(BIN, name)


def run(name, *arguments, environment=None, stdout=subprocess.PIPE):
    """Runs a program to its end. No PSERVER_ variable of the caller reaches it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PSERVER_")}
    return subprocess.run([program(name), *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
                          env={**clean, **(environment or {})})


def run_until(holds, name, *arguments):
    """Of a program that waits for what never comes: its timeout is short, and longer until the
    answer `holds`, since a slow machine needs that for the rest."""
    for seconds in (1, 8, PATIENCE // 2):
        done = run(name, *arguments, "--timeout", f"{seconds}s")
        if holds(done):
            break
    return done


def late_answer(begin):
    """The call that `begin` makes of a timeout, once it was answered. A server answers what it
    cannot do an eighth of the timeout before its client gives up; where a busy machine takes longer
    than that, the client's own end comes first, and the call is made again with more time."""
    for seconds in (2, 16, PATIENCE // 2):
        call = begin(seconds)
        if call.exception(PATIENCE) is None or call.details() != "Deadline Exceeded":
            break
    return call


def late_failure(begin):
    """The failure of such a call, in the server's words."""
    return late_answer(begin).exception()


class Server:
    """A pserver alone on its data directory, which `with` ends."""

    def __init__(self, *flags, interval="1h", ttl="60s", environment=None, http=False, wait=True,
                 data=None):
        self.cluster = Cluster(etcd=False, ttl=ttl, interval=interval)
        self.cluster.data = data or self.cluster.data
        self.flags = (*flags, "--http", "127.0.0.1:0") if http else flags
        self.environment = environment
        self.visitor = visitor_of(flags)
        self.started = 0
        try:
            self.start(wait)
        except BaseException:
            self.cluster.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.cluster.__exit__(*failure)

    def start(self, wait=True):
        """Starts the process, or another one in the place of one that ended."""
        self.started += 1
        self.process = self.cluster.pserver(f"pserver-{self.started}", *self.flags,
                                            environment=self.environment)
        if wait:
            self.address = self.process.wait_event("listening")["address"]
            self.calls = Calls(self.address)
        return self.process

    @property
    def pid(self):
        return self.process.child.pid

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    @property
    def data(self):
        return self.cluster.data

    def make_ready(self, name="w", values=(0.0, 0.0, 0.0, 0.0)):
        self.calls.init(name, list(values))
        self.calls.finish()

    def get(self, page, timeout=PATIENCE):
        """Status and text of a page of the HTTP port."""
        port = self.process.wait_event("http listening")["port"]
        scheme = "http" if self.visitor is None else "https"
        return fetch(f"{scheme}://127.0.0.1:{port}{page}", self.visitor, timeout)

    def rss_kib(self):
        return proc_status(self.pid, "VmRSS")

    def psctl(self, *words, timeout="60s"):
        return run("psctl", *words, "--servers", self.address, "--timeout", timeout)


def patiently(call):
    """Calls again while a server whose lease ran out is not serving."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def fetch(url, context=None, timeout=PATIENCE):
    try:
        with urllib.request.urlopen(url, timeout=timeout, context=context) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def visitor_of(flags):
    """Who visits the HTTP port of a server with these flags: under TLS one who shows the server's
    own certificate, as it is now. None: plaintext."""
    paths = dict(zip(flags, flags[1:]))
    if "--tls-cert" not in paths:
        return None
    context = ssl.create_default_context(cafile=paths.get("--tls-ca", paths["--tls-cert"]))
    context.load_cert_chain(paths["--tls-cert"], paths["--tls-key"])
    return context


def proc_status(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    raise AssertionError(f"no {key} in /proc/{pid}/status")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))
