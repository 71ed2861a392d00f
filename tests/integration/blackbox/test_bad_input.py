# SPDX-License-Identifier: Apache-2.0
"""What bad input gets, over the wire: a status, a sentence, and nothing else happens."""

import random
import struct
import unittest

import grpc

from blackbox import PATIENCE, Server
from calls import MESSAGES

SERVICE = "/pserver.v1.ParameterServer/"
ADMIN = "/pserver.v1.Admin/"
HEALTH = "/grpc.health.v1.Health/"
METHODS = [SERVICE + name for name in ("InitParam", "FinishInitParams", "SendGrad", "GetParam")] + \
    [ADMIN + name for name in ("GetStatus", "ListParams", "SaveCheckpoint")] + [HEALTH + "Check"]
INVALID, MISSING, EXISTS = "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"
ONE = struct.pack("<f", 1)
NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))
MIB = 1024


def message(kind, **fields):
    return MESSAGES["pserver.v1." + kind](**fields).SerializeToString()


def config(**fields):
    return MESSAGES["paddle.OptimizerConfig"](**fields).SerializeToString()


def init(**fields):
    return message("InitParamRequest", **{"element_type": 4, "content": ONE, **fields})


def push(**fields):
    return message("SendGradRequest",
                   **{"name": "w", "element_type": 4, "content": ONE * 4, **fields})


class Input(unittest.TestCase):
    @classmethod
    def prepare(cls, *flags):
        cls.server = Server(*flags)
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, path, data, timeout=PATIENCE):
        """The code's name and the text."""
        stub = self.server.calls.channel.unary_unary(path)
        try:
            stub(data, timeout=timeout)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        return "OK", ""

    def refused(self, path, data, code, text):
        with self.subTest(path=path, data=data[:80]):
            got = self.ask(path, data)
            self.assertEqual(got[0], code, got)
            self.assertIn(text, got[1])

    def check_nothing_changed(self):
        self.assertEqual(self.server.calls.pull("w"), ([1.0, 2.0, 3.0, 4.0], 0))
        self.assertTrue(self.server.process.alive(), self.server.process.log())

    def rss_growth_mib(self, work):
        before = self.server.rss_kib()
        work()
        return (self.server.rss_kib() - before) / MIB


class BeforeInitialisation(Input):
    @classmethod
    def setUpClass(cls):
        cls.prepare("--memory-bytes", "1MiB")

    def test_pushes_and_pulls_come_too_early(self):
        self.refused(SERVICE + "SendGrad", push(), "FAILED_PRECONDITION",
                     "pserver not fully initialized")
        self.assertEqual(self.ask(SERVICE + "GetParam", message("GetParamRequest", name="w"), 0.2)
                         [0], "DEADLINE_EXCEEDED")

    def test_names(self):
        path = SERVICE + "InitParam"
        self.refused(path, init(name=""), INVALID, "the name of a parameter is empty")
        self.refused(path, init(name="x" * 513), INVALID, "513 bytes are too long")
        self.refused(path, init(name="x" * (1 << 20)), INVALID, "1048576 bytes are too long")
        self.refused(path, init(name="a\0b"), INVALID, "not UTF-8")
        self.refused(path, b"\x0a\x02\xff\xfe\x10\x04\x1a\x04" + ONE, INVALID, "not UTF-8")
        self.refused(path, b"\x0a\x03\xed\xa0\x80\x10\x04\x1a\x04" + ONE, INVALID, "not UTF-8")
        self.refused(path, init(name="ps.state/w/0"), INVALID, "Name: ps.state/w/0 is reserved")
        self.refused(path, init(name="__metadata__"), INVALID, "Name: __metadata__ is reserved")

    def test_b15_content(self):
        path = SERVICE + "InitParam"
        self.refused(path, init(name="w", content=b""), INVALID, "Name: w, the content is empty")
        for kind, size in enumerate((4, 4, 8, 8, 4, 8)):
            for length in (1, size - 1, size + 1):
                self.refused(path, init(name="w", element_type=kind, content=b"x" * length),
                             INVALID, f"the content has {length} bytes: no whole number of")
        for kind in (6, 2**31 - 1, 2**64 - 1):
            self.refused(path, b"\x0a\x01w\x10" + varint(kind) + b"\x1a\x04" + ONE, INVALID,
                         f"element type: there is no {kind}")

    def test_lengths_that_lie_or_overflow(self):
        for path in (SERVICE + "InitParam", SERVICE + "SendGrad"):
            for length in (5, 2**31, 2**32 + 4, 2**63 - 1, 2**63, 2**64 - 1):
                for field in (b"\x0a", b"\x1a", b"\x7a", b"\x9a\x06"):
                    self.refused(path, field + varint(length) + ONE, INVALID, "")
            self.refused(path, b"\x1a" + b"\xff" * 11 + ONE, INVALID, "more than 64 bits")
        self.refused(SERVICE + "InitParam", b"\x0a\x01w\x10\x04\x22" + varint(2**64 - 1), INVALID,
                     "ends after the message")

    def test_configurations(self):
        cases = [(b"\xff", "malformed paddle.OptimizerConfig"), (b"x" * 65537, "65537 bytes"),
                 (b"\x08\x63", "no number 99"), (b"\x1a\x05\x08", "malformed"),
                 (config(const_lr={"learning_rate": float("nan")}), "learning rate"),
                 (config(const_lr={"learning_rate": -1}), "learning rate"),
                 (config(const_lr={"learning_rate": float("inf")}), "learning rate"),
                 (config(sgd={"momentum": float("nan")}), "momentum"),
                 (config(optimizer=4, adam={"beta_1": 2}), "beta_1"),
                 (config(clip_norm=-1), "clip_norm"), (config(clip_value=-1), "clip_value"),
                 (config(l2=float("inf")), "l2"),
                 (config(lr_policy=205, schedule={"segments": "1:2:3,"}), "segment 1"),
                 (config(lr_policy=202), ""), (b"\x58\x63", "no number 99"),
                 (b"\xf8\x0c\x09", "no number 9")]
        for text, wanted in cases:
            self.refused(SERVICE + "InitParam", init(name="w", config=text), INVALID, wanted)
        for kind in range(4):
            for rule in (2, 3, 4, 201, 202, 203):
                self.refused(SERVICE + "InitParam",
                             init(name="w", element_type=kind, content=ONE * 2,
                                  config=config(optimizer=rule)), INVALID, "is not for")

    def test_more_memory_than_there_is(self):
        wanted = "memory limit: "
        self.refused(SERVICE + "InitParam", init(name="w", content=ONE * (256 * 1024 + 1)),
                     "RESOURCE_EXHAUSTED", wanted)
        self.refused(SERVICE + "InitParam", init(name="w", content=ONE * (128 * 1024),
                                                 config=config(optimizer=4)),
                     "RESOURCE_EXHAUSTED", wanted)

    def test_zz_nothing_of_all_that_was_kept(self):
        self.assertEqual(self.ask(SERVICE + "FinishInitParams", b"")[0], "OK")
        self.refused(SERVICE + "GetParam", message("GetParamRequest", name="w"), MISSING,
                     "parameter: w does not exist")
        self.assertEqual(self.server.psctl("params", "--output", "json").stdout.strip(), "[]")


class Ready(Input):
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.server.calls.init("w", [1.0, 2.0, 3.0, 4.0])
        cls.server.calls.call("InitParam", MESSAGES["pserver.v1.InitParamRequest"](
            name="whole", element_type=0, content=struct.pack("<2i", 2**31 - 2, 0),
            config=config(optimizer=205, add={"overflow": 2})))
        cls.server.calls.finish()

    def tearDown(self):
        self.check_nothing_changed()

    def test_what_was_initialised_stays(self):
        wanted = "pserver already initialized"
        self.refused(SERVICE + "InitParam", init(name="w", content=ONE * 4), EXISTS, wanted)
        self.refused(SERVICE + "InitParam", init(name="other"), EXISTS, wanted)
        self.refused(SERVICE + "FinishInitParams", b"", EXISTS, wanted)

    def test_gradients_that_do_not_fit(self):
        path = SERVICE + "SendGrad"
        self.refused(path, push(name="nobody"), MISSING, "parameter: nobody does not exist")
        self.refused(path, push(name=""), MISSING, "parameter:  does not exist")
        self.refused(path, push(name="x" * 10000), INVALID, "10000 bytes are too long")
        kinds = {0: "i32", 1: "u32", 2: "i64", 3: "u64", 5: "f64"}
        for kind, name in kinds.items():
            self.refused(path, push(element_type=kind), INVALID,
                         "Name: w, parameter and gradient element type not match, parameter: 4, "
                         f"gradient: {kind} (f32, {name})")
        for content in (b"", ONE, ONE * 3, ONE * 3 + b"abc", ONE * 5, ONE * 4000):
            self.refused(path, push(content=content), INVALID,
                         "Name: w, parameter and gradient does not have same content len, "
                         f"parameter: 16, gradient: {len(content)}")

    def test_values_that_are_no_numbers(self):
        for bad in (NAN, INFINITY, struct.pack("<f", float("-inf"))):
            for place in range(4):
                content = ONE * place + bad + ONE * (3 - place)
                self.refused(SERVICE + "SendGrad", push(content=content), INVALID,
                             f"gradient element {place} is not finite")

    def test_sums_that_overflow_change_no_element(self):
        self.refused(SERVICE + "SendGrad",
                     push(name="whole", element_type=0, content=struct.pack("<2i", 1, 2**31 - 1)),
                     "OK", "")
        self.refused(SERVICE + "SendGrad",
                     push(name="whole", element_type=0, content=struct.pack("<2i", -5, 1)),
                     "OUT_OF_RANGE", "Name: whole, element 1 would overflow; nothing was changed")
        reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(self.server.calls.call(
            "GetParam", MESSAGES["pserver.v1.GetParamRequest"](name="whole")))
        self.assertEqual(struct.unpack("<2i", reply.content), (2**31 - 1, 2**31 - 1))

    def test_acknowledgements_that_nobody_gives(self):
        path = SERVICE + "SendGrad"
        self.refused(path, push(ack=3), "UNIMPLEMENTED", "ACK_")
        self.refused(path, push() + b"\x28\x04", INVALID, "ack: there is no 4")
        self.refused(path, push(request={"client_id": b"x" * 65}), INVALID, "65 bytes are too long")

    def test_methods_that_do_not_exist(self):
        for path in (SERVICE + "Nope", "/nobody/Nope", "/", "/pserver.v1.ParameterServer/",
                     SERVICE + "getparam", "/" + "x" * 1000):
            self.refused(path, b"", "UNIMPLEMENTED", "no such method: " + path[:100])

    def test_requests_without_fields_must_still_be_messages(self):
        for path in (SERVICE + "FinishInitParams", ADMIN + "GetStatus", ADMIN + "SaveCheckpoint"):
            for data in (b"\xff", b"\x0a\x05x", b"\x00", b"\x98\x06"):
                self.refused(path, data, INVALID, "malformed message")

    def test_every_truncation_of_every_message(self):
        whole = {SERVICE + "InitParam": (init(name="w", content=ONE * 4, config=config(
                     optimizer=4, adam={"beta_1": 0.5}), request={"client_id": b"me"}), (EXISTS,)),
                 SERVICE + "SendGrad": (push(name="v", request={"client_id": b"me", "session": 1}),
                                       (MISSING,)),
                 SERVICE + "GetParam": (message("GetParamRequest", name="www"), (MISSING,)),
                 ADMIN + "ListParams": (message("ListParamsRequest", after="abc", limit=300),
                                        ("OK",))}
        for path, (data, others) in whole.items():
            for length in range(len(data)):
                code, text = self.ask(path, data[:length])
                self.assertIn(code, (INVALID, *others), (path, length, text))

    def test_random_messages(self):
        """2,000 of them: pure noise, and real messages with a few bytes turned over."""
        seed = random.randrange(2**32)
        print(f"seed {seed}", end=" ")
        dice = random.Random(seed)
        # None of these can change a value: the content has the wrong length for "w".
        real = [init(name="v", config=config(optimizer=4)), push(content=ONE * 3),
                message("GetParamRequest", name="nobody"),
                message("ListParamsRequest", after="x", limit=3),
                push(content=b"", request={"client_id": b"someone", "session": 3, "sequence": 5})]
        other_shard = "FAILED_PRECONDITION"
        unsupported = "UNIMPLEMENTED"
        allowed = {"InitParam": {INVALID, EXISTS, other_shard, unsupported},
                   "FinishInitParams": {INVALID, EXISTS, other_shard},
                   "SendGrad": {INVALID, MISSING, other_shard, unsupported},
                   # A version that was never there is gone.
                   "GetParam": {"OK", INVALID, MISSING, other_shard, unsupported, "ABORTED"},
                   "GetStatus": {"OK", INVALID}, "ListParams": {"OK", INVALID},
                   "SaveCheckpoint": {"OK", INVALID}, "Check": {"OK", INVALID, MISSING}}
        for number in range(2000):
            data = bytearray(dice.randbytes(dice.choice((1, 2, 8, 50, 1000))) if number % 2
                             else dice.choice(real))
            for _ in range(dice.randrange(4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            # Each checkpoint waits for the disk: a few are enough.
            path = dice.choice(METHODS if number % 20 == 0 else METHODS[:-2] + METHODS[-1:])
            code, text = self.ask(path, bytes(data))
            name = path.rsplit("/", 1)[1]
            self.assertIn(code, allowed[name], (seed, number, path, bytes(data), text))


class Size(Input):
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.server.calls.init("w", [1.0, 2.0, 3.0, 4.0])
        cls.server.calls.finish()

    def tearDown(self):
        self.check_nothing_changed()

    def test_megabytes_of_unknown_fields_cost_no_more_than_their_size(self):
        many = b"\x98\x06\x01" * ((5 << 20) // 3)
        nested = b"\x7a" + varint(len(many)) + many
        empty = b"\xa2\x06\x00" * ((5 << 20) // 3)
        deep = b"\xa3\x06" * (5 << 19)

        def send():
            for path in METHODS:
                for data in (many, nested, empty, deep):
                    self.assertIn(self.ask(path, data)[0],
                                  ("OK", INVALID, MISSING, EXISTS, "RESOURCE_EXHAUSTED"))

        self.assertLess(self.rss_growth_mib(send), 64)
        # What messages leave behind would be left behind each time; the allocator's moods are not.
        least = min(self.rss_growth_mib(send) for _ in range(3))
        self.assertLess(least, 8, "each time costs memory")

    def test_a_configuration_of_many_fields_costs_little(self):
        """protobuf-c alone would need forty times its size."""
        text = b"\x98\x7d\x01" * (65536 // 3)

        def send():
            for _ in range(50):
                self.ask(SERVICE + "InitParam", init(name="w", config=text))

        self.assertLess(self.rss_growth_mib(send), 16)

    def test_messages_up_to_the_limit_and_one_byte_more(self):
        limit = 64 << 20
        head = b"\x0a\x01w\x10\x04\x1a" + varint(limit - 10)
        data = head + bytes(limit - len(head))
        self.assertEqual(len(data), limit)
        self.refused(SERVICE + "SendGrad", data, INVALID, "same content len")
        self.refused(SERVICE + "SendGrad", data + b"\0", "RESOURCE_EXHAUSTED",
                     f"larger than max ({limit + 1} vs. {limit})")
        self.assertLess(self.rss_growth_mib(
            lambda: [self.ask(SERVICE + "SendGrad", data) for _ in range(3)]), 160)


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


if __name__ == "__main__":
    unittest.main(verbosity=2)
