#include "comm/memory.hpp"

#include <map>
#include <mutex>

#include "base/format.hpp"
#include "comm/placement.hpp"
#include "control/host.hpp"
#include "link/mapped_memory.hpp"
#include "rma/own_part.hpp"

namespace tutti::comm {

namespace {

/// Memory of other backends that was allocated here.
struct OtherBuffers {
  std::mutex mutex;
  std::map<void*, const exec::BackendEntry*> all;
  static OtherBuffers& of_this_process() {
    static auto* const kBuffers = new OtherBuffers;
    return *kBuffers;
  }
};

/// Of the first backend of which this thread uses a processor; else the first says what is wrong.
const exec::BackendEntry& backend_of_this_thread() {
  const auto& all = exec::backends();
  if (all.empty()) {
    throw_error(Code::Unsupported,
                "there is no memory of devices: no backend for it is installed (`tutti info` says why)");
  }
  for (const exec::BackendEntry* entry : all) {
    if (entry->current() != exec::kNoProcessor) return *entry;
  }
  return *all.front();
}

void* allocate_elsewhere(uint64_t bytes) {
  const exec::BackendEntry& entry = backend_of_this_thread();
  void* const buffer = entry.allocate(bytes);
  OtherBuffers& buffers = OtherBuffers::of_this_process();
  const std::lock_guard lock(buffers.mutex);
  buffers.all[buffer] = &entry;
  return buffer;
}

/// Null: it is none of them. Forgets it.
const exec::BackendEntry* take_owner(void* buffer) {
  OtherBuffers& buffers = OtherBuffers::of_this_process();
  const std::lock_guard lock(buffers.mutex);
  const auto found = buffers.all.find(buffer);
  if (found == buffers.all.end()) return nullptr;
  const exec::BackendEntry* const owner = found->second;
  buffers.all.erase(found);
  return owner;
}

}  // namespace

void* allocate_buffer(uint64_t bytes, BufferKind kind) {
  if (kind == BufferKind::Device) return allocate_elsewhere(bytes);
  using Kind = link::SharedMemory::Kind;
  return control::on_this_host([&] {
    return link::SharedMemory::of_this_process().allocate(bytes, kind == BufferKind::Mapped ? Kind::Mapped : Kind::Any);
  });
}

void free_buffer(void* buffer) {
  if (const exec::BackendEntry* const owner = take_owner(buffer)) return owner->release(buffer);
  link::SharedMemory& shared = link::SharedMemory::of_this_process();
  if (const auto part = rma::OwnPart::within(buffer, shared.bytes_of(buffer))) {  // other ranks may write to it
    throw_error(Code::InvalidUsage, "the memory is rank {}'s part of the window of call {}: deregister that first",
                std::get<1>(*part), std::get<2>(*part));
  }
  shared.release(buffer);
}

}  // namespace tutti::comm
