#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs libpserver into a folder and builds a program outside of the tree against it, once with
# pkg-config and once with CMake.
#   test_library_install.sh BUILD_FOLDER SOURCE_FOLDER CC
set -euo pipefail
build=$1 source=$2 compiler=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --component server --prefix "$prefix" >/dev/null
sed 's|server/program/pserver_program.h|pserver_program.h|' \
    "$source/server/program/pserver_adder.c" >"$work/consumer.c"

pkg_config_folder=$(dirname "$(find "$prefix" -name pserver.pc)")
library_folder=$(dirname "$pkg_config_folder")
export PKG_CONFIG_PATH=$pkg_config_folder
flags=$(pkg-config --cflags --libs pserver)
# shellcheck disable=SC2086
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$work/by_pkg_config" \
    "$work/consumer.c" $flags

# The header is C++ as well.
printf '#include <pserver_program.h>\n%s\n' \
    'int main() { return pserver_version()[0] == 0; }' >"$work/consumer.cc"
# shellcheck disable=SC2086
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$work/as_cpp" "$work/consumer.cc" $flags
LD_LIBRARY_PATH=$library_folder "$work/as_cpp"

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(pserver 0.1 REQUIRED CONFIG)
add_executable(by_cmake consumer.c)
target_link_libraries(by_cmake PRIVATE pserver::pserver)
END
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build "$work/build" >/dev/null

# A wrong argument is refused by the library, and not by the loader.
for program in "$work/build/by_cmake" "$work/by_pkg_config"; do
    LD_LIBRARY_PATH=$library_folder "$program" --no-such-option 2>"$work/said" && exit 1
    grep -q 'unknown option --no-such-option' "$work/said"
done

# It shows its public names, and those of the system's functions that it answers for gRPC's library.
library=$library_folder/libpserver.so
nm -D --defined-only "$library" | awk '{print $3}' |
    grep -v -E -e '^pserver_' -e '^(accept4|close|recvmsg|sendmsg|SSL_read|SSL_write)$' \
        >"$work/others" || true
if [ -s "$work/others" ]; then
    echo "the library shows other names:"
    cat "$work/others"
    exit 1
fi
readelf -d "$library" | grep -q 'SONAME.*\[libpserver.so.0\]'
