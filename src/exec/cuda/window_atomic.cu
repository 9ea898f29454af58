// An atomic step on a window, by one thread: streams have no operation for it. Memory of a GPU that NVLink joins, and
// of this one, takes it as one step for all GPUs and hosts; over PCIe it would not be one.
#include "exec/cuda/window_atomic.hpp"

#include "exec/cuda/window_steps.hpp"

namespace tutti::exec::cuda {

TUTTI_KERNEL(tutti_window_atomic, WindowAtomic, 1) {
  *arguments.before = arguments.compares != 0
                          ? ptx::compare_swap_in_order(arguments.at, arguments.expected, arguments.operand)
                          : ptx::add_in_order(arguments.at, arguments.operand);
}

}  // namespace tutti::exec::cuda
