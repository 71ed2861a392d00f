"""Initialises, pushes and pulls one parameter with plain grpcio: ./run_python.sh HOST:PORT"""
import struct
import sys

import grpc
from pserver.v1 import pserver_pb2 as ps
from pserver.v1 import pserver_pb2_grpc

FORMAT = "<3f"  # three little-endian float32
channel = grpc.insecure_channel(sys.argv[1])
server = pserver_pb2_grpc.ParameterServerStub(channel)

try:
    # An empty configuration is SGD with learning rate 1.
    server.InitParam(ps.InitParamRequest(
        name="w", element_type=ps.FLOAT32, content=struct.pack(FORMAT, 1, 2, 3)), timeout=10)
    server.FinishInitParams(ps.FinishInitParamsRequest(), timeout=10)
except grpc.RpcError as error:
    if error.code() != grpc.StatusCode.ALREADY_EXISTS:  # another worker was first
        raise

gradient = struct.pack(FORMAT, 0.5, 0.5, 0.5)
pushed = server.SendGrad(
    ps.SendGradRequest(name="w", element_type=ps.FLOAT32, content=gradient), timeout=10)
pulled = server.GetParam(ps.GetParamRequest(name="w"), timeout=10)
print("version", pushed.version)
print("w =", *struct.unpack(FORMAT, pulled.content))
