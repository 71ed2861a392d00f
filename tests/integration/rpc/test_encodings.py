#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Encodings as a Python client sees them: bytes by the documentation's words, values to the bit.

The reference is this file alone: doubles, in which what a rule computes in float32 is exact or can
be rounded once more without harm, and struct, which rounds to float32.

usage: test_encodings.py RIG_SERVER DESCRIPTOR_SET
"""
import random
import struct
import unittest

import grpc

import test_rpc
from test_bundles import floats, message

NATIVE, FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT8, TOP_K = range(7)
COUNT = 70000  # more than one block


def to_float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def decode_bfloat16(content):
    return [struct.unpack("<f", b"\0\0" + content[i:i + 2])[0] for i in range(0, len(content), 2)]


def decode_float16(content):
    return list(struct.unpack("<%de" % (len(content) // 2), content))


def decode_int8(content, count):
    groups = (count + 255) // 256
    scales = struct.unpack_from("<%df" % groups, content)
    quanta = struct.unpack_from("<%db" % count, content, groups * 4)
    # 24 and 8 bits: exact as a double, and rounded once.
    return [to_float32(scales[i // 256] * quanta[i]) for i in range(count)]


def decode_top_k(content, count):
    kept = len(content) // 8
    decoded = [0.0] * count
    for index, value in zip(struct.unpack_from("<%dI" % kept, content),
                            struct.unpack_from("<%df" % kept, content, kept * 4)):
        decoded[index] = value
    return decoded


class Encodings(test_rpc.RpcTest):
    def setUp(self):
        super().setUp()
        generator = random.Random(5)
        self.start = [to_float32(generator.uniform(-4, 4)) for _ in range(COUNT)]
        # SGD with rate 1, which loses exactly what is pushed.
        self.call("InitParam", message("InitParamRequest", name="w", element_type=4,
                                       content=floats(self.start)))
        self.call("InitParam", message("InitParamRequest", name="n", element_type=0,
                                       content=struct.pack("<4i", 1, 2, 3, 4)))
        self.call("FinishInitParams")
        self.generator = generator

    def send(self, encoding, content, name="w", kind=4):
        return self.call("SendGrad", message("SendGradRequest", name=name, element_type=kind,
                                             content=content, encoding=encoding))

    def fetch(self, encoding, name="w"):
        return self.call("GetParam", message("GetParamRequest", name=name, encoding=encoding))

    def bfloat16(self):
        return struct.pack("<%dH" % COUNT, *[self.generator.choice((0, 0x8000)) +
                                             self.generator.randrange(0x4100)
                                             for _ in range(COUNT)])

    def float16(self):
        return struct.pack("<%dH" % COUNT, *[self.generator.choice((0, 0x8000)) +
                                             self.generator.randrange(0x7c00)
                                             for _ in range(COUNT)])

    def int8(self):
        scales = [to_float32(self.generator.uniform(0, 0.1)) for _ in range((COUNT + 255) // 256)]
        return floats(scales) + bytes(self.generator.randrange(256) for _ in range(COUNT))

    def top_k(self):
        indices = sorted(self.generator.sample(range(COUNT), 700))
        return struct.pack("<700I", *indices) + floats(
            [self.generator.uniform(-9, 9) for _ in indices])

    def assert_pushed(self, encoding, content, decoded):
        reply = self.send(encoding, content)
        self.assertEqual(reply.version, 1)
        expected = [to_float32(old - pushed) for old, pushed in zip(self.start, decoded)]
        self.assertEqual(self.fetch(NATIVE).content, floats(expected))

    def test_bfloat16_is_worth_what_its_bits_say(self):
        content = self.bfloat16()
        self.assert_pushed(BFLOAT16, content, decode_bfloat16(content))

    def test_float16_is_worth_what_its_bits_say(self):
        content = self.float16()
        self.assert_pushed(FLOAT16, content, decode_float16(content))

    def test_int8_is_worth_its_scale_times_its_byte(self):
        content = self.int8()
        self.assert_pushed(INT8, content, decode_int8(content, COUNT))

    def test_top_k_touches_what_it_names(self):
        content = self.top_k()
        self.assert_pushed(TOP_K, content, decode_top_k(content, COUNT))

    def test_float64_is_rounded_once(self):
        numbers = [self.generator.uniform(-1, 1) for _ in range(COUNT)]
        self.assert_pushed(FLOAT64, struct.pack("<%dd" % COUNT, *numbers),
                           [to_float32(number) for number in numbers])

    def test_float32_is_native(self):
        numbers = [to_float32(self.generator.uniform(-1, 1)) for _ in range(COUNT)]
        self.assert_pushed(FLOAT32, floats(numbers), numbers)

    def test_a_reply_has_the_encoding_that_was_asked_for(self):
        reply = self.fetch(FLOAT64)
        self.assertEqual((reply.encoding, reply.element_type), (FLOAT64, 4))
        self.assertEqual(reply.content, struct.pack("<%dd" % COUNT, *self.start))
        reply = self.fetch(FLOAT16)
        # Python rounds to nearest even as well.
        self.assertEqual(reply.content, struct.pack("<%de" % COUNT, *self.start))
        for number, rounded in zip(self.start, decode_bfloat16(self.fetch(BFLOAT16).content)):
            self.assertLessEqual(abs(number - rounded), abs(number) / 256)
        content = self.fetch(INT8).content
        scales = struct.unpack_from("<%df" % ((COUNT + 255) // 256), content)
        for i, rounded in enumerate(decode_int8(content, COUNT)):
            self.assertLessEqual(abs(self.start[i] - rounded), scales[i // 256] * 0.5001)

    def test_batches_take_encodings_too(self):
        content = self.top_k()
        reply = self.call("PushPull", message(
            "PushPullRequest",
            grads=[message("SendGradRequest", name="w", element_type=4, content=content,
                           encoding=TOP_K)],
            params=[message("GetParamRequest", name="w", encoding=FLOAT32)]))
        expected = [to_float32(old - pushed)
                    for old, pushed in zip(self.start, decode_top_k(content, COUNT))]
        self.assertEqual(reply.params[0].reply.content, floats(expected))
        self.assertEqual(reply.params[0].reply.encoding, FLOAT32)

    def assert_refused(self, request, *words):
        with self.assertRaises(grpc.RpcError) as raised:
            request()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        for word in words:
            self.assertIn(word, raised.exception.details())
        self.assertEqual(self.fetch(NATIVE).content, floats(self.start))

    def test_what_cannot_be_is_refused_and_changes_nothing(self):
        nan = struct.pack("<f", float("nan"))
        scales = 4 * ((COUNT + 255) // 256)
        self.assert_refused(lambda: self.send(BFLOAT16, self.bfloat16()[:-1]), "bfloat16")
        self.assert_refused(lambda: self.send(INT8, self.int8() + b"\0"), "int8")
        self.assert_refused(lambda: self.send(INT8, nan + self.int8()[4:]), "scale")
        self.assert_refused(lambda: self.send(INT8, self.int8()[:scales]), "int8")
        self.assert_refused(lambda: self.send(TOP_K, b"\0" * 7), "top_k")
        self.assert_refused(lambda: self.send(TOP_K, b"\0" * 16), "indices rise")
        self.assert_refused(lambda: self.send(TOP_K, struct.pack("<If", COUNT, 1.0)),
                            "index %d of %d" % (COUNT, COUNT))
        self.assert_refused(lambda: self.send(TOP_K, struct.pack("<I", 5) + nan),
                            "element 5 is not finite")
        self.assert_refused(lambda: self.send(INT8, b"\0" * 8, "n", 0),
                            "int8", "allows native alone")
        self.assert_refused(lambda: self.fetch(TOP_K), "top_k is for gradients")
        self.assert_refused(lambda: self.fetch(FLOAT16, "n"), "allows native alone")


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
