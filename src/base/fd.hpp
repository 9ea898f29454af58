// A file descriptor that closes itself and is never a standard stream.
#pragma once

#include <unistd.h>

#include <utility>

namespace tutti {

/// Duplicates `fd` to a number ≥ 3, close-on-exec. A program started with closed standard streams gets 0, 1 and 2 for
/// its next descriptors, and its output would then be written into our socket. −1 and errno if no number is left. A
/// negative `fd` is returned unchanged, with errno.
int above_standard_streams(int fd);

class Fd {
 public:
  Fd() = default;
  /// Takes ownership. Every descriptor of the library is created through this constructor.
  explicit Fd(int fd) : fd_(above_standard_streams(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti
