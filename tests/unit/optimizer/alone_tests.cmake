# The tests that need nothing but libc. Used here, and by optimizer/ as a project of its own.
#
#   ps_optimizer_alone_tests(<libraries>...)
function(ps_optimizer_alone_tests)
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    foreach(name test_decode test_encode test_encoding_loops test_golden_vectors
            test_integer_rules test_loops test_torch_formulas)
        add_executable(${name} ${here}/${name}.c)
        target_link_libraries(${name} PRIVATE ${ARGN} m)
        set_target_properties(${name} PROPERTIES
                              RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120)
    endforeach()
    # The loops once more, without optimisation: what the others are compared with.
    ps_optimizer_loop(plain "" "${ARGN}" -O0)
    target_sources(test_loops PRIVATE ${here}/rule_cases.c $<TARGET_OBJECTS:ps_loops_plain>)
    target_sources(test_encoding_loops PRIVATE $<TARGET_OBJECTS:ps_encoding_loops_plain>)
    target_sources(test_integer_rules PRIVATE ${here}/rule_cases.c)
endfunction()
