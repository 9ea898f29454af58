# libnccl.so.2 and nccl.h: NCCL's interface on the public API. Installed apart, so that it never stands in for a real one
# by accident: headers in include/tutti-nccl, the library in lib/tutti/nccl.
file(GLOB nccl_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/nccl/*.cpp)
add_library(tutti_nccl SHARED ${nccl_sources})
target_include_directories(tutti_nccl PRIVATE ${PROJECT_SOURCE_DIR}/src
                           PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tutti-nccl>)
# Its own build needs no CUDA headers, even where they are.
target_compile_definitions(tutti_nccl PRIVATE TUTTI_NCCL_WITHOUT_CUDA)
target_link_libraries(tutti_nccl PRIVATE tutti tutti_warnings ${CMAKE_DL_LIBS})
target_link_options(tutti_nccl PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libnccl.map -Wl,-z,nodelete)
set(nccl_folder ${CMAKE_INSTALL_LIBDIR}/tutti/nccl)
set_target_properties(tutti_nccl PROPERTIES OUTPUT_NAME nccl VERSION 2.30.7 SOVERSION 2 EXPORT_NAME nccl
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/nccl BUILD_RPATH "$ORIGIN/.." INSTALL_RPATH "$ORIGIN/../.."
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libnccl.map)
add_library(Tutti::nccl ALIAS tutti_nccl)
