# SPDX-License-Identifier: Apache-2.0
"""Contents in every encoding, and their ranges, by the words of docs/encodings.md alone."""

import array
import struct

NATIVE, FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT8, TOP_K = range(7)
NAMES = ("native", "float32", "float64", "bfloat16", "float16", "int8", "top_k")
WIDTHS = {FLOAT32: 4, FLOAT64: 8, BFLOAT16: 2, FLOAT16: 2}
GROUP = 256


def make(encoding, count, dice, pairs=0, width=4):
    """Random elements of ordinary size; `width` is that of a native element."""
    if encoding == NATIVE:
        encoding = FLOAT32 if width == 4 else FLOAT64
    if encoding in (FLOAT32, FLOAT64):
        numbers = array.array("f" if encoding == FLOAT32 else "d",
                              [dice.uniform(-1, 1) for _ in range(min(count, 5003))])
        return (numbers * (count // len(numbers) + 1))[:count].tobytes()
    if encoding in (BFLOAT16, FLOAT16):
        words = array.array("H", dice.randbytes(2 * count))
        return array.array("H", [word & 0xbfff for word in words]).tobytes()  # below 2
    if encoding == INT8:
        scales = array.array("f", [dice.uniform(0, 0.1) for _ in range(-(-count // GROUP))])
        return scales.tobytes() + dice.randbytes(count)
    indices = sorted(dice.sample(range(count), pairs))
    return (array.array("I", indices).tobytes()
            + array.array("f", [dice.uniform(-9, 9) for _ in indices]).tobytes())


def cut(encoding, content, count, first, end, width=4):
    """The content of elements `first` up to `end`, of a content of `count` elements."""
    if encoding == INT8:
        scales = 4 * -(-count // GROUP)
        return (content[4 * (first // GROUP):4 * -(-end // GROUP)]
                + content[scales + first:scales + end])
    if encoding == TOP_K:
        pairs = len(content) // 8
        chosen = [i for i, index in enumerate(struct.unpack_from(f"<{pairs}I", content))
                  if first <= index < end]
        return (b"".join(content[4 * i:4 * i + 4] for i in chosen)
                + b"".join(content[4 * (pairs + i):4 * (pairs + i) + 4] for i in chosen))
    width = WIDTHS.get(encoding, width)
    return content[width * first:width * end]
