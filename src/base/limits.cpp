#include "base/limits.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti {
namespace {

/// RLIM_INFINITY if the limit cannot be read.
rlim_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string text_of(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit); }

/// Sets the size, and allocates all of it if `now`. 0 or errno.
int make_of_size(int fd, uint64_t bytes, bool now, Size size) {
  if (const int error = grow_memory_file(fd, bytes); error != 0) return error;
  if (const int error = now ? allocate_memory(fd, 0, bytes) : 0; error != 0) return error;
  const int seals = F_SEAL_SHRINK | F_SEAL_SEAL | (size == Size::Fixed ? F_SEAL_GROW : 0);
  return fcntl(fd, F_ADD_SEALS, seals) == 0 ? 0 : errno;
}

}  // namespace

std::string system_words(int error) {
  const char* const words = std::strerror(error);
  switch (error) {
    case EMFILE:
      return fmt::format("{} (ulimit -n allows this process {} descriptors; raise it)", words,
                         text_of(limit_of(RLIMIT_NOFILE)));
    case ENFILE:
      return fmt::format("{} (raise the machine's fs.file-max)", words);
    case EFBIG:
      return fmt::format("{} (shared memory counts as a file, and ulimit -f allows {} bytes; raise it)", words,
                         text_of(limit_of(RLIMIT_FSIZE)));
    default:
      return words;
  }
}

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

void throw_system(const char* what, int error) {
  const std::string text = fmt::format("cannot {}: {}", what, system_words(error));
  if (out_of_descriptors(error)) throw NoDescriptor(text);
  throw Error(Code::SystemError, text);
}

size_t max_descriptors() { return static_cast<size_t>(std::min<rlim_t>(limit_of(RLIMIT_NOFILE), 1 << 20)); }

int descriptor_reserve() { return static_cast<int>(std::clamp<rlim_t>(limit_of(RLIMIT_NOFILE) / 8, 12, 64)); }

int allocate_memory(int fd, uint64_t offset, uint64_t bytes) {
  while (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void free_memory(int fd, uint64_t offset, uint64_t bytes) {
  static_cast<void>(
      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)));
}

int grow_memory_file(int fd, uint64_t bytes) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return errno;
  if (static_cast<uint64_t>(file.st_size) >= bytes) return 0;  // a process that has the file may have grown it
  if (bytes > limit_of(RLIMIT_FSIZE)) return EFBIG;
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

Fd make_memory_file(const char* name, uint64_t bytes, Reserve reserve, Pages pages, Size size) {
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fd;
  // The kernel assigns the lowest free number, so the remaining ones are higher.
  const rlim_t last = limit_of(RLIMIT_NOFILE) - static_cast<rlim_t>(descriptor_reserve());
  const bool spare = reserve == Reserve::Use || static_cast<rlim_t>(fd.get()) < last;
  const int error = spare ? make_of_size(fd.get(), bytes, pages == Pages::Now, size) : EMFILE;
  if (error != 0) {
    fd.reset();
    errno = error;
  }
  return fd;
}

void throw_no_thread(int error) {
  throw_error(Code::SystemError,
              "cannot start a thread: {}. A thread counts in the limit on this user's processes (ulimit -u allows {}) "
              "and in the control group's (pids.max), and needs memory for its stack (ulimit -v, -s)",
              std::strerror(error), text_of(limit_of(RLIMIT_NPROC)));
}

}  // namespace tutti
