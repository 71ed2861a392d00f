#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nvcc makes of the kernels, looked at without a GPU.

In the PTX: no fused multiply-add of floats, nothing approximate, nothing flushed to zero. Of the
machine code, per architecture: no spills, no stack, at most 64 registers; on sm_100 80, and
112 of table kernels of float64. Bulk accesses of native
gradients: 16 bytes each, 64 bytes loaded before the first store, single elements only for the tail.
Encoded gradients of float32 parameters: 8 bytes of bfloat16 and float16 at once, 4 of int8; of
float64 ones 8 of float32, 4 and 2; what comes of them is stored 16 bytes at a time, and two packs
are loaded before the first is stored where the registers allow it. Stochastic rounding draws once
for each pack.

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

ARCHITECTURES = (80, 90, 100)
REGISTERS_MAX = {80: 64, 90: 64, 100: 80}
REGISTERS_MAX_OF_TABLES = {80: 64, 90: 64, 100: 112}  # with float64
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


def machine_faults(said, architecture):
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
        wide_table = re.match(r"_Z\d+table_\w+_f64P", kernel)
        most = (REGISTERS_MAX_OF_TABLES if wide_table else REGISTERS_MAX)[architecture]
        if registers and int(registers.group(1)) > most:
            faults.append(f"{kernel}: {registers.group(1)} registers, {most} at most")
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
    "f32": [("bfloat16 and float16", 2, 8, r"(?:v4\.u16|v2\.u32)"),
            ("int8", 1, 4, r"(?:v4\.[us]8|u32)")],
    "f64": [("float32", 1, 8, r"v2\.(?:f32|u32)"),
            ("bfloat16 and float16", 2, 4, r"(?:v2\.u16|u32)"),
            ("int8", 1, 2, r"v2\.[us]8")]}
NARROW = r"v2\.[us](?:8|16)"


def encoded_faults(rule, kind, body):
    """Of a kernel decoded_RULE_TYPE. Accesses of one element are those of lists and tails."""
    states = STATES.get(rule, 0)
    at_once = 2 if states < 2 or kind == "f32" else 1
    stores_min = at_once * (1 + states)
    faults = []
    if len(WIDE_STORE.findall(body)) < stores_min:
        faults.append(f"fewer than {stores_min} stores of 16 bytes")
    for what, count, width, form in ENCODED_LOADS[kind]:
        if len(re.findall(rf"ld\.global\.{form}", body)) < count * at_once:
            faults.append(f"{what} not loaded {width} bytes at a time")
    narrow = re.findall(rf"ld\.global\.{NARROW}", body) if kind == "f32" else []
    bytes_, halves = (len(re.findall(rf"ld\.global\.[us]{bits}\s", body)) for bits in (8, 16))
    if narrow or bytes_ > 1 or halves > 2:
        faults.append(f"narrow loads in the bulk: {sorted(set(narrow))}, {bytes_} of one byte, "
                      f"{halves} of two")
    return faults


ROUNDS = 10                            # of Philox, for one draw
MULTIPLIER = "-766435501|3528531795"  # of each round
# Two packs at once, one alone, and an element of the tail; a compiler may write the loop twice
# where an unsigned type has gradients of two kinds.
DRAWS = {"i": 4, "u": 7}


def chance_faults(rule, kind, body):
    """Of whole numbers: chance is asked for once for a pack, not once for an element."""
    if kind[0] == "f" or rule != "sgd":
        return []
    rounds = len(re.findall(rf"mul\.\S+\s[^;]*(?:{MULTIPLIER})", body))
    most = DRAWS[kind[0]] * ROUNDS
    return [f"{rounds} rounds of Philox, {most} at most"] if not ROUNDS <= rounds <= most else []


def table_faults(rule, body):
    """Of a kernel table_RULE_TYPE or scattered_RULE_TYPE."""
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
        elif form == "decoded":
            found = encoded_faults(rule, kind, body)
        elif form in ("table", "scattered"):
            found = table_faults(rule, body)
        if found is not None:
            kernels += 1
            if form in ("run", "table"):
                found = found + chance_faults(rule, kind, body)
            faults += [f"{form}_{rule}_{kind}: {fault}" for fault in found]
    return kernels, faults


def main():
    nvcc, root, flags, *paths = sys.argv[1:]
    options = re.split("[; ]", flags)
    faults = []
    checked = 0
    listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True,
                            text=True).stdout.split()
    known = [number for number in ARCHITECTURES if f"sm_{number}" in listed]
    print("looked at:", *(f"sm_{number}" for number in known))
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            for architecture in known:
                ptx, said = compile_file(nvcc, root, options, architecture, path, folder)
                kernels, narrow = width_faults(ptx)
                checked += kernels
                found = arithmetic_faults(ptx) + machine_faults(said, architecture) + narrow
                faults += [f"{path} (sm_{architecture}): {fault}" for fault in found]
    print("\n".join(faults))
    print(f"the accesses of {checked} kernels looked at, {len(faults)} fault(s)")
    # Without any kernel the patterns above would have missed them all.
    sys.exit(1 if faults or checked == 0 else 0)


main()
