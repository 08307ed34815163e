# clang-format as a part of the default build: a file that is not formatted as .clang-format says fails it. One stamp a
# folder, so that only the folders with a changed file are read again.
#
# Versions of clang-format differ in what they call formatted, so only the one of Debian 12 judges.
set(DISTILL_CLANG_FORMAT_VERSION 14)
find_program(DISTILL_CLANG_FORMAT NAMES clang-format-${DISTILL_CLANG_FORMAT_VERSION} clang-format)
set(found "none")
if(DISTILL_CLANG_FORMAT)
  execute_process(COMMAND ${DISTILL_CLANG_FORMAT} --version OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT found MATCHES "version ${DISTILL_CLANG_FORMAT_VERSION}\\.")
  message(STATUS "libdistill: the build does not check the format: it wants clang-format ${DISTILL_CLANG_FORMAT_VERSION}, "
                 "and found ${found}")
  return()
endif()

file(GLOB_RECURSE distill_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  bench/*.cc bench/*.h examples/*.cc examples/*.h launcher/*.cc launcher/*.h
  libdistill/*.cc libdistill/*.h libdistill/*.cu tests/*.cc tests/*.h tests/*.cu)
foreach(source IN LISTS distill_sources)
  cmake_path(GET source PARENT_PATH folder)
  string(REPLACE "/" "_" folder ${folder})
  list(APPEND distill_folders ${folder})
  list(APPEND distill_sources_of_${folder} ${source})
endforeach()
list(REMOVE_DUPLICATES distill_folders)
foreach(folder IN LISTS distill_folders)
  set(stamp ${PROJECT_BINARY_DIR}/format/${folder}.stamp)
  list(TRANSFORM distill_sources_of_${folder} PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${DISTILL_CLANG_FORMAT} --dry-run --Werror ${distill_sources_of_${folder}}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/.clang-format
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Checking the format of ${folder}"
    VERBATIM)
  list(APPEND distill_format_stamps ${stamp})
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/format)
add_custom_target(check_format ALL DEPENDS ${distill_format_stamps})
