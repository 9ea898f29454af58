// The shared object with the kernels' twins (FAKE_CUDA_TWINS).
#pragma once

#include <string>

#include "exec/cuda/device.hpp"

namespace fake {

using tutti::ptx::host::Twin;

/// Loads the twins, once. An error text; "" if all is well.
std::string load_twins();
/// Null: there is none of that name.
const Twin* find_twin(const std::string& name);
/// All of them, as a list.
const Twin* all_twins();
/// Tells the twins which thread runs.
void set_running_thread(const tutti::ptx::host::Thread* thread);

}  // namespace fake
