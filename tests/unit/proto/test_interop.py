#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Google's protobuf and ours read each other: messages made in Python go through our decoder and
encoder and come back equal, in any field order, with unknown fields, cut anywhere.

Also looks over the descriptor set: no message may be recursive, since protobuf-c follows nesting
without a limit.

usage: test_interop.py PROBE DESCRIPTOR_SET [SEED]
"""
import random
import subprocess
import sys
import unittest

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROBE, DESCRIPTOR_SET = sys.argv[1], sys.argv[2]
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 20260105
PAIRS = 30

file_set = descriptor_pb2.FileDescriptorSet()
with open(DESCRIPTOR_SET, "rb") as file:
    file_set.ParseFromString(file.read())
pool = descriptor_pool.DescriptorPool()
for proto in file_set.file:
    pool.Add(proto)
factory = message_factory.MessageFactory(pool)


def message_class(name):
    package = "paddle" if name == "OptimizerConfig" else "pserver.v1"
    return factory.GetPrototype(pool.FindMessageTypeByName(f"{package}.{name}"))


KINDS = ["InitParamRequest", "InitParamResponse", "FinishInitParamsRequest", "SendGradRequest",
         "SendGradResponse", "GetParamRequest", "GetParamResponse", "ListParamsRequest",
         "ListParamsResponse", "GetStatusResponse", "SaveCheckpointResponse",
         "DrainRequest", "SaveCheckpointRequest", "LastAppliedRequest", "LastAppliedResponse"]


def fill(message, chance):
    """Gives every field a random value, or leaves it out."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.2:
            continue
        if field.label == field.LABEL_REPEATED and field.type != field.TYPE_MESSAGE:
            getattr(message, field.name).extend(chance.randrange(2 ** 32) for _ in range(4))
        elif field.label == field.LABEL_REPEATED:
            for _ in range(chance.randrange(4)):
                fill(getattr(message, field.name).add(), chance)
        elif field.type == field.TYPE_MESSAGE:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), chance)
        else:
            setattr(message, field.name, value_of(field, chance))


def value_of(field, chance):
    if field.name == "element_type" and field.type == field.TYPE_UINT32:
        return chance.randrange(6)
    if field.type == field.TYPE_ENUM:
        return chance.choice(field.enum_type.values).number
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == field.TYPE_DOUBLE:
        return chance.uniform(-1e6, 1e6)
    if field.type == field.TYPE_FLOAT:
        return chance.randrange(-2 ** 24, 2 ** 24) / 8
    if field.type == field.TYPE_STRING and field.name == "clocks":  # at most 64 bytes
        return "".join(chance.choice("ab/_é漢😀") for _ in range(chance.randrange(17)))
    if field.type == field.TYPE_STRING:
        return "".join(chance.choice("ab/_é漢😀") for _ in range(chance.randrange(40)))
    if field.type == field.TYPE_BYTES:
        if field.name == "chain":  # ours, or none
            return chance.choice([b"", chance.randbytes(16)])
        longest = 64 if field.name == "client_id" else 300
        return chance.randbytes(chance.randrange(longest + 1))
    return chance.randrange(2 ** chance.choice([1, 7, 8, 31]))


def forget_empty_range(message):
    """A range of shared memory that lies nowhere says the same as none, whatever it says of its
    elements."""
    if "shared" in message.DESCRIPTOR.fields_by_name:
        shared = message.shared
        if not (shared.segment or shared.offset or shared.size):
            message.ClearField("shared")


def forget_lengths_of_a_scalar(message):
    """A shape is a scalar's or it has lengths."""
    for row in getattr(message, "params", [message]):
        if "scalar" in row.DESCRIPTOR.fields_by_name and row.scalar:
            row.ClearField("shape")
    if message.DESCRIPTOR.name == "GetParamResponse":  # our client does not ask for it
        message.ClearField("shape")
        message.ClearField("scalar")


def shuffled(message, chance):
    """The same message with its fields in another order and unknown ones between them."""
    parts = [message_class_part(message, field) for field, _ in message.ListFields()
             if field.label != field.LABEL_REPEATED]
    repeated = type(message)()
    for field, values in message.ListFields():
        if field.label == field.LABEL_REPEATED:
            getattr(repeated, field.name).extend(values)
    parts += [repeated.SerializeToString(), b"\xc0\x3e\x05", b"\xc2\x3e\x03abc",
              b"\xc5\x3e\x01\x02\x03\x04"]
    chance.shuffle(parts)
    return b"".join(parts)


def message_class_part(message, field):
    part = type(message)()
    if field.type == field.TYPE_MESSAGE:
        getattr(part, field.name).CopyFrom(getattr(message, field.name))
    else:
        setattr(part, field.name, getattr(message, field.name))
    return part.SerializeToString()


def through_probe(lines, piece_bytes):
    text = "".join(f"{kind} {data.hex()}\n" for kind, data in lines)
    done = subprocess.run([PROBE, str(piece_bytes)], input=text, capture_output=True, text=True,
                          check=True, timeout=60)
    return done.stdout.splitlines()


class Interoperability(unittest.TestCase):
    def setUp(self):
        self.chance = random.Random(SEED)

    def check(self, make_bytes, piece_bytes):
        sent = []
        for kind in KINDS:
            for _ in range(PAIRS):
                message = message_class(kind)()
                fill(message, self.chance)
                forget_empty_range(message)
                forget_lengths_of_a_scalar(message)
                sent.append((kind, message))
        answers = through_probe([(kind, make_bytes(message)) for kind, message in sent],
                                piece_bytes)
        self.assertEqual(len(answers), len(sent))
        for (kind, message), answer in zip(sent, answers):
            back = message_class(kind)()
            back.ParseFromString(bytes.fromhex(answer))
            self.assertEqual(back, message)

    def test_messages_come_back(self):
        self.check(lambda message: message.SerializeToString(), 0)

    def test_messages_come_back_cut_into_pieces(self):
        self.check(lambda message: message.SerializeToString(), 3)

    def test_messages_come_back_shuffled_with_unknown_fields(self):
        self.check(lambda message: shuffled(message, self.chance), 5)

    def test_configurations_keep_their_values(self):
        config = message_class("OptimizerConfig")()
        config.optimizer = 4
        config.adam.beta_1 = 0.75
        config.lr_policy = 205
        config.schedule.segments = "10:1,20:0.5"
        config.schedule.learning_rate = 0.25
        config.clip_norm = 3
        config.samples_per_step = 2 ** 40
        answer, = through_probe([("OptimizerConfig", config.SerializeToString())], 0)
        back = message_class("OptimizerConfig")()
        back.ParseFromString(bytes.fromhex(answer))
        self.assertEqual(back.optimizer, 4)
        self.assertEqual(back.adam.beta_1, 0.75)
        self.assertEqual(back.adam.beta_2, 0.999)
        self.assertEqual(back.schedule.segments, "10:1,20:0.5")
        self.assertEqual(back.schedule.learning_rate, 0.25)
        self.assertEqual(back.clip_norm, 3)
        self.assertFalse(back.HasField("clip_value"))
        self.assertEqual(back.samples_per_step, 2 ** 40)

    def test_defaults_of_a_configuration_are_the_protos(self):
        answer, = through_probe([("OptimizerConfig", b"")], 0)
        back = message_class("OptimizerConfig")()
        back.ParseFromString(bytes.fromhex(answer))
        empty = message_class("OptimizerConfig")()
        self.assert_same_values(back, empty)

    def assert_same_values(self, a, b):
        for field in a.DESCRIPTOR.fields:
            if field.type == field.TYPE_MESSAGE:
                self.assert_same_values(getattr(a, field.name), getattr(b, field.name))
            else:
                self.assertEqual(getattr(a, field.name), getattr(b, field.name), field.full_name)

    def test_prefixes_are_refused_as_python_refuses_them(self):
        message = message_class("SendGradRequest")()
        while len(message.ListFields()) < 5:
            fill(message, self.chance)
        whole = message.SerializeToString()
        cuts = [whole[:size] for size in range(len(whole))]
        answers = through_probe([("SendGradRequest", cut) for cut in cuts], 2)
        for cut, answer in zip(cuts, answers):
            self.assertEqual(answer.startswith("refused"), not readable(cut), cut.hex())


def readable(data):
    try:
        message_class("SendGradRequest")().ParseFromString(data)
        return True
    except Exception:  # DecodeError lives in different places in different versions
        return False


class Descriptors(unittest.TestCase):
    def test_no_message_is_recursive(self):
        for proto in file_set.file:
            for message in proto.message_type:
                name = f"{proto.package}.{message.name}"
                self.assertEqual(self.cycle(pool.FindMessageTypeByName(name), []), None)

    def cycle(self, descriptor, above):
        if descriptor.full_name in above:
            return above + [descriptor.full_name]
        for field in descriptor.fields:
            if field.type == field.TYPE_MESSAGE:
                found = self.cycle(field.message_type, above + [descriptor.full_name])
                if found is not None:
                    return found
        return None

    def test_no_file_imports_another(self):
        for proto in file_set.file:
            self.assertEqual(list(proto.dependency), [], proto.name)

    def test_public_messages_have_no_maps_and_no_proto3_optional(self):
        for proto in file_set.file:
            for message in proto.message_type:
                # The one map is gRPC's own contract.
                if message.name == "HealthListResponse":
                    continue
                self.assertFalse(any(nested.options.map_entry for nested in message.nested_type))
                self.assertFalse(any(field.proto3_optional for field in message.field))


if __name__ == "__main__":
    print("seed", SEED)
    unittest.main(argv=sys.argv[:1])
