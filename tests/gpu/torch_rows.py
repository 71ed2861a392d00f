#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's fused optimizers on the same sizes as gpu_bench, as rows for gpu_report.py.

Gradients are there before the clock starts, as they are for our kernels. The device's events are
around step(); of the many small tensors the wall clock is taken, up to the end of the work.

usage: torch_rows.py [SIZE_MAX_BYTES] [SAMPLES]
"""
import json
import sys
import time


def absent(why):
    print(json.dumps({"row": "absent", "what": "torch", "why": why}))
    sys.exit(0)


try:
    import torch
except ImportError as error:
    absent(f"torch cannot be imported: {error}")
if not torch.cuda.is_available():
    absent("torch sees no GPU")

WARM_UPS = 10
TENSORS = 1000
TENSOR_ELEMENTS = 4096
TYPES = {"f32": torch.float32, "f64": torch.float64}


def parameters(count, elements, dtype):
    """Random numbers of ordinary size, gradients set."""
    made = []
    for _ in range(count):
        it = torch.nn.Parameter(torch.rand(elements, dtype=dtype, device="cuda") + 0.5)
        it.grad = torch.rand(elements, dtype=dtype, device="cuda") - 0.5
        made.append(it)
    return made


def optimizer(name, made):
    if name == "SGD":
        return torch.optim.SGD(made, lr=0.001, fused=True)
    if name == "Momentum":
        return torch.optim.SGD(made, lr=0.001, momentum=0.9, fused=True)
    return getattr(torch.optim, name)(made, lr=0.001, fused=True)


def device_seconds(step, samples):
    found = []
    for i in range(WARM_UPS + samples):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        if i >= WARM_UPS:
            found.append(begin.elapsed_time(end) / 1e3)
    return found


def wall_seconds(step, samples):
    found = []
    for i in range(WARM_UPS + samples):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if i >= WARM_UPS:
            found.append(time.perf_counter() - begin)
    return found


def measure(name, type_, elements, samples):
    try:
        step = optimizer(name, parameters(1, elements, TYPES[type_])).step
        row = {"row": "torch", "optimizer": name, "type": type_, "elements": elements,
               "version": torch.__version__, "seconds": device_seconds(step, samples)}
    except (RuntimeError, TypeError, ValueError) as error:  # no fused kernel for it in this version
        row = {"row": "absent", "what": f"torch {name} {type_}", "why": str(error)[:200]}
    print(json.dumps(row), flush=True)
    torch.cuda.empty_cache()


def main():
    size_max = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    for name in ("AdamW", "Adam", "SGD", "Momentum", "Adagrad"):
        for size in (size_max // 16, size_max):
            measure(name, "f32", size // 4, samples)
    measure("AdamW", "f64", size_max // 8, samples)
    measure("AdamW", "f32", size_max // 4 + 1, samples)
    step = optimizer("AdamW", parameters(TENSORS, TENSOR_ELEMENTS, torch.float32)).step
    print(json.dumps({"row": "torch_small", "tensors": TENSORS, "elements": TENSOR_ELEMENTS,
                      "seconds": wall_seconds(step, samples)}), flush=True)


main()
