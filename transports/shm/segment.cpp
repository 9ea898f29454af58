#include "transports/shm/segment.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "base/format.hpp"
#include "topo/cgroup.hpp"

namespace tutti::transports {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMost = uint64_t{1} << 46;  // below what any machine can map, above what any arena needs

[[noreturn]] void throw_no_memory(uint64_t bytes, int error) {
  throw_error(
      Code::OutOfMemory,
      "cannot get {} of shared memory for this rank's arena: {}; lower TUTTI_ARENA, or raise the memory limit of "
      "this machine or container",
      to_text(Bytes{bytes}), std::strerror(error));
}

[[noreturn]] void throw_refused(uint64_t bytes, int error) {
  if (error == ENOMEM || error == ENOSPC) throw_no_memory(bytes, error);
  if (error == EPERM || error == EACCES || error == ENOSYS) {
    throw_error(
        Code::SystemError,
        "cannot get {} of shared memory for this rank's arena: the system refuses memfd_create, ftruncate or "
        "fallocate ({}), as a container's seccomp filter does; allow them, or set TUTTI_TRANSPORT=tcp on all ranks",
        to_text(Bytes{bytes}), std::strerror(error));
  }
  throw_system(
      fmt::format("get {} of shared memory for this rank's arena (TUTTI_ARENA)", to_text(Bytes{bytes})).c_str(), error);
}

unsigned char* map_shared(int fd, uint64_t bytes, int access = PROT_READ | PROT_WRITE) {
  void* const base = ::mmap(nullptr, bytes, access, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<unsigned char*>(base);
}

/// Why `fd` must not be mapped; null when it may. Reading a file that can shrink, or huge pages that can be removed,
/// would end in SIGBUS.
const char* defect_of(int fd, uint64_t bytes) {
  if (fd < 0) return "no descriptor came with it";
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return "its size is not sealed";
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return "it is not plain memory";
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_size < 0) return "its size cannot be read";
  if (bytes == 0 || bytes > kMost || bytes % kPage != 0) return "its size is invalid";
  if (static_cast<uint64_t>(file.st_size) < bytes) return "it is smaller than stated";
  return nullptr;
}

}  // namespace

Segment Segment::create(uint64_t bytes, Pages pages) {
  if (bytes == 0 || bytes > kMost) {
    throw_error(Code::InvalidArgument, "shared memory of {} bytes was requested; it must be 1 to {} bytes", bytes,
                kMost);
  }
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (bytes > available_memory()) throw_no_memory(bytes, ENOMEM);
  Fd fd = make_memory_file("tutti-arena", bytes, Reserve::Use, pages);
  if (!fd) throw_refused(bytes, errno);
  unsigned char* const base = map_shared(fd.get(), bytes);
  if (base == nullptr) throw_no_memory(bytes, errno);
  return {std::move(fd), base, bytes};
}

Segment Segment::map(Fd fd, uint64_t bytes, const std::string& whose, Access access) {
  if (const char* defect = defect_of(fd.get(), bytes)) {
    throw_error(Code::ProtocolError, "the shared memory of {}, of {} bytes by its own account, was refused: {}", whose,
                bytes, defect);
  }
  unsigned char* const base = map_shared(fd.get(), bytes, access == Access::Read ? PROT_READ : PROT_READ | PROT_WRITE);
  if (base == nullptr) {
    throw_error(Code::OutOfMemory, "cannot map the shared memory of {} ({}): {}; raise the limit on address space",
                whose, to_text(Bytes{bytes}), std::strerror(errno));
  }
  return {Fd(), base, bytes};
}

void Segment::commit(uint64_t offset, uint64_t bytes) const {
  if (const int error = bytes > available_memory() ? ENOMEM : allocate_memory(fd_.get(), offset, bytes); error != 0) {
    throw_refused(bytes, error);
  }
  enter_pages(offset, bytes);
}

void Segment::enter_pages([[maybe_unused]] uint64_t offset, [[maybe_unused]] uint64_t bytes) const {
#ifdef MADV_POPULATE_READ
  const uint64_t first = offset / kPage * kPage;
  static_cast<void>(::madvise(base_ + first, offset + bytes - first, MADV_POPULATE_READ));
#endif
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

}  // namespace tutti::transports
