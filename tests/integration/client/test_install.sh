#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the client into a folder and builds a program outside of the tree against it, once with
# pkg-config and once with CMake.
#   test_install.sh BUILD_FOLDER SOURCE_FOLDER CC
set -euo pipefail
build=$1 source=$2 compiler=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --component client --prefix "$prefix" >/dev/null
cp "$source/tests/integration/client/consumer.c" "$work/consumer.c"

pkg_config_folder=$(dirname "$(find "$prefix" -name psclient.pc)")
library_folder=$(dirname "$pkg_config_folder")
export PKG_CONFIG_PATH=$pkg_config_folder
flags=$(pkg-config --cflags --libs psclient)
# shellcheck disable=SC2086
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$work/by_pkg_config" \
    "$work/consumer.c" $flags
LD_LIBRARY_PATH=$library_folder "$work/by_pkg_config"

# A tree that was moved is found where it is.
mv "$prefix" "$work/moved"
PKG_CONFIG_PATH=${pkg_config_folder/#$prefix/$work/moved} pkg-config --cflags psclient |
    grep -q -- "-I$work/moved/"
mv "$work/moved" "$prefix"

# The headers are C++ as well.
printf '#include <psclient.h>\n#include <paddle_compat.h>\n%s\n' \
    'int main() { return psclient_status_name(PSCLIENT_OK) == nullptr; }' >"$work/consumer.cc"
# shellcheck disable=SC2086
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$work/as_cpp" "$work/consumer.cc" $flags
LD_LIBRARY_PATH=$library_folder "$work/as_cpp"

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(psclient 0.1 REQUIRED CONFIG)
add_executable(by_cmake consumer.c)
target_link_libraries(by_cmake PRIVATE psclient::psclient)
END
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/by_cmake"

# It shows its public names and nothing else, under the name that programs record.
library=$library_folder/libpsclient.so
nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' |
    grep -v -e '^psclient_' -e '^paddle_' -e '^ps_kv_table_' -e '^ps_sparse_kv_table_' \
        -e '^ps_customer_' -e '^ps_kv_worker_' -e '^ps_simple_app_' -e '^ps_serving_' \
        -e '^ps_local_channel_' \
        -e '^PSCLIENT_0$' >"$work/others" || true
if [ -s "$work/others" ]; then
    echo "the library shows other names:"
    cat "$work/others"
    exit 1
fi
readelf -d "$library" | grep -q 'SONAME.*\[libpsclient.so.0\]'
