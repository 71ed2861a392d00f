#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Delta pulls by hand, as docs/delta-pull.md tells clients in any language to make them, with
gRPC's default limit of 4 MiB per message: a receiver has what the server has, and never a mixture.

usage: test_delta.py RIG_SERVER DESCRIPTOR_SET
"""
import array
import ctypes
import random
import struct
import unittest

import grpc

import test_rpc
from test_bundles import BundleTest, floats, message
from test_rpc import TIMEOUT, TYPES

SEED = 20261121
BLOCK = 256 * 1024
MIB = 1024 * 1024

xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH64.restype = ctypes.c_uint64
xxhash.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh64(data):
    return xxhash.XXH64(bytes(data), len(data), 0)


class Copy:
    """One parameter as a receiver has it."""

    def __init__(self):
        self.version = 0  # 1 + the version; 0: nothing
        self.chain = b""
        self.content = b""
        self.digests = []
        self.begin()

    def begin(self):
        self.target = self.block = 0
        self.coming = None  # the blocks of the version that is coming

    def held(self):
        return message("Held", version=self.version, chain=self.chain, target=self.target,
                       block=self.block)

    def take(self, reply):
        """True when this was the last answer of the version."""
        delta = reply.delta
        if self.coming is None:
            self.coming = {}
            if delta.whole:
                self.version, self.content, self.digests = 0, b"", []
        at = 0
        for first, count in zip(delta.runs[::2], delta.runs[1::2]):
            for block in range(first, first + count):
                size = min(delta.block_bytes, len(reply.content) - at)
                self.coming[block] = reply.content[at:at + size]
                at += size
        assert at == len(reply.content)
        self.chain = delta.chain
        if delta.next:
            self.target, self.block = reply.version + 1, delta.next
            return False
        count = -(-reply.total * 4 // delta.block_bytes)
        content, digests = bytearray(), []
        for block in range(count):
            if block in self.coming:
                part = self.coming[block]
                digests.append(xxh64(part) or 1)
            else:
                part = self.content[block * delta.block_bytes:(block + 1) * delta.block_bytes]
                digests.append(self.digests[block])
            content += part
        chain = 0
        for digest in digests:
            chain = xxh64(struct.pack("<QQ", chain, digest))
        if chain != delta.digest:
            raise ValueError("digest")
        self.version, self.content, self.digests = reply.version + 1, bytes(content), digests
        self.begin()
        return True


class Receiver:
    def __init__(self, test, names):
        self.test = test
        self.copies = {name: Copy() for name in names}
        self.bytes = 0
        self.messages = 0
        self.reasons = []

    def ask(self, names, bytes_max):
        return self.test.call("GetParamsSince", message(
            "GetParamsSinceRequest", bytes_max=bytes_max,
            params=[message("GetParamRequest", name=name, held=self.copies[name].held())
                    for name in names]))

    def pull(self, bytes_max=0):
        left = list(self.copies)
        while left:
            reply = self.ask(left, bytes_max)
            self.messages += 1
            again = []
            for name, result in zip(left, reply.params):
                if result.status.word == "conflict":
                    self.copies[name].begin()
                    again.append(name)
                elif result.status.word == "busy":
                    again.append(name)
                else:
                    assert not result.status.code, result.status
                    self.bytes += len(result.reply.content)
                    self.reasons.append(result.reply.delta.whole)
                    if not self.copies[name].take(result.reply):
                        again.append(name)
            left = again


class DeltaTest(BundleTest):
    def init(self, name, blocks):
        self.call("InitParam", message("InitParamRequest", name=name, element_type=4,
                                       content=bytes(blocks * BLOCK)))

    def touch(self, name, *elements):
        """Pushes -1 to these elements and to no others."""
        content = array.array("I", sorted(elements)).tobytes() + floats([-1.0] * len(elements))
        self.call("SendGrad", message("SendGradRequest", name=name, element_type=4, encoding=6,
                                      content=content))

    def present(self, name):
        """The server's content of its present version, in one message."""
        with grpc.insecure_channel(f"127.0.0.1:{self.port}",
                                   [("grpc.max_receive_message_length", -1)]) as channel:
            reply = TYPES.stub(channel, "/pserver.v1.ParameterServer/GetParam")(
                self.pull(name), timeout=TIMEOUT)
        return reply.content, reply.version

    def expect_same(self, receiver):
        for name, copy in receiver.copies.items():
            content, version = self.present(name)
            self.assertEqual(copy.version, version + 1)
            self.assertTrue(copy.content == content)


class Delta(DeltaTest):
    def test_a_large_parameter_comes_in_messages_of_four_mib(self):
        self.init("w", 12)
        self.init("small", 1)
        self.call("FinishInitParams")
        receiver = Receiver(self, ["w", "small"])
        receiver.pull()
        self.expect_same(receiver)
        self.assertEqual(receiver.bytes, 13 * BLOCK)
        self.assertEqual(receiver.messages, 1)
        receiver.bytes = 0
        self.touch("w", 5, 11 * BLOCK // 4)
        receiver.pull()
        self.assertEqual(receiver.bytes, 2 * BLOCK)
        self.expect_same(receiver)

    def test_more_than_a_message_comes_in_several(self):
        content = floats(range(BLOCK // 4)) * 12  # 3 MiB, as much as init may have in one message
        for name in ("a", "b", "c", "d"):
            self.call("InitParam", message("InitParamRequest", name=name, element_type=4,
                                           content=content))
        self.call("FinishInitParams")
        receiver = Receiver(self, ["a", "b", "c", "d"])
        receiver.pull()
        self.expect_same(receiver)
        self.assertEqual(receiver.messages, 4)
        self.assertEqual(receiver.bytes, 48 * BLOCK)

    def test_one_version_comes_whatever_is_pushed_meanwhile(self):
        self.init("w", 12)
        self.call("FinishInitParams")
        receiver = Receiver(self, ["w"])
        copy = receiver.copies["w"]
        pushes = 0
        while True:
            reply = receiver.ask(["w"], BLOCK).params[0].reply
            if copy.take(reply):
                break
            self.touch("w", *[block * BLOCK // 4 for block in range(12)])
            pushes += 1
        self.assertEqual(pushes, 11)
        self.assertEqual(copy.version, 1)
        self.assertEqual(copy.content, bytes(12 * BLOCK))
        receiver.pull()
        self.expect_same(receiver)

    def test_thousands_of_parameters_that_did_not_change_are_one_small_message(self):
        for i in range(2000):
            self.call("InitParam", message("InitParamRequest", name=f"p{i}", element_type=4,
                                           content=floats([float(i)] * 8)))
        self.call("FinishInitParams")
        receiver = Receiver(self, [f"p{i}" for i in range(2000)])
        receiver.pull()
        receiver.bytes = receiver.messages = 0
        self.call("SendGrad", self.push([1.0] * 8, "p77"))
        receiver.pull()
        self.assertEqual((receiver.messages, receiver.bytes), (1, 32))
        self.assertEqual(receiver.copies["p77"].content, floats([76.0] * 8))

    def test_random_pushes_and_pulls_never_make_a_mixture(self):
        chance = random.Random(SEED)
        sizes = {"a": 1, "b": 3, "c": 9}
        for name, blocks in sizes.items():
            self.init(name, blocks)
        self.call("FinishInitParams")
        receivers = [Receiver(self, sizes) for _ in range(3)]
        for step in range(60):
            name = chance.choice(list(sizes))
            elements = {chance.randrange(sizes[name] * BLOCK // 4)
                        for _ in range(chance.randrange(1, 6))}
            self.touch(name, *elements)
            receiver = chance.choice(receivers)
            if chance.random() < 0.5:
                receiver.pull(chance.choice([0, 1, BLOCK, 2 * BLOCK + 1, 100 * MIB]))
                with self.subTest(seed=SEED, step=step):
                    self.expect_same(receiver)
        self.assertEqual([r.reasons.count(1) for r in receivers], [3] * 3)  # once each

    def test_a_receiver_that_was_damaged_sees_it(self):
        self.init("w", 3)
        self.call("FinishInitParams")
        receiver = Receiver(self, ["w"])
        receiver.pull()
        self.touch("w", 0)
        reply = receiver.ask(["w"], 0).params[0].reply
        reply.content = reply.content[:-1] + b"x"
        with self.assertRaises(ValueError):
            receiver.copies["w"].take(reply)

    def test_a_delta_comes_with_every_call_that_reads(self):
        self.init("w", 2)
        self.call("FinishInitParams")
        self.touch("w", 7)
        single, batch = Copy(), Copy()
        self.assertTrue(single.take(self.call("GetParam", message(
            "GetParamRequest", name="w", held=single.held()))))
        gradient = message("SendGradRequest", name="w", element_type=4, encoding=6,
                           content=array.array("I", [3]).tobytes() + floats([1.0]))
        reply = self.call("PushPull", message(
            "PushPullRequest", grads=[gradient],
            params=[message("GetParamRequest", name="w", held=single.held())]))
        self.assertEqual(len(reply.params[0].reply.content), BLOCK)
        self.assertTrue(single.take(reply.params[0].reply))
        reply = self.call("GetParams", message("GetParamsRequest", params=[
            message("GetParamRequest", name="w", held=batch.held())]))
        self.assertTrue(batch.take(reply.params[0].reply))
        self.assertEqual(single.content, batch.content)
        self.assertEqual(single.version, 3)

    def test_mistakes_are_told(self):
        self.init("w", 2)
        self.call("FinishInitParams")

        def word(**fields):
            reply = self.call("GetParamsSince", message("GetParamsSinceRequest", params=[
                message("GetParamRequest", **fields)]))
            return reply.params[0].status.word
        chain = self.call("GetParamsSince", message("GetParamsSinceRequest", params=[
            message("GetParamRequest", name="w")])).params[0].reply.delta.chain
        self.assertEqual(word(name="w"), "")
        self.assertEqual(word(name="nobody"), "not_found")
        self.assertEqual(word(name="w", version=1), "bad_input")
        self.assertEqual(word(name="w", count=1), "bad_input")
        self.assertEqual(word(name="w", encoding=4), "unsupported")
        self.assertEqual(word(name="w", held=message("Held", block=1)), "bad_input")
        self.assertEqual(word(name="w", held=message("Held", target=9, chain=chain)), "conflict")
        self.assertEqual(word(name="w", held=message("Held", target=1, chain=b"x")), "conflict")
        self.assertEqual(word(name="w", held=message("Held", target=1, chain=chain, block=3)),
                         "bad_input")

    def test_a_pull_waits_for_initialisation(self):
        self.init("w", 1)
        stub = TYPES.stub(self.channel, "/pserver.v1.ParameterServer/GetParamsSince")
        waiting = stub.future(message("GetParamsSinceRequest", params=self.pulls(["w"])),
                              timeout=TIMEOUT)
        self.call("FinishInitParams")
        self.assertEqual(waiting.result().params[0].reply.delta.whole, 1)


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
