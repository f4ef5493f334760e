# Install and export: find_package(offpath) gives offpath::base, offpath::codec, ... to another CMake project.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY OFFPATH_MODULES)
install(TARGETS ${modules} EXPORT offpathTargets COMPONENT devel
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT offpathTargets NAMESPACE offpath:: COMPONENT devel
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/offpath)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/offpathConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/offpathConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/offpath)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/offpathConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/offpathConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/offpathConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/offpath COMPONENT devel)
if(OFFPATH_BUILD_CLI AND TARGET offpath_cli)
  install(TARGETS offpath_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cli)
endif()
