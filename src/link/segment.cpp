#include "link/segment.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "base/format.hpp"
#include "topo/cgroup.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMax = uint64_t{1} << 46;  // below what any machine can map, above what any arena needs

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

unsigned char* map_shared(int fd, Segment::Place place, int access = PROT_READ | PROT_WRITE) {
  void* const base = ::mmap(nullptr, place.bytes, access, MAP_SHARED, fd, static_cast<off_t>(place.offset));
  return base == MAP_FAILED ? nullptr : static_cast<unsigned char*>(base);
}

/// Why `fd` must not be mapped; null when it may. Reading a file that can shrink, or huge pages that can be removed,
/// would end in SIGBUS.
const char* defect_of(int fd, Segment::Place place) {
  if (fd < 0) return "no descriptor came with it";
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return "its size is not sealed";
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return "it is not plain memory";
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_size < 0) return "its size cannot be read";
  const auto [offset, bytes] = place;
  if (bytes == 0 || bytes > kMax || bytes % kPage != 0) return "its size is invalid";
  if (offset > kMax || offset % kPage != 0) return "its place in the file is invalid";
  if (static_cast<uint64_t>(file.st_size) < offset + bytes) return "it is smaller than stated";
  return nullptr;
}

/// Reads how much memory is left, unless it has just been read and `bytes` are little of it: of control groups that
/// takes a dozen files and up to a millisecond.
bool fits_in_memory(uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kFresh = std::chrono::seconds(1);
  constexpr uint64_t kLittle = 512;  // of so many parts; each process of the host may use one
  static std::mutex mutex;
  static Clock::time_point read_at{};
  static uint64_t granted = 0;  // bytes that may be used before the next reading
  const std::lock_guard lock(mutex);
  const auto now = Clock::now();
  if (bytes > granted || now - read_at > kFresh) {
    const uint64_t left = available_memory();
    if (bytes > left) return false;
    read_at = now;
    granted = std::max(bytes, left / kLittle);
  }
  granted -= bytes;
  return true;
}

/// `bytes` as whole pages. Throws Error unless there may be so many.
uint64_t checked_pages(uint64_t bytes) {
  if (bytes == 0 || bytes > kMax) {
    throw_error(Code::InvalidArgument, "shared memory of {} bytes was requested; it must be 1 to {} bytes", bytes,
                kMax);
  }
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (!fits_in_memory(bytes)) throw_no_memory(bytes, ENOMEM);
  return bytes;
}

}  // namespace

Segment Segment::create(uint64_t bytes, Pages pages) {
  bytes = checked_pages(bytes);
  auto part = std::make_shared<Part>();
  part->file = std::make_shared<const Fd>(make_memory_file("tutti-arena", bytes, Reserve::Use, pages));
  part->bytes = bytes;
  if (!*part->file) throw_refused(bytes, errno);
  unsigned char* const base = map_shared(part->file->get(), {0, bytes});
  if (base == nullptr) throw_no_memory(bytes, errno);
  return {std::move(part), base, bytes};
}

Segment Segment::map(Fd fd, Place place, const std::string& whose, Access access) {
  const uint64_t bytes = place.bytes;
  if (const char* defect = defect_of(fd.get(), place)) {
    throw_error(Code::ProtocolError, "the shared memory of {}, of {} bytes by its own account, was refused: {}", whose,
                bytes, defect);
  }
  unsigned char* const base = map_shared(fd.get(), place, access == Access::Read ? PROT_READ : PROT_READ | PROT_WRITE);
  if (base == nullptr) {
    throw_error(Code::OutOfMemory, "cannot map the shared memory of {} ({}): {}; raise the limit on address space",
                whose, to_text(Bytes{bytes}), std::strerror(errno));
  }
  return {nullptr, base, bytes};
}

void Segment::commit(uint64_t offset, uint64_t bytes) const {
  const int error = fits_in_memory(bytes) ? allocate_memory(part_->file->get(), part_->offset + offset, bytes) : ENOMEM;
  if (error != 0) throw_refused(bytes, error);
  enter_pages(offset, bytes);
}

std::function<void()> Segment::when_peers_are_done() const {
  return [part = part_] {
    if (part != nullptr) part->peers_are_done.store(true, std::memory_order_relaxed);
  };
}

Segment::Part::~Part() {
  if (peers_are_done.load(std::memory_order_relaxed) && file.use_count() > 1) free_memory(file->get(), offset, bytes);
}

Segment SegmentFiles::cut(uint64_t bytes) {
  bytes = checked_pages(bytes);
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr || used_ + bytes > kMax || grow_memory_file(file_->get(), used_ + bytes) != 0) {
    file_ = std::make_shared<const Fd>(make_memory_file("tutti-arena", bytes, Reserve::Use, Pages::Later, Size::Grows));
    used_ = 0;
    if (!*file_) {
      const int error = errno;
      file_.reset();
      throw_refused(bytes, error);
    }
  }
  auto part = std::make_shared<Segment::Part>();
  part->file = file_;
  part->offset = used_;
  part->bytes = bytes;
  unsigned char* const base = map_shared(file_->get(), {used_, bytes});
  if (base == nullptr) throw_no_memory(bytes, errno);
  used_ += bytes;
  return {std::move(part), base, bytes};
}

void Segment::enter_pages([[maybe_unused]] uint64_t offset, [[maybe_unused]] uint64_t bytes) const {
#ifdef MADV_POPULATE_READ
  const uint64_t first = offset / kPage * kPage;
  static_cast<void>(::madvise(base_ + first, offset + bytes - first, MADV_POPULATE_READ));
#endif
}

Segment::Segment(Segment&& other) noexcept
    : part_(std::move(other.part_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(part_, other.part_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

}  // namespace tutti::link
