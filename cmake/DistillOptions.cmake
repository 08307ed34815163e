# Language level, warnings, output folders, and the tools that make builds quick where they are installed.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O2 without NDEBUG: invariants stay checked, and -O3 makes torch's headers slower to compile for nothing measurable.
set(CMAKE_CXX_FLAGS_RELEASE "-O2" CACHE STRING "" FORCE)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Werror>)

if(DISTILL_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(DISTILL_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(DISTILL_SANITIZE STREQUAL "fuzzer")
  set(sanitize -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(DISTILL_SANITIZE)
  message(FATAL_ERROR "DISTILL_SANITIZE=${DISTILL_SANITIZE}: address, thread and fuzzer are known")
endif()
if(DISTILL_SANITIZE)
  # -O1 compiles twice as fast. GCC 12 takes its own std::function for uninitialised between the sanitizer's checks.
  add_compile_options(${sanitize} -O1 -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  add_link_options(${sanitize})
endif()

find_program(DISTILL_CCACHE ccache)
if(DISTILL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers need the sloppiness to be cached at all. Paths count from here, so that every preset's folder (and
  # every clone) shares what is the same; the depend mode spares a miss the separate run of the preprocessor.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_DEPEND=1 ${DISTILL_CCACHE})
endif()
find_program(DISTILL_MOLD mold)
if(DISTILL_MOLD AND NOT DISTILL_SANITIZE STREQUAL "fuzzer")  # mold 1.10 hung there once
  # Without RELRO: mold 1.10 lets it begin at .tbss, and where code ends just before a page's end that is a page without
  # memory, so that the program cannot be loaded ("cannot apply additional memory protection after relocation").
  add_link_options(-fuse-ld=mold LINKER:-z,norelro)
endif()

set(DISTILL_HAVE_CUDA OFF)
if(NOT DISTILL_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "P4d is sm_80, P5 is sm_90")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(DISTILL_HAVE_CUDA ON)
  elseif(DISTILL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DISTILL_CUDA=ON, but no nvcc was found: put it on PATH or set CMAKE_CUDA_COMPILER")
  endif()
endif()
if(DISTILL_HAVE_CUDA)
  message(STATUS "libdistill: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, NCCL between the GPUs of a host")
else()
  message(STATUS "libdistill: no CUDA toolkit, the library is built for CPUs only")
endif()
