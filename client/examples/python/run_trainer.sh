#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the stubs and runs the larger example: ./run_trainer.sh HOST:PORT[,HOST:PORT...]
# Needs python3-grpcio, python3-protobuf, protobuf-compiler, protobuf-compiler-grpc.
set -euo pipefail
EXAMPLE=trainer.py exec "$(dirname "$0")/run_python.sh" "$@"
