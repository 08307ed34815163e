# distill_cuda_architectures(OUT LISTED): which of the GPUs that libdistill is made for nvcc can compile for. LISTED: what
# `nvcc --list-gpu-arch` prints. T4 is 75, A100 80, A10G 86 (and L4, L40S, of the same generation's code), H100 and H200 90,
# B200 100. What is left out is so because this toolkit does not know it; an empty list: it knows none of them.
function(distill_cuda_architectures out listed)
  set(taken "")
  foreach(architecture IN ITEMS 75 80 86 90 100)
    if("${listed}" MATCHES "compute_${architecture}([^0-9a-z]|$)")
      list(APPEND taken ${architecture})
    endif()
  endforeach()
  set(${out} "${taken}" PARENT_SCOPE)
endfunction()

# distill_cuda_oldest(OUT ARCHITECTURES): the lowest of them.
function(distill_cuda_oldest out architectures)
  list(SORT architectures COMPARE NATURAL)
  list(GET architectures 0 oldest)
  set(${out} ${oldest} PARENT_SCOPE)
endfunction()

# distill_cuda_gencode(OUT ARCHITECTURES): nvcc's flags for machine code of each, and for the newest also PTX, which the
# driver compiles for GPUs that are newer still.
function(distill_cuda_gencode out architectures)
  set(flags "")
  set(newest 0)
  foreach(architecture IN LISTS architectures)
    if(NOT architecture MATCHES "^[0-9]+$")
      message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES has '${architecture}': give numbers, such as \"80;90\"")
    endif()
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
    if(architecture GREATER newest)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND flags -gencode=arch=compute_${newest},code=compute_${newest})
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()
