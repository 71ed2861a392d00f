# loops.c is compiled once per instruction set: the same source, the same results, other widths.
#
#   ps_optimizer_loops(<include root> <ps_base target> <result: list of objects>)
#
# Always optimised, also in a debug build: a server that is being debugged still has to keep up.
# loops_best.c tests for exactly the features that are switched on here.
function(ps_optimizer_loops root base result)
    ps_optimizer_loop(baseline "${root}" "${base}" -O3)
    set(objects $<TARGET_OBJECTS:ps_loops_baseline>)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        ps_optimizer_loop(avx2 "${root}" "${base}" -O3 -mavx2)
        ps_optimizer_loop(avx512 "${root}" "${base}" -O3 -mavx512f -mavx512vl -mavx512bw -mavx512dq
                          -mprefer-vector-width=512)
        list(APPEND objects $<TARGET_OBJECTS:ps_loops_avx2> $<TARGET_OBJECTS:ps_loops_avx512>)
        set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/loops_best.c
                     APPEND PROPERTY COMPILE_DEFINITIONS PS_LOOPS_X86)
    endif()
    set(${result} ${objects} PARENT_SCOPE)
endfunction()

# One object: ps_optimizer_loop(<name> <include root> <ps_base target> <flags>...)
function(ps_optimizer_loop name root base)
    add_library(ps_loops_${name} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/loops.c)
    target_include_directories(ps_loops_${name} PRIVATE "${root}")
    target_link_libraries(ps_loops_${name} PRIVATE ${base})
    target_compile_definitions(ps_loops_${name} PRIVATE PS_LOOPS_TABLE=ps_loops_${name})
    target_compile_options(ps_loops_${name} PRIVATE ${ARGN})
endfunction()


