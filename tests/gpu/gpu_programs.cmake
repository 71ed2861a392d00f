# SPDX-License-Identifier: Apache-2.0
# The programs that tests/gpu/run.sh runs on a machine with a GPU, and the same ones over the emulator
# (NAME_emulator), so that they are tried on every other machine.
#
#   ps_gpu_programs()
#
# The target gpu_programs builds those for a GPU.
function(ps_gpu_programs)
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    find_package(Threads REQUIRED)
    if(PS_HAS_CUDA)
        find_package(CUDAToolkit REQUIRED)
        ps_gpu_kind("" ${here} cuda_machine.c gpu_clock_cuda.c ps_cuda_kernels ps_device_cuda)
        add_custom_target(gpu_programs DEPENDS gpu_kernels gpu_device gpu_bench)
    endif()
    if(PS_HAS_EMULATOR)
        ps_gpu_kind(_emulator ${here} emulated_machine.c gpu_clock_host.c ps_kernel_emulator
                    ps_device_emulator)
        target_sources(gpu_kernels_emulator
                       PRIVATE ${here}/../unit/optimizer/kernel_emulator_machine.c)
    endif()
endfunction()

#   ps_gpu_kind(<suffix> <folder> <machine> <clock> <kernels> <runtime>)
function(ps_gpu_kind suffix here machine clock kernels runtime)
    set(unit ${here}/../unit/optimizer)
    add_executable(gpu_kernels${suffix} ${here}/gpu_kernels.c ${here}/${machine})
    target_link_libraries(gpu_kernels${suffix} PRIVATE ps_kernel_suite ${kernels})
    add_executable(gpu_device${suffix} ${here}/gpu_device.c ${unit}/device_orders.c
                   ${unit}/device_suite.c)
    target_include_directories(gpu_device${suffix} PRIVATE ${unit})
    target_link_libraries(gpu_device${suffix} PRIVATE ${runtime})
    add_executable(gpu_bench${suffix} ${here}/gpu_bench.c ${here}/gpu_bench_dense.c
                   ${here}/gpu_bench_mixed.c ${here}/gpu_bench_ring.c
                   ${here}/gpu_bench_shared.c ${here}/gpu_bench_small.c ${here}/${clock})
    target_link_libraries(gpu_bench${suffix} PRIVATE ${runtime} Threads::Threads)
    foreach(program gpu_kernels gpu_device gpu_bench)
        set_target_properties(${program}${suffix} PROPERTIES
                              RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        if(suffix STREQUAL "")
            target_link_libraries(${program} PRIVATE CUDA::cudart_static)
            set_target_properties(${program} PROPERTIES
                                  LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static)
        endif()
    endforeach()
endfunction()
