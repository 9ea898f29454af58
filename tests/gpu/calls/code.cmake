# Which code of the kernels GPUs run, or why none: drivers and GPUs of other versions. info_of(NAME ENVIRONMENT EXPECTED).
function(info_of name environment expected)
  gpu_test(code.${name} DEVICES 2 ENVIRONMENT ${environment} COMMAND tutti_cli info --json /dev/stdout)
  set_tests_properties(gpu.code.${name} PROPERTIES PASS_REGULAR_EXPRESSION "\"cuda\": \"${expected}")
endfunction()
set(usable "usable: GPU 0 .Fake H200., GPU 1 .Fake H200.; driver for CUDA [0-9.]+; kernels:")
info_of(native FAKE_CUDA_CAPABILITY=90 "${usable} machine code for compute capability 9.0")
info_of(native_of_lesser_minor FAKE_CUDA_CAPABILITY=89 "${usable} machine code for compute capability 8.0\"")
info_of(ptx FAKE_CUDA_CAPABILITY=200 "${usable} PTX for compute capability 8.0, which the driver compiled for 20.0")
info_of(mixed FAKE_CUDA_CAPABILITY=86,200
        "${usable} machine code for compute capability 8.0 .GPU 0 .Fake H200.., PTX for compute capability 8.0, which the driver compiled for 20.0 .GPU 1")
info_of(gpu_too_old FAKE_CUDA_CAPABILITY=75
        "not usable: GPU 0 .Fake H200., GPU 1 .Fake H200.: the GPU is too old: it has compute capability 7.5, and the kernels need 8.0")
info_of(one_gpu_too_old FAKE_CUDA_CAPABILITY=75,90 "usable: GPU 1 .*; not usable: GPU 0 .*: the GPU is too old")
info_of(driver_too_old FAKE_CUDA_VERSION=12020
        "not usable: NVIDIA's driver is too old: it is for CUDA 12.2, and Tutti needs one for CUDA 12.4. Install driver 550 or later")
if(TUTTI_NVCC_VERSION VERSION_GREATER_EQUAL 13)
  set(older FAKE_CUDA_VERSION=12090)
  info_of(driver_of_older_major ${older} "not usable: GPU 0 .*: the driver is too old: it is for CUDA 12.9, and the kernels were compiled with CUDA 13")
  info_of(driver_without_the_ptx "${older};FAKE_CUDA_CAPABILITY=200"
          "not usable: GPU 0 .*: for its compute capability 20.0 the module has PTX alone .machine code for 8.0, [0-9., ]+., and the driver is too old to compile the PTX of CUDA 13")
endif()
if(TUTTI_NVCC_VERSION VERSION_GREATER_EQUAL 12.8)  # a build for all of these
  foreach(capability 100 103 120 121)
    string(REGEX REPLACE ".$" "" major ${capability})
    info_of(native_${capability} FAKE_CUDA_CAPABILITY=${capability} "${usable} machine code for compute capability ${major}.0\"")
  endforeach()
endif()
# A communicator says it too, on all ranks.
gpu_test(code.refused DEVICES 2 ENVIRONMENT FAKE_CUDA_CAPABILITY=75 COMMAND tutti_cli perf all_reduce --device cuda -t 2 -b 8 -e 8)
set_tests_properties(gpu.code.refused PROPERTIES PASS_REGULAR_EXPRESSION
                     "GPU . .Fake H200. cannot run Tutti's kernels: the GPU is too old: it has compute capability 7.5")
gpu_test(code.ptx_runs DEVICES 2 ENVIRONMENT FAKE_CUDA_CAPABILITY=200
         COMMAND tutti_cli perf all_reduce --device cuda -t 2 -b 8 -e 8K -f 32 -c 1 -n 1 -w 0)
