# Transports that are loaded at run time: docs/howto/transport.md.

# What modules may use of the library, to be linked into each: base, topo and link, without the parts of which a process may
# have only one. The environment, the log and the constants come from the library (transports/module_entry.cpp); a module that needs
# another such part does not link, until ModuleServices has it. An archive: a module gets only what it uses.
set(support "$<FILTER:$<TARGET_OBJECTS:tutti_objects>,INCLUDE,/src/(base|topo|link)/>")
set(single "/src/(base/env|base/env_text|base/log|link/mapped_memory)[.]cpp")
add_library(tutti_module_support STATIC EXCLUDE_FROM_ALL "$<FILTER:${support},EXCLUDE,${single}>")
set_target_properties(tutti_module_support PROPERTIES LINKER_LANGUAGE CXX)
# What backends use of the layers between: programs, plans, the interpreter on threads of the host, and folds. A module
# that runs that interpreter has a table of mapped memory of its own, which is empty: tuttiMemAlloc is the library's.
set(used "$<FILTER:$<TARGET_OBJECTS:tutti_objects>,INCLUDE,/src/(plan|exec|reduce|link/mapped_memory)>")
add_library(tutti_backend_support STATIC EXCLUDE_FROM_ALL "$<FILTER:${used},EXCLUDE,/src/exec/backends[.]>")
set_target_properties(tutti_backend_support PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(tutti_backend_support INTERFACE PkgConfig::HWY)
target_include_directories(tutti_module_support INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                                          ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(tutti_module_support INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(tutti_module_support INTERFACE Threads::Threads fmt::fmt PkgConfig::SODIUM PkgConfig::HWLOC)

# tutti_module(NAME SOURCES... [TEST] [BACKEND] [MAP FILE]): the transport or, with BACKEND, the backend NAME as a
# module, libtutti_NAME.so; its target is tutti_NAME. It is installed to the folder tutti beside libtutti.so; with TEST only as the component `tutti_test_modules`.
# MAP: what it exports, if that is more than the one symbol.
function(tutti_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TEST;BACKEND" "MAP" "")
  set(map ${PROJECT_SOURCE_DIR}/cmake/module.map)
  if(arg_MAP)
    set(map ${CMAKE_CURRENT_SOURCE_DIR}/${arg_MAP})
  endif()
  set(target tutti_${name})
  add_library(${target} MODULE ${arg_UNPARSED_ARGUMENTS} ${PROJECT_SOURCE_DIR}/transports/module_entry.cpp)
  target_link_libraries(${target} PRIVATE tutti_module_support tutti_warnings)
  if(arg_BACKEND)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/exec/module_backend.cpp)
    target_link_libraries(${target} PRIVATE tutti_backend_support tutti_module_support)
  endif()
  # Nothing but the one symbol is exported: a module cannot change the meaning of another's names, or of the library's.
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
  if(NOT TUTTI_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  set(only_asked)
  if(arg_TEST)
    set(only_asked COMPONENT tutti_test_modules EXCLUDE_FROM_ALL)
  else()
    tutti_installs(${target})
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti ${only_asked})
endfunction()
