# tutti_torch: the backend `tutti` of torch.distributed, a Python package on the public API. Only where TUTTI_BUILD_TORCH
# asks for it: it is compiled with the headers of the PyTorch that TUTTI_TORCH_PYTHON imports, and serves that version.
if(NOT TUTTI_BUILD_TORCH)
  return()
endif()
if(NOT TUTTI_TORCH_PYTHON)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(TUTTI_TORCH_PYTHON ${Python3_EXECUTABLE})
endif()
# pip's isolated build environments hide the packages that are installed by PYTHONPATH; torch is one of them.
execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH ${TUTTI_TORCH_PYTHON} -c "
import os, sysconfig, torch
from torch.utils import cpp_extension
print(os.path.dirname(torch.__file__), sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'),
      int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.__version__, sep=';', end='')
for part in 'COMPILER_TYPE', 'STDLIB', 'BUILD_ABI':
    if getattr(torch._C, '_PYBIND11_' + part, None) is not None:
        print(';PYBIND11_' + part, '=\"', getattr(torch._C, '_PYBIND11_' + part), '\"', sep='', end='')"
                OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE no_torch
                ERROR_VARIABLE torch_words)
if(no_torch)
  message(FATAL_ERROR "tutti_torch needs PyTorch, and ${TUTTI_TORCH_PYTHON} has none: pip install torch
${torch_words}")
endif()
list(GET torch_facts 0 torch_folder)
list(GET torch_facts 1 python_include)
list(GET torch_facts 2 python_suffix)
list(GET torch_facts 3 torch_abi)
list(GET torch_facts 4 torch_version)
# The rest, in older versions: pybind11 shares types only with what it takes for built by the same compiler.
list(REMOVE_AT torch_facts 0 1 2 3 4)
message(STATUS "PyTorch ${torch_version} in ${torch_folder}")
if(torch_version VERSION_LESS 2.8)
  message(FATAL_ERROR "tutti_torch needs PyTorch 2.8 or newer, and this is ${torch_version}")
endif()

file(GLOB torch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/torch/*.cpp)
# The interface of symmetric memory is that of 2.15: it was another one in each version before.
if(torch_version VERSION_LESS 2.15)
  list(FILTER torch_sources EXCLUDE REGEX "/symmetric_[a-z]*\\.cpp$")
endif()
add_library(tutti_torch MODULE ${torch_sources})
if(torch_version VERSION_GREATER_EQUAL 2.15)
  target_compile_definitions(tutti_torch PRIVATE TUTTI_TORCH_SYMMETRIC_MEMORY)
endif()
target_include_directories(tutti_torch PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(tutti_torch SYSTEM PRIVATE
                           ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include ${python_include})
target_compile_definitions(tutti_torch PRIVATE _GLIBCXX_USE_CXX11_ABI=${torch_abi} TORCH_API_INCLUDE_EXTENSION_H
                           USE_DISTRIBUTED USE_C10D ${torch_facts})
# Newer versions have hooks by which their flight recorder records the calls of any backend.
set(torch_hooks ${torch_folder}/include/torch/csrc/distributed/c10d/Hooks.hpp)
if(EXISTS ${torch_hooks})
  file(STRINGS ${torch_hooks} torch_has_hooks REGEX "using CompletionHook")
  if(torch_has_hooks)
    target_compile_definitions(tutti_torch PRIVATE TUTTI_TORCH_HOOKS)
  endif()
endif()
# torch's headers take ten times as long as a file of ours.
set_target_properties(tutti_torch PROPERTIES UNITY_BUILD ${TUTTI_UNITY} UNITY_BUILD_BATCH_SIZE 8)
target_precompile_headers(tutti_torch PRIVATE <torch/csrc/distributed/c10d/Backend.hpp> <string> <vector>)
foreach(library torch_python torch torch_cpu c10)
  target_link_libraries(tutti_torch PRIVATE ${torch_folder}/lib/lib${library}.so)
endforeach()
target_link_libraries(tutti_torch PRIVATE tutti tutti_warnings ${CMAKE_DL_LIBS})
# PyTorch's libraries are in memory before this one; Tutti's lies beside it.
set_target_properties(tutti_torch PROPERTIES PREFIX "" OUTPUT_NAME _C SUFFIX ${python_suffix}
                      BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/torch)
file(WRITE ${PROJECT_BINARY_DIR}/torch/_built_for.py
     "\"\"\"Written by the build.\"\"\"\n\nTORCH = \"${torch_version}\"\n")
install(FILES ${PROJECT_BINARY_DIR}/torch/_built_for.py DESTINATION tutti_torch COMPONENT tutti_torch)
install(TARGETS tutti_torch LIBRARY DESTINATION tutti_torch COMPONENT tutti_torch)
# The module for GPUs, where nvcc was found: the package names its own folder to the library (tutti_torch/__init__.py).
if(TARGET tutti_cuda)
  add_dependencies(tutti_torch tutti_cuda)
  install(TARGETS tutti_cuda LIBRARY DESTINATION tutti_torch COMPONENT tutti_torch)
endif()
# One file by the name that it is loaded by: wheels have no links.
install(FILES $<TARGET_FILE:tutti> DESTINATION tutti_torch RENAME $<TARGET_SONAME_FILE_NAME:tutti> COMPONENT tutti_torch)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/compat/torch/tutti_torch DESTINATION . COMPONENT tutti_torch
        FILES_MATCHING PATTERN "*.py")
