// What a proof may take: a limit on its memory, and a line on a terminal that says how far it is.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "tools/progress.hpp"

namespace tutti::tools {

/// While it lives, this process allocates at most so many bytes more (then std::bad_alloc), and a terminal shows what
/// is done, for how long, and how much memory it holds. Under a sanitizer, whose own memory counts, there is no limit.
class Budget {
 public:
  Budget(uint64_t bytes, std::string doing);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  /// What is done now.
  void say(std::string doing);

 private:
  void show(const std::stop_token& end);

  const uint64_t bytes_, before_;
  std::mutex mutex_;
  std::string doing_;  // under the lock
  rlimit old_{};
  Progress progress_;
  std::jthread shows_;  // the last: it uses the others
};

}  // namespace tutti::tools
