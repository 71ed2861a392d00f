#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nvcc makes of the kernels, looked at without a GPU.

In the PTX: no fused multiply-add of floats, nothing approximate, nothing flushed to zero. Of the
machine code, per architecture: no spills, no stack, at most 64 registers. Bulk accesses of native
gradients: 16 bytes each, 64 bytes loaded before the first store, single elements only for the tail.
Encoded gradients of float32 parameters: 16 bytes of bfloat16 and float16 at once, 8 of int8; of
float64 ones 16 of float32, and half as much of the others.

usage: test_kernel_gates.py NVCC INCLUDE_ROOT FLAGS KERNEL_FILE...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "support"))
import optimizer_rules  # noqa: E402

ARCHITECTURES = (80, 90)
REGISTERS_MAX = 64
STATES = {name: states for name, states, _, _ in optimizer_rules.read_rules()}
FORBIDDEN = re.compile(r"\b(?:fma|mad)\.[a-z0-9.]*f(?:32|64)|\.approx|\.ftz|\bdiv\.full")
ENTRY = re.compile(r"\.entry _Z\d+(\w+?)_([iuf]\d\d)[0-9P]")


def compile_file(nvcc, root, flags, architecture, path, folder):
    """The PTX, and what ptxas says about the machine code that it makes of it."""
    said = subprocess.run([nvcc, "-std=c++17", "-O3", f"-I{root}", f"-arch=sm_{architecture}",
                           *flags, "-Xptxas", "-v", "-cubin", path, "-o", f"{folder}/kernels.cubin",
                           "--keep", "--keep-dir", folder],
                          check=True, capture_output=True, text=True).stderr
    with open(f"{folder}/{pathlib.Path(path).stem}.ptx", encoding="ascii") as file:
        return file.read(), said


def arithmetic_faults(ptx):
    return [f"forbidden: {found.group(0)}" for found in FORBIDDEN.finditer(ptx)]


def machine_faults(said):
    faults = []
    kernel = "?"
    for line in said.splitlines():
        name = re.search(r"Compiling entry function '(\w+)'", line)
        if name:
            kernel = name.group(1)
        room = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes", line)
        if room and any(int(size) > 0 for size in room.groups()):
            faults.append(f"{kernel}: {line.strip()}")
        registers = re.search(r"Used (\d+) registers", line)
        if registers and int(registers.group(1)) > REGISTERS_MAX:
            faults.append(f"{kernel}: {registers.group(1)} registers, {REGISTERS_MAX} at most")
    return faults


WIDE_STORE = re.compile(r"st\.global\.v(?:4\.[fu]32|2\.[fu]64)")
WIDE_LOAD = re.compile(r"ld\.global\.v(?:4\.[fu]32|2\.[fu]64)")
LOADS_MIN = 4  # of 16 bytes, before a thread stores what came of them


def native_faults(rule, body):
    """Of a kernel run_RULE_TYPE: what it loads and stores, and in which order."""
    stores_min = 1 + STATES.get(rule, 0)
    wide = len(WIDE_STORE.findall(body))
    single = len(re.findall(r"st\.global\.[fusb]\d\d", body))
    odd = re.findall(r"(?:ld|st)\.global\.(?:v2\.[fu]32|v\d\.[us](?:8|16))", body)
    if wide < stores_min or single > stores_min or odd:
        return [f"{wide} stores of 16 bytes, {single} of one element, {len(odd)} of other widths; "
                f"{stores_min} arrays are written"]
    loads = len(WIDE_LOAD.findall(body[:WIDE_STORE.search(body).start()]))
    return [f"{loads} loads of 16 bytes before a store"] if loads < LOADS_MIN else []


# By the parameter's type: what is loaded, how often at least, in how many bytes at a time.
ENCODED_LOADS = {
    "f32": [("bfloat16 and float16", 2, 16, r"v4\.u32"),
            ("int8", 1, 8, r"(?:v4\.u16|v2\.u32|u64)")],
    "f64": [("float32", 1, 16, r"v4\.(?:f32|u32)"),
            ("bfloat16 and float16", 2, 8, r"(?:v4\.u16|v2\.u32)"),
            ("int8", 1, 4, r"v4\.[us]8")]}
NARROW = {"f32": r"v\d\.[us]8|v2\.[us]16", "f64": r"v2\.(?:[us]8|[us]16|[us]32|f32)"}


def encoded_faults(rule, kind, body):
    """Of a kernel encoded_RULE_TYPE. Accesses of one element are those of lists and tails."""
    stores_min = 2 * (1 + STATES.get(rule, 0))
    faults = []
    if len(WIDE_STORE.findall(body)) < stores_min:
        faults.append(f"fewer than {stores_min} stores of 16 bytes")
    for what, count, width, form in ENCODED_LOADS[kind]:
        if len(re.findall(rf"ld\.global\.{form}", body)) < count:
            faults.append(f"{what} not loaded {width} bytes at a time")
    narrow = re.findall(rf"ld\.global\.(?:{NARROW[kind]})", body)
    if narrow:
        faults.append(f"narrow loads in the bulk: {', '.join(sorted(set(narrow)))}")
    return faults


def table_faults(rule, body):
    """Of a kernel table_RULE_TYPE."""
    stores_min = 1 + STATES.get(rule, 0)
    stores = len(WIDE_STORE.findall(body))
    return [f"{stores} stores of 16 bytes, {stores_min} arrays"] if stores < stores_min else []


def width_faults(ptx):
    """How many kernels were looked at, and what is wrong with their accesses."""
    faults = []
    kernels = 0
    for body in re.split(r"(?=\.entry )", ptx)[1:]:
        name = ENTRY.match(body)
        if not name or "_" not in name.group(1):
            continue
        form, rule = name.group(1).split("_", 1)
        kind = name.group(2)
        found = None
        if form == "run":
            found = native_faults(rule, body)
        elif form == "encoded":
            found = encoded_faults(rule, kind, body)
        elif form == "table":
            found = table_faults(rule, body)
        if found is not None:
            kernels += 1
            faults += [f"{form}_{rule}_{kind}: {fault}" for fault in found]
    return kernels, faults


def main():
    nvcc, root, flags, *paths = sys.argv[1:]
    options = re.split("[; ]", flags)
    faults = []
    checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            for architecture in ARCHITECTURES:
                ptx, said = compile_file(nvcc, root, options, architecture, path, folder)
                kernels, narrow = width_faults(ptx)
                checked += kernels
                found = arithmetic_faults(ptx) + machine_faults(said) + narrow
                faults += [f"{path} (sm_{architecture}): {fault}" for fault in found]
    print("\n".join(faults))
    print(f"the accesses of {checked} kernels looked at, {len(faults)} fault(s)")
    # Without any kernel the patterns above would have missed them all.
    sys.exit(1 if faults or checked == 0 else 0)


main()
