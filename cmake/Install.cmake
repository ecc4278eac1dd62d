# What `cmake --install` leaves besides the executable (engine/cli): the library and its public headers, the bundled
# model, and descriptions of the library for CMake (find_package(Serval)) and pkg-config (serval.pc). All paths in
# those are relative, so an installed tree can be moved.
include(CMakePackageConfigHelpers)

set(serval_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Serval)
set(serval_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS serval EXPORT ServalTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ServalTargets NAMESPACE Serval:: DESTINATION ${serval_cmake_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/engine/include/serval DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/vm/base/error.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/serval)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/assets/serval-stories DESTINATION ${CMAKE_INSTALL_DATADIR}/serval
        COMPONENT program OPTIONAL)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ServalConfig.cmake.in ${PROJECT_BINARY_DIR}/ServalConfig.cmake
                              INSTALL_DESTINATION ${serval_cmake_dir}
                              NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ServalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ServalConfig.cmake ${PROJECT_BINARY_DIR}/ServalConfigVersion.cmake
        DESTINATION ${serval_cmake_dir})

# pkg-config's ${pcfiledir} is the folder of serval.pc; from there, the way back to the prefix.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${serval_pkgconfig_dir}
           OUTPUT_VARIABLE serval_pc_to_prefix)
set(serval_pc_cuda "")
if(SERVAL_CUDA)
  set(serval_pc_cuda " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/serval.pc.in ${PROJECT_BINARY_DIR}/serval.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/serval.pc DESTINATION ${serval_pkgconfig_dir})
