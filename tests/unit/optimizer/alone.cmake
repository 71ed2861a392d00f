# The tests that need nothing but libc. Used here, and by optimizer/ as a project of its own.
#
#   ps_optimizer_alone_tests(<libraries>...)
function(ps_optimizer_alone_tests)
    foreach(name test_golden_vectors test_integer_rules)
        add_executable(${name} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.c)
        target_link_libraries(${name} PRIVATE ${ARGN} m)
        set_target_properties(${name} PROPERTIES
                              RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120)
    endforeach()
endfunction()
