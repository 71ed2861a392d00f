# SPDX-License-Identifier: Apache-2.0
# Installs a program together with its man page, which it prints itself.
include(GNUInstallDirs)

function(ps_install_program target)
    install(TARGETS ${target})
    if(PS_SANITIZE OR PS_FUZZ)
        return() # such a build is not to be installed, and its programs may not run everywhere
    endif()
    set(page ${CMAKE_BINARY_DIR}/man/${target}.1)
    add_custom_command(OUTPUT ${page}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
        COMMAND sh -c "\"$0\" --man >\"$1\"" $<TARGET_FILE:${target}> ${page}
        DEPENDS ${target}
        VERBATIM)
    add_custom_target(${target}_page ALL DEPENDS ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()
