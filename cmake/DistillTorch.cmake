# Imported targets for LibTorch out of PyPI's torch package; used by the build and by the installed package.
#
# torch's own find_package(Torch) needs a CUDA toolkit even for CPU programs, and most machines have none.
# In: DISTILL_TORCH_DIR (the torch package's folder), DISTILL_HAVE_CUDA. Out: the target distill_torch, and with CUDA
# distill_nccl.
if(NOT EXISTS "${DISTILL_TORCH_DIR}/include/torch")
  message(FATAL_ERROR "No LibTorch in '${DISTILL_TORCH_DIR}': run libdistill's scripts/setup, or set DISTILL_TORCH_DIR to "
                      "the folder of a torch package (python -c 'import torch; print(torch.__path__[0])')")
endif()
if(NOT TARGET distill_torch)
  add_library(distill_torch INTERFACE IMPORTED GLOBAL)
  set_target_properties(distill_torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
    "${DISTILL_TORCH_DIR}/include;${DISTILL_TORCH_DIR}/include/torch/csrc/api/include")
  # Not libtorch.so, which brings libtorch_cuda: that is opened at run time, where there is a driver
  # (libdistill/tensor/torch_cuda.h).
  foreach(_library torch_cpu c10)
    if(NOT EXISTS "${DISTILL_TORCH_DIR}/lib/lib${_library}.so")
      message(FATAL_ERROR "${DISTILL_TORCH_DIR}/lib has no lib${_library}.so")
    endif()
    target_link_libraries(distill_torch INTERFACE "${DISTILL_TORCH_DIR}/lib/lib${_library}.so")
  endforeach()
  # The OpenMP whose threads LibTorch uses: its wheel brings a copy; other builds have the compiler's.
  if(EXISTS "${DISTILL_TORCH_DIR}/lib/libgomp.so.1")
    target_link_libraries(distill_torch INTERFACE "${DISTILL_TORCH_DIR}/lib/libgomp.so.1")
  else()
    target_link_libraries(distill_torch INTERFACE gomp)
  endif()
  # libstdc++ comes first in the search order, because LibTorch exports a std::filesystem of an older one, which crashes in
  # remove_all. libtorch_cuda is opened by its name, which the run path finds.
  set_property(TARGET distill_torch APPEND PROPERTY INTERFACE_LINK_OPTIONS
    "-Wl,--no-as-needed" "-lstdc++" "-Wl,-rpath,${DISTILL_TORCH_DIR}/lib")
  # CUDA and NCCL of the same wheel set; the machine's toolkit only compiles.
  get_filename_component(_distill_site "${DISTILL_TORCH_DIR}/.." ABSOLUTE)
  set(DISTILL_NVIDIA_DIR "${_distill_site}/nvidia" CACHE INTERNAL "")
  foreach(_folder cu13/lib nccl/lib cudnn/lib cusparselt/lib nvshmem/lib)
    if(EXISTS "${DISTILL_NVIDIA_DIR}/${_folder}")
      set_property(TARGET distill_torch APPEND PROPERTY INTERFACE_LINK_OPTIONS
        "-Wl,-rpath,${DISTILL_NVIDIA_DIR}/${_folder}" "-Wl,-rpath-link,${DISTILL_NVIDIA_DIR}/${_folder}")
    endif()
  endforeach()
  if(DISTILL_HAVE_CUDA)
    add_library(distill_nccl INTERFACE IMPORTED GLOBAL)
    # The wheels carry no unversioned .so names.
    target_link_libraries(distill_nccl INTERFACE
      "${DISTILL_NVIDIA_DIR}/nccl/lib/libnccl.so.2" "${DISTILL_NVIDIA_DIR}/cu13/lib/libcudart.so.13")
  endif()
endif()
