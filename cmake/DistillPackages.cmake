# Every package that libdistill builds on, found once, here.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)

# The folder that scripts/setup fills. Asked for again at each configure, since a change of a pin makes a new one.
execute_process(COMMAND bash -c "source \"$0\"; deps_dir" ${PROJECT_SOURCE_DIR}/scripts/lib.sh
                OUTPUT_VARIABLE DISTILL_DEPS_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT DISTILL_TORCH_DIR)
  file(GLOB DISTILL_TORCH_DIR "${DISTILL_DEPS_DIR}/python/lib/python3*/site-packages/torch")
endif()
if(NOT DISTILL_SANITIZE)
  include(DistillTorch)
endif()

if(NOT DISTILL_MINIMAL)
  find_package(PkgConfig REQUIRED)
  find_package(spdlog REQUIRED)
endif()
if(NOT DISTILL_MINIMAL AND NOT DISTILL_SANITIZE STREQUAL "fuzzer")
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
  find_package(MPI REQUIRED COMPONENTS C)
  pkg_check_modules(FABRIC REQUIRED libfabric)  # its headers: the library is opened at run time
endif()
if(NOT DISTILL_MINIMAL AND NOT DISTILL_SANITIZE)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 REQUIRED)
endif()
if(NOT DISTILL_MINIMAL AND (NOT DISTILL_SANITIZE OR DISTILL_SANITIZE STREQUAL "fuzzer"))
  find_package(simdjson REQUIRED)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)  # older ones lack \p{Alphabetic} and \p{sc:...}
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
  # protobuf's own CMake package would link the shared library, whose symbols LibTorch's older copy shadows.
  find_library(DISTILL_PROTOBUF_LIBRARY NAMES libprotobuf.a REQUIRED)
  find_program(DISTILL_PROTOC protoc REQUIRED)
endif()
if(DISTILL_TESTS AND NOT DISTILL_SANITIZE STREQUAL "fuzzer")
  find_package(Catch2 REQUIRED)
endif()
