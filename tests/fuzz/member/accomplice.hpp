// A process for the hostile member, which lives in the process of its victim: it listens and connects in the member's
// place, so that who looks sees its number, and what others read and write in the member's memory they do there.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"

namespace tutti::fuzz {

class Accomplice {
 public:
  /// Forks. It ends when this process does.
  Accomplice();

  uint32_t process() const { return process_; }
  uint64_t started() const { return started_; }
  /// An abstract UNIX socket's, and the socket.
  const std::string& name() const { return name_; }
  int listener() const { return listener_.get(); }
  /// A connection to such a socket. Throws Error(PeerFailed) where nobody listens.
  Fd connect(const std::string& name) const;

  /// Memory that it has under the same address as this process. The first page is its gate.
  static constexpr size_t kMemory = 1 << 20;
  static unsigned char* memory();

 private:
  [[noreturn]] static void serve(const Fd& end, const std::string& name);

  std::string name_;
  Fd end_, listener_;
  uint32_t process_ = 0;
  uint64_t started_ = 0;
};

}  // namespace tutti::fuzz
