# SPDX-License-Identifier: Apache-2.0
"""What bad input gets from a table: a code and words that say what is wrong, whichever way it came:
alone, between good items of a batch, by shared memory. Nothing of it is applied, remembered or
held: the state has the digest of one that has never seen any."""

import fcntl
import mmap
import os
import random
import shutil
import socket
import struct
import tempfile
import unittest

import grpc

from blackbox import Server, run
from calls import FLOAT32, MESSAGES
from cluster import PATIENCE
from test_clocks import BSP, SSP, Workers
from test_tables import CONFIG, ROWS, WIDTH, Rows, adagrad, configuration, pack_keys

CODE = grpc.StatusCode
INVALID, RANGE, MISSING = CODE.INVALID_ARGUMENT, CODE.OUT_OF_RANGE, CODE.NOT_FOUND
FULL, ORDER, THERE = CODE.RESOURCE_EXHAUSTED, CODE.FAILED_PRECONDITION, CODE.ALREADY_EXISTS
SEGMENT_BYTES = 1 << 20
ONES = [1.0] * WIDTH
NAN = [1.0, float("nan"), 1.0, 1.0]


def in_rounds(config):
    config.rounds.workers = 3


class Memory:
    """A segment that the server has taken (docs/shared-memory.md)."""

    def __init__(self, server):
        pull = server.calls.channel.unary_unary("/pserver.v1.ParameterServer/GetParam")
        call = pull.future(b"", timeout=PATIENCE, metadata=[("ps-shared-memory", "?")])
        assert call.code() == MISSING, call.details()
        name = dict(call.initial_metadata())["ps-shared-memory"]
        file = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, SEGMENT_BYTES)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.bytes = mmap.mmap(file, SEGMENT_BYTES)
        self.way = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.way.settimeout(PATIENCE)
        self.way.connect(b"\0" + name.encode())
        socket.send_fds(self.way, [b"PSSHARE1" + SEGMENT_BYTES.to_bytes(8, "little")], [file])
        os.close(file)
        answer = self.way.recv(64)
        assert answer[:8] == b"PSTAKEN1", answer
        self.segment = int.from_bytes(answer[8:16], "little")

    def close(self):
        self.way.close()
        self.bytes.close()

    def carry(self, request):
        """The same push, whose content lies there."""
        moved = MESSAGES["pserver.v1.SendGradRequest"]()
        moved.CopyFrom(request)
        moved.shared.segment, moved.shared.size = self.segment, len(request.content)
        self.bytes[:len(request.content)] = request.content
        moved.content = b""
        return moved


class Table(Rows):
    """Requests that are built and not sent; each has a number that no other has."""

    def asked_raw(self, keys, **fields):
        return MESSAGES["pserver.v1.GetParamRequest"](name=self.name, keys=keys, **fields)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.server = Server("--shared-memory", "on", "--ack", "logged")
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.table = self.define("t", configuration(adagrad, partition=1, keys_max=1000, init=2,
                                                    low=-1.0, high=1.0, seed=3))
        self.full = self.define("full", configuration(rows_max=4))
        self.counted = self.define("counted", configuration(admission=2, rows_max=4))
        self.rounds = self.define("rounds", configuration(in_rounds, rows_max=6))
        dice = random.Random(5)
        for _ in range(5):
            self.table.push([(key, [dice.uniform(-1, 1) for _ in range(WIDTH)])
                             for key in dice.sample(range(1000), 20)])
        for table in (self.full, self.counted, self.counted):
            table.push([(key, ONES) for key in range(4)])
        for rank in range(3):
            self.rounds.push([(1, ONES), (2, ONES)], worker=1 + rank)
        self.rounds.push([(1, ONES), (3, ONES), (4, ONES)], worker=1, round=2)
        self.workers = Workers(self.server, "train")
        self.workers.set(2, SSP, staleness=1)
        self.bulk = Workers(self.server, "bulk")
        self.bulk.set(2, BSP)
        for rank in range(2):
            self.bulk.clock(rank, 3)
        # Whoever sends bad input is nobody that the server has heard of before.
        for table in (self.table, self.full, self.counted, self.rounds):
            table.client = b"bad"
        self.table.sequence = 1000

    def define(self, name, config):
        table = Table(self.server, name, client=b"good-%s" % name.encode())
        table.define(config)
        return table

    # ---- What is wrong: for each the code, words of its text, and the request. ----

    def pushes(self):
        table, full, counted, rounds = self.table, self.full, self.counted, self.rounds
        nobody = Table(self.server, "nobody", client=b"bad")
        flat = Table(self.server, "w", client=b"bad")
        good = [(5, ONES), (6, ONES)]
        narrow = Table(self.server, "t", width=3, client=b"bad")
        wide = Table(self.server, "t", width=WIDTH + 1, client=b"bad")
        # As many bytes as so many rows of the table's width: of clients that have opened a table
        # that was dropped and defined anew since. The rows of one element are two keys of a row.
        thin = Table(self.server, "t", width=1, client=b"bad")
        two = [(5, ONES[:1]), (6, ONES[:1])]
        waiting = Table(self.server, "rounds", width=1, client=b"bad")
        return [
            (MISSING, "nobody", nobody.request(good)),
            (RANGE, "1000", table.request([(5, ONES), (1000, ONES)])),
            (RANGE, str(2 ** 64 - 1), table.request([(2 ** 64 - 1, ONES), (5, ONES)])),
            (INVALID, "t", narrow.request([(key, [1.0] * 3) for key in range(5)])),
            (INVALID, "t", wide.request([(5, [1.0] * (WIDTH + 1))])),
            (INVALID, "Name: t, rows of 1 elements were pushed, and the table has rows of "
             f"{WIDTH}: open the table again", thin.request(two, row_width=1)),
            (INVALID, "rows of 3 elements", narrow.request([(1, ONES[:3])], row_width=3)),
            (INVALID, "Name: rounds, rows of 1 elements",
             waiting.request(two, row_width=1, worker=2)),
            (INVALID, "t", table.request(good, content=table.request(good).content[:-1])),
            (INVALID, "", table.request(good, encoding=0)),
            (INVALID, "", table.request(good, encoding=6)),
            (INVALID, "", table.request(good, element_type=5)),
            (INVALID, "", table.request(good, offset=1, count=4)),
            (INVALID, "finite", table.request([(5, ONES), (6, NAN)])),
            (INVALID, "", flat.request(good)),
            (INVALID, "not a table", flat.request(good, row_width=WIDTH)),
            (FULL, "full", full.request([(0, ONES), (9, ONES)])),
            (FULL, "full", full.request([(0, ONES), (1, ONES), (2, ONES), (7, ONES), (8, ONES)])),
            (INVALID, "finite", counted.request([(0, ONES), (8, NAN)])),
            (INVALID, "say worker", rounds.request(good)),
            (INVALID, "of 3 workers", rounds.request(good, worker=4)),
            (INVALID, "weight", rounds.request(good, worker=2, weight=-1.0)),
            (INVALID, "finite", rounds.request([(5, ONES), (6, NAN)], worker=2)),
            (INVALID, "", rounds.request(good, worker=2, encoding=0)),
            (INVALID, "", rounds.request(good, worker=2,
                                         content=rounds.request(good).content[:-4])),
            (ORDER, "round 2 is open, the contribution is for 3",
             rounds.request(good, worker=2, round=3)),
            (THERE, "already", rounds.request(good, worker=1, round=2)),
            # Two rows there are, two more will be made of what is held, and three come.
            (FULL, "rounds", rounds.request([(key, ONES) for key in (5, 6, 7)], worker=2)),
        ]

    def pulls(self):
        table = self.table
        nobody = Table(self.server, "nobody")
        flat = Table(self.server, "w")

        def at(clocks, rank, clock):
            return table.asked([5], worker=1 + rank, clock=clock, clocks=clocks)

        return [
            (MISSING, "nobody", nobody.asked([5])),
            (MISSING, "nobody", nobody.asked([])),
            (RANGE, "1000", table.asked([5, 1000])),
            (INVALID, "", table.asked_raw(b"1234567")),
            (INVALID, "", table.asked_raw(pack_keys([5]) + b"1")),
            (INVALID, "", table.asked([5], encoding=ROWS)),
            (INVALID, "", table.asked([5], offset=0, count=1)),
            (INVALID, "", flat.asked([5])),
            (ORDER, "reads at clock 4, and has ended 0", at("train", 0, 4)),
            (ORDER, "reads at clock 4, and has ended 3", at("bulk", 0, 4)),
            (ORDER, "reads at clock 2, which is over: it has ended 3", at("bulk", 1, 2)),
            (MISSING, "not among the 2", at("train", 2, 0)),
            (MISSING, "SetClocks", at("none", 0, 0)),
        ]

    # ---- The ways. ----

    def call(self, method, request, answer):
        return MESSAGES[f"pserver.v1.{answer}"].FromString(
            self.server.calls.call(method, request))

    def expect_alone(self, method, case):
        code, words, request = case
        with self.assertRaises(grpc.RpcError, msg=f"{request}") as caught:
            self.server.calls.call(method, request)
        self.assertEqual(caught.exception.code(), code, f"{caught.exception.details()} {request}")
        self.assertIn(words, caught.exception.details())

    def expect_item(self, result, case):
        code, words, request = case
        self.assertEqual(result.status.code, code.value[0], f"{result.status} {request}")
        self.assertIn(words, result.status.message)

    def in_a_batch(self, cases, carried=lambda request: request):
        """All of them in one message, a good pull in front and behind: what fails costs the others
        nothing. Whoever contributes twice to a round in one message is refused for that."""
        message = MESSAGES["pserver.v1.PushPullRequest"]()
        for _, _, request in cases:
            message.grads.append(carried(request))
        pulls = self.pulls()
        message.params.append(self.table.asked([5]))
        for _, _, request in pulls:
            message.params.append(request)
        message.params.append(self.table.asked([]))
        reply = self.call("PushPull", message, "PushPullResponse")
        for result, case in zip(reply.grads, cases, strict=True):
            self.expect_item(result, case)
        for result, case in zip(reply.params[1:-1], pulls, strict=True):
            self.expect_item(result, case)
        self.assertEqual(len(reply.params[0].reply.content), 4 * WIDTH)
        self.assertEqual((reply.params[-1].status.code, reply.params[-1].reply.content), (0, b""))

    # ---- What is true afterwards. ----

    def digest(self):
        """Of the state that a crash leaves with what it remembers of clients; and what is held."""
        self.server.process.kill()
        copy = os.path.join(self.folder, f"copy-{self.server.started}")
        shutil.copytree(self.server.data, copy)
        states = run("psckpt", "digest", copy, "--sessions")
        self.assertEqual(states.returncode, 0, states.stderr)
        made = run("psckpt", "repair", copy, "--out", copy + "-new")
        self.assertEqual(made.returncode, 0, made.stderr)
        shard = os.path.join(copy + "-new", "shard-0")
        (newest,) = [name for name in os.listdir(shard) if name.endswith(".safetensors")]
        shown = run("psckpt", "show", os.path.join(shard, newest))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.server.start()
        held = shown.stdout[shown.stdout.index("OPEN_ROUND"):]
        return states.stdout.splitlines()[0], held

    def test_each_way_names_what_is_wrong_and_applies_nothing(self):
        before = self.digest()
        rows = self.table.pull(range(1000))[0]
        for case in self.pushes():
            self.expect_alone("SendGrad", case)
        # No rows, and so no content that shared memory could have.
        thin = Table(self.server, "t", width=1, client=b"bad")
        self.expect_alone("SendGrad", (INVALID, "rows of 1 elements",
                                       thin.request([], row_width=1)))
        for case in self.pulls():
            self.expect_alone("GetParam", case)
        self.in_a_batch(self.pushes())
        memory = Memory(self.server)
        for code, words, request in self.pushes():
            self.expect_alone("SendGrad", (code, words, memory.carry(request)))
        for case in self.pushes():
            self.in_a_batch([case], memory.carry)
        self.assertEqual(self.table.pull(range(1000))[0], rows)
        memory.close()
        self.assertEqual(self.digest(), before)

    def test_what_is_refused_may_come_again_as_something_good(self):
        """Under the same number, and with what was wrong put right: it is applied, once."""
        before = self.digest()
        version = self.table.pull([5])[1].version
        bad = self.table.request([(5, ONES), (1000, ONES)], sequence=5000)
        self.expect_alone("SendGrad", (RANGE, "1000", bad))
        good = self.table.push([(5, ONES)], sequence=5000)
        self.assertEqual((good.duplicate, good.version), (False, version + 1))
        self.assertNotEqual(self.digest()[0], before[0])
        bad = self.rounds.request([(5, NAN)], sequence=5001, worker=2, round=2)
        self.expect_alone("SendGrad", (INVALID, "finite", bad))
        good = self.rounds.push([(5, ONES)], sequence=5001, worker=2, round=2)
        self.assertEqual((good.duplicate, good.held, good.version), (False, True, 2))
        self.assertNotEqual(self.digest()[1], before[1])

    def test_an_empty_list_of_keys_is_an_empty_answer(self):
        before = self.digest()
        for table in (self.table, self.full, self.counted, self.rounds):
            rows, reply = table.pull([])
            self.assertEqual((rows, reply.content), ([], b""))
            self.assertGreater(reply.version, 0)
        self.assertEqual(self.digest(), before)

    def change(self, name, change):
        return MESSAGES["pserver.v1.ConfigureParamRequest"](name=name,
                                                            change=change.SerializeToString())

    def test_definitions_and_changes_that_cannot_be_leave_the_table_as_it_is(self):
        before = self.digest()
        define = MESSAGES["pserver.v1.InitParamRequest"](name="u", element_type=FLOAT32)
        for words, fields in (("width", {"width": 4097}),
                              ("keys_max", {"partition": 1}),
                              ("bounds", {"partition": 2, "bounds": [5, 3]}),
                              ("full", {"full": 1}), ("clocks", {"expire_clocks": 3})):
            define.config = configuration(**fields)
            self.expect_alone("DefineParam", (INVALID, words, define))
        other = MESSAGES["pserver.v1.InitParamRequest"](name="t", element_type=FLOAT32,
                                                        config=configuration(width=5))
        self.expect_alone("DefineParam", (THERE, "t", other))
        for name, words, change in (("t", "table.width", {"width": 8}),
                                    ("t", "table.partition", {"keys_max": 2000}),
                                    ("t", "table.partition", {"chunk": 7}),
                                    ("counted", "table.admission", {"admission": 3})):
            changed = CONFIG()
            for key, value in change.items():
                setattr(changed.table, key, value)
            self.expect_alone("ConfigureParam", (INVALID, words, self.change(name, changed)))
        fewer = CONFIG()
        fewer.rounds.workers = 2
        self.expect_alone("ConfigureParam", (ORDER, "round 2 is open",
                                             self.change("rounds", fewer)))
        self.expect_alone("DropParam", (MISSING, "nobody",
                                        MESSAGES["pserver.v1.DropParamRequest"](name="nobody")))
        self.assertEqual(self.digest(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
