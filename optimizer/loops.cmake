# SPDX-License-Identifier: Apache-2.0
# loops.c and encoding_loops.c are compiled once per instruction set: the same source, the same
# results, other widths.
#
#   ps_optimizer_loops(<include root> <ps_base target> <result: list of objects>)
#
# Always optimised, also in a debug build: a server that is being debugged still has to keep up.
# instruction_sets.c tests for exactly the features that are switched on here.
function(ps_optimizer_loops root base result)
    ps_optimizer_loop(baseline "${root}" "${base}" -O3)
    set(names baseline)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        ps_optimizer_loop(avx2 "${root}" "${base}" -O3 -mavx2)
        ps_optimizer_loop(avx512 "${root}" "${base}" -O3 -mavx512f -mavx512vl -mavx512bw -mavx512dq
                          -mprefer-vector-width=512)
        list(APPEND names avx2 avx512)
        foreach(file instruction_sets.c loops_best.c encoding_loops_best.c)
            set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/${file}
                         APPEND PROPERTY COMPILE_DEFINITIONS PS_LOOPS_X86)
        endforeach()
    endif()
    set(objects)
    foreach(name ${names})
        list(APPEND objects $<TARGET_OBJECTS:ps_loops_${name}>
             $<TARGET_OBJECTS:ps_encoding_loops_${name}>)
    endforeach()
    set(${result} ${objects} PARENT_SCOPE)
endfunction()

# One object of each: ps_optimizer_loop(<name> <include root> <ps_base target> <flags>...)
function(ps_optimizer_loop name root base)
    foreach(kind loops encoding_loops)
        set(target ps_${kind}_${name})
        add_library(${target} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${kind}.c)
        target_include_directories(${target} PRIVATE "${root}")
        target_link_libraries(${target} PRIVATE ${base})
        string(TOUPPER ${kind} table)
        target_compile_definitions(${target} PRIVATE PS_${table}_TABLE=${target})
        # With some sanitizers clang makes no vectors of a loop that says that it could: no fault.
        target_compile_options(${target} PRIVATE ${ARGN} -Wno-pass-failed)
    endforeach()
endfunction()
