"""What tidy.py holds the tree to: limits, rooms, homes. Limits only ever get tighter."""

LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

# The folders of the source tree, the deepest first, and what each may include besides itself.
ROOMS = {
    "server/core/ownership": ["base", "proto", "checkpoint", "etcd", "server/core/recovery",
                              "server/core/requests", "server/core/values"],
    "server/core/recovery": ["base", "json", "proto", "optimizer", "checkpoint", "etcd",
                             "server/core/requests", "server/core/sessions",
                             "server/core/update", "server/core/values"],
    "server/core/requests": ["base", "proto", "optimizer", "checkpoint", "server/core/sessions",
                             "server/core/update", "server/core/values"],
    "server/core/sessions": ["base", "proto", "optimizer"],
    "server/core/update": ["base", "proto", "optimizer", "checkpoint", "server/core/values"],
    "server/core/values": ["base", "proto", "optimizer", "checkpoint"],
    "server/core": [],
    "server/rpc": ["base", "json", "proto", "server/core", "optimizer", "checkpoint", "etcd"],
    "server": ["base", "json", "proto", "optimizer", "checkpoint", "etcd", "server/core",
               "server/rpc"],
    "tools/psckpt": ["base", "json", "proto", "optimizer", "checkpoint", "etcd", "server/core",
                     "client", "tools"],
    "tools/psbench": ["base", "json", "proto", "optimizer", "checkpoint", "client", "tools"],
    "tools": ["base", "json", "proto", "client"],
    "client/members": ["base", "proto", "etcd", "client/calls"],
    "client/channel": ["base", "proto", "optimizer", "client/calls", "client/local",
                       "client/ranges"],
    "client/local": ["base", "proto"],
    "client/replica": ["base", "proto", "optimizer", "client/engine", "client/calls"],
    "client/engine": ["base", "proto", "optimizer", "client/calls", "client/ranges"],
    "client/ranges": ["base", "proto", "optimizer", "client/calls"],
    "client/calls": ["base", "proto", "optimizer"],
    "client": ["base", "json", "proto", "optimizer", "etcd", "client"],
    "etcd": ["base", "json"],
    "checkpoint": ["base", "json"],
    "optimizer": ["base"],
    "proto": ["base", "json"],
    "json": ["base"],
    "base": [],
}

# Folders whose every source file has a test of its own.
TESTED_ROOMS = ["base", "json", "proto", "optimizer", "checkpoint", "etcd", "server/core"]

# When False, files without a test are listed but do not fail.
TESTS_REQUIRED = False

# Source files that no test_NAME.c needs to be named after, and why.
TEST_EXCEPTIONS = {
    "base/metrics_render.c": "test_metrics.c reads the page that it renders",
}

# (called name, what to use instead, where it is at home). A home is a path or a folder with "/".
BANNED_CALLS = [
    (["malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf", "vasprintf"],
     "use a struct ps_allocator", ["base/alloc.c", "tests/", "client/examples/"]),
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

# Outside libraries and the only places that may include them.
LIBRARY_HOMES = {
    "grpc/": ["server/rpc/", "client/channel/", "tools/psbench/psbench_echo_", "tests/"],
    "protobuf-c/": ["proto/", "tests/"],
    "curl/": ["etcd/", "tests/"],
    "cjson/": ["json/", "tests/"],
    "microhttpd.h": ["server/http", "tests/"],
    "cyaml/": ["server/config_file", "tests/"],
    "openssl/": ["tools/psckpt/sha256.c"],
    "check.h": ["tests/"],
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
WAITING = []
