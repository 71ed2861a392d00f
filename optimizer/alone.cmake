# SPDX-License-Identifier: Apache-2.0
# optimizer/ by itself: for a machine with a C compiler and CMake, or to see that it needs no more.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
set(PS_MUTATE "" CACHE STRING "none of the mutations is in here")
include(../cmake/PsFlags.cmake)
include(../cmake/PsCuda.cmake)

set(root ${CMAKE_CURRENT_SOURCE_DIR}/..)
find_package(Threads REQUIRED)
set(files alloc.c assert.c bytes.c clock.c dtype.c encoding.c random.c status.c thread.c utf8.c)
list(TRANSFORM files PREPEND ${root}/base/)
add_library(ps_base STATIC ${files})
target_include_directories(ps_base PUBLIC ${root})
target_link_libraries(ps_base PUBLIC Threads::Threads)

include(loops.cmake)
ps_optimizer_loops(${root} ps_base loops)
add_library(ps_optimizer STATIC encoded.c encoding_loops_best.c encoding_top_k.c first_values.c float_mode.c
            instruction_sets.c learning_rate.c loops_best.c optimizer.c power.c row_wise.c settings.c step.c
            sum.c table_check.c weighted_sum.c ${loops})
target_link_libraries(ps_optimizer PUBLIC ps_base PRIVATE m)

include(cuda/kernels.cmake)
ps_optimizer_kernels(${root})
if(PS_HAS_EMULATOR)
    add_subdirectory(emulator)
endif()
add_subdirectory(device)

enable_testing()
include(${root}/tests/unit/optimizer/alone_tests.cmake)
ps_optimizer_alone_tests(ps_optimizer)
ps_kernel_tests()

# The device's runtime and the programs of tests/gpu, which a machine with a GPU runs.
if(PS_HAS_CUDA OR PS_HAS_EMULATOR)
    include(${root}/tests/gpu/gpu_programs.cmake)
    ps_gpu_programs()
endif()
