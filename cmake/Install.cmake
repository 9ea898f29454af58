# `cmake --install BUILD --prefix P` builds what it installs, then installs it. Included before all install rules, which run
# in the order of their declaration.

# tutti_installs(TARGETS...): these are built before the default installation.
function(tutti_installs)
  set_property(GLOBAL APPEND PROPERTY TUTTI_INSTALLED ${ARGN})
endfunction()

# The components besides the default one, which users need; a mistyped one would install nothing, without a word.
set(components tutti_test_modules)
if(TUTTI_BUILD_TORCH)
  list(APPEND components tutti_torch)
endif()
if(PROJECT_IS_TOP_LEVEL)
  string(REPLACE ";" "|" pattern "${components}")
  string(REPLACE ";" ", " names "${components}")
  install(CODE "
    if(CMAKE_INSTALL_COMPONENT AND NOT CMAKE_INSTALL_COMPONENT MATCHES \"^(Unspecified|${pattern})$\")
      message(FATAL_ERROR \"Tutti has no component \${CMAKE_INSTALL_COMPONENT}; leave --component out for all that users \"
                          \"need. The others are: ${names}\")
    endif()" ALL_COMPONENTS)
endif()
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target tutti_installed --parallel ${cores}
                          --config \"\${CMAKE_INSTALL_CONFIG_NAME}\"
                  RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR \"Nothing is installed: the build in ${CMAKE_BINARY_DIR} failed (above)\")
  endif()")
