#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU and no server, in one command of less than ten minutes: builds
# optimizer/ alone (cmake, gcc, nvcc), compares the kernels with the CPU bit by bit, measures
# bandwidths beside torch's fused optimizers, looks through compute-sanitizer, and says which marks
# were made and which were missed. What matters most comes first, and the report is made anew after
# each part: a run that is cut short has shown what it found so far.
#
#   tests/gpu/run.sh [FOLDER]                          results and logs: FOLDER or build/gpu; where
#                                                      $OUT is set, results.txt, .json and .svg and
#                                                      all logs in one file go there as well
#   tests/gpu/run.sh --grids [FOLDER]                  also with other numbers of blocks than the
#                                                      kernels choose, and which is the best
#   tests/gpu/run.sh --emulator PROGRAMS [FOLDER]      tries the script itself where there is no
#                                                      GPU, with the programs in PROGRAMS
#
# PS_COMMIT says which commit this is, where the folder is a copy without its history.
#
# Exit status: 0 every mark that was compared was made; 1 one was missed, or something is missing;
# 77 there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin

seconds_max=570
suffix=
programs=
size_max=$((1 << 30))
samples=50
if [ "${1:-}" = --emulator ]; then
    suffix=_emulator
    programs=$2
    size_max=$((1 << 20))
    samples=3
    shift 2
fi
grids=0
if [ "${1:-}" = --grids ]; then
    grids=1
    shift
fi
out=${1:-build/gpu}

has_gpu() {
    nvidia-smi -L 2>/dev/null | grep -q '^GPU' || compgen -G '/dev/nvidia[0-9]*' >/dev/null
}

seconds_left() { # AT_MOST
    local left=$((seconds_max - SECONDS))
    [ "$left" -lt "$1" ] || left=$1
    [ "$left" -gt 1 ] || left=1
    echo "$left"
}

# A line for the report: what was looked at, and what came of it.
note() { # NAME STATUS TEXT
    printf '{"row":"check","name":"%s","status":"%s","text":"%s"}\n' "$1" "$2" "$3" \
        >>"$out/checks.jsonl"
    printf '%-10s %-8s %s (at %d s)\n' "$1" "$2" "$3" "$SECONDS"
}

# Runs one check with its output in a log. The last line of the log says what was found.
check() { # NAME SECONDS_MAX COMMAND...
    local name=$1 limit status
    limit=$(seconds_left "$2")
    if [ "$limit" -lt 5 ]; then
        note "$name" failed "no time was left"
        return
    fi
    shift 2
    timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        note "$name" passed "$(tail -n 1 "$out/$name.log" | tr -d '"\\[:cntrl:]' | cut -c1-150)"
    elif grep -q 'Device not supported' "$out/$name.log"; then
        note "$name" absent "the tool does not support this device, or the machine forbids it"
    elif [ $status -eq 124 ] || [ $status -eq 137 ]; then
        note "$name" failed "not done within $limit s"
    else
        note "$name" failed "exit status $status: $out/$name.log"
        tail -n 15 "$out/$name.log"
    fi
}

# The report of what there is so far. `table` shows it.
report() { # [table]
    python3 tests/gpu/gpu_report.py "$out" >"$out/results.txt" 2>&1
    status=$?
    [ -z "${1:-}" ] || cat "$out/results.txt"
    [ -n "${OUT:-}" ] && mkdir -p "$OUT" || return
    tail -n +1 "$out"/*.log >"$OUT/logs.txt" 2>/dev/null
    cp "$out"/results.txt "$out"/results.json "$out"/results.svg "$OUT" 2>/dev/null
}

finish() {
    report table
    echo "results: $out/results.txt, .json and .svg ($SECONDS s)"
    exit $status
}

# Where the driver's libraries lie, on machines that do not tell the loader.
find_driver() {
    local folder
    for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu; do
        if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' &&
            [ -e "$folder/libcuda.so.1" ]; then
            export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            return
        fi
    done
}

architecture() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
    case $capability in
    [0-9]*.[0-9]*) echo "${capability//./}-real" ;;
    *) echo "80-real;90-real;90-virtual" ;;
    esac
}

# nvcc knows compilers up to some version; where the usual one is younger, an older one beside it
# does, or nvcc is told to try.
compiler_flags() {
    local probe=$out/probe.cu compiler
    echo '#include <vector>
__global__ void probe(int *to) { *to = 1; }' >"$probe"
    nvcc -c -o "$out/probe.o" "$probe" >"$out/probe.log" 2>&1 && return
    for compiler in g++-15 g++-14 g++-13 g++-12 g++-11; do
        if command -v "$compiler" >/dev/null &&
            nvcc -ccbin "$compiler" -c -o "$out/probe.o" "$probe" >>"$out/probe.log" 2>&1; then
            echo "-DCMAKE_CUDA_HOST_COMPILER=$(command -v "$compiler")"
            return
        fi
    done
    nvcc -allow-unsupported-compiler -c -o "$out/probe.o" "$probe" >>"$out/probe.log" 2>&1 &&
        echo "-DCMAKE_CUDA_FLAGS=-allow-unsupported-compiler"
}

build() {
    local folder=$out/build tool missing= generator='Unix Makefiles'
    for tool in cmake nvcc gcc g++; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    if ! command -v make >/dev/null; then
        generator=Ninja
        command -v ninja >/dev/null || missing="$missing make"
    fi
    if [ -n "$missing" ]; then
        echo "missing:$missing"
        return 1
    fi
    programs=$folder/tests
    local flags
    flags=$(compiler_flags)
    [ -z "$flags" ] || echo "nvcc does not take $(gcc -dumpfullversion) by itself: $flags"
    # Another machine's compiler warns of other things: here that is not an error.
    cmake -S optimizer -B "$folder" -G "$generator" -DPS_CUDA=ON -DPS_WERROR=OFF \
        -DCMAKE_BUILD_TYPE=Release ${flags:+"$flags"} -DCMAKE_CUDA_COMPILER="$(command -v nvcc)" \
        "-DCMAKE_CUDA_ARCHITECTURES=$(architecture)" \
        >"$out/build.log" 2>&1 &&
        timeout "$(seconds_left 240)" cmake --build "$folder" --target gpu_programs \
            -j "$(nproc)" >>"$out/build.log" 2>&1 && return
    tail -n 30 "$out/build.log"
    echo "the build failed: $out/build.log"
    return 1
}

sanitize() { # TOOL
    check "$1" 80 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 \
        "$programs/gpu_kernels" short
}

sanitize_all() { # TOOL...
    local tool
    for tool; do
        if [ -n "$suffix" ]; then
            note $tool absent "no GPU"
        elif command -v compute-sanitizer >/dev/null; then
            sanitize $tool
        else
            note $tool absent "compute-sanitizer is not installed"
        fi
    done
}

measure() {
    local status
    timeout "$(seconds_left 150)" "$programs/gpu_bench$suffix" --size-max $size_max \
        --samples $samples --grids $grids >"$out/bench.jsonl" 2>"$out/bench.log"
    status=$?
    [ $status -eq 0 ] || echo "gpu_bench failed, exit status $status: $(tail -n 3 "$out/bench.log")"
    echo "bench      done (at $SECONDS s)"
    timeout "$(seconds_left 90)" python3 tests/gpu/torch_rows.py $size_max $samples \
        >"$out/torch.jsonl" 2>"$out/torch.log"
    status=$?
    [ $status -eq 0 ] || echo "torch failed, exit status $status: $(tail -n 3 "$out/torch.log")"
    echo "torch      done (at $SECONDS s)"
}

# Which commit, which driver: for the report.
describe() {
    local commit driver
    commit=${PS_COMMIT:-$(git describe --always --dirty 2>/dev/null || echo unknown)}
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    printf '{"row":"run","commit":"%s","driver_version":"%s","started":"%s","cores":%d}\n' \
        "$commit" "$driver" "$(date -u +%FT%TZ)" "$(nproc)" >"$out/run.jsonl"
}

# Four arrays of the largest size, and as much again for what comes and goes.
fit_memory() {
    local free
    free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    case $free in
    '' | *[!0-9]*) return ;;
    esac
    while [ $((size_max * 8 >> 20)) -gt "$free" ] && [ $size_max -gt $((64 << 20)) ]; do
        size_max=$((size_max / 4))
    done
    [ $size_max -eq $((1 << 30)) ] ||
        echo "$free MiB are free: parameters of $((size_max >> 20)) MiB at most"
}

if [ -z "$suffix" ] && ! has_gpu; then
    echo "no GPU: nvidia-smi lists none and there is no /dev/nvidia0; nothing was run"
    exit 77
fi
if ! command -v python3 >/dev/null; then
    echo "missing: python3, without which nothing can be judged"
    exit 1
fi
mkdir -p "$out" && rm -f "$out"/*.jsonl "$out"/*.log "$out"/results.* || exit 1
find_driver
describe
if [ -z "$suffix" ]; then
    nvidia-smi -q >"$out/nvidia-smi.log" 2>&1
    build || exit 1
    echo "build      done (at $SECONDS s)"
    fit_memory
fi
trap finish HUP INT TERM
mode=full
large_count=
if [ -n "$suffix" ]; then
    mode=short
    large_count=3200003
fi
check kernels 120 "$programs/gpu_kernels$suffix" $mode
measure
report table
sanitize_all memcheck racecheck
check device 60 "$programs/gpu_device$suffix"
report
sanitize_all initcheck synccheck
check large 100 "$programs/gpu_kernels$suffix" large $large_count
finish
