#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Encoded gradients and replies in ranges, with gRPC's default limit of 4 MiB: the same bits as in
one message, and what cannot be is refused.

usage: test_encoded_ranges.py RIG_SERVER DESCRIPTOR_SET
"""
import random
import struct
import threading
import unittest

import grpc

import test_rpc
from encoded_content import (BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT8, NAMES, NATIVE, TOP_K, cut,
                             make)
from test_bundles import floats, message
from test_ranges import RangeTest

COUNT = 80 * 1024 + 100  # elements: five blocks of 64 KiB and a bit
STEP = 16 * 1024
CUTS = [(first, min(first + STEP, COUNT)) for first in range(0, COUNT, STEP)]
SEED = 20


class Encoded(RangeTest):
    def setUp(self):
        super().setUp()
        self.dice = random.Random(SEED)

    def make_twins(self, config=b""):
        """"w" gets ranges, "twin" the same in one piece."""
        start = make(NATIVE, COUNT, self.dice)
        for name in ("w", "twin"):
            self.call("InitParam", message("InitParamRequest", name=name, element_type=4,
                                           content=start, config=config))
        self.finish()

    def finish(self):
        self.call("FinishInitParams")

    def part(self, encoding, content, first, end, sequence, name="w"):
        """Range [first, end) of that content as a request."""
        return self.raw(encoding, cut(encoding, content, COUNT, first, end), first, end, sequence,
                        name)

    def raw(self, encoding, content, first, end, sequence, name="w"):
        return message("SendGradRequest", name=name, element_type=4, encoding=encoding,
                       offset=first, count=end - first, content=content,
                       request=self.id(sequence))

    def whole(self, encoding, content, name="twin"):
        return self.call("SendGrad", message("SendGradRequest", name=name, element_type=4,
                                             encoding=encoding, content=content))

    def fetch(self, name, **fields):
        return self.call("GetParam", message("GetParamRequest", name=name, **fields))

    def assert_same(self, version):
        mine, other = self.fetch("w"), self.fetch("twin")
        self.assertEqual((mine.version, other.version), (version, version))
        self.assertTrue(mine.content == other.content)

    def push_both(self, encoding, sequence, cuts, pairs=3000):
        content = make(encoding, COUNT, self.dice, pairs=pairs)
        staged = [self.call("SendGrad", self.part(encoding, content, *piece, sequence)).staged
                  for piece in cuts]
        self.assertEqual(staged, [True] * (len(cuts) - 1) + [False])
        self.whole(encoding, content)


    def push_few_pairs(self):
        few = struct.pack("<2I", 3, COUNT - 1) + floats([1.5, -2.5])
        none = b""
        for sequence, content in ((1, few), (2, none)):
            for piece in CUTS:
                reply = self.call("SendGrad", self.part(TOP_K, content, *piece, sequence))
            self.assertEqual((reply.staged, reply.version), (False, sequence))
            self.whole(TOP_K, content)
            self.assert_same(sequence)


class Pushes(Encoded):
    def test_ranges_in_any_order_have_the_bits_of_the_whole(self):
        self.make_twins()
        sequence = 1
        for encoding in (FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT8, TOP_K):
            for order in (list, reversed, lambda cuts: self.dice.sample(cuts, len(cuts))):
                with self.subTest(encoding=NAMES[encoding]):
                    self.push_both(encoding, sequence, list(order(CUTS)))
                    self.assert_same(sequence)
                    sequence += 1

    def test_pairs_that_leave_ranges_empty(self):
        self.make_twins()
        self.push_few_pairs()

    def test_a_range_that_comes_again_is_harmless_and_so_is_the_whole(self):
        self.make_twins()
        content = make(INT8, COUNT, self.dice)
        for piece in CUTS[:3] + CUTS[1:3] + CUTS[:1]:
            self.assertTrue(self.call("SendGrad", self.part(INT8, content, *piece, 7)).staged)
        for piece in CUTS[3:]:
            reply = self.call("SendGrad", self.part(INT8, content, *piece, 7))
        self.assertEqual((reply.staged, reply.version, reply.duplicate), (False, 1, False))
        for piece in CUTS:
            reply = self.call("SendGrad", self.part(INT8, content, *piece, 7))
            self.assertEqual((reply.staged, reply.version, reply.duplicate), (False, 1, True))
        self.whole(INT8, content)
        self.assert_same(1)

    def test_ranges_that_another_push_overtakes_are_applied_once(self):
        self.make_twins()
        content = make(FLOAT16, COUNT, self.dice)
        other = make(INT8, COUNT, self.dice)
        for piece in CUTS[:2]:
            self.call("SendGrad", self.part(FLOAT16, content, *piece, 8))
        self.whole(INT8, other, "w")
        staged = True
        for _ in range(3):  # what was applied ahead was in vain: all of it comes again
            for piece in CUTS:
                reply = self.call("SendGrad", self.part(FLOAT16, content, *piece, 8))
                staged = staged and reply.staged
        self.assertFalse(staged)
        self.whole(INT8, other)
        self.whole(FLOAT16, content)
        self.assert_same(2)

    def test_a_message_of_four_mib_carries_int8_of_any_size(self):
        count = 12 * 1024 * 1024 + 5  # 48 MiB of float32, 12 in int8
        step = 3 * 1024 * 1024
        zeros = bytes(4 * step)
        for first in range(0, count, step):
            end = min(first + step, count)
            for at in range(first, end, step // 4):
                stop = min(at + step // 4, end)
                self.call("InitParam", message(
                    "InitParamRequest", name="big", element_type=4, offset=at, count=stop - at,
                    total=count, request=self.id(1), content=zeros[:4 * (stop - at)]))
        self.call("FinishInitParams")
        groups = -(-step // 256)
        piece = floats([-0.5] * groups) + bytes([1, 2, 3, 254]) * (step // 4)
        for first in range(0, count, step):
            end = min(first + step, count)
            groups = -(-(end - first) // 256)
            content = piece if end - first == step else (
                floats([-0.5] * groups) + (bytes([1, 2, 3, 254]) * 2)[:end - first])
            reply = self.call("SendGrad", message(
                "SendGradRequest", name="big", element_type=4, encoding=INT8, offset=first,
                count=end - first, content=content, request=self.id(2)))
        self.assertEqual((reply.staged, reply.version), (False, 1))
        version = life = 0
        for first in range(0, count, step):
            end = min(first + step, count)
            reply = self.fetch("big", encoding=INT8, offset=first, count=end - first,
                               version=version, life=life)
            version, life = reply.version + 1, reply.life
            groups = -(-(end - first) // 256)
            self.assertEqual(len(reply.content), 4 * groups + end - first)
            scale = struct.unpack_from("<f", reply.content)[0]
            values = struct.unpack_from("<4b", reply.content, 4 * groups)
            self.assertEqual([round(2 * scale * value) for value in values], [1, 2, 3, -2])


class Pulls(Encoded):
    def test_ranges_put_together_are_the_reply_to_the_whole(self):
        self.make_twins()
        for encoding in (NATIVE, FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT8):
            with self.subTest(encoding=NAMES[encoding]):
                whole = self.fetch("w", encoding=encoding).content
                version = life = 0
                for first, end in CUTS:
                    reply = self.fetch("w", encoding=encoding, offset=first, count=end - first,
                                       version=version, life=life)
                    version, life = reply.version + 1, reply.life
                    self.assertEqual((reply.encoding, reply.element_type, reply.offset, reply.count,
                                      reply.total), (encoding, 4, first, end - first, COUNT))
                    self.assertTrue(reply.content == cut(encoding, whole, COUNT, first, end))

    def test_a_range_begins_anywhere_but_in_int8(self):
        self.make_twins()
        for encoding in (FLOAT64, BFLOAT16, FLOAT16):
            whole = self.fetch("w", encoding=encoding).content
            reply = self.fetch("w", encoding=encoding, offset=65500, count=77)
            self.assertEqual(reply.content, cut(encoding, whole, COUNT, 65500, 65577))
        for first, count in ((1, 256), (256, 100), (255, COUNT - 255)):
            error = self.fails("GetParam", message("GetParamRequest", name="w", encoding=INT8,
                                                   offset=first, count=count))
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("multiple of 256", error.details())
        self.assertEqual(self.fetch("w", encoding=INT8, offset=COUNT - 100,
                                    count=100).count, 100)  # ends at the end

    def test_ranges_of_a_version_go_on_while_others_push(self):
        self.make_twins()
        before = self.fetch("w", encoding=BFLOAT16).content
        first = self.fetch("w", encoding=BFLOAT16, offset=0, count=STEP)
        self.push_both(INT8, 3, CUTS)
        got = first.content
        for begin, end in CUTS[1:]:
            got += self.fetch("w", encoding=BFLOAT16, offset=begin, count=end - begin,
                              version=first.version + 1, life=first.life).content
        self.assertTrue(got == before)
        error = self.fails("GetParam", message(
            "GetParamRequest", name="w", encoding=BFLOAT16, offset=STEP, count=STEP,
            version=first.version + 1, life=first.life))
        self.assertEqual(test_rpc.word_of(error), "conflict")  # all of it was read: let go

    def test_what_cannot_be_is_refused(self):
        self.make_twins()
        error = self.fails("GetParam", message("GetParamRequest", name="w", encoding=TOP_K,
                                               offset=0, count=STEP))
        self.assertIn("top_k is for gradients", error.details())
        error = self.fails("GetParam", message("GetParamRequest", name="w", encoding=INT8,
                                               offset=512, count=COUNT))
        self.assertIn("asked for", error.details())

    def step_range(self, pushed, pulled, content, first, end, sequence):
        reply = self.call("PushPull", message(
            "PushPullRequest", request=self.id(sequence),
            grads=[self.part(pushed, content, first, end, sequence)],
            params=[message("GetParamRequest", name="w", encoding=pulled, offset=first,
                            count=end - first, of_push=True)]))
        return reply.grads[0].reply, reply.params[0]

    def test_a_range_brings_back_what_it_makes_in_either_encoding(self):
        self.make_twins()
        sequence = 0
        for pushed in (NATIVE, BFLOAT16, INT8):
            for pulled in (NATIVE, FLOAT64, FLOAT16, INT8):
                sequence += 1
                content = make(pushed, COUNT, self.dice)
                made = [self.step_range(pushed, pulled, content, *piece, sequence)[1]
                        for piece in CUTS]
                self.whole(pushed, content)
                self.assert_same(sequence)
                whole = self.fetch("twin", encoding=pulled).content
                for result, (first, end) in zip(made, CUTS):
                    self.assertEqual((result.reply.version, result.reply.encoding),
                                     (sequence, pulled), result.status)
                    self.assertTrue(result.reply.content == cut(pulled, whole, COUNT, first, end))

    def test_pairs_bring_back_nothing_before_all_are_there(self):
        self.make_twins()
        content = make(TOP_K, COUNT, self.dice, pairs=500)
        pushed, pulled = self.step_range(TOP_K, NATIVE, content, 0, STEP, 1)
        self.assertTrue(pushed.staged)
        self.assertEqual(pulled.status.word, "conflict")


class Mistakes(Encoded):
    def assert_refused(self, request, *words):
        error = self.fails("SendGrad", request)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error.details())
        for word in words:
            self.assertIn(word, error.details())

    def test_they_are_told_and_change_nothing(self):
        self.make_twins()
        bf16, int8 = make(BFLOAT16, COUNT, self.dice), make(INT8, COUNT, self.dice)
        top_k = make(TOP_K, COUNT, self.dice, pairs=COUNT // 2)
        part = cut(INT8, int8, COUNT, 0, STEP)
        pairs = cut(TOP_K, top_k, COUNT, STEP, 2 * STEP)
        nan = struct.pack("<f", float("nan"))
        cases = [
            (self.raw(INT8, part, 1, STEP + 1, 1), "multiple of 256"),
            (self.raw(INT8, cut(INT8, int8, COUNT, 0, STEP + 256)[:-156], 0, STEP + 100, 1),
             "multiple of 256"),
            (self.raw(INT8, part[:-1], 0, STEP, 1), "int8"),
            (self.raw(INT8, part + b"\0", 0, STEP, 1), "int8"),
            (self.raw(INT8, nan + part[4:], 0, STEP, 1), "scale of elements 0 "),
            (self.raw(INT8, nan + part[4:], STEP, 2 * STEP, 1), f"scale of elements {STEP} "),
            (self.raw(BFLOAT16, bf16[:2 * STEP - 2], 0, STEP, 1), "bfloat16"),
            (self.raw(BFLOAT16, bf16[:2 * STEP], COUNT - 5, COUNT - 5 + STEP, 1), "there are"),
            (self.raw(BFLOAT16, bf16[:512], 0, 256, 1), "all but the last"),
            (self.raw(TOP_K, pairs[:-1], STEP, 2 * STEP, 1), "top_k"),
            (self.raw(TOP_K, pairs, 0, STEP, 1), "in a range of elements 0 to"),
            (self.raw(TOP_K, pairs, 2 * STEP, 3 * STEP, 1), "in a range of elements"),
            (self.raw(TOP_K, struct.pack("<2I", 9, 9) + floats([1, 1]), 0, STEP, 1), "rise"),
            (self.raw(TOP_K, struct.pack("<2I", 9, 8) + floats([1, 1]), 0, STEP, 1), "rise"),
            (message("SendGradRequest", name="w", element_type=4, encoding=INT8, offset=0,
                     count=STEP, content=part), "request id"),
            (message("SendGradRequest", name="w", element_type=5, encoding=INT8, offset=0,
                     count=STEP, content=part, request=self.id(1)), "type not match"),
        ]
        for i, (request, *words) in enumerate(cases):
            with self.subTest(case=i):
                self.assert_refused(request, *words)
        self.push_both(INT8, 1, CUTS)  # under the same id: nothing of it was staged
        self.assert_same(1)

    def test_ranges_that_overlap_are_refused(self):
        self.make_twins()
        content = make(INT8, COUNT, self.dice)
        self.call("SendGrad", self.part(INT8, content, STEP, 2 * STEP, 1))
        for first, end in ((STEP - 256, 2 * STEP - 256), (STEP + 256, 3 * STEP), (0, 3 * STEP)):
            self.assert_refused(self.part(INT8, content, first, end, 1), "overlap")

    def test_one_request_is_in_one_encoding(self):
        self.make_twins()
        content = make(INT8, COUNT, self.dice)
        others = [(encoding, make(encoding, COUNT, self.dice, pairs=1000))
                  for encoding in (NATIVE, BFLOAT16, FLOAT16, FLOAT64, TOP_K)]
        self.call("SendGrad", self.part(INT8, content, *CUTS[0], 1))
        for encoding, other in others:
            self.assert_refused(self.part(encoding, other, *CUTS[1], 1),
                                f"a range in {NAMES[encoding]} among ranges in int8")
        for piece in CUTS[1:]:
            reply = self.call("SendGrad", self.part(INT8, content, *piece, 1))
        self.assertFalse(reply.staged)
        self.whole(INT8, content)
        self.assert_same(1)

    def test_what_is_not_finite_refuses_all_of_it(self):
        self.make_twins()
        content = bytearray(make(BFLOAT16, COUNT, self.dice))
        content[2 * 20000:2 * 20000 + 2] = b"\x80\x7f"  # infinite
        pairs = struct.pack("<2I", 5, 30000) + floats([1.0, float("nan")])
        for sequence, encoding, bad, index in ((1, BFLOAT16, bytes(content), 20000),
                                               (2, TOP_K, pairs, 30000)):
            error = None
            for _ in range(2):  # the attempt ahead is in vain first
                for piece in CUTS:
                    try:
                        self.call("SendGrad", self.part(encoding, bad, *piece, sequence))
                    except grpc.RpcError as caught:
                        error = caught
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(f"element {index} is not finite", error.details())
        self.assert_same(0)

    def test_whole_numbers_travel_as_they_are(self):
        self.call("InitParam", message("InitParamRequest", name="n", element_type=0,
                                       content=bytes(4 * COUNT)))
        self.call("FinishInitParams")
        self.assert_refused(message(
            "SendGradRequest", name="n", element_type=0, encoding=INT8, offset=0, count=STEP,
            content=bytes(4 * STEP // 256 + STEP), request=self.id(1)), "allows native alone")


class Kept(Encoded):
    """With a journal, which keeps the ranges beside what was applied ahead."""
    RIG_ARGUMENTS = ["journals"]

    def finish(self):
        """It is answered when a checkpoint is saved."""
        waiting = threading.Thread(target=self.call, args=("FinishInitParams",))
        waiting.start()
        while waiting.is_alive():
            self.order("save")
            waiting.join(0.05)

    def test_pairs_that_leave_ranges_empty(self):
        self.make_twins()
        self.push_few_pairs()
        self.order("write")

    def test_ranges_are_kept_and_applied_when_another_push_came_first(self):
        self.make_twins()
        for sequence, encoding in enumerate((BFLOAT16, INT8, TOP_K, FLOAT64), 1):
            content = make(encoding, COUNT, self.dice, pairs=700)
            other = make(FLOAT16, COUNT, self.dice)
            for piece in CUTS[:3]:
                self.call("SendGrad", self.part(encoding, content, *piece, sequence))
            self.whole(FLOAT16, other, "w")
            self.whole(FLOAT16, other, "twin")
            for piece in CUTS[3:]:
                reply = self.call("SendGrad", self.part(encoding, content, *piece, sequence))
            self.assertEqual((reply.staged, reply.version), (False, 2 * sequence))
            self.whole(encoding, content)
            self.assert_same(2 * sequence)


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
