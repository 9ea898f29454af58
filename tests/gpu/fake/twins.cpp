#include "twins.hpp"

#include <dlfcn.h>

#include "config.hpp"
#include "grid.hpp"

namespace fake {
namespace {

const Twin* first = nullptr;
std::atomic<const tutti::ptx::host::Thread*>* current = nullptr;

}  // namespace

std::string load_twins() {
  using Open = const Twin* (*)(const tutti::ptx::host::BlockRuntime*, std::atomic<const tutti::ptx::host::Thread*>**);
  if (current != nullptr) return "";
  if (config().twins.empty()) return "FAKE_CUDA_TWINS is not set: the kernels' twins are not known";
  void* const library = dlopen(config().twins.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const auto open = reinterpret_cast<Open>(dlsym(library, "fake_cuda_twins"));
  if (open == nullptr) return config().twins + " has no fake_cuda_twins: link twins_entry.cpp into it";
  first = open(&block_runtime(), &current);
  return "";
}

const Twin* all_twins() { return first; }

const Twin* find_twin(const std::string& name) {
  for (const Twin* twin = first; twin != nullptr; twin = twin->next) {
    if (name == twin->name) return twin;
  }
  return nullptr;
}

void set_running_thread(const tutti::ptx::host::Thread* thread) { current->store(thread, std::memory_order_relaxed); }

}  // namespace fake
