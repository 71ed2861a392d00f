# SPDX-License-Identifier: Apache-2.0
"""The four calls, with nothing but grpcio and messages built by the protobuf runtime from
proto/pserver/v1/pserver.proto, which protoc describes."""

import os
import struct
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2, message_factory

from cluster import PATIENCE, REPOSITORY

FLOAT32 = 4


def _messages():
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", "-I", os.path.join(REPOSITORY, "proto"), "--include_imports",
                        "--descriptor_set_out", file.name, "pserver/v1/pserver.proto",
                        "pserver/v1/optimizer_config.proto", "pserver/v1/admin.proto"], check=True)
        described = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    return message_factory.GetMessages(list(described.file))


MESSAGES = _messages()


class Calls:
    """One connection to one server."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.initial_reconnect_backoff_ms", 100)])

    def call(self, method, request, timeout=PATIENCE):
        call = self.channel.unary_unary(
            f"/pserver.v1.ParameterServer/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=lambda data: data)
        return call(request, timeout=timeout)

    def init(self, name, values, config=b"", timeout=PATIENCE, **fields):
        request = MESSAGES["pserver.v1.InitParamRequest"](
            name=name, element_type=FLOAT32, content=struct.pack(f"<{len(values)}f", *values),
            config=config, **fields)
        reply = self.call("InitParam", request, timeout)
        return MESSAGES["pserver.v1.InitParamResponse"].FromString(reply).epoch

    def finish(self, timeout=PATIENCE, epoch=0):
        request = MESSAGES["pserver.v1.FinishInitParamsRequest"](epoch=epoch)
        self.call("FinishInitParams", request, timeout)

    def push(self, name, values, ack=0, timeout=PATIENCE):
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32, content=struct.pack(f"<{len(values)}f", *values),
            ack=ack)
        reply = self.call("SendGrad", request, timeout)
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply).version

    def push_as(self, name, values, sequence, client=b"a-client", session=1):
        """A push under an id, as a client that may repeat it sends it."""
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32, content=struct.pack(f"<{len(values)}f", *values))
        request.request.client_id = client
        request.request.session = session
        request.request.sequence = sequence
        reply = self.call("SendGrad", request)
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)

    def pull(self, name, timeout=PATIENCE):
        request = MESSAGES["pserver.v1.GetParamRequest"](name=name)
        reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(
            self.call("GetParam", request, timeout))
        count = len(reply.content) // 4
        return list(struct.unpack(f"<{count}f", reply.content)), reply.version
