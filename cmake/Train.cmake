# The training layer: libtutti_train, on the public API and OpenBLAS. Sets TUTTI_BUILD_TRAIN to OFF without OpenBLAS, which
# is not linked but loaded when it is needed (src/train/device/blas.hpp), by the name that it gives itself.
set(title "training layer")
if(NOT TUTTI_BUILD_TRAIN)
  tutti_part(train "${title}" OUT "TUTTI_BUILD_TRAIN is OFF")
else()
  pkg_check_modules(OPENBLAS QUIET openblas)  # not in all distributions
  tutti_search_again(OPENBLAS_HEADERS OPENBLAS_LIBRARY)
  find_path(OPENBLAS_HEADERS cblas.h HINTS ${OPENBLAS_INCLUDE_DIRS} PATH_SUFFIXES openblas openblas-pthread)
  find_library(OPENBLAS_LIBRARY openblas HINTS ${OPENBLAS_LIBRARY_DIRS})
  if(OPENBLAS_HEADERS AND OPENBLAS_LIBRARY)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${OPENBLAS_LIBRARY} OUTPUT_VARIABLE openblas_facts COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "SONAME +([^ \n]+)" openblas_name "${openblas_facts}")
    set(openblas_name ${CMAKE_MATCH_1})
    tutti_part(train "${title}" IN "OpenBLAS")
  else()
    tutti_part(train "${title}" OUT "OpenBLAS was not found (package libopenblas-dev)")
    set(TUTTI_BUILD_TRAIN OFF)
  endif()
endif()

if(TUTTI_BUILD_TRAIN)
  file(GLOB_RECURSE train_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/train/*.cpp)
  list(FILTER train_sources EXCLUDE REGEX "/src/train/planner/")  # needs neither OpenBLAS nor a communicator
  # The objects alone are for programs that already hold the library's objects: the command line and tests.
  add_library(tutti_train_objects OBJECT ${train_sources})
  target_include_directories(tutti_train_objects PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(tutti_train_objects PRIVATE ${OPENBLAS_HEADERS})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/train/device/blas.cpp PROPERTIES COMPILE_DEFINITIONS
                                                                                         TUTTI_OPENBLAS="${openblas_name}")
  set_target_properties(tutti_train_objects PROPERTIES UNITY_BUILD ${TUTTI_UNITY})
  # C++ classes: all that the headers declare is exported.
  set_target_properties(tutti_train_objects PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  target_compile_options(tutti_train_objects PRIVATE -ffp-contract=off)
  # Else no loop with a comparison or a square root is vectorised. Nothing here reads errno or floating-point exceptions.
  target_compile_options(tutti_train_objects PRIVATE -fno-math-errno -fno-trapping-math)
  target_link_libraries(tutti_train_objects PUBLIC fmt::fmt nlohmann_json::nlohmann_json PkgConfig::SODIUM ${CMAKE_DL_LIBS}
                        PRIVATE tutti_warnings)

  add_library(tutti_train SHARED)
  target_link_libraries(tutti_train PUBLIC tutti PRIVATE tutti_train_objects)
  set_target_properties(tutti_train PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX EXPORT_NAME train)
  add_library(Tutti::train ALIAS tutti_train)
endif()
