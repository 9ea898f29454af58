# The training layer: libtutti_train, on the public API and OpenBLAS. Sets TUTTI_BUILD_TRAIN to OFF without OpenBLAS.
if(TUTTI_BUILD_TRAIN)
  pkg_check_modules(OPENBLAS QUIET IMPORTED_TARGET openblas)
  if(NOT OPENBLAS_FOUND)  # some distributions have no .pc file
    find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread)
    find_library(OPENBLAS_LIBRARY openblas)
    if(OPENBLAS_INCLUDE AND OPENBLAS_LIBRARY)
      add_library(PkgConfig::OPENBLAS INTERFACE IMPORTED)
      target_include_directories(PkgConfig::OPENBLAS INTERFACE ${OPENBLAS_INCLUDE})
      target_link_libraries(PkgConfig::OPENBLAS INTERFACE ${OPENBLAS_LIBRARY})
    endif()
  endif()
  if(NOT TARGET PkgConfig::OPENBLAS)
    message(STATUS "The training layer is left out: there is no OpenBLAS (libopenblas-dev)")
    set(TUTTI_BUILD_TRAIN OFF)
  endif()
endif()

if(TUTTI_BUILD_TRAIN)
  file(GLOB_RECURSE train_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/train/*.cpp)
  list(FILTER train_sources EXCLUDE REGEX "/src/train/planner/")  # needs neither OpenBLAS nor a communicator
  # The objects alone are for programs that already hold the library's objects: the command line and tests.
  add_library(tutti_train_objects OBJECT ${train_sources})
  target_include_directories(tutti_train_objects PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  # C++ classes: all that the headers declare is exported.
  set_target_properties(tutti_train_objects PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  target_compile_options(tutti_train_objects PRIVATE -ffp-contract=off)
  # Else no loop with a comparison or a square root is vectorised. Nothing here reads errno or floating-point exceptions.
  target_compile_options(tutti_train_objects PRIVATE -fno-math-errno -fno-trapping-math)
  target_link_libraries(tutti_train_objects PUBLIC fmt::fmt nlohmann_json::nlohmann_json PkgConfig::OPENBLAS PkgConfig::SODIUM
                        PRIVATE tutti_warnings)

  add_library(tutti_train SHARED)
  target_link_libraries(tutti_train PUBLIC tutti PRIVATE tutti_train_objects)
  set_target_properties(tutti_train PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX EXPORT_NAME train)
  add_library(Tutti::train ALIAS tutti_train)
endif()
