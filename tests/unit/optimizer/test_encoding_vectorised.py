# SPDX-License-Identifier: Apache-2.0
"""The loops that encode and decode are really vectorised: looks at the machine code of one object.

usage: test_encoding_vectorised.py OBJDUMP OBJECT REGISTER

Each loop must compute in whole registers of the given kind (xmm, ymm or zmm), or convert doubles to
floats packed, which gives half a register. With xmm alone gcc leaves the way from a double to 16
bits scalar.
"""
import re
import subprocess
import sys

WIRES = ("f32", "f64", "bf16", "f16")
COMPUTES = re.compile(r"v?(?:p(?:mov|add|sll|sub|unpck|ack)\w*|cvt\w*|(?:mul|add|div)p[sd])\s")


def functions(objdump, path):
    """The instructions of each function, parts that a compiler moved out included."""
    listing = subprocess.run([objdump, "-d", "--no-show-raw-insn", path],
                             check=True, capture_output=True, text=True).stdout
    found = {}
    for block in listing.split("\n\n"):
        head = re.search(r"^[0-9a-f]+ <([^>]+)>:$", block, re.M)
        if head:
            lines = [line.split("\t", 1)[1] for line in block.splitlines() if "\t" in line]
            found.setdefault(head.group(1).split(".")[0], []).extend(lines)
    return found


def wanted(register):
    """The loops that convert; one to the same type only moves, and may be a call of memcpy."""
    for suffix in ("f32", "f64"):
        yield from (f"decode_{wire}_{suffix}" for wire in WIRES if wire != suffix)
        for wire in WIRES:
            if wire != suffix and (register != "xmm" or suffix == "f32" or wire == "f32"):
                yield f"encode_{suffix}_{wire}"
        yield from (f"decode_group_{suffix}", f"encode_group_{suffix}")


def main():
    objdump, path, register = sys.argv[1:]
    found = functions(objdump, path)
    names = list(wanted(register))
    missing = [name for name in names
               if not any(COMPUTES.match(line) and "%" + register in line or "cvtpd2ps" in line
                          for line in found.get(name, []))]
    if missing:
        print("not vectorised:", missing)
        return 1
    print(len(names), "loops compute in", register)
    return 0


if __name__ == "__main__":
    sys.exit(main())
