// A second process of the hostile member, which itself lives in the victim's process. It listens and connects for the
// member, so that peers see its process id, and peers' reads and writes of the member's memory happen there.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"

namespace tutti::fuzz {

class Accomplice {
 public:
  /// Forks. The process ends with this one.
  Accomplice();

  uint32_t process() const { return process_; }
  uint64_t started() const { return started_; }
  /// The name of an abstract UNIX socket, and the socket.
  const std::string& name() const { return name_; }
  int listener() const { return listener_.get(); }
  /// A connection to such a socket. Throws Error(PeerFailed) if nothing listens.
  Fd connect(const std::string& name) const;

  /// Memory at the same address as in this process. The first page is its gate.
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
