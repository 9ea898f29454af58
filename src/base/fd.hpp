// A file descriptor that closes itself, and is none of the standard ones.
#pragma once

#include <unistd.h>

#include <utility>

namespace tutti {

/// `fd` under a number from 3 on, close-on-exec. A program that was started with standard streams closed has 0, 1 and 2
/// to give away, and whatever it then prints would be written into our socket. −1 and errno where there is no other
/// number left; a negative one stays as it is, and so does errno.
int above_standard_streams(int fd);

class Fd {
 public:
  Fd() = default;
  /// Takes the descriptor over. Every one that the library makes or is given goes through here.
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
