#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The server as a Python client sees it: plain grpcio and the descriptors, no generated code.

usage: test_rpc.py RIG_SERVER DESCRIPTOR_SET
"""
import array
import queue
import socket
import subprocess
import sys
import threading
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RIG_SERVER, DESCRIPTOR_SET = sys.argv[1], sys.argv[2]
TIMEOUT = 120
SERVICE = "pserver.v1.ParameterServer"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    """One frame of HTTP/2."""
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
            + payload)


class Types:
    """Message classes by full name, out of a descriptor set."""

    def __init__(self, files):
        self.pool = descriptor_pool.DescriptorPool()
        for file in files:
            self.pool.Add(file)
        self.factory = message_factory.MessageFactory(self.pool)

    def __call__(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))

    def stub(self, channel, path):
        """A callable for "/package.Service/Method"."""
        service, method = path[1:].split("/")
        found = self.pool.FindServiceByName(service).FindMethodByName(method)
        proto = descriptor_pb2.MethodDescriptorProto()
        found.CopyToProto(proto)
        make = {(False, False): channel.unary_unary, (False, True): channel.unary_stream,
                (True, True): channel.stream_stream}[proto.client_streaming, proto.server_streaming]
        return make(path, request_serializer=lambda message: message.SerializeToString(),
                    response_deserializer=self(found.output_type.full_name).FromString)


def load_types():
    files = descriptor_pb2.FileDescriptorSet()
    with open(DESCRIPTOR_SET, "rb") as file:
        files.ParseFromString(file.read())
    return Types(files.file)


TYPES = load_types()


def word_of(error):
    return dict(error.trailing_metadata()).get("ps-status", "")


class RpcTest(unittest.TestCase):
    RIG_ARGUMENTS = []

    def setUp(self):
        self.server = subprocess.Popen([RIG_SERVER, *self.RIG_ARGUMENTS], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline().split()[1])
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")

    def tearDown(self):
        self.channel.close()
        self.server.stdin.close()
        self.assertEqual(self.server.wait(TIMEOUT), 0)
        self.server.stdout.close()

    def order(self, line):
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline().split()
        self.assertEqual(answer[:1], ["done"])
        return int(answer[1])

    def call(self, method, message=None, **options):
        path = method if method.startswith("/") else f"/{SERVICE}/{method}"
        request = message if message is not None else TYPES(f"pserver.v1.{method}Request")()
        return TYPES.stub(self.channel, path)(request, timeout=TIMEOUT, **options)

    def fails(self, *arguments, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(*arguments, **options)
        return caught.exception

    def make_ready(self, values=(1.0, 2.0)):
        self.call("InitParam", TYPES("pserver.v1.InitParamRequest")(
            name="w", element_type=4, content=array.array("f", values).tobytes()))
        self.call("FinishInitParams")

    def push(self, values, name="w", element_type=4):
        return TYPES("pserver.v1.SendGradRequest")(
            name=name, element_type=element_type, content=array.array("f", values).tobytes())

    def pull(self, name="w"):
        return TYPES("pserver.v1.GetParamRequest")(name=name)


class Calls(RpcTest):
    def test_a_parameter_is_initialised_pushed_to_and_pulled(self):
        self.make_ready([1.0, 2.0])
        reply = self.call("SendGrad", self.push([0.5, -1.0]))
        self.assertEqual((reply.version, reply.duplicate), (1, False))
        reply = self.call("GetParam", self.pull())
        self.assertEqual(list(array.array("f", reply.content)), [0.5, 3.0])
        self.assertEqual((reply.name, reply.element_type, reply.version), ("w", 4, 1))

    def test_texts_that_are_not_ascii_arrive_as_they_are(self):
        self.make_ready()
        error = self.fails("GetParam", self.pull("größe%/😀"))
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(error.details(), "parameter: größe%/😀 does not exist")
        self.assertEqual(word_of(error), "not_found")

    def test_compressed_messages_are_refused(self):
        self.make_ready([0.0] * 4096)
        error = self.fails("SendGrad", self.push([1.0] * 4096), compression=grpc.Compression.Gzip)
        self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(self.call("GetParam", self.pull()).version, 0)

    def test_a_call_without_a_message_is_refused(self):
        stub = self.channel.stream_unary(f"/{SERVICE}/GetParam",
                                         request_serializer=lambda data: data,
                                         response_deserializer=lambda data: data)
        with self.assertRaises(grpc.RpcError) as caught:
            stub(iter([]), timeout=TIMEOUT)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_b17_a_pull_without_initialisation_ends_at_its_deadline(self):
        with self.assertRaises(grpc.RpcError) as caught:
            TYPES.stub(self.channel, f"/{SERVICE}/GetParam")(self.pull(), timeout=0.2)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_a_fenced_server_refuses_and_recovers(self):
        self.make_ready()
        self.order("fence")
        error = self.fails("SendGrad", self.push([1.0, 1.0]))
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(word_of(error), "unavailable")
        self.order("prove")
        self.assertEqual(self.call("SendGrad", self.push([1.0, 1.0])).version, 1)

    def throw(self, data):
        """Sends bytes on a connection of their own. The server may hang up at any time."""
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT) as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass

    def test_garbage_on_the_port_harms_nobody_else(self):
        self.make_ready()
        for data in [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 1000, b"\xff" * 1000, PREFACE[:10],
                     PREFACE + b"\xff" * 100, PREFACE + frame(4) * 3,
                     PREFACE + frame(8, payload=b"\x00" * 4)]:
            self.throw(data)
        self.assertEqual(self.call("GetParam", self.pull()).version, 0)

    def test_floods_of_frames_harm_nobody_else(self):
        self.make_ready()
        settings = frame(4)
        headers = b"\x83\x86\x44\x02/x\x41\x01a"  # POST, http, a path, an authority
        resets = b"".join(frame(1, 4, stream, headers) + frame(3, 0, stream, b"\x00\x00\x00\x08")
                          for stream in range(1, 4001, 2))
        for data in [frame(4) * 5000, frame(6, payload=b"\x00" * 8) * 5000,
                     frame(8, payload=b"\x7f\xff\xff\xff") * 2, resets,
                     frame(1, 0, 1, headers) + frame(9, 0, 1, b"\x00" * 8000) * 100]:
            self.throw(PREFACE + settings + data)
            self.assertEqual(self.call("GetParam", self.pull()).version, 0)


class Health(RpcTest):
    CHECK = "/grpc.health.v1.Health/Check"
    WATCH = "/grpc.health.v1.Health/Watch"

    def check(self, service=""):
        return self.call(self.CHECK, TYPES("grpc.health.v1.HealthCheckRequest")(service=service))

    def watch(self, service=""):
        return self.call(self.WATCH, TYPES("grpc.health.v1.HealthCheckRequest")(service=service))

    def test_serving_is_said_from_before_the_first_parameter_on(self):
        self.assertEqual(self.check().status, SERVING)
        self.make_ready()
        self.assertEqual(self.check().status, SERVING)
        self.assertEqual(self.check(SERVICE).status, SERVING)
        self.order("fence")
        self.assertEqual(self.check().status, NOT_SERVING)

    def test_a_list_has_every_service_that_can_be_asked_for(self):
        reply = self.call("/grpc.health.v1.Health/List",
                          TYPES("grpc.health.v1.HealthListRequest")())
        self.assertEqual({name: one.status for name, one in reply.statuses.items()},
                         {"": SERVING, SERVICE: SERVING})
        self.order("fence")
        reply = self.call("/grpc.health.v1.Health/List",
                          TYPES("grpc.health.v1.HealthListRequest")())
        self.assertEqual({name: one.status for name, one in reply.statuses.items()},
                         {"": NOT_SERVING, SERVICE: NOT_SERVING})

    def test_a_service_that_nobody_has_is_not_found(self):
        error = self.fails(self.CHECK, TYPES("grpc.health.v1.HealthCheckRequest")(service="x"))
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        watch = self.watch("x")
        self.assertEqual(next(watch).status, SERVICE_UNKNOWN)
        watch.cancel()

    def test_a_watch_sees_each_change(self):
        watch = self.watch(SERVICE)
        self.assertEqual(next(watch).status, SERVING)
        self.order("fence")
        self.assertEqual(next(watch).status, NOT_SERVING)
        self.order("prove")
        self.assertEqual(next(watch).status, SERVING)
        watch.cancel()

    def test_watches_that_were_cancelled_leave_their_slots(self):
        for _ in range(100):
            watch = self.watch()
            self.assertEqual(next(watch).status, SERVING)
            watch.cancel()

    def test_a_watch_ends_when_the_server_drains(self):
        self.make_ready()
        watch = self.watch()
        self.assertEqual(next(watch).status, SERVING)
        self.order("drain 10000")
        self.assertEqual(next(watch).status, NOT_SERVING)
        with self.assertRaises(grpc.RpcError) as caught:
            next(watch)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


class Reflection(RpcTest):
    SERVICES = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection", "pserver.v1.Admin",
                "pserver.v1.ParameterServer", "pserver.v1.Programs", "pserver.v1.Rendezvous"]

    def ask(self, version, questions):
        request = TYPES(f"grpc.reflection.{version}.ServerReflectionRequest")
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        stub = TYPES.stub(self.channel, path)
        return list(stub(iter([request(**question) for question in questions]), timeout=TIMEOUT))

    def test_services_are_listed_in_both_versions(self):
        for version in ("v1", "v1alpha"):
            answer, = self.ask(version, [{"list_services": "*"}])
            names = [service.name for service in answer.list_services_response.service]
            self.assertEqual(names, self.SERVICES)

    def test_a_client_that_knows_nothing_can_call(self):
        answer, = self.ask("v1", [{"file_containing_symbol": SERVICE}])
        files = answer.file_descriptor_response.file_descriptor_proto
        types = Types([descriptor_pb2.FileDescriptorProto.FromString(file) for file in files])
        self.make_ready()
        reply = types.stub(self.channel, f"/{SERVICE}/GetParam")(
            types("pserver.v1.GetParamRequest")(name="w"), timeout=TIMEOUT)
        self.assertEqual(reply.name, "w")

    def test_many_questions_are_answered_in_order(self):
        names = ["pserver/v1/pserver.proto", "no/such.proto", "pserver/v1/admin.proto"]
        answers = self.ask("v1alpha", [{"file_by_filename": name} for name in names])
        self.assertEqual([answer.original_request.file_by_filename for answer in answers], names)
        self.assertEqual(answers[1].error_response.error_code, 5)

    def test_malformed_questions_end_the_stream(self):
        stub = self.channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda data: data, response_deserializer=lambda data: data)
        with self.assertRaises(grpc.RpcError) as caught:
            list(stub(iter([b"\xff\xff"]), timeout=TIMEOUT))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_an_open_stream_does_not_hold_a_drain_up(self):
        questions = queue.Queue()
        stub = TYPES.stub(self.channel,
                          "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        answers = stub(iter(questions.get, None), timeout=TIMEOUT)
        questions.put(TYPES("grpc.reflection.v1.ServerReflectionRequest")(list_services=""))
        next(answers)
        self.order("drain 60000")
        with self.assertRaises(grpc.RpcError) as caught:
            next(answers)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        questions.put(None)


class Drain(RpcTest):
    def test_calls_under_load_are_answered_or_refused_and_counted(self):
        """A call that meets the closing door may end CANCELLED without a word: gRPC's doing, and
        then it is unknown. All others are known for certain."""
        self.make_ready([0.0] * 1000)
        self.applied, self.unclear, self.odd = [], [], []
        started = threading.Barrier(5)
        workers = [threading.Thread(target=self.push_until_refused, args=(started,))
                   for _ in range(4)]
        for worker in workers:
            worker.start()
        started.wait(TIMEOUT)
        pushes = self.order("drain 10000")
        for worker in workers:
            worker.join(TIMEOUT)
        self.assertEqual(self.odd, [])
        self.assertEqual(len(self.applied), len(set(self.applied)))
        self.assertLessEqual(len(self.applied), pushes)
        self.assertLessEqual(pushes, len(self.applied) + len(self.unclear))

    def push_until_refused(self, started):
        stub = TYPES.stub(self.channel, f"/{SERVICE}/SendGrad")
        for i in range(100000):
            if i == 20:
                started.wait(TIMEOUT)
            try:
                self.applied.append(stub(self.push([1.0] * 1000), timeout=TIMEOUT).version)
            except grpc.RpcError as error:
                known = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
                if error.code() not in known:
                    self.odd.append(error)
                elif not word_of(error):
                    self.unclear.append(error)
                return

    def test_a_parked_pull_is_told_that_the_server_goes(self):
        parked = TYPES.stub(self.channel, f"/{SERVICE}/GetParam").future(self.pull(),
                                                                        timeout=TIMEOUT)
        self.call("/grpc.health.v1.Health/Check", TYPES("grpc.health.v1.HealthCheckRequest")())
        self.order("drain 10000")
        self.assertEqual(parked.exception(TIMEOUT).code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_drained_server_is_gone(self):
        self.make_ready()
        self.order("drain 0")
        error = self.fails("GetParam", self.pull())
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(word_of(error), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
