# SPDX-License-Identifier: Apache-2.0
"""Tables by the wire: rows that were acknowledged are there after kill -9, with the same bits, and
what is refused has changed nothing."""

import random
import struct
import threading
import unittest

import grpc

from blackbox import Server
from calls import FLOAT32, MESSAGES

CONFIG = MESSAGES["paddle.OptimizerConfig"]
ROWS = 16  # ENCODING_ROWS
WIDTH = 4


def configuration(rule=None, rate=0.5, **table):
    config = CONFIG()
    config.const_lr.learning_rate = rate
    if rule is not None:
        rule(config)
    config.table.width = table.pop("width", WIDTH)
    for key, value in table.items():
        field = getattr(config.table, key)
        if isinstance(value, list):
            field.extend(value)
        else:
            setattr(config.table, key, value)
    return config.SerializeToString()


def adagrad(config):
    config.optimizer = CONFIG.Adagrad
    config.adagrad.initial_accumulator = 0.125


def pack_keys(keys):
    return struct.pack(f"<{len(keys)}Q", *keys)


class Rows:
    """A client by the wire, with a number for each push."""

    def __init__(self, server, name, width=WIDTH, client=b"rows"):
        self.server, self.name, self.width, self.client = server, name, width, client
        self.sequence = 0

    def define(self, config):
        request = MESSAGES["pserver.v1.InitParamRequest"](name=self.name, element_type=FLOAT32,
                                                          config=config)
        reply = self.server.calls.call("DefineParam", request)
        return MESSAGES["pserver.v1.InitParamResponse"].FromString(reply)

    def request(self, rows, sequence=None, **fields):
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        content = pack_keys([key for key, _ in rows])
        content += b"".join(struct.pack(f"<{self.width}f", *row) for _, row in rows)
        fields = {"content": content, "encoding": ROWS, "element_type": FLOAT32, **fields}
        request = MESSAGES["pserver.v1.SendGradRequest"](name=self.name, **fields)
        request.request.client_id = self.client
        request.request.session = 1
        request.request.sequence = sequence
        return request

    def push(self, rows, sequence=None, **fields):
        reply = self.server.calls.call("SendGrad", self.request(rows, sequence, **fields))
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)

    def asked(self, keys, **fields):
        return MESSAGES["pserver.v1.GetParamRequest"](name=self.name, keys=pack_keys(keys),
                                                      **fields)

    def pull(self, keys, **fields):
        """The rows as bytes, in the order asked, and the version."""
        reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(
            self.server.calls.call("GetParam", self.asked(keys, **fields)))
        size = 4 * self.width
        return [reply.content[i:i + size] for i in range(0, len(reply.content), size)], reply

    def values(self, keys):
        return [list(struct.unpack(f"<{self.width}f", row)) for row in self.pull(keys)[0]]


class Tables(unittest.TestCase):
    def start(self, *options, **named):
        self.server = Server(*options, **named)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()

    def restart(self):
        self.server.process.kill()
        self.server.start()

    def checkpoint(self):
        done = self.server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def table(self, config, name="t", **named):
        table = Rows(self.server, name, **named)
        table.define(config)
        return table

    def refused(self, code, call, *arguments, **named):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def test_rows_are_there_after_kill_9_by_the_journal_and_by_a_checkpoint(self):
        self.start()
        init = {"init": 2, "low": -0.5, "high": 0.5, "seed": 7}
        plain = self.table(configuration(**init))
        steps = self.table(configuration(adagrad, **init), "a", client=b"steps")
        dice = random.Random(5)
        keys = [dice.getrandbits(64) for _ in range(300)]
        before = plain.pull(keys)[0]
        self.assertEqual(before, steps.pull(keys)[0][:0] + before)
        for _ in range(20):
            rows = [(key, [dice.uniform(-1, 1) for _ in range(WIDTH)])
                    for key in dice.choices(keys, k=50)]
            for table in (plain, steps):
                self.assertEqual(table.push(rows, ack=2).version, table.sequence)
        unknown = [dice.getrandbits(64) for _ in range(10)]
        seen = [table.pull(keys + unknown)[0] for table in (plain, steps)]
        self.assertNotEqual(seen[0][:300], before)
        self.restart()  # by the journal
        self.assertEqual([t.pull(keys + unknown)[0] for t in (plain, steps)], seen)
        self.checkpoint()
        self.restart()  # by the checkpoint
        self.assertEqual([t.pull(keys + unknown)[0] for t in (plain, steps)], seen)
        rows = [(key, [1.0] * WIDTH) for key in keys[:10] + unknown]
        for table in (plain, steps):
            table.push(rows)
        seen = [table.pull(keys + unknown)[0] for table in (plain, steps)]
        self.restart()  # by both
        self.assertEqual([t.pull(keys + unknown)[0] for t in (plain, steps)], seen)
        self.assertEqual(plain.pull(keys[:1])[1].version, 21)

    def test_a_large_table_is_there_after_kill_9(self):
        """Of some pieces of 4 MiB, which threads load side by side (recovery_rows.c)."""
        self.start()
        table = self.table(configuration(adagrad))
        batches = [[key * 0x9E3779B97F4A7C15 % 2**64 for key in range(first, first + 20_000)]
                   for first in range(0, 240_000, 20_000)]
        for number, keys in enumerate(batches):
            table.push([(key, [number, 1, 2, place]) for place, key in enumerate(keys)])
        before = [table.pull(keys)[0] for keys in batches]
        self.checkpoint()
        self.restart()
        self.assertEqual([table.pull(keys)[0] for keys in batches], before)
        # States are there, too: a step from an accumulator that is large is smaller than the first.
        table.push([(batches[1][7], [1.0] * WIDTH)])
        (after,) = (struct.unpack("<4f", row) for row in table.pull(batches[1][7:8])[0])
        value = struct.unpack("<4f", before[1][7])
        steps = [round(0.5 / (0.125 + g * g + 1) ** 0.5, 4) for g in (1, 1, 2, 7)]
        self.assertEqual([round(v - a, 4) for v, a in zip(value, after)], steps)

    def test_a_checkpoint_beside_pushes_is_of_one_instant(self):
        """Without a journal: what comes back is what the file has, which is larger than a buffer of
        the writer. Push n adds 1 to every row of batch n modulo their number."""
        self.start("--ack", "memory")
        table = self.table(configuration(rate=1.0, width=16), width=16)
        batches = [[key * 0x9E3779B97F4A7C15 % 2**64 for key in range(first, first + 10_000)]
                   for first in range(0, 120_000, 10_000)]
        requests = [table.request([(key, [-1.0] * 16) for key in keys], sequence=1)
                    for keys in batches]
        ending = threading.Event()

        def push(number):
            request = requests[number % len(batches)]
            request.request.sequence = number + 1
            self.server.calls.call("SendGrad", request)

        def push_on(number):
            while not ending.is_set():
                push(number)
                number += 1

        for number in range(len(batches)):
            push(number)
        version = len(batches)
        for _ in range(3):
            ending.clear()
            pusher = threading.Thread(target=push_on, args=(version,))
            pusher.start()
            self.checkpoint()
            ending.set()
            pusher.join()
            self.restart()
            before, version = version, table.pull(batches[0][:1])[1].version
            self.assertGreaterEqual(version, before)
            for place, keys in enumerate(batches):
                pushes = len(range(place, version, len(batches)))
                self.assertEqual(set(table.pull(keys)[0]), {struct.pack("<16f", *[pushes] * 16)},
                                 f"batch {place} at version {version}")

    def test_a_key_gets_its_row_with_its_third_push_whenever_the_server_was_killed(self):
        """Beside a model: what was counted is there by the journal, by a checkpoint that
        adds to another, and by both."""
        self.start("--increments", "3")
        table = self.table(configuration(rate=1.0, init=1, low=8.0, admission=3))
        self.assertIn("admission=3", self.server.psctl("show", "t").stdout)
        dice = random.Random(13)
        counts, rows = {}, {}
        keys = [dice.getrandbits(64) for _ in range(400)]
        for turn in range(24):
            batch = dice.choices(keys, k=60)
            table.push([(key, [-1.0] * WIDTH) for key in batch], ack=2)
            for key in set(batch):
                counts[key] = counts.get(key, 0) + 1
                if counts[key] >= 3:
                    rows[key] = rows.get(key, 8.0) + batch.count(key)
            if turn % 4 == 1:
                self.checkpoint()
            if turn % 3 == 2:
                self.restart()
                self.assertEqual(table.values(keys),
                                 [[rows.get(key, 8.0)] * WIDTH for key in keys])
        self.assertTrue(50 < len(rows) < len(counts))
        listed = self.server.psctl("params", "--output", "json")
        self.assertIn(f'[{len(rows)},4]', listed.stdout.replace(" ", "").replace("\n", ""))

    def test_candidates_go_for_others_and_their_number_may_be_changed(self):
        self.start()
        table = self.table(configuration(rate=1.0, admission=2, candidates_max=2))
        for key in (1, 2, 3):
            table.push([(key, [-1.0] * 4)])
        table.push([(1, [-1.0] * 4), (2, [-1.0] * 4)])  # 1 had gone for 3, and begins anew
        self.assertEqual(table.values([1, 2, 3]), [[0.0] * 4, [1.0] * 4, [0.0] * 4])
        self.restart()
        table.push([(1, [-1.0] * 4)])
        self.assertEqual(table.values([1, 2, 3]), [[1.0] * 4, [1.0] * 4, [0.0] * 4])
        change = CONFIG()
        change.table.candidates_max = 100
        request = MESSAGES["pserver.v1.ConfigureParamRequest"](
            name="t", change=change.SerializeToString())
        self.server.calls.call("ConfigureParam", request)
        self.restart()
        for _ in range(2):
            table.push([(key, [-1.0] * 4) for key in range(10, 60)])
        self.assertEqual(table.values(range(10, 60)), [[1.0] * 4] * 50)
        change.table.admission = 3
        request.change = change.SerializeToString()
        text = self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.server.calls.call,
                            "ConfigureParam", request)
        self.assertIn("table.admission", text)

    def test_a_push_steps_each_row_once_and_a_read_makes_none(self):
        self.start()
        table = self.table(configuration(init=1, low=2.0))
        self.assertEqual(table.values([1, 2]), [[2.0] * 4] * 2)
        # The gradients of one key are summed.
        table.push([(1, [1.0] * 4), (9, [2.0] * 4), (1, [3.0] * 4)])
        self.assertEqual(table.values([9, 1, 2, 1]), [[1.0] * 4, [0.0] * 4, [2.0] * 4, [0.0] * 4])
        reply = table.pull([], with_shape=True)[1]
        self.assertEqual((reply.content, reply.version, list(reply.shape)), (b"", 1, [WIDTH]))
        self.assertEqual(table.push([]).version, 2)
        listed = self.server.psctl("params", "--output", "json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn('[2,4]', listed.stdout.replace(" ", "").replace("\n", ""))

    def test_a_retried_push_is_applied_once(self):
        self.start()
        table = self.table(configuration())
        rows = [(key, [float(key)] * 4) for key in range(5)]
        first = table.push(rows, sequence=1, ack=2)
        self.assertFalse(first.duplicate)
        for _ in range(2):
            again = table.push(rows, sequence=1, ack=2)
            self.assertTrue(again.duplicate)
            self.assertEqual(again.version, 1)
            self.assertEqual(table.values([4]), [[-2.0] * 4])
            self.restart()
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, table.push, rows[:1], sequence=1)

    def test_a_batch_pushes_and_pulls_rows_in_one_go(self):
        self.start()
        table = self.table(configuration())
        bundle = MESSAGES["pserver.v1.PushPullRequest"]()
        bundle.grads.append(table.request([(3, [2.0] * 4)]))
        bundle.grads.append(table.request([(4, [4.0] * 4)]))
        bundle.params.append(table.asked([4, 3, 5]))
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(
            self.server.calls.call("PushPull", bundle))
        self.assertEqual(struct.unpack("<12f", reply.params[0].reply.content),
                         (-2.0,) * 4 + (-1.0,) * 4 + (0.0,) * 4)

    def test_what_is_refused_changes_nothing(self):
        self.start()
        wrong = grpc.StatusCode.INVALID_ARGUMENT
        table = self.table(configuration())
        rows = [(1, [1.0] * 4), (2, [2.0] * 4)]
        table.push(rows)
        seen = table.values([1, 2])
        self.refused(wrong, table.push, rows, encoding=0)
        self.refused(wrong, table.push, rows, content=b"\0" * 25)
        self.refused(wrong, table.push, rows, offset=0, count=2)
        self.refused(wrong, table.push, rows, element_type=5)
        self.refused(wrong, table.push, [(1, [1.0] * 4), (2, [float("nan")] * 4)])
        self.refused(wrong, table.pull, [1], count=1)
        self.refused(wrong, table.pull, [1], encoding=1 + 2)
        self.refused(wrong, table.pull, [1], encoding=ROWS)
        other = Rows(self.server, "w")
        self.refused(wrong, other.pull, [1])
        self.refused(wrong, other.push, rows)
        self.refused(grpc.StatusCode.NOT_FOUND, Rows(self.server, "none").pull, [1])
        self.assertEqual(table.values([1, 2]), seen)
        self.assertEqual(table.pull([1])[1].version, 1)
        define = MESSAGES["pserver.v1.InitParamRequest"](name="u", element_type=FLOAT32)
        for config, content in ((configuration(width=4097), b""), (configuration(), b"\0" * 16),
                                (configuration(partition=2, bounds=[5, 3]), b"")):
            define.config, define.content = config, content
            self.refused(wrong, self.server.calls.call, "DefineParam", define)
        self.restart()
        self.assertEqual(table.values([1, 2]), seen)

    def test_a_key_of_another_shard_is_refused(self):
        self.start()
        beyond = grpc.StatusCode.OUT_OF_RANGE
        table = self.table(configuration(partition=1, keys_max=100))
        table.push([(1, [1.0] * 4), (99, [2.0] * 4)])
        for _ in range(2):
            for keys in ([100], [1, 100, 99], [2**64 - 1]):
                self.assertIn(str(max(keys)), self.refused(
                    beyond, table.push, [(key, [1.0] * 4) for key in keys]))
                self.refused(beyond, table.pull, keys)
            self.assertEqual(table.values([1, 99]), [[-0.5] * 4, [-1.0] * 4])
            self.assertEqual(table.pull([1])[1].version, 1)
            self.checkpoint()
            self.restart()
        # Bounds that fall are nobody's; a server without a store takes any number of them.
        define = MESSAGES["pserver.v1.InitParamRequest"](
            name="u", element_type=FLOAT32, config=configuration(partition=2, bounds=[5, 4]))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.server.calls.call, "DefineParam",
                     define)

    def test_a_limit_refuses_new_rows_and_may_be_raised(self):
        self.start()
        table = self.table(configuration(rows_max=4))
        table.push([(key, [1.0] * 4) for key in range(4)])
        full = grpc.StatusCode.RESOURCE_EXHAUSTED
        with self.assertRaises(grpc.RpcError) as caught:
            table.push([(0, [1.0] * 4), (9, [1.0] * 4)])
        self.assertEqual(caught.exception.code(), full)
        self.assertIn(("ps-status", "table_full"), caught.exception.trailing_metadata())
        self.assertEqual(table.values([0, 9]), [[-0.5] * 4, [0.0] * 4])
        table.push([(0, [1.0] * 4)])
        change = CONFIG()
        change.table.rows_max = 8
        request = MESSAGES["pserver.v1.ConfigureParamRequest"](
            name="t", change=change.SerializeToString())
        self.server.calls.call("ConfigureParam", request)
        table.push([(9, [1.0] * 4)])
        self.restart()
        self.assertEqual(table.values([0, 9]), [[-1.0] * 4, [-0.5] * 4])
        change.table.width = 8
        request.change = change.SerializeToString()
        text = self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.server.calls.call,
                            "ConfigureParam", request)
        self.assertIn("table.width", text)

    def test_a_lower_limit_comes_true_with_the_same_rows_whenever_the_server_was_killed(self):
        """Beside a server that was never killed: some rows go with each push, and the next push of
        a server that was killed in the midst of it takes the same ones."""
        self.start("--increments", "2")
        servers = [self.server, Server()]
        self.addCleanup(servers[1].__exit__)
        servers[1].make_ready()
        tables = [Rows(server, "t") for server in servers]
        change = CONFIG()
        change.table.rows_max = 3000
        request = MESSAGES["pserver.v1.ConfigureParamRequest"](
            name="t", change=change.SerializeToString())
        keys = [key * 0x9E3779B97F4A7C15 % 2**64 for key in range(25_000)]
        for table in tables:
            table.define(configuration(rows_max=30_000, full=1))
            for first in (0, 10_000):
                table.push([(key, [1.0] * WIDTH) for key in keys[first:first + 10_000]])
            table.server.calls.call("ConfigureParam", request)
        counts = [20_000]
        while counts[-1] > 3000:
            made = 20_000 + 50 * len(counts)
            for table in tables:
                table.push([(key, [1.0] * WIDTH) for key in keys[made - 50:made]], ack=2)
            if len(counts) % 3 == 2:
                self.checkpoint()
            if len(counts) % 2 == 0:
                self.restart()
            there, other = (table.pull(keys)[0] for table in tables)
            self.assertEqual(there, other)
            counts.append(len(there) - there.count(bytes(4 * WIDTH)))
        self.assertGreater(len(counts), 5)
        self.assertEqual(counts, sorted(counts, reverse=True))

    def test_the_memory_limit_counts_rows(self):
        self.start("--memory-bytes", "8MiB")
        table = self.table(configuration(width=1024), width=1024)
        refused = 0
        for key in range(4096):
            try:
                table.push([(key, [1.0] * 1024)])
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, error.details())
                # Not no_memory, which clients repeat until their time is over.
                self.assertIn(("ps-status", "table_full"), error.trailing_metadata())
                self.assertIn("--memory-bytes", error.details())
                refused += 1
                break
        self.assertEqual(refused, 1)
        self.assertGreater(key, 256)
        table.push([(0, [1.0] * 1024)])
        self.assertEqual(table.values([0])[0][0], -1.0)
        drop = MESSAGES["pserver.v1.DropParamRequest"](name="t")
        self.server.calls.call("DropParam", drop)
        table = self.table(configuration(width=1024), "again", width=1024, client=b"again")
        table.push([(key, [1.0] * 1024) for key in range(64)])


if __name__ == "__main__":
    unittest.main()
