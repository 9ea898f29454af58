#include "compat/torch/symmetric_memory.hpp"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <map>
#include <mutex>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/symmetric_handle.hpp"
#include "compat/torch/work.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

namespace symm = c10d::symmetric_memory;

constexpr const char* kRendezvous = "rendezvous";

/// Errors as those of the group's calls.
template <class Function>
auto translated(const Function& function) {
  try {
    return function();
  } catch (...) {
    std::rethrow_exception(as_torch_error());
  }
}

c10::intrusive_ptr<Group> group_named(const std::string& name) {
  const auto all = c10d::resolve_process_group(name);
  const auto& types = all->getDeviceTypes();
  const bool has_cpu = std::find(types.begin(), types.end(), at::kCPU) != types.end();
  const auto backend = has_cpu ? all->getBackend(at::kCPU) : nullptr;
  auto* const group = dynamic_cast<Group*>(backend.get());
  if (group == nullptr) {
    refuse(kRendezvous,
           c10::str("group '", name, "' has ", has_cpu ? "the backend " + backend->getBackendName() : "no backend",
                    " for tensors of the CPU, and symmetric memory of the CPU needs tutti: "
                    "init_process_group(\"cpu:tutti,…\")"));
  }
  return c10::intrusive_ptr<Group>::reclaim_copy(group);
}

class Allocator : public symm::SymmetricMemoryAllocator {
 public:
  void* alloc(size_t size, int, const std::optional<std::string>& group) override {
    return translated([&] {
      auto block = std::make_shared<SymmetricBlock>(size, symm::get_signal_pad_size());
      void* const data = block->data();
      const std::lock_guard lock(mutex_);
      tensors_[data] = {std::move(block), group, nullptr};
      return data;
    });
  }
  void free(void* data) override {
    Tensor last;  // its handle may be the last to hold a window
    const std::lock_guard lock(mutex_);
    const auto found = tensors_.find(data);
    if (found == tensors_.end()) return;
    last = std::move(found->second);
    tensors_.erase(found);
  }
  size_t get_alloc_size(void* data) override {
    const std::lock_guard lock(mutex_);
    const auto found = tensors_.find(data);
    return found == tensors_.end() ? 0 : found->second.block->bytes();
  }
  bool has_allocation(void* data) override {
    const std::lock_guard lock(mutex_);
    return tensors_.contains(data);
  }
  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(void* data, const std::optional<std::string>& group) override {
    return translated([&]() -> c10::intrusive_ptr<symm::SymmetricMemory> { return handle_of(data, group); });
  }
  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return c10::DeviceType::CPU; }
  std::string name() override { return "TUTTI"; }

 private:
  using HandlePtr = c10::intrusive_ptr<SymmetricHandle>;
  struct Tensor {
    std::shared_ptr<SymmetricBlock> block;
    std::optional<std::string> group;  // given when it was made
    HandlePtr handle;
  };

  HandlePtr handle_of(void* data, const std::optional<std::string>& given) {
    std::unique_lock lock(mutex_);
    const auto found = tensors_.find(data);
    const bool known = found != tensors_.end();
    const std::optional<std::string> name = given || !known ? given : found->second.group;
    if (!name) refuse(kRendezvous, "which group? Give it, or its name");
    const std::shared_ptr<SymmetricBlock> block = known ? found->second.block : nullptr;
    const HandlePtr before = known ? found->second.handle : HandlePtr();
    lock.unlock();
    const auto group = group_named(*name);
    if (before && &before->group() == group.get()) return before;
    const auto handle = SymmetricHandle::make(group, block, why_not(block, before));
    lock.lock();
    if (const auto again = tensors_.find(data); again != tensors_.end()) again->second.handle = handle;
    return handle;
  }

  /// Why this rank cannot take part; "" if it can.
  static std::string why_not(const std::shared_ptr<SymmetricBlock>& block, const HandlePtr& before) {
    if (block == nullptr) {
      return "the tensor is not of symmetric memory: make it with torch.distributed._symmetric_memory.empty";
    }
    if (!block->is_own()) return "the tensor was made before this process was forked: make one here";
    if (before && !before->group().has_left()) {
      return "another group has the tensor already, whose signals lie in the same pad: make a tensor for each group";
    }
    return "";
  }

  std::mutex mutex_;
  std::map<void*, Tensor> tensors_;  // that are alive, by their memory
};

}  // namespace

void serve_symmetric_memory() {
  const auto allocator = c10::make_intrusive<Allocator>();
  symm::register_availability(allocator->name(), allocator);
  if (!symm::has_allocator(c10::DeviceType::CPU)) symm::register_allocator(c10::DeviceType::CPU, allocator);
}

at::Tensor kept(const c10::intrusive_ptr<symm::SymmetricMemory>& handle, const at::Tensor& tensor) {
  const auto* const own = dynamic_cast<const SymmetricHandle*>(handle.get());
  if (own == nullptr) return tensor;
  if (!own->holds(tensor.data_ptr(), tensor.nbytes())) {
    refuse("get_buffer",
           "the bytes do not lie in the tensor's memory or its signal pad, which has the size that "
           "set_signal_pad_size had set when the tensor was made");
  }
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [handle](void*) {}, tensor.options());
}

}  // namespace tutti_torch
