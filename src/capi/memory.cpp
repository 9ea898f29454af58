// The C interface's memory: allocation and registration.
#include <map>
#include <mutex>

#include "base/format.hpp"
#include "capi/handles.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::capi {
namespace {

/// Buffers that users registered; a handle is the registration's number.
class Registrations {
 public:
  void* add(tuttiComm_t comm) {
    const std::lock_guard lock(mutex_);
    recent_calls_[++last_] = comm;
    return reinterpret_cast<void*>(last_);
  }
  void remove(void* handle, tuttiComm_t comm) {
    const std::lock_guard lock(mutex_);
    const auto found = recent_calls_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == recent_calls_.end() || found->second != comm) {
      throw Error(Code::InvalidArgument, "the handle was not made by tuttiCommRegister on this communicator");
    }
    recent_calls_.erase(found);
  }
  static Registrations& all() {
    static auto* registrations = new Registrations;
    return *registrations;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, tuttiComm_t> recent_calls_;
  uintptr_t last_ = 0;
};

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes) {
  return guarded([&] {
    if (pointer == nullptr) throw Error(Code::InvalidArgument, "pointer is null");
    *pointer = control::on_this_host([&] { return link::SharedMemory::of_this_process().allocate(bytes); });
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return guarded([&] {
    if (pointer != nullptr) link::SharedMemory::of_this_process().release(pointer);
  });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buffer, size_t bytes, void** handle) {
  return guarded([&] {
    communicator_of(comm);
    if (handle == nullptr) throw Error(Code::InvalidArgument, "handle is null");
    if (buffer == nullptr && bytes > 0) throw Error(Code::InvalidArgument, "buffer is null");
    *handle = Registrations::all().add(comm);
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) {
  return guarded([&] {
    communicator_of(comm);
    Registrations::all().remove(handle, comm);
  });
}
