// Libraries and modules of kernels, and their launch.
#include <algorithm>
#include <cstring>

#include "api.hpp"
#include "twins.hpp"

namespace fake {
namespace {

bool image_known(const void* image) {
  uint32_t word = 0;
  std::memcpy(&word, image, sizeof word);
  constexpr uint32_t kFatbin = 0xBA55ED50, kWrapper = 0x466243B1, kElf = 0x464C457F;
  return word == kFatbin || word == kWrapper || word == kElf || std::memcmp(image, ".version", 8) == 0 ||
         std::memcmp(image, "//", 2) == 0;
}

Taken taken(const Library& library, int device) {
  return take(library.codes, config().capability(device), config().version);
}

// A library is for all devices: it is refused where none of them takes it, else when a kernel comes to such a device.
// When real drivers refuse is a guess. The code comes to the device when nothing runs there.
Library& load(Call& one, const void* image) {
  require_pointers(image);
  require(image_known(image), CUDA_ERROR_INVALID_IMAGE);
  if (const std::string error = load_twins(); !error.empty()) {
    std::fprintf(stderr, "fake cuda: %s\n", error.c_str());
    fail(CUDA_ERROR_FILE_NOT_FOUND);
  }
  if (one.context != nullptr) one.drain();
  auto library = std::make_unique<Library>();
  library->codes = codes_of(image);
  CUresult refused = CUDA_SUCCESS;
  for (int device = 0; device < config().devices; ++device) {
    refused = taken(*library, device).error;
    if (refused == CUDA_SUCCESS) break;
  }
  require(refused == CUDA_SUCCESS, refused);
  for (const Twin* twin = all_twins(); twin != nullptr; twin = twin->next) {
    library->kernels.push_back(std::make_unique<Kernel>(Kernel{twin, library.get()}));
  }
  state().libraries.push_back(std::move(library));
  return *state().libraries.back();
}

Library& library_of(const void* handle) {
  for (auto& library : state().libraries) {
    if (library.get() == handle) return *library;
  }
  fail(CUDA_ERROR_INVALID_HANDLE);
}

/// The kernel as the context has it.
Kernel& in_context(Kernel& kernel, Context& context) {
  if (kernel.context != nullptr) return kernel;
  const CUresult refused = taken(*kernel.library, context.device).error;
  require(refused == CUDA_SUCCESS, refused);
  for (auto& function : state().functions) {
    if (function->of == &kernel && function->context == &context) return *function;
  }
  state().functions.push_back(std::make_unique<Kernel>(kernel));
  Kernel& made = *state().functions.back();
  made.context = &context;
  made.of = &kernel;
  return made;
}

Kernel& kernel_named(const void* library, const char* name) {
  require_pointers(name);
  for (auto& kernel : library_of(library).kernels) {
    if (std::strcmp(kernel->twin->name, name) == 0) return *kernel;
  }
  fail(CUDA_ERROR_NOT_FOUND);
}

void unload(Call& one, const void* handle) {
  library_of(handle);
  if (one.context != nullptr) one.drain();
  for (const auto& kernel : library_of(handle).kernels) {
    std::erase_if(state().functions, [&](const auto& function) { return function->of == kernel.get(); });
  }
  std::erase_if(state().libraries, [&](const auto& library) { return library.get() == handle; });
}

int attribute(const Kernel& kernel, CUfunction_attribute what, int device) {
  switch (what) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(kernel.twin->max_threads);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(Occupancy::registers(*kernel.twin));
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return static_cast<int>(kernel.largest_dynamic_shared);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return taken(*kernel.library, device).ptx;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return taken(*kernel.library, device).binary;
    default:
      return 0;
  }
}

void set_attribute(Kernel& kernel, CUfunction_attribute what, int value) {
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return;
  require(value >= 0 && value <= static_cast<int>(Occupancy::kSharedOfBlock), CUDA_ERROR_INVALID_VALUE);
  kernel.largest_dynamic_shared = value;
}

uint64_t kernels_run = 0;  // so far

std::shared_ptr<Grid> new_grid(const Grid& like) {
  ++kernels_run;
  auto grid = std::make_shared<Grid>();
  grid->fibers = state().turning->fibers;
  grid->twin = like.twin;
  grid->device = like.device;
  grid->first_multiprocessor = like.first_multiprocessor;
  grid->multiprocessors = like.multiprocessors;
  grid->blocks = like.blocks;
  grid->threads = like.threads;
  grid->dynamic_shared = like.dynamic_shared;
  grid->parameters = like.parameters;
  grid->parameter_memory();  // made now, before its threads are
  grid->order = new_id();
  if (config().fails("ecc", like.device)) grid->injected = CUDA_ERROR_ECC_UNCORRECTABLE;
  if (config().fails("fault", like.device)) grid->injected = CUDA_ERROR_ILLEGAL_ADDRESS;
  return grid;
}

void launch(Call& one, const CUlaunchConfig& how, CUfunction function, void** parameters, void** extra) {
  const Kernel& kernel = kernel_of(function);
  Stream& stream = stream_of(one, how.hStream);
  if (kernel.context == nullptr) {  // the stream says where
    require(stream.context->device == one.context->device, CUDA_ERROR_INVALID_HANDLE);
  } else {
    require(stream.context == one.context && stream.context == kernel.context, CUDA_ERROR_INVALID_HANDLE);
  }
  require(how.gridDimX > 0 && how.gridDimY == 1 && how.gridDimZ == 1 && how.blockDimX > 0 && how.blockDimY == 1 &&
              how.blockDimZ == 1 && how.blockDimX <= kernel.twin->max_threads && extra == nullptr,
          CUDA_ERROR_INVALID_VALUE);
  require(how.sharedMemBytes <= kernel.largest_dynamic_shared, CUDA_ERROR_INVALID_VALUE);
  require_pointers(parameters, parameters[0]);
  const uint32_t fit = Occupancy::blocks(*kernel.twin, how.blockDimX, how.sharedMemBytes);
  require(fit > 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  for (unsigned i = 0; i < how.numAttrs; ++i) {
    if (how.attrs[i].id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE || how.attrs[i].value.cooperative == 0) continue;
    const uint32_t some = stream.context->green ? stream.context->multiprocessors : config().multiprocessors;
    require(how.gridDimX <= fit * some, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
  require(!config().fails("launch", one.context->device), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  const auto model = std::make_shared<Grid>();
  model->twin = kernel.twin;
  model->device = one.context->device;
  model->first_multiprocessor = stream.context->first_multiprocessor;
  model->multiprocessors = stream.context->multiprocessors;
  model->blocks = how.gridDimX;
  model->threads = how.blockDimX;
  model->dynamic_shared = how.sharedMemBytes;
  const auto* const bytes = static_cast<const unsigned char*>(parameters[0]);
  model->parameters.assign(bytes, bytes + kernel.twin->parameter_bytes);
  submit(one, stream, CU_GRAPH_NODE_TYPE_KERNEL, [model] {
    return [model, stuck = false, grid = std::shared_ptr<Grid>()]() mutable {
      if (grid == nullptr && !stuck) stuck = config().fails("stuck", model->device);
      if (stuck) return false;
      if (grid == nullptr) {
        grid = new_grid(*model);
        precede(&grid->tsan_start);
        state().machines[grid->device]->launch(grid.get());
      }
      if (!grid->done()) return false;
      follow(&grid->tsan_end);
      return true;
    };
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  return call("cuLibraryLoadData", kInitialised | kUnsafe | kDrains, [&](Call& one) {
    require_pointers(library);
    *library = reinterpret_cast<CUlibrary>(&load(one, code));
  });
}
CUresult cuLibraryUnload(CUlibrary library) {
  return call("cuLibraryUnload", kInitialised | kUnsafe | kDrains, [&](Call& one) { unload(one, library); });
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return call("cuLibraryGetKernel", kInitialised, [&](Call&) {
    require_pointers(kernel);
    *kernel = reinterpret_cast<CUkernel>(&kernel_named(library, name));
  });
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return call("cuKernelGetFunction", kContext | kDrains, [&](Call& one) {
    require_pointers(function);
    *function =
        reinterpret_cast<CUfunction>(&in_context(kernel_of(reinterpret_cast<CUfunction>(kernel)), *one.context));
  });
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call("cuModuleLoadData", kContext | kUnsafe | kDrains, [&](Call& one) {
    require_pointers(module);
    *module = reinterpret_cast<CUmodule>(&load(one, image));
  });
}
CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", kContext | kUnsafe | kDrains, [&](Call& one) { unload(one, module); });
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", kContext | kDrains, [&](Call& one) {
    require_pointers(function);
    *function = reinterpret_cast<CUfunction>(&in_context(kernel_named(module, name), *one.context));
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute what, CUfunction function) {
  return call("cuFuncGetAttribute", kInitialised, [&](Call&) {
    const Kernel& kernel = kernel_of(function);
    *value = attribute(kernel, what, kernel.context != nullptr ? kernel.context->device : 0);
  });
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  return call("cuFuncSetAttribute", kInitialised, [&](Call&) { set_attribute(kernel_of(function), what, value); });
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute what, CUkernel kernel, CUdevice device) {
  return call("cuKernelGetAttribute", kInitialised, [&](Call&) {
    require(device >= 0 && device < config().devices, CUDA_ERROR_INVALID_DEVICE);
    *value = attribute(kernel_of(reinterpret_cast<CUfunction>(kernel)), what, device);
  });
}
CUresult cuKernelSetAttribute(CUfunction_attribute what, int value, CUkernel kernel, CUdevice) {
  return call("cuKernelSetAttribute", kInitialised,
              [&](Call&) { set_attribute(kernel_of(reinterpret_cast<CUfunction>(kernel)), what, value); });
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return call("cuKernelGetParamInfo", kInitialised, [&](Call&) {
    require_pointers(offset);
    require(index == 0, CUDA_ERROR_INVALID_VALUE);
    *offset = 0;
    if (bytes != nullptr) *bytes = kernel_of(reinterpret_cast<CUfunction>(kernel)).twin->parameter_bytes;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kInitialised, [&](Call&) {
    require_pointers(blocks);
    *blocks = static_cast<int>(Occupancy::blocks(*kernel_of(function).twin, threads, shared));
  });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  return call("cuLaunchKernel", kContext, [&](Call& one) {
    const CUlaunchConfig how{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, nullptr, 0};
    launch(one, how, function, parameters, extra);
  });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* how, CUfunction function, void** parameters, void** extra) {
  return call("cuLaunchKernelEx", kContext, [&](Call& one) {
    require_pointers(how);
    launch(one, *how, function, parameters, extra);
  });
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters) {
  return call("cuLaunchCooperativeKernel", kContext, [&](Call& one) {
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    const CUlaunchConfig how{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, &cooperative, 1};
    launch(one, how, function, parameters, nullptr);
  });
}

/// How many kernels have begun to run, launched by themselves or by graphs.
extern "C" uint64_t fake_cuda_kernels() {
  const std::lock_guard lock(fake::state().mutex);
  return fake::kernels_run;
}
