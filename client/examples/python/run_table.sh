#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the stubs and runs the example of a table: ./run_table.sh HOST:PORT[,HOST:PORT...] < TEXT
# Needs python3-grpcio, python3-protobuf, protobuf-compiler, protobuf-compiler-grpc.
set -euo pipefail
EXAMPLE=table.py exec "$(dirname "$0")/run_python.sh" "$@"
