#include "compat/torch/window.hpp"

#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/interrupt.hpp"
#include "compat/torch/python.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

/// Memory that other ranks can write to as it lies.
void check_part(const at::Tensor& part) {
  check_tensor("window", part);
  demand(part.is_cpu(), "window",
         "the tensor must be the CPU's: tutti_torch does not support windows in memory of GPUs");
  demand(part.is_contiguous(), "window", "the tensor must be contiguous");
}

/// All ranks are to hear of it, which would else wait for this one.
void refuse_for_all(tuttiComm_t comm) {
  tuttiWindow_t none = nullptr;
  (void)tuttiWindowRegister(comm, nullptr, 1, &none);
}

}  // namespace

std::shared_ptr<Window> Window::make(const c10::intrusive_ptr<Group>& group, const at::Tensor& part) {
  return make(group, [&] {
    check_part(part);
    return part.detach();
  });
}

std::shared_ptr<Window> Window::make(const c10::intrusive_ptr<Group>& group, const std::function<at::Tensor()>& find) {
  const std::shared_ptr<Window> window(new Window(group));
  window->run("window", [&](tuttiComm_t comm) {
    try {
      window->part_ = find();
    } catch (...) {
      refuse_for_all(comm);
      throw;
    }
    return tuttiWindowRegister(comm, window->part_.data_ptr(), window->part_.nbytes(), &window->handle_);
  });
  group->hold(window);
  return window;
}

/// Runs call(communicator) without the interpreter's lock, after what was queued before. Ctrl-C ends it.
template <class Call>
void Window::run(const char* name, const Call& call) const {
  try {
    const WithoutGil without;
    const at::NoGradGuard no_grad;
    const tuttiComm_t comm = group_->in_turn(name);
    const Interruptible interruptible(comm);
    tutti::check(call(comm));
  } catch (...) {
    check_signals();
    std::rethrow_exception(as_torch_error());
  }
}

void Window::check_data(const char* name, const at::Tensor& data) const {
  check_tensor(name, data);
  demand(data.is_cpu(), name, "the tensor must be the CPU's");
  demand(data.scalar_type() == part_.scalar_type(), name, "the tensor's dtype must be the window's");
}

void Window::check_words(const char* name) const {
  demand(part_.scalar_type() == at::kLong, name, "the window's dtype must be int64");
}

/// SIZE_MAX, which lies in no part, for a product that does not fit. Throws ValueError for a negative number.
size_t Window::bytes(const char* name, int64_t elements) const {
  demand(elements >= 0, name, "an offset is negative");
  const size_t count = static_cast<size_t>(elements), size = part_.itemsize();
  return count <= SIZE_MAX / size ? count * size : SIZE_MAX;
}

std::byte* Window::address(int peer, size_t& bytes) const {
  void* address = nullptr;
  tutti::check(tuttiWindowPeer(handle_, peer, &address));
  tutti::check(tuttiWindowSize(handle_, peer, &bytes));
  return static_cast<std::byte*>(address);
}

void Window::check_peer(int peer) const { tutti::check(tuttiPut(nullptr, 0, peer, 0, handle_, nullptr)); }

int64_t Window::size(int peer) const {
  size_t bytes = 0;
  run("size", [&](tuttiComm_t) { return tuttiWindowSize(handle_, peer, &bytes); });
  return static_cast<int64_t>(bytes / part_.itemsize());
}

void Window::put(const at::Tensor& source, int peer, int64_t offset) const {
  run("put", [&](tuttiComm_t) {
    check_data("put", source);
    const at::Tensor data = source.contiguous();
    return tuttiPut(data.data_ptr(), data.nbytes(), peer, bytes("put", offset), handle_, nullptr);
  });
}

void Window::put_signal(const at::Tensor& source, int peer, int64_t offset, int signal) const {
  run("put_signal", [&](tuttiComm_t) {
    check_data("put_signal", source);
    const at::Tensor data = source.contiguous();
    return tuttiPutSignal(data.data_ptr(), data.nbytes(), peer, bytes("put_signal", offset), signal, handle_, nullptr);
  });
}

void Window::get(const at::Tensor& into, int peer, int64_t offset) const {
  run("get", [&](tuttiComm_t) {
    check_data("get", into);
    const at::Tensor data = into.contiguous();
    const tuttiResult_t result = tuttiGet(data.data_ptr(), data.nbytes(), peer, bytes("get", offset), handle_, nullptr);
    if (result == tuttiSuccess && data.data_ptr() != into.data_ptr()) copy_into(into, data);
    return result;
  });
}

void Window::signal(int peer, int signal) const {
  run("signal", [&](tuttiComm_t) { return tuttiSignal(peer, signal, handle_, nullptr); });
}

void Window::wait_signal(int peer, int signal, int64_t count) const {
  run("wait_signal", [&](tuttiComm_t) {
    demand(count > 0, "wait_signal", "the count must be positive");
    return tuttiWaitSignal(peer, signal, static_cast<uint64_t>(count), handle_, nullptr);
  });
}

int64_t Window::atomic_add(int64_t value, int peer, int64_t offset) const {
  uint64_t before = 0;
  run("atomic_add", [&](tuttiComm_t) {
    check_words("atomic_add");
    return tuttiAtomicAdd(static_cast<uint64_t>(value), &before, peer, bytes("atomic_add", offset), handle_, nullptr);
  });
  return static_cast<int64_t>(before);
}

int64_t Window::atomic_compare_swap(int64_t expected, int64_t desired, int peer, int64_t offset) const {
  uint64_t before = 0;
  run("atomic_compare_swap", [&](tuttiComm_t) {
    check_words("atomic_compare_swap");
    return tuttiAtomicCompareSwap(static_cast<uint64_t>(expected), static_cast<uint64_t>(desired), &before, peer,
                                  bytes("atomic_compare_swap", offset), handle_, nullptr);
  });
  return static_cast<int64_t>(before);
}

void Window::flush(int peer) const {
  run("flush", [&](tuttiComm_t) { return tuttiFlush(peer, handle_, nullptr); });
}

void Window::barrier() const {
  run("barrier", [&](tuttiComm_t) { return tuttiWindowBarrier(handle_, nullptr); });
}

/// One that was not closed: the group has left, so this waits for nobody.
Window::~Window() {
  if (handle_ != nullptr) (void)tuttiWindowDeregister(handle_);
}

void Window::close() {
  if (handle_ == nullptr) return;
  try {
    run("close", [&](tuttiComm_t) { return tuttiWindowDeregister(std::exchange(handle_, nullptr)); });
  } catch (...) {
    group_->release(this);
    throw;
  }
  group_->release(this);
}

}  // namespace tutti_torch
