#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Parameters larger than a message, with gRPC's default limit of 4 MiB: initialised, pushed and
pulled in ranges, exact, atomic and once.

usage: test_ranges.py RIG_SERVER DESCRIPTOR_SET [MIB]

MIB is the size of the large parameter, 256 without it.
"""
import sys
import unittest

import grpc

SIZE_MIB = int(sys.argv.pop(3)) if len(sys.argv) > 3 else 256

import test_rpc  # noqa: E402 (reads the arguments)
from test_bundles import BundleTest, floats, message  # noqa: E402

PART = (4 * 1024 - 64) * 1024 // 4  # elements of a part: 4 MiB less 64 KiB


class RangeTest(BundleTest):
    def id(self, sequence):
        return self.request_id(sequence, client=b"range-client")

    def init_ranges(self, name, content, sequence, part=PART, order=None):
        """Sends the parameter in ranges; returns the `staged` of every answer."""
        total = len(content) // 4
        starts = list(range(0, total, part))
        return [self.call("InitParam", message(
            "InitParamRequest", name=name, element_type=4, offset=start,
            count=min(part, total - start), total=total, request=self.id(sequence),
            content=bytes(content[4 * start:4 * (start + part)]))).staged
            for start in (order(starts) if order else starts)]

    def grad(self, name, start, count, content, sequence):
        return message("SendGradRequest", name=name, element_type=4, offset=start, count=count,
                       content=bytes(content), request=self.id(sequence))

    def push_ranges(self, name, content, sequence, part=PART, order=None):
        total = len(content) // 4
        starts = list(range(0, total, part))
        return [self.call("SendGrad", self.grad(
            name, start, min(part, total - start), content[4 * start:4 * (start + part)], sequence))
            for start in (order(starts) if order else starts)]


class Large(RangeTest):
    def test_a_parameter_of_any_size_goes_through_messages_of_four_mib(self):
        """Element i is i modulo 2**20: nothing of the parameter's size is ever in memory here."""
        total = SIZE_MIB * 1024 * 1024 // 4
        period = 1 << 20
        values = floats(range(period)) * 2
        less = floats(i - 1 for i in range(period)) * 2
        ones = floats([1.0]) * PART
        ranges = [(start, min(PART, total - start)) for start in range(0, total, PART)]

        def part(content, start, count):
            return content[4 * (start % period):4 * (start % period + count)]
        for start, count in ranges:
            staged = self.call("InitParam", message(
                "InitParamRequest", name="big", element_type=4, offset=start, count=count,
                total=total, request=self.id(1), content=part(values, start, count))).staged
            self.assertEqual(staged, (start, count) != ranges[-1])
        self.call("FinishInitParams")
        for start, count in ranges:
            reply = self.call("SendGrad", self.grad("big", start, count, ones[:4 * count], 2))
            self.assertEqual(reply.staged, (start, count) != ranges[-1])
        self.assertEqual((reply.version, reply.duplicate), (1, False))
        version = 0
        for start, count in ranges:
            reply = self.call("GetParam", message("GetParamRequest", name="big", offset=start,
                                                  count=count, version=version))
            self.assertEqual((reply.version, reply.offset, reply.total), (1, start, total))
            self.assertTrue(reply.content == part(less, start, count))
            version = reply.version + 1


class Ranges(RangeTest):
    SMALL = 40 * 1024  # elements
    STEP = 16 * 1024

    def make_small(self):
        self.values = floats(range(self.SMALL))
        staged = self.init_ranges("w", self.values, 1, self.STEP, order=reversed)
        self.assertEqual(staged, [True, True, False])
        self.call("FinishInitParams")

    def test_nothing_is_applied_before_all_ranges_are_there(self):
        self.make_small()
        ones = floats([1.0] * self.SMALL)
        first = self.call("SendGrad", self.grad("w", 0, self.STEP, ones[:4 * self.STEP], 2))
        self.assertTrue(first.staged)
        self.assertEqual(self.call("GetParam", self.pull("w")).version, 0)
        replies = self.push_ranges("w", ones, 2, self.STEP)
        self.assertEqual([r.staged for r in replies], [True, True, False])
        reply = self.call("GetParam", self.pull("w"))
        self.assertEqual(reply.version, 1)
        self.assertEqual(reply.content, floats(v - 1.0 for v in range(self.SMALL)))

    def step_range(self, name, start, content, sequence):
        """A range of a gradient, and what it makes of its elements."""
        count = len(content) // 4
        reply = self.call("PushPull", message(
            "PushPullRequest", request=self.id(sequence),
            grads=[message("SendGradRequest", name=name, element_type=4, offset=start, count=count,
                           content=content)],
            params=[message("GetParamRequest", name=name, offset=start, count=count,
                            of_push=True)]))
        return reply.grads[0].reply, reply.params[0]

    def test_a_range_brings_what_it_makes_while_others_are_missing(self):
        self.make_small()
        ones = floats([1.0] * self.SMALL)
        for start in range(0, self.SMALL, self.STEP):
            end = min(start + self.STEP, self.SMALL)
            pushed, pulled = self.step_range("w", start, ones[4 * start:4 * end], 2)
            self.assertEqual(pushed.staged, end < self.SMALL)
            self.assertEqual((pulled.reply.version, pulled.reply.offset, pulled.reply.count,
                              pulled.reply.total), (1, start, end - start, self.SMALL))
            self.assertEqual(pulled.reply.content, floats(v - 1.0 for v in range(start, end)))
            self.assertEqual(self.call("GetParam", self.pull("w")).version, int(end == self.SMALL))

    def test_what_a_range_makes_is_not_told_where_it_is_not_known(self):
        self.make_small()
        ones = floats([1.0] * self.SMALL)
        self.step_range("w", 0, ones[:4 * self.STEP], 2)
        pushed, pulled = self.step_range("w", 0, ones[:4 * self.STEP], 2)
        self.assertTrue(pushed.staged)
        self.assertEqual(pulled.status.word, "conflict")
        reply = self.call("PushPull", message(
            "PushPullRequest", params=[message("GetParamRequest", name="w", offset=0,
                                               count=self.STEP, of_push=True)]))
        self.assertEqual(reply.params[0].status.word, "conflict")

    def test_ranges_that_come_after_the_last_are_answered_as_it_was(self):
        self.make_small()
        ones = floats([1.0] * self.SMALL)
        self.push_ranges("w", ones, 2, self.STEP)
        replies = self.push_ranges("w", ones, 2, self.STEP)
        self.assertEqual([(r.staged, r.duplicate, r.version) for r in replies],
                         [(False, True, 1)] * 3)
        self.assertEqual(self.call("GetParam", self.pull("w")).version, 1)

    def test_mistakes_are_told_and_change_nothing(self):
        self.make_small()
        part = floats([1.0] * self.STEP)
        self.call("SendGrad", self.grad("w", 0, self.STEP, part, 2))
        cases = [
            self.grad("w", 1, self.STEP, part, 2),               # overlaps
            self.grad("w", self.SMALL - 5, self.STEP, part, 2),  # beyond the end
            self.grad("w", self.STEP, self.STEP, part[:-4], 2),  # short
            self.grad("w", self.STEP, 10, part[:40], 2),         # too small a range
            message("SendGradRequest", name="w", element_type=4, offset=0, count=self.STEP,
                    content=part),                               # no request id
            message("SendGradRequest", name="w", element_type=5, offset=0, count=self.STEP // 2,
                    content=part, request=self.id(2)),           # another type
        ]
        for request in cases:
            error = self.fails("SendGrad", request)
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.call("GetParam", self.pull("w")).version, 0)

    def test_one_id_cannot_be_used_for_two_parameters(self):
        self.make_small()
        self.call("SendGrad", self.grad("w", 0, self.STEP, floats([1.0] * self.STEP), 2))
        error = self.fails("InitParam", message(
            "InitParamRequest", name="v", element_type=4, offset=0, count=self.STEP,
            total=self.SMALL, request=self.id(2), content=floats([1.0] * self.STEP)))
        self.assertEqual(error.code(), grpc.StatusCode.ALREADY_EXISTS)

    def test_a_pull_in_ranges_is_one_version(self):
        self.make_small()
        first = self.call("GetParam", message("GetParamRequest", name="w", count=self.STEP))
        for sequence in (2, 3):
            self.push_ranges("w", floats([1.0] * self.SMALL), sequence, self.STEP)
        rest = self.call("GetParam", message("GetParamRequest", name="w", offset=self.STEP,
                                             version=first.version + 1))
        self.assertEqual(first.content + rest.content, self.values)
        error = self.fails("GetParam", message("GetParamRequest", name="w", offset=self.STEP,
                                               version=first.version + 1))
        self.assertEqual(error.code(), grpc.StatusCode.ABORTED)
        self.assertEqual(test_rpc.word_of(error), "conflict")

    def test_ranges_go_in_batches_too(self):
        self.make_small()
        ones = floats([1.0] * self.SMALL)
        grads = [message("SendGradRequest", name="w", element_type=4, offset=start,
                         count=min(self.STEP, self.SMALL - start),
                         content=ones[4 * start:4 * min(start + self.STEP, self.SMALL)],
                         request=message("RequestId", sequence=2))
                 for start in range(0, self.SMALL, self.STEP)]
        reply = self.call("PushPull", message(
            "PushPullRequest", grads=grads, request=self.id(2),
            params=[message("GetParamRequest", name="w", offset=5, count=3)]))
        self.assertEqual([r.reply.staged for r in reply.grads], [True, True, False])
        self.assertEqual(reply.params[0].reply.content, floats([4.0, 5.0, 6.0]))
        self.assertEqual(reply.params[0].reply.version, 1)

    def test_a_hostile_client_cannot_stage_without_bound(self):
        self.make_small()
        refused = 0
        for sequence in range(2, 250):
            try:
                # Each claims all of the parameter with one part of it; a part is at least 64 KiB.
                self.call("InitParam", message(
                    "InitParamRequest", name=f"h{sequence}", element_type=4, offset=0,
                    count=self.STEP, total=1 << 24, request=self.id(sequence),
                    content=floats([1.0] * self.STEP)))
            except grpc.RpcError:
                refused += 1
        self.assertEqual(refused, 248)  # initialised: none is let in
        staged = 0
        for sequence in range(2, 200):
            grad = self.grad("w", 0, self.STEP, floats([0.0] * self.STEP), sequence)
            staged += self.call("SendGrad", grad).staged
        self.assertEqual(staged, 198)


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
