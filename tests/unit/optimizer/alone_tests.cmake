# SPDX-License-Identifier: Apache-2.0
# The tests that need nothing but libc. Used here, and by optimizer/ as a project of its own.
#
#   ps_optimizer_alone_tests(<libraries>...)
function(ps_optimizer_alone_tests)
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    foreach(name test_decode test_encode test_encoding_loops test_golden_vectors
            test_integer_rules test_loops test_outer test_rules)
        add_executable(${name} ${here}/${name}.c)
        target_link_libraries(${name} PRIVATE ${ARGN} m)
        set_target_properties(${name} PROPERTIES
                              RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS unit)
    endforeach()
    # The loops once more, without optimisation: what the others are compared with.
    ps_optimizer_loop(plain "" "${ARGN}" -O0)
    target_sources(test_loops PRIVATE ${here}/rule_cases.c $<TARGET_OBJECTS:ps_loops_plain>)
    target_sources(test_encoding_loops PRIVATE $<TARGET_OBJECTS:ps_encoding_loops_plain>)
    target_sources(test_integer_rules PRIVATE ${here}/rule_cases.c)
    target_sources(test_rules PRIVATE ${here}/rule_cases.c)
endfunction()

# The kernels, run by the emulator, against the loops.
#
#   ps_kernel_tests()
function(ps_kernel_tests)
    if(NOT PS_HAS_EMULATOR AND NOT PS_HAS_CUDA)
        return()
    endif()
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    add_library(ps_kernel_suite STATIC ${here}/kernel_suite.c ${here}/kernel_suite_apply.c
                ${here}/kernel_suite_bodies.c ${here}/kernel_suite_large.c ${here}/kernel_suite_rows.c
                ${here}/kernel_suite_scan.c ${here}/rule_cases.c)
    target_include_directories(ps_kernel_suite PUBLIC ${here})
    target_link_libraries(ps_kernel_suite PUBLIC ps_optimizer m)
    if(NOT PS_HAS_EMULATOR)
        return()
    endif()
    set(pairs test_kernels:ps_kernel_emulator)
    # A sanitizer ends the process at the first error that was put in, as it should.
    if(NOT PS_SANITIZE)
        list(APPEND pairs test_kernel_mutations:ps_kernel_emulator_mutated)
    endif()
    foreach(pair ${pairs})
        string(REPLACE ":" ";" pair ${pair})
        list(GET pair 0 name)
        list(GET pair 1 emulator)
        add_executable(${name} ${here}/${name}.c ${here}/kernel_emulator_machine.c)
        target_link_libraries(${name} PRIVATE ps_kernel_suite ${emulator})
        set_target_properties(${name} PROPERTIES
                              RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS unit)
    endforeach()
    # What a thread of a grid works on, as device.cuh says it.
    add_executable(test_kernel_spans ${here}/test_kernel_spans.cpp)
    target_compile_definitions(test_kernel_spans PRIVATE PS_EMULATOR)
    target_include_directories(test_kernel_spans PRIVATE ${here})
    target_link_libraries(test_kernel_spans PRIVATE ps_kernel_emulator)
    set_target_properties(test_kernel_spans PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME test_kernel_spans COMMAND test_kernel_spans)
    set_tests_properties(test_kernel_spans PROPERTIES LABELS unit)
    # Ten million values; with a sanitizer that would take minutes.
    if(NOT PS_SANITIZE)
        add_test(NAME test_kernels_long COMMAND test_kernels long)
        set_tests_properties(test_kernels_long PROPERTIES COST 60 LABELS kernels)
    endif()
endfunction()
