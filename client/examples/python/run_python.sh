#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the stubs and runs the example: ./run_python.sh HOST:PORT
# Needs python3-grpcio, python3-protobuf, protobuf-compiler, protobuf-compiler-grpc.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../../proto
out=${OUT:-$here/../../../build/examples/python}
mkdir -p "$out"
protoc -I "$proto" --python_out="$out" --grpc_out="$out" \
    --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" pserver/v1/pserver.proto \
    pserver/v1/optimizer_config.proto
PYTHONPATH=$out exec "${PYTHON:-/usr/bin/python3}" "$here/${EXAMPLE:-example.py}" "$@"
