# SPDX-License-Identifier: Apache-2.0
"""What tidy.py holds the tree to: limits, rooms, homes. Limits only ever get tighter."""

LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500

# The folders of the source tree, the deepest first, and what each may include besides itself.
ROOMS = {
    "server/core/ownership": ["base", "proto", "checkpoint", "etcd", "server/core/recovery",
                              "server/core/requests", "server/core/values"],
    "server/core/recovery": ["base", "json", "proto", "optimizer", "checkpoint", "etcd",
                             "server/core/clocks", "server/core/requests", "server/core/rounds",
                             "server/core/sessions", "server/core/tables", "server/core/update",
                             "server/core/values"],
    "server/core/requests": ["base", "proto", "optimizer", "checkpoint", "server/core/clocks",
                             "server/core/programs", "server/core/rendezvous",
                             "server/core/rounds",
                             "server/core/sessions", "server/core/tables", "server/core/update",
                             "server/core/values"],
    "server/core/programs": ["base", "proto"],
    "server/core/rendezvous": ["base", "proto"],
    "server/core/clocks": ["base", "checkpoint"],
    "server/core/sessions": ["base", "proto", "optimizer"],
    "server/core/update": ["base", "proto", "optimizer", "checkpoint", "server/core/rounds",
                           "server/core/tables", "server/core/values"],
    "server/core/tables": ["base", "optimizer"],
    "server/core/rounds": ["base", "proto", "optimizer", "checkpoint", "server/core/values"],
    "server/core/values": ["base", "proto", "optimizer", "checkpoint"],
    "server/core": [],
    "server/front": ["base"],
    "server/rpc": ["base", "json", "proto", "security", "server/core", "server/front", "optimizer",
                   "checkpoint", "etcd"],
    "server/program": ["base", "proto", "server", "server/core"],
    "server": ["base", "json", "proto", "security", "optimizer", "checkpoint", "etcd",
               "server/core", "server/front", "server/rpc"],
    "tools/psckpt": ["base", "json", "proto", "optimizer", "checkpoint", "etcd", "server/core",
                     "client", "tools"],
    "tools/psbench": ["base", "json", "proto", "optimizer", "checkpoint", "etcd", "server/core",
                      "client", "tools"],
    "tools/psctl": ["base", "json", "proto", "etcd", "client", "tools"],
    "tools": ["base", "json", "proto", "optimizer", "etcd", "client"],
    "client/members": ["base", "proto", "etcd", "client/calls", "client/channel"],
    "client/channel": ["base", "proto", "optimizer", "client/calls", "client/local"],
    "client/local": ["base", "proto", "client/calls"],
    "client/replica": ["base", "proto", "optimizer", "client/engine", "client/calls"],
    "client/engine": ["base", "proto", "optimizer", "client/calls", "client/ranges"],
    "client/ranges": ["base", "proto", "optimizer", "client/calls"],
    "client/calls": ["base", "proto", "optimizer"],
    "client/python": [],
    "client": ["base", "json", "proto", "optimizer", "etcd", "client"],
    "etcd": ["base", "json"],
    "security": ["base"],
    "checkpoint": ["base", "json"],
    "optimizer": ["base"],
    "proto": ["base", "json"],
    "json": ["base"],
    "base": [],
}

# Folders whose every source file has a test of its own.
TESTED_ROOMS = ["base", "json", "security", "proto", "optimizer", "checkpoint", "etcd",
                "server/core", "server/front"]

# Source files that no test_NAME.c needs to be named after, and why.
TEST_EXCEPTIONS = {
    "server/front/front_hooks.c": "test_connections.c reads and writes through it",
    "server/front/front_tls.c": "needs a handshake: test_front_door.py attacks behind TLS",
    "base/metrics_render.c": "test_metrics.c reads the page that it renders",
    "optimizer/cuda/driver_cuda.c": "needs a GPU: tests/gpu runs the device suite over it",
    "optimizer/cuda/share_cuda.c": "needs a GPU, and two processes: gpu_bench_shared of tests/gpu",
}

# Lines with a comment for each line with code, in the .c files of a room.
COMMENTS_MIN = 0.20

# What a room must reach today. A floor only ever rises; all end at COMMENTS_MIN and go from here.
COMMENT_FLOORS = {}

# A function of so many lines has a comment above it or inside.
EXPLAINED_FUNCTION_LINES = 25

# How many such functions of a room may be without. Only ever falls; all end at 0 and go from here.
SILENT_FUNCTIONS = {}

# Assertions for each function, in rooms whose state must not be wrong for one step.
ASSERTIONS_MIN = 1.0
ASSERTED_ROOMS = ["server/core"]

# What a room must reach today. A floor only ever rises; those of ASSERTED_ROOMS end at
# ASSERTIONS_MIN and go from here.
ASSERTION_FLOORS = {
    "base": 0.44,
    "checkpoint": 0.43,
    "client": 0.08,
    "client/calls": 0.27,
    "client/channel": 0.14,
    "client/engine": 0.61,
    "client/local": 0.28,
    "client/members": 0.09,
    "client/ranges": 0.39,
    "client/replica": 0.19,
    "etcd": 0.21,
    "json": 0.28,
    "optimizer": 0.28,
    "proto": 0.18,
    "server": 0.46,
    "server/rpc": 0.28,
    "tools": 0.06,
    "tools/psbench": 0.04,
}

# Where the laws about rooms do not hold: programs that show how to use the library.
LAW_EXCEPTIONS = ["client/examples/"]

# (called name, what to use instead, where it is at home). A home is a path or a folder with "/".
BANNED_CALLS = [
    (["malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf", "vasprintf"],
     "use a struct ps_allocator",
     ["base/alloc.c", "tests/", "client/examples/",
      # Memory that is taken without Python's lock, for which its stable interface has nothing.
      "client/python/extension/python_customer.c", "client/python/extension/python_held.c"]),
    (["time", "gettimeofday", "clock_gettime", "clock"],
     "use struct ps_clock", ["base/", "tests/", "client/examples/"]),
    (["rand", "srand", "random", "srandom", "drand48"],
     "use base/random.h", []),
    (["strcpy", "strcat", "sprintf", "vsprintf", "gets"],
     "use snprintf or a struct ps_buffer", ["tests/"]),
    (["atoi", "atol", "atoll", "atof"],
     "it hides errors: use strtoull or strtod and look at the end", ["tests/"]),
    (["strtok"], "it keeps a global: use strcspn", []),
    (["alloca"], "it cannot be refused: use a struct ps_allocator", []),
    (["sleep", "usleep", "nanosleep"], "wait for a condition with a deadline",
     ["server/pserver.c", "tools/", "client/", "tests/integration/"]),
    (["exit", "_exit"], "return a status", ["tests/", "tools/", "server/pserver.c",
                                            "client/examples/"]),
]

# Words that ARCHITECTURE.md ("Words") has replaced: (regex, what to say, where it may stand).
# A row is added when the word is gone from the tree.
BANNED_WORDS = [
    (r"\bps_load(er\w*|ed)\b|\bloader_(replay|verdict)\b", "ps_recovery, ps_recovered", []),
    (r"\bps_load_arrays\b|\bps_service_begin_loaded\w*",
     "ps_recovery_fill, ps_recovery_fill_arrays", []),
    (r"\bps_service_replay\w*|\bps_service_begin_recovered\b", "ps_recovery_apply, _finish", []),
    (r"\bps_noter\w*", "ps_note_writer", []),
    (r"\bcoordinator_(hands|moves)\b|\bps_coordinator_(hands|settle|go)\w*",
     "coordinator_effects, coordinator_transitions", []),
    (r"\bps_jobs?\b|\bps_jobs_\w+|\b(load|save)_job\b",
     "ps_task: a job is what trains one model", []),
    (r"\bps_pins?\b|\bps_pins_\w+", "ps_version_hold: pinned is memory of the host", []),
    (r"\bps_life\b|\bPS_LIFE_\w+|\bps_(service|ticket)_life\b",
     "a service has a phase, a shard's state a generation", []),
    (r"\bps_service_settle\b|\bworld_settle\b", "ps_service_acknowledge", []),
    (r"\bps_exchange\b|\bps_bundle_run\w*", "ps_serve, ps_call_answer, ps_bundle_call", []),
    (r"\bps_lane_ring\b|\bbell\b", "a lane is woken: ps_lane_wake", []),
    (r"\bps_block_store\b|\bblock_store\.h\b",
     "ps_block_source: the store is where servers coordinate", []),
]

# Where old words may be named: what changed, and what replaced them.
WORD_HOMES = ["CHANGELOG.md", "tests/tidy/"]

# Outside libraries and the only places that may include them.
LIBRARY_HOMES = {
    "grpc/": ["server/rpc/", "client/channel/", "tools/psbench/psbench_echo_", "tests/"],
    "protobuf-c/": ["proto/", "tests/"],
    "curl/": ["etcd/", "tests/"],
    "cjson/": ["json/", "tests/"],
    "microhttpd.h": ["server/http", "tests/"],
    "gnutls/": ["server/http_tls", "tests/"],
    "cyaml/": ["server/config_file", "security/roles_file", "tests/"],
    "openssl/": ["security/", "server/front/front_tls.c", "tools/psckpt/sha256.c", "tests/"],
    "check.h": ["tests/"],
    "Python.h": ["client/python/extension/"],
}

# A header's first comment has these lines.
HEADER_LINES = ["Threads:", "Blocking:", "Errors:", "Memory:"]

# Headers without an interface of their own: bodies that other files include more than once.
HEADER_EXCEPTIONS = {}

# Names that every folder may have.
# (gRPC's reflection service has the same file in two folders, one per version of the protocol).
# Everything that tests has its run.sh.
REPEATED_NAMES = ["CMakeLists.txt", "README.md", "kustomization.yaml", "reflection.proto", "run.sh"]

# Folders whose files are data and may be called alike.
REPEATED_FOLDERS = ["tests/fuzz/corpus/"]

# Where work left undone may be spoken of.
LEFTOVER_EXCEPTIONS = ["tests/tidy/", "STYLE.md"]

# Known findings that wait for their room to put them right: (path, rule). Only ever gets shorter.
WAITING = [
]
