# What `cmake --install` lays down: headers, library, command line, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)
install(TARGETS tutti EXPORT TuttiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TUTTI_BUILD_TRAIN)
  install(TARGETS tutti_train EXPORT TuttiTrainTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT TuttiTrainTargets NAMESPACE Tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
endif()
# NCCL's interface lies in folders of its own: see docs/nccl.md.
install(TARGETS tutti_nccl EXPORT TuttiNcclTargets LIBRARY DESTINATION ${nccl_folder})
install(FILES include/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti-nccl)
install(EXPORT TuttiNcclTargets NAMESPACE Tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
configure_package_config_file(cmake/TuttiConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
file(RELATIVE_PATH TUTTI_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
add_library(Tutti::tutti ALIAS tutti)
