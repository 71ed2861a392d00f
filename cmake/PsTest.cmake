# SPDX-License-Identifier: Apache-2.0
# One test program per file, written with Check, run by ctest.
#
#   ps_test(test_bytes SOURCES test_bytes.c USES ps_base [LABEL unit] [ASAN] [TSAN] [VALGRIND])
#
# LABEL:    unit (fast, no network) or integration (real etcd, sockets, processes).
# ASAN:     an integration test that tests/run.sh also runs under the address sanitizer, as it runs
#           all unit tests.
# TSAN:     also one of those that tests/run.sh runs under the thread sanitizer.
# VALGRIND: also one of those that tests/run.sh runs under valgrind.
#
# The targets tests_unit, tests_integration, tests_asan and tests_tsan build the programs of a kind;
# some tests are made without this function, and need more.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
foreach(kind unit integration asan tsan)
    add_custom_target(tests_${kind})
endforeach()
add_dependencies(tests_asan tests_unit)

# How long a broken system may hang, in seconds: a test program 3600, a test of Check's 300, or five
# times what the test has asked for. No test passes or fails by it: a machine that is ten times
# slower needs less.
file(WRITE ${CMAKE_BINARY_DIR}/DartConfiguration.tcl "TimeOut: 3600\n")
set(ps_check_patience "CK_DEFAULT_TIMEOUT=60;CK_TIMEOUT_MULTIPLIER=5")

# There are 400 programs to link, which this linker does in half the time.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold PS_HAS_GOLD)
if(PS_HAS_GOLD)
    set(ps_test_linker -fuse-ld=gold)
endif()

# Tests ask for more memory than there is and want NULL, as without a sanitizer. gRPC is not built
# for the thread sanitizer, which would see races in what it cannot see through. The first race ends
# a program, so that also a server that is to be killed is heard of.
set(ps_sanitizer_environment
    "ASAN_OPTIONS=allocator_may_return_null=1;TSAN_OPTIONS=allocator_may_return_null=1 ignore_noninstrumented_modules=1 halt_on_error=1 suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan_suppressions.txt")

function(ps_test name)
    cmake_parse_arguments(ARG "ASAN;TSAN;VALGRIND" "LABEL" "SOURCES;USES" ${ARGN})
    if(NOT ARG_LABEL)
        set(ARG_LABEL unit)
    endif()
    set(labels ${ARG_LABEL})
    if(ARG_ASAN)
        list(APPEND labels asan)
    endif()
    if(ARG_TSAN)
        list(APPEND labels tsan)
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ${ARG_USES} PkgConfig::CHECK)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/check)
    # Check's macros pass no-argument variadics, which -Wpedantic refuses. A test's own code is
    # compiled more often than it runs: what is tested keeps its optimisation.
    target_compile_options(${name} PRIVATE -Wno-gnu-zero-variadic-macro-arguments
                                           -Wno-missing-prototypes -O0 -U_FORTIFY_SOURCE)
    target_link_options(${name} PRIVATE ${ps_test_linker})
    set_target_properties(${name} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    foreach(kind ${labels})
        add_dependencies(tests_${kind} ${name})
    endforeach()
    if(ARG_VALGRIND)
        list(APPEND labels valgrind)
    endif()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}"
                         ENVIRONMENT "${ps_check_patience};${ps_sanitizer_environment}")
endfunction()
