# SPDX-License-Identifier: Apache-2.0
# Warnings are errors (PS_WERROR=OFF: on a machine whose compiler nobody has tried), and the
# arithmetic of a float is the arithmetic of its type: no contraction into fused multiply-add
# anywhere, so that every build gives the same bits.
set(PS_WERROR ON CACHE BOOL "Warnings are errors")
set(error "$<$<BOOL:${PS_WERROR}>:-Werror>")
add_compile_options(
    "$<$<COMPILE_LANGUAGE:C>:-Wpedantic;-Wstrict-prototypes;-Wmissing-prototypes;-fno-common>"
    "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;${error};-Wvla>"
    "$<$<COMPILE_LANGUAGE:C,CXX>:-Wpointer-arith;-fstack-protector-strong>"
    "$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-math-errno;-fno-trapping-math>")
add_compile_definitions(_GNU_SOURCE PS_VERSION="${PROJECT_VERSION}")
add_link_options(-Wl,--as-needed)

# What makes a fault of memory harder to use: tables of the linker that nobody can write after the
# start, a stack that cannot be jumped over, and, where the processor has them, targets of jumps that
# are marked. tests/tidy/test_hardening.py looks at the programs. nvcc's host code is left alone.
include(CheckCCompilerFlag)
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
foreach(flag -fcf-protection=full -fstack-clash-protection)
    string(MAKE_C_IDENTIFIER "PS_HAS${flag}" has)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
        add_compile_options($<$<COMPILE_LANGUAGE:C>:${flag}>)
    endif()
endforeach()

if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT PS_SANITIZE)
    add_compile_definitions(_FORTIFY_SOURCE=2)
endif()
if(PS_SANITIZE)
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${PS_SANITIZE}>"
        "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
    add_link_options(-fsanitize=${PS_SANITIZE})
endif()
if(PS_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PS_FUZZ needs clang: cmake --preset fuzz")
    endif()
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
endif()

# A server built like this breaks its promises, so that one can see the tests notice.
set_property(CACHE PS_MUTATE PROPERTY STRINGS "" journal_sync block_padding epoch_compare session_lookup
    session_floor replay_keeps_clients replay_configures replay_drop_session replay_evictions removed_keys
    expiry_record expiry_check eviction_order row_versions rows_aside held_rows replay_clock_evictions
    replay_clock_removals round_journal round_position round_taken gone_rows delta_place taken_rows
    read_records program_epoch untaken_end history_compare)
if(PS_MUTATE)
    get_property(mutations CACHE PS_MUTATE PROPERTY STRINGS)
    if(NOT PS_MUTATE IN_LIST mutations)
        message(FATAL_ERROR "PS_MUTATE: there is no mutation ${PS_MUTATE}")
    endif()
    string(TOUPPER PS_MUTATE_SKIP_${PS_MUTATE} PS_MUTATE_DEFINITION)
    message(WARNING "PS_MUTATE=${PS_MUTATE}: for checking the tests, never for use")

    # Only the files that say its name are compiled anew, so that one folder takes one mutation after the
    # other in seconds. Whoever includes a header that says it sees it, too: then all files are.
    file(GLOB_RECURSE ps_sources ${CMAKE_SOURCE_DIR}/server/*.[ch] ${CMAKE_SOURCE_DIR}/checkpoint/*.[ch])
    set(PS_MUTATED_FILES "")
    foreach(source ${ps_sources})
        file(STRINGS ${source} lines REGEX "^#ifdef ${PS_MUTATE_DEFINITION}$")
        if(lines)
            list(APPEND PS_MUTATED_FILES ${source})
        endif()
    endforeach()
    if(NOT PS_MUTATED_FILES)
        message(FATAL_ERROR "PS_MUTATE: no file asks for ${PS_MUTATE_DEFINITION}")
    endif()
    if(PS_MUTATED_FILES MATCHES "[.]h(;|$)")
        add_compile_definitions(${PS_MUTATE_DEFINITION})
    else()
        cmake_language(DEFER CALL ps_mutate_in ${CMAKE_SOURCE_DIR})
    endif()
endif()

# A property of a source file is seen by the targets of one folder alone: all of them get it.
function(ps_mutate_in folder)
    set_property(SOURCE ${PS_MUTATED_FILES} DIRECTORY ${folder}
                 APPEND PROPERTY COMPILE_DEFINITIONS ${PS_MUTATE_DEFINITION})
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(inner ${folders})
        ps_mutate_in(${inner})
    endforeach()
endfunction()
