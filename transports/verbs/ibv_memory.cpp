#include "transports/verbs/ibv_memory.hpp"

#include <cerrno>

#include "base/format.hpp"
#include "transports/verbs/ibv_port.hpp"

namespace tutti::transports::verbs {
namespace {

/// Calls `make(access)`, with relaxed ordering if the device has it: the bus may reorder the bytes of writes, but not a
/// completion with them. libibverbs leaves the flag out where it knows that the device lacks it; others refuse it.
/// Windows do without: the peer sees an atomic step, not a completion.
template <class Make>
MemoryRegion register_with(RegionUse use, bool atomics, const Make& make) {
  int access = 0;
  if (use != RegionUse::Send) access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (use == RegionUse::Window) access |= IBV_ACCESS_REMOTE_READ | (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  if (use == RegionUse::Data) access |= IBV_ACCESS_RELAXED_ORDERING;
  MemoryRegion region(make(access));
  if (region == nullptr && use == RegionUse::Data) region.reset(make(access & ~IBV_ACCESS_RELAXED_ORDERING));
  return region;
}

}  // namespace

MemoryRegion register_host(ibv_pd* domain, void* data, uint64_t bytes, RegionUse use, bool atomics) {
  MemoryRegion region =
      register_with(use, atomics, [&](int access) { return ibv_reg_mr(domain, data, bytes, access); });
  if (region == nullptr) throw_error(Code::OutOfMemory, "verbs: {}", locked_memory_words(bytes, errno));
  return region;
}

MemoryRegion register_device(ibv_pd* domain, const DmaBuf& memory, RegionUse use) {
  return register_with(use, false, [&](int access) {
    return ibv_reg_dmabuf_mr(domain, memory.offset, memory.bytes, memory.address, memory.fd, access);
  });
}

/// One that does says of an invalid descriptor that it is invalid.
bool has_dmabuf(ibv_pd* domain) {
  constexpr uint64_t kPage = 4096;
  errno = 0;
  const MemoryRegion none(ibv_reg_dmabuf_mr(domain, 0, kPage, 0, -1, 0));
  return none == nullptr && errno == EBADF;
}

}  // namespace tutti::transports::verbs
