# The installed package: find_package(libdistill) gives distill::distill, the whole library as one target.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY DISTILL_ROOMS)
add_library(distill INTERFACE)
add_library(distill::distill ALIAS distill)
target_compile_features(distill INTERFACE cxx_std_20)
target_link_libraries(distill INTERFACE ${rooms} $<BUILD_INTERFACE:distill_torch> $<INSTALL_INTERFACE:distill_torch>)
# LibTorch exports an older protobuf: ours must stay out of the dynamic symbol table, or one shadows the other.
target_link_options(distill INTERFACE "-Wl,--exclude-libs,libprotobuf.a")

install(TARGETS distill ${rooms} EXPORT libdistillTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT libdistillTargets NAMESPACE distill:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/libdistill)
install(DIRECTORY libdistill/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/libdistill FILES_MATCHING PATTERN "*.h")
configure_package_config_file(cmake/libdistillConfig.cmake.in ${PROJECT_BINARY_DIR}/libdistillConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/libdistill)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/libdistillConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/libdistillConfig.cmake ${PROJECT_BINARY_DIR}/libdistillConfigVersion.cmake
              cmake/DistillTorch.cmake cmake/DistillArrow.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/libdistill)
