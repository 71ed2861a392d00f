# SPDX-License-Identifier: Apache-2.0
# One library per folder. A folder's headers are reachable as "folder/name.h" only by targets that
# list it in USES, so an include in the wrong direction does not compile. Each header of a folder
# is also compiled by itself, as C.
#
#   ps_floor(ps_etcd FOLDER etcd USES ps_base SOURCES kv.c lease.c LIBRARIES curl)
#
# LIBRARIES are outside libraries; only this folder sees their headers.
function(ps_floor target)
    cmake_parse_arguments(ARG "" "FOLDER" "USES;SOURCES;LIBRARIES;GENERATED" ${ARGN})
    ps_floor_include(${target} ${ARG_FOLDER} root)
    list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/${ARG_FOLDER}/)
    add_library(${target} STATIC ${ARG_SOURCES} ${ARG_GENERATED})
    target_include_directories(${target} PUBLIC ${root})
    target_link_libraries(${target} PUBLIC ${ARG_USES} PRIVATE ${ARG_LIBRARIES})
    ps_headers_alone(${target} ${ARG_FOLDER})
endfunction()

# A folder of links in the build tree through which one folder of the source tree is seen.
function(ps_floor_include target folder result)
    set(root ${CMAKE_BINARY_DIR}/floors/${target})
    get_filename_component(parent ${root}/${folder} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    if(NOT EXISTS ${root}/${folder})
        file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
    endif()
    set(${result} ${root} PARENT_SCOPE)
endfunction()

# Compiles every header of the folder by itself. Once is enough: other builds leave it out.
option(PS_HEADERS_ALONE "Compile every header by itself" ON)
function(ps_headers_alone target folder)
    if(NOT PS_HEADERS_ALONE)
        return()
    endif()
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.h)
    set(units)
    foreach(header ${headers})
        get_filename_component(name ${header} NAME)
        set(unit ${CMAKE_BINARY_DIR}/headers/${target}/${name}.c)
        if(NOT EXISTS ${unit})
            file(WRITE ${unit} "#include \"${folder}/${name}\"\nextern int ps_header_compiles;\n")
        endif()
        list(APPEND units ${unit})
    endforeach()
    if(units)
        add_library(${target}_headers OBJECT ${units})
        target_link_libraries(${target}_headers PRIVATE ${target})
    endif()
endfunction()
