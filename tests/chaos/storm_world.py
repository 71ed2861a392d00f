# SPDX-License-Identifier: Apache-2.0
"""The processes of a storm: etcd, servers, trainers, a reader; and every fault that hits them."""

import calendar
import json
import os
import signal
import socket
import subprocess
import time

import storm_disk
import storm_network

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("PS_BUILD", os.path.join(REPOSITORY, "build", "release"))


def shard_of(name, shards):
    """docs/placement.md, written a second time."""
    number = 2166136261
    for byte in name.encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    return number % shards


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A child, its log file, and the JSON lines in it."""

    def __init__(self, name, words, folder, environment=None):
        self.name = name
        self.path = os.path.join(folder, f"{name}.log")
        self.offset = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        with open(self.path, "ab") as log:
            self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          env={**os.environ, **(environment or {})})
        self.started = time.monotonic()
        self.stopped = False
        self.killed = False  # by the storm

    def alive(self):
        return self.child.poll() is None

    def signal(self, number):
        if self.alive():
            self.child.send_signal(number)

    def kill(self):
        self.killed = True
        self.signal(signal.SIGKILL)
        self.child.wait()

    def new_events(self):
        """JSON lines written since the last call."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self.offset += whole
        rows = []
        for line in data[:whole].splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass  # a line of a library, no event of ours
        return [row for row in rows if isinstance(row, dict)]


class World:
    def __init__(self, folder, options, slots, note):
        self.folder = folder
        self.options = options
        self.slots = slots
        self.note = note  # called with (kind, text): what happened, for the report
        self.network_lacks = storm_network.why_not() if options.network == "auto" else "not asked"
        self.network = storm_network.Loopback() if self.network_lacks else \
            storm_network.Namespaces()
        self.disk, self.disk_lacks = storm_disk.make_disk(os.path.join(folder, "data"),
                                                          options.disk)
        self.data = os.path.join(self.disk.path, "data")
        self.kept = os.path.join(self.disk.path, "kept")
        self.etcd = None
        self.servers = {}
        self.trainers = {}  # number: Process
        self.reader = None
        self.slot_next = 0
        self.links = set()  # segments that have a second name
        self.owners = {}  # shard: server name
        self.events = []  # (seconds, server name, row)
        self.exits = []  # processes that ended by themselves: (name, code)
        self.ports = (free_port(), free_port()) if self.network_lacks else (2379, 2380)
        self.wall_offset = time.time() - time.monotonic()
        self.parameters = self.choose_parameters()
        self.durability = self.durability_flags()

    def server_can(self, *flags):
        """Whether the server knows these flags, and takes them together with a data directory."""
        return subprocess.run(
            [os.path.join(BUILD, "bin", "pserver"), "--check-config", "--data-dir", self.folder,
             *flags], capture_output=True, check=False, timeout=20).returncode == 0

    def durability_flags(self):
        """What makes P1 hold, as far as this server has it."""
        return ["--ack", "logged"] if self.server_can("--ack", "logged") else []

    # ---- What is trained ----

    def choose_parameters(self):
        """Names spread evenly over the shards; every eighth is larger."""
        shards, wanted = self.options.shards, self.options.parameters
        counts, chosen, number = [0] * shards, [], 0
        while len(chosen) < wanted:
            name = f"storm/{number}"
            number += 1
            shard = shard_of(name, shards)
            if counts[shard] * shards < wanted:
                counts[shard] += 1
                elements = 1 + 3 * self.slots
                chosen.append((name, elements + (2048 if len(chosen) % 8 == 7 else 0)))
        return chosen

    def model(self):
        return ",".join(f"{name}:{elements}" for name, elements in self.parameters)

    # ---- Processes ----

    def start(self, name, node, words, environment=None):
        return Process(name, self.network.command(node, words), self.folder, environment)

    @property
    def etcd_url(self):
        return f"http://{self.network.address('etcd')}:{self.ports[0]}"

    def start_etcd(self):
        peer = f"http://{self.network.address('etcd')}:{self.ports[1]}"
        self.etcd = self.start("etcd", "etcd", [
            "etcd", "--name", "storm", "--data-dir", os.path.join(self.folder, "etcd"),
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"storm={peer}"])

    def start_server(self, name):
        fault = os.path.join(self.folder, f"{name}.fault")
        if not os.path.exists(fault):
            self.set_shim(name, "0")
        self.servers[name] = self.start(name, name, [
            os.path.join(BUILD, "bin", "pserver"),
            "--listen", f"{self.network.address(name)}:0", "--data-dir", self.data,
            "--etcd", self.etcd_url, "--num-pservers", str(self.options.shards),
            "--etcd-ttl", f"{self.options.ttl}s", "--log-format", "json",
            "--checkpoint-interval", self.options.checkpoint_interval,
            "--increments", str(self.options.increments), *self.durability,
            *self.options.server_flags],
            {"LD_PRELOAD": os.path.join(BUILD, "tests", "fault_shim.so"),
             "PS_FAULT_SHIM": fault})

    def trainer_words(self, mode, *flags, timeout=120):
        return [os.path.join(BUILD, "tests", "storm_trainer"), mode, "--etcd", self.etcd_url,
                "--model", self.model(), "--slots", str(self.slots),
                "--timeout-ms", str(timeout * 1000), *flags]

    def start_trainer(self, number):
        if self.slot_next >= self.slots:
            return
        slot = self.slot_next
        self.slot_next += 1
        pause = 1000000 * self.options.batch // self.options.rate
        self.trainers[number] = self.start(f"trainer-{number}", f"trainer-{number}",
            self.trainer_words("push", "--slot", str(slot), "--batch", str(self.options.batch),
                               "--seed", str(self.options.seed * 1000 + slot),
                               "--pause-us", str(pause), "--record", self.record(slot),
                               *(["--changes"] if self.options.changes else [])))
        self.trainers[number].slot = slot

    def record(self, slot):
        return os.path.join(self.folder, f"slot-{slot}.record")

    def start_reader(self):
        self.reader = self.start("reader", "reader", self.trainer_words(
            "read", "--pause-us", "5000", "--record", os.path.join(self.folder, "reader.record"),
            "--seed", str(self.options.seed), timeout=5))

    def call_trainer(self, mode, *flags, seconds=60, **more):
        """Runs storm_trainer to its end in the network of the reader: what it printed."""
        done = subprocess.run(
            self.network.command("reader", self.trainer_words(mode, *flags, timeout=seconds)),
            capture_output=True, text=True, timeout=seconds + 60, check=False, **more)
        if done.returncode != 0:
            raise RuntimeError(f"storm_trainer {mode}: exit {done.returncode}: "
                               f"{done.stderr[-500:]}")
        return done.stdout

    # ---- Looking after them ----

    def server_names(self):
        return sorted(self.servers)

    def look(self):
        """Takes in what the servers logged, and starts again what has ended."""
        self.keep_journals()
        for name, server in self.servers.items():
            for row in server.new_events():
                self.events.append((self.seconds_of(row), name, row))
                if row.get("msg") == "serving":
                    self.owners[row["index"]] = name
        for name in self.server_names():
            if not self.servers[name].alive():
                self.ended(self.servers[name])
                self.start_server(name)
        if not self.etcd.alive():
            self.ended(self.etcd)
            self.start_etcd()
        for number, trainer in list(self.trainers.items()):
            if not trainer.alive():
                self.ended(trainer)
                del self.trainers[number]
                self.start_trainer(number)

    def shard_folders(self, top):
        return [os.path.join(top, f"shard-{index}") for index in range(self.options.shards)]

    def keep_journals(self):
        """Gives every segment a second name before a checkpoint covers it and it goes: the checker
        reads the whole journal."""
        for folder, kept in zip(self.shard_folders(self.data), self.shard_folders(self.kept)):
            names = set(os.listdir(folder)) if os.path.isdir(folder) else ()
            for name in names:
                if name.endswith(".journal") and (kept, name) not in self.links:
                    os.makedirs(kept, exist_ok=True)
                    try:
                        os.link(os.path.join(folder, name), os.path.join(kept, name))
                    except OSError:
                        continue  # it is gone, or the disk is full: tried again
                    self.links.add((kept, name))

    def ended(self, process):
        if not process.killed:
            self.exits.append((process.name, process.child.returncode))
            self.note("exit", f"{process.name} ended by itself: {process.child.returncode}")

    def seconds_of(self, row):
        """A log line's time on the monotonic clock."""
        stamp = row.get("ts", "1970-01-01T00:00:00.000Z")
        base = time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")
        return calendar.timegm(base) + float("0" + stamp[19:-1]) - self.wall_offset

    def set_shim(self, name, letter):
        """Written in place: servers have the file mapped."""
        path = os.path.join(self.folder, f"{name}.fault")
        with open(path, "r+b" if os.path.exists(path) else "wb") as file:
            file.write(letter.encode())

    def close(self):
        everything = [self.reader, *self.trainers.values(), *self.servers.values(), self.etcd]
        for process in everything:
            if process is not None and process.alive():
                process.kill()
        self.network.close()
        self.disk.close()
