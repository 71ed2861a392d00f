# SPDX-License-Identifier: Apache-2.0
# The kernels as a library, where there is a CUDA compiler; the same sources are the emulator's.
set(PS_KERNEL_FILES apply.cu blocks.cu bodies.cu row_wise.cu rows.cu scan.cu scattered.cu table.cu)
list(TRANSFORM PS_KERNEL_FILES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

#   ps_optimizer_kernels(<include root>)
#
# ps_cuda_kernels: static, with all calls of launch.h; brings no runtime library of CUDA along.
function(ps_optimizer_kernels root)
    if(NOT PS_HAS_CUDA)
        return()
    endif()
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    add_library(ps_cuda_kernels STATIC ${PS_KERNEL_FILES} ${here}/tables.c)
    target_include_directories(ps_cuda_kernels PRIVATE ${root})
    target_link_libraries(ps_cuda_kernels PUBLIC ps_optimizer)
    target_compile_options(ps_cuda_kernels PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:${PS_CUDA_FLAGS};-Xcompiler=-ffp-contract=off>")
    set_target_properties(ps_cuda_kernels PROPERTIES
        CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden)
endfunction()
