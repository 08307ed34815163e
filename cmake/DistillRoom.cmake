# Headers that are compiled once for the whole build; without them each file reads the same 2 s of Abseil (plain) or 15 s
# of LibTorch (torch) again. Their targets come first, so that the slow one starts with the build. Files still include
# what they use. LibTorch's is as narrow as our own headers allow, because GCC instantiates the templates that a
# precompiled header leaves pending again in every file: 5 s with all of torch/torch.h, 3 s with these.
# FLAGS: those of the files that use it, too, since GCC takes a header that was compiled with others for another.
function(distill_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS;FLAGS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}_pch.cc "")
  add_library(distill_${name}_pch OBJECT ${PROJECT_BINARY_DIR}/${name}_pch.cc)
  target_link_libraries(distill_${name}_pch PRIVATE ${ARG_DEPS})
  target_precompile_headers(distill_${name}_pch PRIVATE ${ARG_HEADERS})
  target_compile_options(distill_${name}_pch PRIVATE ${ARG_FLAGS})
  set_property(GLOBAL PROPERTY DISTILL_FLAGS_OF_${name} ${ARG_FLAGS})
endfunction()
set(plain_headers <absl/status/statusor.h> <absl/strings/match.h> <absl/strings/str_cat.h> <absl/strings/str_join.h>
    <absl/time/time.h> <algorithm> <functional> <map> <memory> <optional> <string> <utility> <vector>)
# Tests are compiled quickly rather than well: two thirds of the time, and what they call is the library's.
set(test_flags -O1)
if(DISTILL_SANITIZE STREQUAL "address")
  # The checks for undefined behaviour are two fifths of the compiler's time. The library's code has them.
  list(APPEND test_flags -fno-sanitize=undefined)
endif()
set(catch_header "${PROJECT_SOURCE_DIR}/tests/support/catch.h")
set(torch_headers <torch/nn/module.h> <torch/utils.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <string> <vector>)
if(TARGET distill_torch)
  distill_precompile(torch HEADERS ${torch_headers} DEPS distill_torch absl::statusor absl::strings)
  if(DISTILL_TESTS AND TARGET Catch2::Catch2)
    distill_precompile(torch_test HEADERS ${torch_headers} ${catch_header} FLAGS ${test_flags}
                       DEPS distill_torch absl::statusor absl::strings Catch2::Catch2)
  endif()
endif()
distill_precompile(plain HEADERS ${plain_headers} DEPS absl::statusor absl::strings absl::time)
if(DISTILL_TESTS AND TARGET Catch2::Catch2)
  distill_precompile(test HEADERS ${plain_headers} ${catch_header} FLAGS ${test_flags}
                     DEPS absl::statusor absl::strings absl::time Catch2::Catch2)
endif()

# distill_use_precompiled(TARGET plain|torch|test|torch_test)
function(distill_use_precompiled target name)
  target_precompile_headers(${target} REUSE_FROM distill_${name}_pch)
  get_property(flags GLOBAL PROPERTY DISTILL_FLAGS_OF_${name})
  # Programs get -fPIE, the header was compiled with -fPIC, and GCC wants both alike; the later option wins.
  target_compile_options(${target} PRIVATE -fPIC ${flags})
  # Four files at a time share the headers' reading, 3 s with LibTorch's, and their templates. But not those of a library
  # below LibTorch that programs link: of it a program takes whole objects, and with more files in each one the launcher
  # would need Open MPI.
  get_target_property(type ${target} TYPE)
  if(DISTILL_UNITY AND (name MATCHES "^torch" OR DISTILL_SANITIZE OR type STREQUAL "EXECUTABLE"))
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
    # Taken several at a time, a source file looks like a header to this warning.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  if(name MATCHES "^torch")
    target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:distill_torch>)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Out of a precompiled header, GCC 12 takes its own std::string's `a + b` for a write out of bounds.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  endif()
endfunction()

# distill_room(NAME SOURCES a.cc ... [DEPS target ...] [TORCH] [WITHOUT_TORCH b.cc ...]): one room of the library as the
# static library distill_NAME. TORCH: the room sees LibTorch; WITHOUT_TORCH: its sources that do not need the wide header.
function(distill_room name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS;WITHOUT_TORCH" ${ARGN})
  add_library(distill_${name} STATIC ${ARG_SOURCES} ${ARG_WITHOUT_TORCH})
  target_include_directories(distill_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(distill_${name} PUBLIC ${ARG_DEPS})
  set_property(GLOBAL APPEND PROPERTY DISTILL_ROOMS distill_${name})
  if(ARG_TORCH)
    distill_use_precompiled(distill_${name} torch)
  else()
    distill_use_precompiled(distill_${name} plain)
  endif()
  if(ARG_WITHOUT_TORCH)
    set_source_files_properties(${ARG_WITHOUT_TORCH} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                                SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# distill_headers_for(FOLDERS folder ... SOURCES a.cc ...): other libraries' headers for some of a room's sources. The objects
# of the others are then the same in presets that lack the library, and are compiled once.
function(distill_headers_for)
  cmake_parse_arguments(ARG "" "" "FOLDERS;SOURCES" ${ARGN})
  list(TRANSFORM ARG_FOLDERS PREPEND -isystem)
  set_property(SOURCE ${ARG_SOURCES} APPEND PROPERTY COMPILE_OPTIONS ${ARG_FOLDERS})
endfunction()

# distill_vector_loops(OUT SOURCE FLAGS flag ... [X86 flag ...] [AVX512 flag ...]): one source of loops compiled once for
# every kind of CPU and, on x86, again for AVX2 and for AVX-512, one of which is chosen at run time; OUT: the objects, for
# the SOURCES of a room. X86: flags for those two. In the source DISTILL_FOR_ITS_CPU (core/vectors.h) names what differs.
function(distill_vector_loops out source)
  cmake_parse_arguments(ARG "" "" "FLAGS;X86;AVX512" ${ARGN})
  set(flags_Plain ${ARG_FLAGS})
  set(flags_Avx2 ${ARG_FLAGS} -mavx2 ${ARG_X86})
  set(flags_Avx512 ${flags_Avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512 ${ARG_AVX512})
  set(kinds Plain)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    list(APPEND kinds Avx2 Avx512)
  endif()
  cmake_path(GET source STEM name)
  set(objects "")
  foreach(kind IN LISTS kinds)
    string(TOLOWER distill_${name}_${kind} target)
    add_library(${target} OBJECT ${source})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${target} PRIVATE ${flags_${kind}})
    target_compile_definitions(${target} PRIVATE DISTILL_VECTORS=${kind})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# The flags of loops on core/vector_math.h. GCC 12 finds its own _mm512_undefined_ps uninitialised.
set(DISTILL_VECTOR_MATH FLAGS -O3 -ffp-contract=fast -Wno-psabi X86 -mfma -mf16c AVX512 -Wno-maybe-uninitialized)

# distill_cuda_objects(OUT a.cu ...): the object files of CUDA sources, for the SOURCES of a room or a test. nvcc is called
# directly: a target with sources in CUDA would bring that language, and a second copy of its run-time library, to whoever
# links it, users of the installed package among them.
function(distill_cuda_objects out)
  set(objects "")
  set(flags -std=c++17 -O3 -Werror=all-warnings -Xcompiler=-fPIC,-Wall,-Wextra -I${PROJECT_SOURCE_DIR}
      ${DISTILL_CUDA_GENCODE})
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND flags -ccbin=${CMAKE_CUDA_HOST_COMPILER})
  endif()
  # Whole paths, unlike C++'s: CMake takes those of a DEPFILE for ones that count from another folder than ccache's.
  set(launcher "")
  if(DISTILL_CCACHE)
    set(launcher ${CMAKE_COMMAND} -E env --unset=CCACHE_BASEDIR CCACHE_DEPEND=1 ${DISTILL_CCACHE})
  endif()
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
                       COMMAND ${launcher} ${CMAKE_CUDA_COMPILER} ${flags} -MD -MF ${object}.d
                               -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
                       COMMENT "Building CUDA object ${source}.o" VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# distill_program(NAME SOURCES a.cc ... [DEPS ...] [TORCH]): a program in build/bin.
function(distill_program name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(ARG_TORCH)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # LibTorch stays where it is
    distill_use_precompiled(${name} torch)
  else()
    distill_use_precompiled(${name} plain)
  endif()
endfunction()

# distill_test(NAME SOURCES a_test.cc ... [DEPS ...] [LABELS unit ...] [TIMEOUT seconds] [TORCH] [FIXTURES f ...]
# [ARGS ...]): a Catch2 program and one CTest entry of the same name. FIXTURES: CTest fixtures that must have run before.
function(distill_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;DEPS;LABELS;FIXTURES;ARGS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPS} distill_test_main)
  target_compile_definitions(test_${name} PRIVATE DISTILL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_TORCH)
    distill_use_precompiled(test_${name} torch_test)
  else()
    distill_use_precompiled(test_${name} test)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_test(NAME ${name} COMMAND test_${name} ${ARG_ARGS} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} FIXTURES_REQUIRED "${ARG_FIXTURES}")
endfunction()

# distill_test_part(NAME OF TEST FILTER f [LABELS ...] [TIMEOUT seconds]): the cases of a distill_test's program that the
# filter names, as an entry of CTest by themselves. For those that a machine may not be able to run, which print "skipped: "
# and why: CTest reports the entry as skipped, where it would report a program that has other cases as passed. The
# distill_test itself leaves them out by its ARGS.
function(distill_test_part name)
  cmake_parse_arguments(ARG "" "OF;FILTER;TIMEOUT" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_test(NAME ${name} COMMAND test_${ARG_OF} ${ARG_FILTER} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} SKIP_REGULAR_EXPRESSION "skipped: ")
endfunction()

# distill_test_on_lower_cpus(NAME [ARGS ...]): runs the program of a distill_test again as each kind of CPU that is lower
# than this machine's, since kinds multiply matrices by other instructions and take other memory for it. NAME_as_KIND; the
# label is `cpu`.
function(distill_test_on_lower_cpus name)
  cmake_parse_arguments(ARG "" "" "ARGS" ${ARGN})
  set(kinds plain avx2 avx512)
  set(flags avx2 avx512f avx512_bf16) # who has one is higher than the kind
  set(of_aten default avx2 avx512)
  set(of_onednn SSE41 AVX2 AVX512_CORE)
  set(cpu "")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu REGEX "^flags" LIMIT_COUNT 1)
  endif()
  get_test_property(${name} TIMEOUT timeout)
  get_test_property(${name} FIXTURES_REQUIRED fixtures)
  foreach(kind flag aten onednn IN ZIP_LISTS kinds flags of_aten of_onednn)
    if(NOT cpu MATCHES " ${flag}( |$)")
      continue()
    endif()
    add_test(NAME ${name}_as_${kind} COMMAND test_${name} ${ARG_ARGS} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
    set_tests_properties(${name}_as_${kind} PROPERTIES LABELS cpu TIMEOUT ${timeout} FIXTURES_REQUIRED "${fixtures}" ENVIRONMENT
                         "DISTILL_CPU=${kind};ATEN_CPU_CAPABILITY=${aten};ONEDNN_MAX_CPU_ISA=${onednn}")
  endforeach()
endfunction()
