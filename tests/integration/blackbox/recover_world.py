# SPDX-License-Identifier: Apache-2.0
"""What test_recover.py stands on: docs/recover.md taken apart, and servers that were killed."""

import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cluster"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))

from calls import FLOAT32, MESSAGES, Calls  # noqa: E402
from cluster import BIN, PATIENCE, REPOSITORY, Cluster, wait_until  # noqa: E402

PAGE = os.path.join(REPOSITORY, "docs", "recover.md")
ELEMENTS = 32768  # 128 KiB, so that a segment of 1 MiB has eight pushes
ROUNDS = 3
PUSHES = 6  # of each parameter in a round
LAST = ROUNDS * PUSHES * 2  # position of a shard in the end
NAMES = {0: ("w", "a"), 1: ("b", "d")}  # where FNV-1a puts them does not matter: calls are direct


class Page:
    """Sections by heading: the words to see, and the blocks to type."""

    def __init__(self):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        self.text = text
        self.sections = {}
        for part in re.split(r"^## ", text, flags=re.M)[1:]:
            heading, body = part.split("\n", 1)
            sees = re.search(r"^- You see.*?(?=^- |\Z)", body, re.M | re.S)
            words = re.findall(r"`([^`]+)`", sees.group(0)) if sees else []
            blocks = [re.sub(r"^  ", "", block, flags=re.M)
                      for block in re.findall(r"^ *```sh\n(.*?)^ *```", body, re.M | re.S)]
            self.sections[heading] = (words, blocks)

    def words(self, heading):
        return self.sections[heading][0]

    def blocks(self, heading):
        return self.sections[heading][1]

    def table(self):
        """The rows of "By damage": damage -> what the server says, as (status, words)."""
        rows = {}
        body = re.search(r"^## By damage\n(.*?)^## ", self.text, re.M | re.S).group(1)
        for line in body.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 4 and cells[0] not in ("damage", "---"):
                rows[cells[0]] = ("65" if cells[1].startswith("65") else "serves",
                                  re.findall(r"`([^`]+)`", cells[1]))
        return rows


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def offset_of(path, tensor):
    """Where the first byte of a tensor stands in a checkpoint."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    begin, _ = header[tensor]["data_offsets"]
    return 8 + length + begin


class World:
    """Servers that ran and were killed, and what they had then."""

    def __init__(self, shards, flags=()):
        self.shards = shards
        self.flags = list(flags)
        self.sequence = {}
        self.cluster = Cluster(shards=shards, interval="1h", etcd=shards > 1)
        self.new = os.path.join(self.cluster.folder, "new")
        self.started = 0

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.cluster.__exit__(*failure)

    @property
    def data(self):
        return self.cluster.data

    @property
    def where(self):
        return f"--etcd {self.cluster.etcd_url}" if self.shards > 1 else ""

    def start(self, index=None):
        self.started += 1
        flags = ["--journal-segment-bytes", "1MiB", *self.flags]
        if self.shards > 1 and index is not None:
            flags += ["--index", str(index)]
        return self.cluster.pserver(f"pserver-{self.started}-{index}", *flags)

    def start_all(self):
        """Servers that serve, by index."""
        self.servers = {}
        for index in range(self.shards):
            process = self.start(index)
            process.wait_event("listening")
            self.servers[index] = process
        self.calls = {index: Calls(process.event("listening")["address"])
                      for index, process in self.servers.items()}

    def status(self):
        servers = ",".join(self.servers[index].event("listening")["address"]
                           for index in sorted(self.servers))
        done = subprocess.run([os.path.join(BIN, "psctl"), "status", "--servers", servers,
                               "--output", "json", "--timeout", "60s"],
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        return {row["index"]: row for row in json.loads(done.stdout)}

    def wait_ready(self):
        wait_until(lambda: all(row["state"] == "ready" for row in self.status().values()),
                   "every shard is ready")

    def push(self, index, name, value):
        self.sequence[index] = self.sequence.get(index, 0) + 1
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32,
            content=struct.pack(f"<{ELEMENTS}f", *([value] * ELEMENTS)),
            request=MESSAGES["pserver.v1.RequestId"](client_id=b"pusher", session=1,
                                                     sequence=self.sequence[index]))
        self.calls[index].call("SendGrad", request)

    def push_round(self, number):
        for index in range(self.shards):
            for i in range(PUSHES):
                for name in NAMES[index]:
                    self.push(index, name, -1.0 - i / 8 - number)

    def save(self):
        for index in range(self.shards):
            self.calls[index].channel.unary_unary("/pserver.v1.Admin/SaveCheckpoint")(
                b"", timeout=PATIENCE)

    def work(self, between=None):
        """Initialises, and pushes three rounds with a checkpoint after each but the last."""
        self.start_all()
        for index in range(self.shards):
            for name in NAMES[index]:
                self.calls[index].init(name, [0.0] * ELEMENTS)
            self.calls[index].finish()
        for number in range(ROUNDS):
            self.push_round(number)
            if number + 1 < ROUNDS:
                self.save()
            if between is not None and number == 0:
                between()
        self.wait_noted()
        self.kill()

    def wait_noted(self):
        """Until every folder has the note of its last push: a second after it at most."""
        last = LAST
        wait_until(lambda: all(glob.glob(os.path.join(self.shard(index), f"*-{last:016x}.durable"))
                               for index in range(self.shards)), "the last push is noted")

    def kill(self):
        for process in self.servers.values():
            self.cluster.kill_server(process)

    def stop(self):
        for process in self.servers.values():
            process.signal(signal.SIGTERM)
        for process in self.servers.values():
            process.wait_exit()

    def shard(self, index):
        return os.path.join(self.data, f"shard-{index}")

    def checkpoints(self, index):
        """From the oldest on."""
        def position(path):
            return int(os.path.basename(path).split("-")[1], 16)
        return sorted(glob.glob(os.path.join(self.shard(index), "*.safetensors")), key=position)

    def segments(self, index):
        return sorted(glob.glob(os.path.join(self.shard(index), "*.journal")))

    def type(self, block):
        """Into a shell, as it stands; gives $DATA of the end."""
        script = block + '\nprintf "%s" "$DATA" >&3\n'
        with tempfile.TemporaryFile() as end:
            descriptor = end.fileno()
            done = subprocess.run(
                ["bash", "-euc", script.replace(">&3", f">&{descriptor}")],
                env={"PATH": BIN + ":" + os.environ["PATH"], "DATA": self.data, "NEW": self.new,
                     "WHERE": self.where}, pass_fds=(descriptor,), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=PATIENCE, check=False)
            if done.returncode != 0:
                raise AssertionError(f"{block}: exit {done.returncode}\n{done.stdout}{done.stderr}")
            end.seek(0)
            self.cluster.data = end.read().decode()
        return done.stdout + done.stderr


def digest(path, *flags):
    done = subprocess.run([os.path.join(BIN, "psckpt"), "digest", path, "--output", "json", *flags],
                          capture_output=True, text=True, timeout=PATIENCE, check=True)
    (row,) = json.loads(done.stdout)["shards"]
    return row["digest"], row["position"]
