# SPDX-License-Identifier: Apache-2.0
"""The world of test_python_table_model.py: a server to which everything happens, a second one to
which the same is sent and nothing happens, and the model; and what is done to them at random."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pserver
from pserver.testing import Server

from table_model import EDGES, Model, Spec

TABLES = 3
WORKERS = 2
PATIENCE = 60


def psckpt(*words, codes=(0,)):
    done = subprocess.run([os.path.join(os.environ["PS_BIN"], "psckpt"), *map(str, words)],
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in codes:
        raise AssertionError(f"psckpt {words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def checkpoints_of(data):
    """The oldest first."""
    folder = os.path.join(data, "shard-0")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".safetensors")]


class World(contextlib.ExitStack):
    """The two servers, a client of each, and the model."""

    def __init__(self, test, seed):
        super().__init__()
        self.test = test
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        dice = self.dice
        self.expiring = dice.random() < 0.4
        ttl = "3s" if self.expiring else "60s"
        flags = ["--etcd-ttl", ttl, "--increments", dice.choice(["0", "1", "3"]),
                 "--checkpoint-interval", dice.choice(["100ms", "400ms", "1h"])]
        self.log("servers", *flags)
        # Of each side. To one server of two a push may be refused, and to the other one not.
        self.count = dice.choice([1, 1, 2])
        self.servers = [self.enter_context(Server(*flags)) for _ in range(self.count)]
        self.beside = [self.enter_context(Server("--etcd-ttl", ttl)) for _ in range(self.count)]
        self.clients = [self.enter_context(self.connect(side)) for side in range(2)]
        for client in self.clients:
            client.initialize({"w": np.zeros(8, np.float32)})
        self.tables, self.models, self.replicas, self.workers = {}, {}, {}, {}
        self.failed = []
        self.clock, self.task = [0] * WORKERS, 0
        if self.expiring:
            self.clocks = [client.clocks("ticks", WORKERS, "asp") for client in self.clients]

    def begin(self):
        for number in range(TABLES):
            self.define(f"t{number}")
        self.define_sum()

    def connect(self, side):
        addresses = ",".join(server.address for server in (self.servers, self.beside)[side])
        return pserver.connect(addresses, timeout=PATIENCE)

    def log(self, *words):
        print(" ", *words, file=sys.stderr)

    # ---- Tables come and go ----

    def define(self, name):
        spec = Spec(name, self.dice, clocks="ticks" if self.expiring else None)
        self.log("define", spec)
        with self.maybe_killed():
            self.tables[name] = [spec.define(client) for client in self.clients]
        self.models[name] = Model(spec)
        self.models[name].certain &= self.count == 1 or not spec.rows_max
        self.follow(name)
        self.take_part(name)

    def take_part(self, name):
        """Each worker has a table object of its own, which knows its round."""
        spec = self.models[name].spec
        self.workers[name] = spec.rounds and [[client.table(name) for _ in range(2)]
                                              for client in self.clients]

    def follow(self, name):
        """By a copy of the table of this name that went, if its rows have room for the new ones."""
        spec, before = self.models[name].spec, self.replicas.get(name)
        if before is not None and before[1] == (spec.width, spec.dtype, spec.keys_max):
            return
        if before is not None:
            before[0].close()
        self.replicas[name] = (self.tables[name][0].replica(),
                               (spec.width, spec.dtype, spec.keys_max))

    def define_sum(self):
        for client in self.clients:
            client.table("sum", 2, pserver.Add(), dtype=np.int64)
        self.sums = {}

    def exchange(self):
        name = self.dice.choice(list(self.tables))
        self.log("drop", name)
        with self.maybe_killed():
            for client in self.clients:
                client.drop([name])
        self.define(name)

    # ---- The end of a process, in the midst of something ----

    @contextlib.contextmanager
    def maybe_killed(self, chance=0.15):
        if not self.tables or self.dice.random() >= chance:
            yield
            return
        after = self.dice.choice([0, 0.001, 0.003, 0.01, 0.03])
        self.log(f"kill -9 after {after} s")

        def kill():
            time.sleep(after)
            self.restart()
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def restart(self):
        server = self.dice.choice(self.servers)
        server.kill()
        server.start()

    # ---- Pushes ----

    def keys(self, spec, count):
        dice = self.dice
        return np.array([dice.choice(EDGES) if dice.random() < 0.05 else dice.randrange(spec.keys)
                         for _ in range(count)], np.uint64)

    def gradients(self, model, count):
        spec = model.spec
        if model.exact:
            return self.numbers.integers(-9, 10, (count, spec.width)).astype(spec.dtype)
        return self.numbers.normal(0, 1, (count, spec.width)).astype(spec.dtype)

    def push(self):
        name = self.dice.choice(list(self.tables))
        model, spec, tables = self.models[name], self.models[name].spec, self.tables[name]
        count = self.dice.choice([0, 1, 2, 7, 20, 100])
        if spec.width == 4096:
            count = min(count, 30)
        keys, gradients = self.keys(spec, count), self.gradients(model, count)
        if spec.keys_max:
            keys %= np.uint64(spec.keys_max)
        joined = model.joined(keys, gradients)
        firsts = self.first_values(name, joined)
        asked = self.keys(spec, 5)
        if spec.keys_max:
            asked %= np.uint64(spec.keys_max)
        if spec.rounds:
            self.push_round(name, keys, gradients)
            return
        is_skipped = spec.skips and count and self.dice.random() < 0.2
        if is_skipped:
            gradients[self.dice.randrange(count), 0] = np.inf
        ways = [lambda table: table.add(keys, gradients),
                lambda table: table.add_get(keys, gradients, asked)]
        way = self.dice.choice(ways)
        with self.maybe_killed():
            ends = [self.outcome(lambda: way(table)) for table in tables]
        if not spec.expire_clocks:  # else each server lets rows go in its own time
            self.test.assertEqual(
                *[end.tobytes() if isinstance(end, np.ndarray) else end for end in ends], spec)
        if ends[0] is pserver.TableFullError:
            if model.certain and not spec.expire_clocks:
                self.test.assertTrue(model.is_refused(joined), spec)
            return
        if model.certain and not spec.expire_clocks and not is_skipped:
            self.test.assertFalse(model.is_refused(joined) and spec.full == "refuse", spec)
        if not is_skipped:
            model.push(joined, lambda key: firsts[key], min(self.clock))

    def contribute(self, name, server, worker, parts):
        try:
            self.workers[name][server][worker].push_pull(*parts[worker], [], worker=worker)
        except pserver.Error as error:
            self.failed.append((name, server, worker, error))

    def push_round(self, name, keys, gradients):
        """Half of it is the contribution of each worker; their rows are one push then."""
        model, spec = self.models[name], self.models[name].spec
        half = len(keys) // 2
        parts = [(keys[:half], gradients[:half]), (keys[half:], gradients[half:])]
        model.certain = False
        threads = [threading.Thread(target=self.contribute, args=(name, server, worker, parts))
                   for server in range(2) for worker in range(2)]
        with self.maybe_killed():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.test.assertEqual(self.failed, [], spec)

    def outcome(self, call):
        try:
            return call()
        except (pserver.TableFullError, pserver.InvalidError) as error:
            return type(error)

    def first_values(self, name, joined):
        model = self.models[name]
        new = np.array([key for key in joined if key not in model.rows], np.uint64)
        return dict(zip(new.tolist(), self.tables[name][1].get(new)))

    def push_large(self):
        """In several messages, of which each server has its own order."""
        name = self.dice.choice(list(self.tables))
        model, spec, tables = self.models[name], self.models[name].spec, self.tables[name]
        if spec.rows_max or spec.admission > 1 or spec.expire_clocks or spec.rounds:
            return
        count = 300 if spec.width == 4096 else 20000
        keys, gradients = self.keys(spec, count), self.gradients(model, count)
        if spec.keys_max:
            keys %= np.uint64(spec.keys_max)
        joined = model.joined(keys, gradients)
        firsts = self.first_values(name, joined)
        model.in_any_order = True
        with self.maybe_killed(0.4):
            for table in tables:
                table.add(keys, gradients)
        model.push(joined, lambda key: firsts[key], min(self.clock))

    def push_together(self):
        """Two clients to each server at once; what comes of it is determined all the same."""
        def count(client, seed):
            table, random_keys = client.table("sum"), np.random.default_rng(seed)
            for _ in range(6):
                keys = random_keys.integers(0, 50, 40).astype(np.uint64)
                table.add(keys, np.ones((40, 2), np.int64))

        seeds = [self.dice.randrange(1000) for _ in range(2)]
        with contextlib.ExitStack() as stack:
            threads = []
            for side in range(2):
                for seed in seeds:
                    client = stack.enter_context(self.connect(side))
                    threads.append(threading.Thread(target=count, args=(client, seed)))
            with self.maybe_killed(0.5):
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        for seed in seeds:
            numbers = np.random.default_rng(seed)
            for _ in range(6):
                for key in numbers.integers(0, 50, 40).tolist():
                    self.sums[key] = self.sums.get(key, 0) + 1

    # ---- What else is asked ----

    def configure(self):
        name = self.dice.choice(list(self.tables))
        model, spec = self.models[name], self.models[name].spec
        kind = self.dice.randrange(3)
        if kind == 0 and spec.rule in ("sgd", "momentum"):
            spec.rate = self.dice.choice([0.25, 0.5, 1.0])
            self.log("configure", name, "rate", spec.rate)
            with self.maybe_killed():
                for client in self.clients:
                    client.configure(name, lr=spec.rate)
        elif kind == 1 and not spec.rounds and not model.in_any_order:
            spec.rows_max = self.dice.choice([0, 1, spec.keys // 4, spec.keys // 2, spec.keys])
            spec.full = self.dice.choice(["refuse", "oldest"]) if spec.rows_max else "refuse"
            self.log("configure", name, spec.rows_max, spec.full)
            with self.maybe_killed():
                for table in self.tables[name]:
                    table.configure(rows_max=spec.rows_max, full=spec.full)
            model.certain &= not spec.loses_rows and (self.count == 1 or not spec.rows_max)
        elif kind == 2 and spec.admission > 1:
            model.certain = False
            most = self.dice.choice([0, 1, 8])
            self.log("configure", name, "candidates_max", most)
            with self.maybe_killed():
                for table in self.tables[name]:
                    table.configure(candidates_max=most)

    def save(self):
        with self.maybe_killed():
            try:
                self.clients[0].save()
            except pserver.Error as error:  # of the process that was killed
                self.log("save:", error)

    def tick(self):
        """The worker that is behind goes on."""
        if not self.expiring:
            return
        dice = self.dice
        if dice.random() < 0.1:
            self.task += 1
            begin = min(self.clock) + dice.choice([0, 1])
            self.clock = [begin] * WORKERS
            with self.maybe_killed():
                self.clocks = [client.clocks("ticks", WORKERS, "asp", task=self.task, start=begin)
                               for client in self.clients]
            return
        worker = self.clock.index(min(self.clock))
        self.clock[worker] += dice.choice([1, 1, 2])
        with self.maybe_killed():
            for clocks in self.clocks:
                told = clocks.clock(worker, self.clock[worker])
                self.test.assertEqual(told, self.clock[worker])

    # ---- What is true ----

    def check_sums(self):
        keys = np.arange(50, dtype=np.uint64)
        wanted = np.array([[self.sums.get(key, 0)] * 2 for key in range(50)], np.int64)
        for client in self.clients:
            np.testing.assert_array_equal(client.table("sum").get(keys), wanted)

    def check(self, name):
        """Rows by their keys, which rows there are, and the copy that follows."""
        model, spec, tables = self.models[name], self.models[name].spec, self.tables[name]
        asked = [key for key in [*range(spec.keys + 3), *EDGES] if key < (spec.keys_max or 2 ** 64)]
        asked = np.array(asked, np.uint64)
        replica, _ = self.replicas[name]
        with self.maybe_killed(0.05):
            replica.update()
        if spec.expire_clocks:
            self.check_expiring(name)
            return
        rows = [table.get(asked) for table in tables]
        self.test.assertEqual(rows[0].tobytes(), rows[1].tobytes(), spec)
        counts = [client.parameters()[name].shape[0] for client in self.clients]
        self.test.assertEqual(*counts, spec)
        self.test.assertEqual(len(replica), counts[0], spec)
        self.test.assertEqual(replica.get(asked).tobytes(), rows[0].tobytes(), spec)
        if not model.certain:
            return
        self.test.assertEqual(replica.keys().tolist(), sorted(model.rows), spec)
        self.check_values(model, asked, rows[0])

    def check_values(self, model, keys, rows):
        if not model.exact:
            return
        for key, row in zip(keys.tolist(), rows):
            if key in model.rows and key not in model.loose:
                self.test.assertEqual(row.tobytes(), model.rows[key].tobytes(), (key, model.spec))

    def check_expiring(self, name):
        """Rows that are not due are there; those of the copy have the model's values."""
        model, spec = self.models[name], self.models[name].spec
        if not model.certain:
            return
        replica, _ = self.replicas[name]
        there = set(replica.keys().tolist())
        self.test.assertLessEqual(there, set(model.rows), spec)
        gone = set(model.rows) - there
        for key in gone:
            self.test.assertTrue(key in model.loose or model.is_due(key, min(self.clock)),
                                 (key, spec))
        self.check_values(model, replica.keys(), replica.get(replica.keys()))

    def check_all(self):
        for name in self.tables:
            self.check(name)
        self.check_sums()

    def stopped(self):
        """What the programs say of the folders of servers that were killed."""
        self.log("look at the files")
        is_above = self.is_above()
        for server in self.servers:
            server.kill()
        digests = [self.look(number, is_above) for number in range(self.count)]
        for server in self.servers:
            server.start()
        if self.expiring or self.dice.random() < 0.5:
            return
        self.clients[0].save()
        for server, digest in zip(self.servers, digests):
            server.kill()
            saved = psckpt("digest", "--no-journal", server.data_path).split()[0]
            server.start()
            self.test.assertEqual(saved, digest)

    def look(self, number, is_above):
        data, dice = self.servers[number].data_path, self.dice
        psckpt("verify", data)
        digest = psckpt("digest", data).split()[0]
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "other")
            # Of a table above a limit that was lowered there is no other shard (64).
            psckpt("reshard", data, "--to", dice.choice([1, 2, 3]), "--out", other,
                   codes=(0, 64) if is_above else (0,))
            if dice.random() < 0.5 and os.path.exists(other):
                psckpt("export", other, "--out", os.path.join(folder, "plain"), "--merge")
            self.without_the_newest(data, os.path.join(folder, "copy"), digest)
        if not self.expiring:
            self.compare_files(data, self.beside[number].data_path)
        if dice.random() < 0.3:
            psckpt("prune", data)
            self.test.assertEqual(psckpt("digest", data).split()[0], digest)
        if dice.random() < 0.4:
            self.damage(data)
        return digest

    def without_the_newest(self, data, copy, digest):
        """Of two checkpoints the older one and the journal have all of the newer one."""
        shutil.copytree(data, copy)
        names = checkpoints_of(copy)
        if len(names) > 1:
            os.remove(names[-1])
            self.test.assertEqual(psckpt("digest", copy).split()[0], digest)

    def compare_files(self, data, beside):
        """The other server is at work, and its folder stays what it is for as long as a copy is."""
        copy = data + "-beside"
        shutil.copytree(beside, copy)
        told = psckpt("diff", data, copy, codes=(0, 1)).splitlines()
        shutil.rmtree(copy)
        self.test.assertEqual([line for line in told if self.is_different(line)], [])

    def is_different(self, line):
        """Of psckpt diff. Who came last is not determined where two came together."""
        name = line.split()[1].rstrip(":")
        any_order = name == "sum" or self.models[name].in_any_order
        return not (any_order and line.startswith(f"changed  {name}: clock,"))

    def damage(self, data):
        """The newest checkpoint, at any place."""
        names = checkpoints_of(data)
        if len(names) < 2:
            return
        at = self.dice.randrange(os.path.getsize(names[-1]))
        self.log("damage", names[-1], at, "of", os.path.getsize(names[-1]))
        with open(names[-1], "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x5a]))

    def end(self):
        """As an operator ends it: with a last checkpoint."""
        self.log("SIGTERM")
        server = self.dice.choice(self.servers)
        server.stop()
        server.start()

    def is_above(self):
        """Whether a table has more rows than a limit that was lowered."""
        there = self.clients[0].parameters()
        return any(0 < model.spec.rows_max < there[name].shape[0]
                   for name, model in self.models.items())

    def step(self):
        ways = [(60, self.push), (3, self.push_large), (2, self.push_together), (6, self.configure),
                (4, self.exchange), (8, self.save), (8 if self.expiring else 0, self.tick),
                (2, self.restart), (1, self.end), (2, self.stopped), (10, lambda: self.check(
                    self.dice.choice(list(self.tables))))]
        self.dice.choices([way for _, way in ways], [weight for weight, _ in ways])[0]()

    def __exit__(self, *failure):
        for replica, _ in self.replicas.values():
            replica.close()
        return super().__exit__(*failure)
