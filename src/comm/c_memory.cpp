// The C interface's memory: allocation and registration.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/format.hpp"
#include "comm/handles.hpp"

namespace tutti::comm {
namespace {

constexpr size_t kAlignment = size_t{2} << 20;  // a huge page, where the machine has them

/// Mappings by the address that the user has.
class Allocations {
 public:
  void* allocate(size_t bytes) {
    if (bytes > SIZE_MAX - 2 * kAlignment) throw_error(Code::OutOfMemory, "{} bytes cannot be had", bytes);
    const size_t length = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
    void* base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw_error(Code::OutOfMemory, "{} bytes cannot be had: {}", bytes, std::strerror(errno));
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + kAlignment - 1) / kAlignment * kAlignment;
    void* user = reinterpret_cast<void*>(aligned);
    madvise(user, length - kAlignment, MADV_HUGEPAGE);  // a hint: without huge pages it stays ordinary memory
    const std::lock_guard lock(mutex_);
    known_[user] = {base, length};
    return user;
  }
  void release(void* user) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(user);
    if (found == known_.end()) throw_error(Code::InvalidArgument, "{} did not come from tuttiMemAlloc", user);
    munmap(found->second.base, found->second.length);
    known_.erase(found);
  }
  static Allocations& all() {
    static auto* allocations = new Allocations;
    return *allocations;
  }

 private:
  struct Mapping {
    void* base;
    size_t length;
  };
  std::mutex mutex_;
  std::map<void*, Mapping> known_;
};

/// What users announced; a handle is the announcement's number.
class Registrations {
 public:
  void* add(tuttiComm_t comm) {
    const std::lock_guard lock(mutex_);
    known_[++last_] = comm;
    return reinterpret_cast<void*>(last_);
  }
  void remove(void* handle, tuttiComm_t comm) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == known_.end() || found->second != comm) {
      throw Error(Code::InvalidArgument, "the handle was not made by tuttiCommRegister on this communicator");
    }
    known_.erase(found);
  }
  static Registrations& all() {
    static auto* registrations = new Registrations;
    return *registrations;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, tuttiComm_t> known_;
  uintptr_t last_ = 0;
};

}  // namespace
}  // namespace tutti::comm

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::comm;  // NOLINT

tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes) {
  return guarded([&] {
    if (pointer == nullptr) throw Error(Code::InvalidArgument, "pointer is null");
    *pointer = Allocations::all().allocate(bytes);
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return guarded([&] {
    if (pointer != nullptr) Allocations::all().release(pointer);
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
