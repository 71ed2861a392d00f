# SPDX-License-Identifier: Apache-2.0
"""strace's fault injection on one thread of a running server."""

import os
import re
import shutil
import signal
import subprocess
import tempfile

from blackbox import wait_until

# What a save does to the disk, in strace's names.
CALLS = ("openat", "write", "pwrite64", "fdatasync", "fsync", "rename", "unlink", "mkdir")


def why_not():
    """None, or why faults cannot be injected here."""
    if shutil.which("strace") is None:
        return "there is no strace"
    child = subprocess.Popen(["sleep", "60"])
    try:
        with tempfile.NamedTemporaryFile() as output:
            tracer = subprocess.Popen(["strace", "-qq", "-o", output.name, "-p", str(child.pid)],
                                      stderr=subprocess.PIPE, text=True)
            wait_until(lambda: tracer.poll() is not None or tracer_of(child.pid, child.pid) != 0,
                       "strace attaches or says why not")
            if tracer.poll() is not None:
                return "strace cannot attach: " + tracer.stderr.read().strip()
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    finally:
        child.kill()
        child.wait()
    return None


def thread_of(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
            if file.read().strip() == name:
                return int(thread)
    raise AssertionError(f"process {pid} has no thread {name}")


def sleeps(pid, name):
    """Waits for something to do, and not for the disk."""
    with open(f"/proc/{pid}/task/{thread_of(pid, name)}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def tracer_of(pid, thread):
    with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
        return int(re.search(r"^TracerPid:\s*(\d+)", file.read(), re.M).group(1))


class Trace:
    """strace on the thread that saves; `with` lets go of it."""

    def __init__(self, server, *flags):
        thread = thread_of(server.pid, "checkpointer")
        descriptor, self.path = tempfile.mkstemp(prefix="pserver-trace-")
        os.close(descriptor)
        self.strace = subprocess.Popen(["strace", "-qq", "-y", "-s", "0", "-o", self.path, "-p",
                                        str(thread), "-e", "trace=" + ",".join(CALLS), *flags],
                                       stderr=subprocess.DEVNULL)
        wait_until(lambda: tracer_of(server.pid, thread) == self.strace.pid, "strace attaches")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.strace.poll() is None:
            self.strace.send_signal(signal.SIGINT)
        self.strace.wait(20)
        os.unlink(self.path)

    def lines(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()

    def hit(self):
        """The call that was made to fail, if any was."""
        return next((line for line in self.lines() if "(INJECTED)" in line), None)


def points(lines, folder):
    """(call, n) of each call below the folder: the n-th of its name in the trace."""
    counts = dict.fromkeys(CALLS, 0)
    found = []
    for line in lines:
        call = line.split("(", 1)[0]
        if call in counts:
            counts[call] += 1
            if folder in line:
                found.append((call, counts[call]))
    return found
