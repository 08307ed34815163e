# Which GPUs kernels are compiled for, by what nvcc says that it can: run with cmake -P, and NVCC where there is one.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/DistillCudaArchitectures.cmake)

function(expect what got expected)
  if(NOT "${got}" STREQUAL "${expected}")
    message(FATAL_ERROR "${what}: '${got}' and not '${expected}'")
  endif()
endfunction()

# CUDA 13.0's list, 12.4's and 11.4's.
distill_cuda_architectures(got "compute_75\ncompute_80\ncompute_86\ncompute_87\ncompute_88\ncompute_89\ncompute_90\ncompute_100\ncompute_110\ncompute_103\ncompute_120\ncompute_121\n")
expect("CUDA 13" "${got}" "75;80;86;90;100")
distill_cuda_architectures(got "compute_50\ncompute_60\ncompute_70\ncompute_75\ncompute_80\ncompute_86\ncompute_87\ncompute_89\ncompute_90\ncompute_90a")
expect("CUDA 12.4" "${got}" "75;80;86;90")
distill_cuda_architectures(got "compute_35\ncompute_70\ncompute_75\ncompute_80\ncompute_86\ncompute_87")
expect("CUDA 11.4" "${got}" "75;80;86")
distill_cuda_architectures(got "compute_35\ncompute_1000\ncompute_90a")
expect("none of them" "${got}" "")

distill_cuda_gencode(got "75;100;90")
expect("flags" "${got}" "-gencode=arch=compute_75,code=sm_75;-gencode=arch=compute_100,code=sm_100;-gencode=arch=compute_90,code=sm_90;-gencode=arch=compute_100,code=compute_100")

distill_cuda_oldest(got "100;90;75;80")
expect("the oldest" "${got}" "75")

if(NVCC)
  execute_process(COMMAND ${NVCC} --list-gpu-arch OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  distill_cuda_architectures(got "${listed}")
  # Every one of them is compiled for by this nvcc with these very flags.
  distill_cuda_gencode(flags "${got}")
  file(WRITE ${FOLDER}/cuda_architectures.cu "__global__ void Nothing() {}\n")
  execute_process(COMMAND ${NVCC} ${flags} -c ${FOLDER}/cuda_architectures.cu -o ${FOLDER}/cuda_architectures.o
                  COMMAND_ERROR_IS_FATAL ANY)
  message("nvcc compiles for ${got}")
endif()
