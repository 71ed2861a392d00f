# SPDX-License-Identifier: Apache-2.0
"""Tables of every kind under requests of every kind, good and bad, alone and in batches, beside
changes, drops, checkpoints and kill -9: the server stays, and what it has after each kill is what
it had before. A seed may be given: test_table_storm.py SEED."""

import random
import sys
import time
import unittest

import grpc

from blackbox import Server, run
from calls import MESSAGES
from test_tables import CONFIG, WIDTH, Rows, adagrad, configuration

SEED = int(sys.argv.pop()) if sys.argv[-1].isdigit() else time.time_ns() % 1_000_000
STEPS = 1200
KEYS = 60
REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE,
            grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ALREADY_EXISTS,
            grpc.StatusCode.RESOURCE_EXHAUSTED}
REFUSED = {code.value[0] for code in REFUSALS}


def in_rounds(workers, **settings):
    def fill(config):
        config.rounds.workers = workers
        for name, value in settings.items():
            setattr(config.rounds, name, value)
    return fill


def configurations():
    return [configuration(adagrad, rows_max=20, full=1, admission=2),
            configuration(admission=3, candidates_max=5),
            configuration(in_rounds(3, quorum=2, late=1), rows_max=12),
            configuration(in_rounds(2, grace_ms=5), rows_max=30, full=1),
            configuration(in_rounds(3, combine=2), partition=1, keys_max=50),
            configuration(in_rounds(1), admission=2)]


class Storm(unittest.TestCase):
    def setUp(self):
        print("seed", SEED, file=sys.stderr)
        self.dice = random.Random(SEED)
        self.server = Server("--ack", "logged", "--memory-bytes", "16MiB", "--increments", "2")
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.configs = configurations()
        self.tables = [Rows(self.server, f"t{i}", client=b"client-%d" % i)
                       for i in range(len(self.configs))]
        for table, config in zip(self.tables, self.configs):
            table.define(config)

    # ---- What is sent ----

    def rows(self, count):
        dice = self.dice
        return [(dice.getrandbits(64) if dice.random() < 0.03 else dice.randrange(KEYS - 10),
                 [dice.choice([1.0, -2.5, 0.0, 0.5, 3e38 if dice.random() < 0.02 else 0.25])] *
                 WIDTH) for _ in range(count)]

    def push(self):
        """Of any worker to any round; of ten one has bytes that nobody meant."""
        dice = self.dice
        table = dice.choice(self.tables)
        request = table.request(self.rows(dice.choice([0, 1, 2, 5, 15, 40])),
                                worker=dice.choice([0, 1, 2, 3, 3, 4]),
                                round=dice.choice([0, 0, 0, 1, 2, 5, 50]))
        if dice.random() < 0.1:
            request.weight = dice.choice([0.5, 2.0, 1e38])
        if dice.random() < 0.1 and request.content:
            content = bytearray(request.content)
            content[dice.randrange(len(content))] = dice.randrange(256)
            request.content = bytes(content[:dice.randrange(len(content) + 1)])
        return request

    def batch(self):
        request = MESSAGES["pserver.v1.PushPullRequest"]()
        for _ in range(self.dice.randrange(1, 5)):
            request.grads.append(self.push())
        request.params.append(self.dice.choice(self.tables).asked([1, 2, 3]))
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(
            self.server.calls.call("PushPull", request))
        for item in reply.grads:
            self.assertIn(item.status.code, {0} | REFUSED, item.status.message)

    def change(self):
        """Of any table; most of those of its rounds only where none is open."""
        dice, config = self.dice, CONFIG()
        kind = dice.randrange(6)
        if kind == 0:
            config.rounds.quorum = dice.randrange(0, 3)
        elif kind == 1:
            config.rounds.workers = dice.randrange(0, 5)
        elif kind == 2:
            config.table.full = dice.randrange(0, 2)
        elif kind == 3:
            config.table.candidates_max = dice.choice([0, 1, 3, 10])
        elif kind == 4:
            config.const_lr.learning_rate = dice.choice([0.0, 0.1, 0.5])
        else:
            config.table.rows_max = dice.randrange(1, 40)
        request = MESSAGES["pserver.v1.ConfigureParamRequest"](
            name=dice.choice(self.tables).name, change=config.SerializeToString())
        self.server.calls.call("ConfigureParam", request)

    def exchange(self):
        table = self.dice.choice(self.tables)
        self.server.calls.call("DropParam", MESSAGES["pserver.v1.DropParamRequest"](
            name=table.name))
        table.define(self.dice.choice(self.configs))

    # ---- What is true ----

    def state(self):
        """Rows and versions of all tables, as clients see them."""
        return {table.name: table.pull(range(KEYS - 10)) for table in self.tables}

    def settle(self):
        """A round whose time is over ends when somebody looks, also with a request that is refused,
        and no answer has waited for its record then. A pull that waits for the version does."""
        for table in self.tables:
            asked, version = None, table.pull([])[1].version
            while version != asked:
                asked, version = version, table.pull([], at_least_version=version)[1].version

    def kill(self):
        self.settle()
        before = self.state()
        self.server.process.kill()
        self.server.start()
        after = self.state()
        for name, (rows, reply) in before.items():
            self.assertEqual((after[name][1].version, after[name][0]), (reply.version, rows), name)

    def step(self):
        ways = [(60, lambda: self.server.calls.call("SendGrad", self.push())), (30, self.batch),
                (4, self.change), (2, self.exchange), (2, lambda: self.server.psctl("checkpoint")),
                (2, self.kill)]
        way = self.dice.choices([way for _, way in ways], [weight for weight, _ in ways])[0]
        try:
            way()
        except grpc.RpcError as error:
            self.assertIn(error.code(), REFUSALS, error.details())

    def test_the_server_stays_and_has_after_a_kill_what_it_had_before(self):
        for _ in range(STEPS):
            self.step()
        self.kill()
        self.server.process.kill()
        self.assertEqual(run("psckpt", "verify", self.server.data).returncode, 0)
        before = run("psckpt", "digest", self.server.data).stdout.split()[0]
        self.server.start()
        self.assertEqual(self.server.psctl("checkpoint").returncode, 0)
        self.server.process.kill()
        saved = run("psckpt", "digest", "--no-journal", self.server.data).stdout.split()[0]
        self.assertEqual(saved, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
