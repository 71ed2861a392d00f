# SPDX-License-Identifier: Apache-2.0
"""The world of test_python_table_model.py: a server to which everything happens, a second one to
which the same is sent and nothing happens, and the model; and what is done to them at random."""

import contextlib
import random
import sys
import threading
import time

import numpy as np
import pserver
from pserver.testing import Server

from table_checks import Checks, psckpt
from table_model import EDGES, Model, Spec

TABLES = 3
WORKERS = 2
PATIENCE = 60


class World(Checks, contextlib.ExitStack):
    """The two servers, a client of each, and the model."""

    def __init__(self, test, seed, options):
        super().__init__()
        self.test = test
        self.is_large = options.large
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        dice = self.dice
        self.expiring = dice.random() < 0.4
        ttl = "6s" if self.expiring else "60s"
        self.is_brief = options.sleep and dice.random() < 0.5  # its lease
        flags = ["--etcd-ttl", "1s" if self.is_brief else ttl,
                 "--increments", dice.choice(["0", "1", "3"]),
                 "--checkpoint-interval", dice.choice(["100ms", "400ms", "1h"])]
        self.log("servers", *flags)
        # Of each side. To one server of two a push may be refused, and to the other one not.
        self.count = dice.choice([1, 1, 2])
        self.servers = [self.enter_context(Server(*flags)) for _ in range(self.count)]
        self.beside = [self.enter_context(Server("--etcd-ttl", ttl, "--checkpoint-interval", "1h"))
                       for _ in range(self.count)]
        self.clients = [self.enter_context(self.connect(side)) for side in range(2)]
        for client in self.clients:
            client.initialize({"w": np.zeros(8, np.float32)})
        self.tables, self.models, self.replicas, self.workers = {}, {}, {}, {}
        self.failed = []
        self.sets, self.set_count = {}, 0  # by name: the state that was saved
        self.clock, self.task = [0] * WORKERS, 0
        if self.expiring:
            self.clocks = [client.clocks("ticks", WORKERS, "asp") for client in self.clients]

    def begin(self):
        for number in range(TABLES):
            self.define(f"t{number}")
        self.define_sum()
        self.define_iterated()

    def connect(self, side):
        addresses = ",".join(server.address for server in (self.servers, self.beside)[side])
        return pserver.connect(addresses, timeout=PATIENCE)

    def log(self, *words):
        print(" ", *words, file=sys.stderr)

    # ---- Tables come and go ----

    def define(self, name):
        spec = Spec(name, self.dice, clocks="ticks" if self.expiring else None,
                    is_large=self.is_large)
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

    def define_iterated(self):
        """Counted by two workers at clocks, each of which keeps some rows for an iteration more."""
        self.pace = self.clients[0].clocks("pace", WORKERS, "ssp", staleness=1)
        self.paces, self.counted, self.pace_task = [0] * WORKERS, [], 0
        self.own = [self.clients[0].table("iterated", 1, pserver.Add(), dtype=np.int64)
                    for _ in range(WORKERS)]
        for table in self.own:
            table.cache(8, staleness=1)

    def iterate(self):
        """Whose turn it is reads what all have added that are an iteration behind, and all that it
        has added itself."""
        if self.dice.random() < 0.2:  # another task, to which all that was added is old
            self.pace_task += 1
            self.pace = self.clients[0].clocks("pace", WORKERS, "ssp", staleness=1,
                                               task=self.pace_task)
            self.paces = [0] * WORKERS
            self.counted = [(who, -9, added) for who, _, added in self.counted]
        for _ in range(6):
            worker = self.dice.randrange(WORKERS)
            clock = self.paces[worker]
            if clock > min(self.paces) + 1:
                continue
            keys = np.array(self.dice.sample(range(12), 5), np.uint64)
            with self.maybe_killed(0.1):
                self.own[worker].at(self.pace.at(worker, clock))
                rows = self.own[worker].get(keys)[:, 0]
            for key, row in zip(keys.tolist(), rows.tolist()):
                most = [(who, when) for who, when, added in self.counted if key in added]
                least = [1 for who, when in most if who == worker or when < clock - 2]
                self.test.assertLessEqual(len(least), row)
                self.test.assertLessEqual(row, len(most))
            with self.maybe_killed(0.1):
                self.own[worker].add(keys, np.ones(5, np.int64))
                self.pace.clock(worker, clock + 1)
            self.counted.append((worker, clock, set(keys.tolist())))
            self.paces[worker] += 1

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

    def stand_still(self):
        """The process sleeps through its lease in the midst of a push, and loads the shard anew."""
        server = self.dice.choice(self.servers)
        self.log("SIGSTOP")

        def sleep():
            server.pause()
            time.sleep(1.2)
            server.resume()
        thread = threading.Thread(target=sleep)
        thread.start()
        self.push()
        thread.join()

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

    def push(self, name=None):
        name = name or self.dice.choice(list(self.tables))
        model, spec, tables = self.models[name], self.models[name].spec, self.tables[name]
        count = self.dice.choice(spec.counts)
        keys, gradients = self.keys(spec, count), self.gradients(model, count)
        if spec.keys_max:
            keys %= np.uint64(spec.keys_max)
        if spec.rounds:
            self.push_round(name, keys, gradients)
            return
        # Of two servers one would skip its part, and the other one not.
        if spec.skips and count and self.count == 1 and self.dice.random() < 0.2:
            gradients[self.dice.randrange(count), 0] = np.inf
        joined = model.joined(keys, gradients)
        is_skipped = not all(np.isfinite(gradient).all() for gradient in joined.values())
        firsts = self.first_values(name, joined)
        asked = self.keys(spec, 5)
        if spec.keys_max:
            asked %= np.uint64(spec.keys_max)
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

    def contribute(self, name, server, worker, parts, asked):
        try:
            table = self.workers[name][server][worker]
            rows = table.push_pull(*parts[worker], asked, worker=worker)
            self.read.append(rows.tobytes())
        except pserver.Error as error:
            self.failed.append((name, server, worker, error))

    def push_round(self, name, keys, gradients):
        """Half of it is the contribution of each worker; their rows are one push then."""
        model, spec = self.models[name], self.models[name].spec
        half = len(keys) // 2
        parts = [(keys[:half], gradients[:half]), (keys[half:], gradients[half:])]
        model.certain = False
        self.read = []
        asked = self.keys(spec, 5) % np.uint64(spec.keys_max or 2 ** 63)
        threads = [threading.Thread(target=self.contribute,
                                    args=(name, server, worker, parts, asked))
                   for server in range(2) for worker in range(2)]
        with self.maybe_killed():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.test.assertEqual(self.failed, [], spec)
        if not spec.expire_clocks:  # all four read what the round has made
            self.test.assertEqual(len(set(self.read)), 1, spec)

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
        count = 300 if spec.width == 4096 else 20_000
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

    def push_beside_a_copy(self):
        """The copy follows meanwhile, in pieces that pushes come between."""
        name = self.dice.choice(list(self.tables))
        replica, over, failed = self.replicas[name][0], threading.Event(), []

        def follow():
            while not over.is_set() and not failed:
                try:
                    replica.update()
                except pserver.Error as error:
                    failed.append(error)

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            for _ in range(10):
                self.push(name)
        finally:
            over.set()
            thread.join()
        self.test.assertEqual(failed, [], self.models[name].spec)
        self.check(name)

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

    def save_set(self):
        """A model of which psckpt says the state while the server is at work."""
        if self.expiring or self.count > 1:
            return
        self.set_count += 1
        name = f"set-{self.set_count}"
        self.clients[0].save_model(name)
        self.sets[name] = psckpt("digest", self.servers[0].data_path).split()[0]

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

    def end(self):
        """As an operator ends it: with a last checkpoint."""
        self.log("SIGTERM")
        server = self.dice.choice(self.servers)
        server.stop()
        server.start()

    def step(self):
        ways = [(60, self.push), (4, self.push_large), (3, self.push_beside_a_copy),
                (2, self.push_together), (4, self.iterate), (6, self.configure),
                (4, self.exchange), (8, self.save), (2, self.save_set),
                (8 if self.expiring else 0, self.tick),
                (2, self.restart), (1, self.end), (2, self.stopped),
                (3 if self.is_brief else 0, self.stand_still),
                (10, lambda: self.check(self.dice.choice(list(self.tables))))]
        self.dice.choices([way for _, way in ways], [weight for weight, _ in ways])[0]()

    def __exit__(self, *failure):
        for replica, _ in self.replicas.values():
            replica.close()
        return super().__exit__(*failure)
