# SPDX-License-Identifier: Apache-2.0
# Finds a CUDA compiler where one is wanted, and sets PS_HAS_CUDA. Which GPU there is, if any, is
# asked when the program runs: a build looks for none.
#
#   PS_CUDA=AUTO   the kernels are built where nvcc is found
#   PS_CUDA=ON     without nvcc the configuration fails
#   PS_CUDA=OFF    no CUDA
set(PS_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO, ON or OFF")
set_property(CACHE PS_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PS_HAS_CUDA OFF)
if(NOT PS_CUDA STREQUAL "OFF")
    # Before the language is enabled: CMake's own default knows nothing of these cards.
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        # Compilers from before 12.8 know no compute capability 10; what runs there is PTX then.
        set(architectures 80-real 90-real 90-virtual)
        execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code
                        OUTPUT_VARIABLE known ERROR_QUIET)
        if(known MATCHES "sm_100")
            list(INSERT architectures 2 100-real)
        endif()
        set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures")
    endif()
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        set(CMAKE_CUDA_STANDARD 17)
        set(CMAKE_CUDA_STANDARD_REQUIRED ON)
        set(CMAKE_CUDA_EXTENSIONS OFF)
        set(PS_HAS_CUDA ON)
    elseif(PS_CUDA STREQUAL "ON")
        message(FATAL_ERROR "PS_CUDA=ON, but no CUDA compiler was found")
    endif()
endif()
message(STATUS "CUDA kernels: ${PS_HAS_CUDA}")

# The kernel emulator is C++. The fuzz targets have no use for it.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(PS_HAS_EMULATOR OFF)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND NOT PS_FUZZ)
    enable_language(CXX)
    set(PS_HAS_EMULATOR ON)
endif()

# The contract of bits, for nvcc: no contraction, subnormals kept, IEEE division and square root.
# The defaults are written out, so that nobody's flags can turn them.
set(PS_CUDA_FLAGS -fmad=false -ftz=false -prec-div=true -prec-sqrt=true)
