# SPDX-License-Identifier: Apache-2.0
"""The loops are really vectorised: looks at the machine code of one object file.

usage: test_vectorised.py OBJDUMP OBJECT REGISTER

Each float loop must compute with packed instructions on whole registers of the given kind (xmm, ymm
or zmm), and no instruction may be a fused multiply-add, which would round once where the contract
rounds twice.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "support"))
import optimizer_rules  # noqa: E402

# What each float loop surely computes with: the operation that it cannot do without.
OPERATIONS = {
    "adagrad": "sqrt", "rmsprop": "sqrt", "adadelta": "sqrt", "adam": "sqrt", "adamw": "sqrt",
    "ftrl": "sqrt", "add": "add", "max": "max", "min": "min", "scan": "mul",
}
RULES = {name: OPERATIONS.get(name, "mul") for name, _, _, _ in optimizer_rules.read_rules()
         if name != "assign"} | {"scan": "mul"}


def functions(objdump, path):
    """Yields (name, instructions) of every function in the object."""
    listing = subprocess.run([objdump, "-d", "--no-show-raw-insn", path],
                             check=True, capture_output=True, text=True).stdout
    for block in listing.split("\n\n"):
        head = re.search(r"^[0-9a-f]+ <([^>]+)>:$", block, re.M)
        if head:
            lines = [line.split("\t", 1)[1] for line in block.splitlines() if "\t" in line]
            yield head.group(1), lines


def packed(lines, operation, suffix, register):
    """Counts packed arithmetic of one operation on whole registers."""
    wanted = re.compile(r"v?%sp%s\s" % (operation, "s" if suffix == "f32" else "d"))
    return sum(1 for line in lines if wanted.match(line) and "%" + register in line)


def main():
    objdump, path, register = sys.argv[1:]
    # A compiler may move a loop into a part of its own (name.part.0, name.constprop.0).
    found = {}
    fused = []
    for name, lines in functions(objdump, path):
        found.setdefault(name.split(".")[0], []).extend(lines)
        fused += [line for line in lines if re.match(r"vf(n?m)(add|sub)", line)]
    missing = []
    for rule, operation in RULES.items():
        for suffix in ("f32", "f64"):
            # The accumulating part of the scan widens to double and may be outlined or inlined.
            names = [f"{rule}_{suffix}"]
            kind = suffix
            if rule == "scan":
                names += [f"scan_piece_{suffix}", f"add_squares_{suffix}"]
                kind = "f64"
            if rule == "add":
                names += [f"add_saturating_{suffix}", f"add_wrapping_{suffix}"]
            lines = [line for name in names for line in found.get(name, [])]
            if not packed(lines, operation, kind, register):
                missing.append(names[0])
    if missing or fused:
        print("not vectorised:", missing, "fused:", fused)
        return 1
    print(len(RULES) * 2, "loops compute in", register)
    return 0


if __name__ == "__main__":
    sys.exit(main())
