#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the rows of a GPU run mean: rates, marks made and missed, a table, JSON, a picture.

usage: gpu_report.py FOLDER          reads FOLDER/*.jsonl, writes FOLDER/results.json and .svg

Exit status: 0 when every mark that was compared was made, 1 when one was missed. What could not be
compared (no torch, no compute-sanitizer) is said, and counts neither way. Rows that the emulator
made are shown and not judged.
"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import optimizer_rules  # noqa: E402

LEAST_BYTES = 64_000_000   # a parameter of less is not judged by bandwidth
COPY_SHARE = 0.95
RING_SHARE = 0.95
PULL_SHARE = 0.95
SHARED_SHARE = 0.95
SMALL_SHARE = 0.50
NOISE_MAX = 0.02
RULES = optimizer_rules.read_rules()
FLOAT_RULES = [name for name, _, floats, _ in RULES if floats != "NONE"]
WHOLE_RULES = [name for name, _, _, wholes in RULES if wholes != "NONE"]
PAIRS = [(rule, type_) for type_ in ("f32", "f64") for rule in FLOAT_RULES] + \
        [(rule, type_) for type_ in ("i32", "u32", "i64", "u64") for rule in WHOLE_RULES]
CHECKS = ("kernels", "large", "device", "memcheck", "racecheck", "initcheck", "synccheck")
MADE, MISSED, OPEN = "made", "MISSED", "not compared"


def read_row(name, line):
    """Of a program that was cut short the last line may be half a one."""
    try:
        return json.loads(line)
    except ValueError:
        return {"row": "broken", "file": name, "line": line[:80]}


def read_rows(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            rows += [read_row(os.path.basename(path), line) for line in file if line.strip()]
    return rows


def of_kind(rows, kind, **wanted):
    return [row for row in rows if row["row"] == kind and
            all(row.get(key) == value for key, value in wanted.items())]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def seconds(row):
    return median(row["seconds"])


def encoded_bytes(encoding, elements, element_bytes):
    """Bytes of a gradient as it is sent."""
    if encoding in ("bfloat16", "float16"):
        return 2 * elements
    if encoding == "int8":
        return elements + 4 * ((elements + 255) // 256)
    return elements * element_bytes


def traffic(row):
    """Bytes that an update has to move: the gradient in, values and states in and out. ASSIGN has
    no need of the old value."""
    gradient = encoded_bytes(row["encoding"], row["elements"], row["element_bytes"])
    if row["encoding"] == "top_k":
        gradient = 8 * row["kept"]
        if row["rule"] == "sgd":  # the elements that are named, alone
            return gradient + 2 * row["element_bytes"] * row["kept"]
    arrays = 1 if row["rule"] == "assign" else 2 + 2 * row["states"]
    return gradient + arrays * row["elements"] * row["element_bytes"]


def parameter_bytes(row):
    return row["elements"] * row["element_bytes"]


def rate(row):
    """Bytes per second of a rule, a copy (read and written both count on the device), a scan or the
    ring."""
    if row["row"] == "rule":
        return traffic(row) / seconds(row)
    if row["row"] == "copy":
        times = 2 if row["what"] == "on_device" else 1
        return times * row["size"] / seconds(row)
    if row["row"] == "ring":
        return row["bytes"] / seconds(row)
    return row["size"] / seconds(row)


def is_plain(row):
    """One of the dense updates that every rule and type has: a native gradient, rounded to the
    nearest."""
    return row["encoding"] == "native" and "rounding" not in row


def largest(rows):
    return max(rows, key=lambda row: row["size"], default=None)


def copy_rate(rows, what):
    row = largest(of_kind(rows, "copy", what=what))
    return None if row is None else rate(row)


def share(rows, row):
    """The rate of a rule beside that of the copy on the device whose size is nearest: what a launch
    costs beside its bytes, a copy costs as well. None without any copy."""
    copies = of_kind(rows, "copy", what="on_device")
    if not copies:
        return None
    nearest = min(copies, key=lambda copy: abs(copy["size"] - parameter_bytes(row)))
    return rate(row) / rate(nearest)


def mark(name, state, text):
    return {"mark": name, "state": state, "text": text}


def judge_rules(rows):
    """Every rule and type, at every size that counts, beside a copy of that size on the device."""
    limit = copy_rate(rows, "on_device")
    judged = [row for row in of_kind(rows, "rule")
              if is_plain(row) and parameter_bytes(row) >= LEAST_BYTES]
    absent = [f"{rule} {type_}" for rule, type_ in PAIRS
              if not of_kind(judged, "rule", rule=rule, type=type_)]
    name = f"every dense rule >= {COPY_SHARE:.0%} of a copy of its size on the device"
    if limit is None or absent:
        return mark(name, MISSED, "not measured: " + (", ".join(absent) or "the copy"))
    shares = sorted((share(rows, row),
                     f"{row['rule']} {row['type']} {parameter_bytes(row) >> 20} MiB")
                    for row in judged)
    low = [f"{who} {part:.1%}" for part, who in shares if part < COPY_SHARE]
    text = f"the lowest is {shares[0][1]} with {shares[0][0]:.1%}, {len(judged)} rows"
    if low:
        text = f"{len(low)} of {len(judged)} rows are below: " + ", ".join(low[:8])
    return mark(name, MISSED if low else MADE, text)


def judge_others(rows):
    """Updates with more than bytes to move: chance for whole numbers, decoded gradients, lists."""
    name = f"chance, narrow gradients and lists >= {COPY_SHARE:.0%} of a copy of their size"
    others = [row for row in of_kind(rows, "rule") if not is_plain(row) and
              not (row["encoding"] == "top_k" and row["rule"] == "sgd")]
    chance = {row["type"] for row in others if "rounding" in row}
    sent = {row["encoding"] for row in others}
    if not (chance >= {"i32", "u32", "i64", "u64"} and
            sent >= {"bfloat16", "float16", "int8", "top_k"}):
        return mark(name, MISSED, "not all of them were measured")
    shares = [(share(rows, row), row) for row in others if parameter_bytes(row) >= LEAST_BYTES]
    if not shares or shares[0][0] is None:
        return mark(name, MISSED, "not measured: the copy, or none is large enough")
    low = [f"{row['rule']} {row['type']} {row.get('rounding', row['encoding'])} {part:.1%}"
           for part, row in shares if part < COPY_SHARE]
    return mark(name, MISSED if low else MADE,
                "below: " + ", ".join(low) if low else f"{len(shares)} rows")


def judge_pulls(rows):
    name = f"a pull >= {PULL_SHARE:.0%} of the copy to the host"
    limit = copy_rate(rows, "to_host")
    pulls = of_kind(rows, "mixed", what="pull", beside="nothing")
    if limit is None or not pulls:
        return mark(name, MISSED, "not measured")
    part = rate(pulls[0]) / limit
    return mark(name, MADE if part >= PULL_SHARE else MISSED,
                f"{rate(pulls[0]) / 1e9:.1f} of {limit / 1e9:.1f} GB/s: {part:.1%}")


def adamw_rows(rows):
    """AdamW on float32 with the native encoding at the largest size, in the order of measuring."""
    candidates = of_kind(rows, "rule", rule="adamw", type="f32", encoding="native")
    even = [row for row in candidates if row["elements"] % 2 == 0]
    most = max((row["elements"] for row in even), default=0)
    return [row for row in even if row["elements"] == most]


def noise(rows):
    """What lies between the two measurements of the same, as a share; at most NOISE_MAX."""
    both = [seconds(row) for row in adamw_rows(rows)]
    if len(both) < 2:
        return 0.0
    return min(NOISE_MAX, (max(both) - min(both)) / min(both))


def torch_absent(rows):
    why = of_kind(rows, "absent", what="torch")
    return why[0]["why"] if why else None


def judge_adamw(rows):
    name = "AdamW float32 at the largest size no slower than torch's fused one"
    ours = adamw_rows(rows)
    if not ours:
        return mark(name, MISSED, "not measured")
    theirs = of_kind(rows, "torch", optimizer="AdamW", type="f32", elements=ours[0]["elements"])
    if not theirs:
        why = torch_absent(rows)
        return mark(name, OPEN if why else MISSED, why or "torch was not measured")
    best = min(seconds(row) for row in ours)
    ratio = best / seconds(theirs[0])
    allowed = 1 + noise(rows)
    return mark(name, MADE if ratio <= allowed else MISSED,
                f"{best * 1e3:.3f} ms, torch {seconds(theirs[0]) * 1e3:.3f} ms: {ratio:.3f} "
                f"(noise {noise(rows):.3f})")


def judge_small(rows):
    name = f"1,000 tensors of 16 KiB in one launch <= {SMALL_SHARE:.0%} of torch's wall time"
    ours = of_kind(rows, "small", clock="wall", tensors=1000, launches=1)
    if not ours:
        return mark(name, MISSED, "not measured")
    theirs = of_kind(rows, "torch_small", tensors=1000)
    if not theirs:
        why = torch_absent(rows)
        return mark(name, OPEN if why else MISSED, why or "torch was not measured")
    ratio = seconds(ours[0]) / seconds(theirs[0])
    return mark(name, MADE if ratio <= SMALL_SHARE else MISSED,
                f"{seconds(ours[0]) * 1e6:.0f} us, torch {seconds(theirs[0]) * 1e6:.0f} us: "
                f"{ratio:.3f}")


def judge_ring(rows):
    name = f"pinned ring and AdamW >= {RING_SHARE:.0%} of the copy to the device"
    limit = copy_rate(rows, "to_device")
    ring = [row for row in of_kind(rows, "ring", encoding="native")
            if 4 * row["elements"] >= LEAST_BYTES]
    if limit is None or not ring:
        return mark(name, MISSED, "not measured")
    best = max(ring, key=rate)
    part = rate(best) / limit
    return mark(name, MADE if part >= RING_SHARE else MISSED,
                f"{rate(best) / 1e9:.1f} of {limit / 1e9:.1f} GB/s with {best['threads']} threads: "
                f"{part:.1%}")


def judge_shared(rows):
    """A push from another process's memory is the update and nothing else."""
    name = f"AdamW of a gradient of another process >= {SHARED_SHARE:.0%} of the kernel alone"
    pushes = of_kind(rows, "shared", what="push")
    ours = adamw_rows(rows)
    if not pushes or not ours:
        why = of_kind(rows, "absent", what="shared")
        return mark(name, OPEN if why else MISSED, why[0]["why"] if why else "not measured")
    kernel = median([seconds(row) / parameter_bytes(row) for row in ours]) * pushes[0]["size"]
    part = kernel / seconds(pushes[0])
    return mark(name, MADE if part >= SHARED_SHARE else MISSED,
                f"{seconds(pushes[0]) * 1e3:.3f} ms, the kernel {kernel * 1e3:.3f} ms: {part:.1%}")


def judge_check(rows, name):
    found = of_kind(rows, "check", name=name)
    if not found:
        return mark(name, MISSED, "was not run")
    state = {"passed": MADE, "absent": OPEN}.get(found[-1]["status"], MISSED)
    return mark(name, state, found[-1].get("text", ""))


def judge(rows):
    marks = [judge_rules(rows), judge_others(rows), judge_adamw(rows), judge_small(rows),
             judge_ring(rows), judge_pulls(rows), judge_shared(rows)]
    marks += [judge_check(rows, name) for name in CHECKS]
    if any(row.get("driver") == "emu" for row in of_kind(rows, "device")):
        for it in marks:
            if it["mark"] not in CHECKS:
                it.update(state=OPEN, text="the emulator's time means nothing")
    return marks


def exit_status(marks):
    return 1 if any(it["state"] == MISSED for it in marks) else 0


def table(rows):
    """Lines of text: each rule and type, the share of the copy at each size, then the rest."""
    limit = copy_rate(rows, "on_device") or float("inf")
    lines = [f"{'rule':10}{'type':6}{'GB/s':>8}  share of a copy of the same size"]
    for rule, type_ in PAIRS:
        mine = [row for row in of_kind(rows, "rule", rule=rule, type=type_) if is_plain(row)]
        sizes = {parameter_bytes(row): row for row in mine if row["elements"] % 2 == 0}
        if not sizes:
            continue
        top = sizes[max(sizes)]
        shares = "  ".join(f"{size / (1 << 20):g} MiB {share(rows, sizes[size]) or 0:6.1%}"
                           for size in sorted(sizes))
        lines.append(f"{rule:10}{type_:6}{rate(top) / 1e9:8.0f}  {shares}")
    return lines + other_lines(rows, limit)


def other_lines(rows, limit):
    lines = []
    for row in of_kind(rows, "copy"):
        lines.append(f"copy {row['what']} {row['size'] / (1 << 20):g} MiB: "
                     f"{rate(row) / 1e9:.1f} GB/s")
    for row in of_kind(rows, "rule"):
        if not is_plain(row) or row["elements"] % 2 == 1:
            kept = f" ({row['kept']} named)" if "kept" in row else ""
            lines.append(f"{row['rule']} {row['type']} {row.get('rounding', row['encoding'])}, "
                         f"{row['elements']} elements{kept}: {seconds(row) * 1e3:.3f} ms, "
                         f"{share(rows, row) or 0:.1%}")
    for row in of_kind(rows, "scan"):
        lines.append(f"scan and norm {row['type']}: {rate(row) / limit:.1%} of the copy")
    lines += grid_lines(rows)
    for row in of_kind(rows, "broken"):
        lines.append(f"{row['file']} was cut short or is damaged: {row['line'].strip()}")
    for row in of_kind(rows, "small"):
        lines.append(f"{row['tensors']} tensors in one launch, {row['clock']}: "
                     f"{seconds(row) * 1e6:.1f} us")
    for row in of_kind(rows, "ring"):
        looked = ", looked at on the device" if row.get("judged") else ""
        lines.append(f"ring {row['encoding']}, {row['threads']} threads, {row['elements']} "
                     f"elements{looked}: "
                     f"{rate(row) / 1e9:.1f} GB/s of gradients")
    for row in of_kind(rows, "mixed"):
        load = f", {row['load_bytes_per_second'] / 1e9:.1f} GB/s of them" \
            if row["beside"] != "nothing" else ""
        lines.append(f"{row['what'].replace('_', ' ')} of {row['size'] / (1 << 20):g} MiB beside "
                     f"{row['beside']}: {seconds(row) * 1e3:.3f} ms{load}")
    for row in of_kind(rows, "shared"):
        lines.append(f"{row['what'].replace('_', ' ')} of {row['size'] / (1 << 20):g} MiB, another "
                     f"process's on the device: {seconds(row) * 1e3:.3f} ms")
    for row in of_kind(rows, "many"):
        lines.append(f"{row['tensors']} gradients of {row['size']} bytes in one message: "
                     f"{seconds(row) * 1e6:.0f} us, {row['kernels']} kernels, {row['copies']} "
                     "copies")
    for row in of_kind(rows, "push"):
        lines.append(f"push of {row['size']} bytes: {seconds(row) * 1e6:.1f} us")
    for row in of_kind(rows, "torch"):
        lines.append(f"torch {row['optimizer']} {row['type']}, {row['elements']} elements: "
                     f"{seconds(row) * 1e3:.3f} ms")
    for row in of_kind(rows, "torch_small"):
        lines.append(f"torch AdamW, {row['tensors']} tensors, wall: {seconds(row) * 1e6:.1f} us")
    return lines


def grid_lines(rows):
    """For each kernel that was tried with other numbers of blocks: the best, beside its own choice
    (0 blocks for each multiprocessor)."""
    lines = []
    seen = dict.fromkeys((row["rule"], row["type"], row["encoding"])
                         for row in of_kind(rows, "grid"))
    for rule, type_, encoding in seen:
        mine = of_kind(rows, "grid", rule=rule, type=type_, encoding=encoding)
        chosen = next((row for row in mine if row["blocks_each"] == 0), None)
        best = min((row for row in mine if row["blocks_each"] > 0), key=seconds, default=None)
        if chosen is None or best is None:
            continue
        lines.append(f"grid {rule} {type_} {encoding}: best {best['blocks_each']} blocks for each "
                     f"multiprocessor, {seconds(best) * 1e3:.3f} ms; its own choice "
                     f"{seconds(chosen) * 1e3:.3f} ms")
    return lines


def picture(rows):
    """An SVG: a bar for each rule and type at the largest size, and the line to be reached."""
    limit = copy_rate(rows, "on_device")
    bars = []
    for rule, type_ in PAIRS:
        mine = [row for row in of_kind(rows, "rule", rule=rule, type=type_) if is_plain(row)]
        top = max((row for row in mine if row["elements"] % 2 == 0), key=parameter_bytes,
                  default=None)
        if top and limit:
            bars.append((f"{rule} {type_}", share(rows, top)))
    height = 18 * len(bars) + 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<text x="10" y="18">Share of a copy of the same size on the device, measured in the '
             'same run</text>']
    for i, (name, part) in enumerate(bars):
        y = 32 + 18 * i
        parts.append(f'<text x="150" y="{y + 11}" text-anchor="end">{name}</text>'
                     f'<rect x="160" y="{y}" width="{500 * min(part, 1.1):.1f}" height="14" '
                     f'fill="{"#3b7dd8" if part >= COPY_SHARE else "#c0392b"}"/>'
                     f'<text x="{166 + 500 * min(part, 1.1):.1f}" y="{y + 11}">{part:.1%}</text>')
    parts.append(f'<line x1="{160 + 500 * COPY_SHARE}" x2="{160 + 500 * COPY_SHARE}" y1="26" '
                 f'y2="{height - 14}" stroke="#333" stroke-dasharray="4 3"/></svg>')
    return "\n".join(parts) + "\n"


def facts(rows):
    """What ran where: the rows "run" and "device" as one object."""
    return {key: value for row in of_kind(rows, "run") + of_kind(rows, "device")
            for key, value in row.items() if key != "row"}


def main():
    folder = sys.argv[1]
    rows = read_rows(folder)
    marks = judge(rows)
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"facts": facts(rows), "marks": marks, "rows": rows}, file, indent=1)
    with open(os.path.join(folder, "results.svg"), "w", encoding="utf-8") as file:
        file.write(picture(rows))
    print("\n".join(f"{key}: {value}" for key, value in facts(rows).items()))
    print("\n".join(table(rows)))
    for it in marks:
        print(f"{it['state']:13}{it['mark']}: {it['text']}")
    counts = {state: sum(it["state"] == state for it in marks) for state in (MADE, MISSED, OPEN)}
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    sys.exit(exit_status(marks))


if __name__ == "__main__":
    main()
