# Imported target for Arrow C++ with Parquet out of PyPI's pyarrow package; used by the build and by the installed package.
#
# In: DISTILL_ARROW_DIR (the pyarrow package's folder; found beside LibTorch where it is empty). Out: DISTILL_HAVE_ARROW,
# and with it the target distill_arrow. libarrow_compute, libarrow_acero and libarrow_dataset are never linked: they export
# another utf8proc.
if(NOT DISTILL_ARROW_DIR AND DISTILL_TORCH_DIR)
  get_filename_component(DISTILL_ARROW_DIR "${DISTILL_TORCH_DIR}/../pyarrow" ABSOLUTE)
endif()
file(GLOB _distill_arrow "${DISTILL_ARROW_DIR}/libarrow.so.*")
file(GLOB _distill_parquet "${DISTILL_ARROW_DIR}/libparquet.so.*")
set(DISTILL_HAVE_ARROW OFF)
if(_distill_arrow AND _distill_parquet AND EXISTS "${DISTILL_ARROW_DIR}/include/arrow/api.h")
  set(DISTILL_HAVE_ARROW ON)
  if(NOT TARGET distill_arrow)
    add_library(distill_arrow INTERFACE IMPORTED GLOBAL)
    set_target_properties(distill_arrow PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${DISTILL_ARROW_DIR}/include")
    target_link_libraries(distill_arrow INTERFACE "${_distill_parquet}" "${_distill_arrow}")
    set_property(TARGET distill_arrow APPEND PROPERTY INTERFACE_LINK_OPTIONS "-Wl,-rpath,${DISTILL_ARROW_DIR}")
  endif()
endif()
