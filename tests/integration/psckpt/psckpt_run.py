# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: running psckpt, and readers of its output that use nothing
but struct and json."""

import json
import math
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "support"))

from journal_files import records_end  # noqa: E402,F401

PSCKPT = os.path.join(os.environ["PS_BIN"], "psckpt")
CODES = {"I32": "i", "U32": "I", "I64": "q", "U64": "Q", "F32": "f", "F64": "d"}
# Others that import takes: BF16 by its bits.
FOREIGN = {**CODES, "F16": "e", "BF16": "H", "I16": "h", "U16": "H", "I8": "b", "U8": "B",
           "BOOL": "?"}
NPY_CODES = {"<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q", "<f4": "f", "<f8": "d"}


def psckpt(*words, code=0):
    """Runs it and gives standard output; the exit status must be `code`."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PSERVER_")}
    done = subprocess.run([PSCKPT, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False, env=clean)
    if done.returncode != code:
        raise AssertionError(f"psckpt {words}: exit {done.returncode}, not {code}\n"
                             f"{done.stdout}{done.stderr}")
    psckpt.errors = done.stderr
    return done.stdout


def psckpt_json(*words, code=0):
    return json.loads(psckpt(*words, "--output", "json", code=code))


def digest(path, *flags):
    return psckpt("digest", path, *flags).splitlines()[0]


def read_safetensors(path):
    """name -> list of numbers, row by row; read_safetensors.shapes then has the shapes."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    result = {}
    read_safetensors.shapes = {name: tensor["shape"] for name, tensor in header.items()}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        count = math.prod(tensor["shape"])
        code = CODES[tensor["dtype"]]
        assert end - begin == count * struct.calcsize(code)
        result[name] = list(struct.unpack_from(f"<{count}{code}", data, 8 + length + begin))
    return result


def read_npy(path):
    """A list of numbers, row by row; read_npy.shape then has the shape."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack_from("<H", data, 8)
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n"
    head = eval(data[10:10 + length], {"__builtins__": {}})  # a literal that our program wrote
    assert head["fortran_order"] is False
    read_npy.shape = list(head["shape"])
    count = math.prod(head["shape"])
    return list(struct.unpack_from(f"<{count}{NPY_CODES[head['descr']]}", data, 10 + length))


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, numbers)."""
    header, body = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        content = struct.pack(f"<{len(numbers)}{FOREIGN.get(dtype, 'h')}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
