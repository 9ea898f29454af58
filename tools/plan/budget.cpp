#include "tools/plan/budget.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <utility>

#include "base/bytes.hpp"

namespace tutti::tools {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimited = false;
#else
constexpr bool kLimited = true;
#endif

/// What counts against RLIMIT_DATA: private memory that can be written.
uint64_t data_bytes() {
  uint64_t total = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared >> text >> library >> data;
  return data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Budget::Budget(uint64_t bytes, std::string doing) : bytes_(bytes), before_(data_bytes()), doing_(std::move(doing)) {
  if (kLimited && getrlimit(RLIMIT_DATA, &old_) == 0) {
    rlimit limit = old_;
    const uint64_t most = before_ + std::min(bytes_, RLIM_INFINITY - before_);
    limit.rlim_cur = std::min<rlim_t>(old_.rlim_max, most);
    setrlimit(RLIMIT_DATA, &limit);
  }
  if (isatty(STDERR_FILENO) != 0) shows_ = std::jthread([this](const std::stop_token& end) { show(end); });
}

Budget::~Budget() {
  if (kLimited) setrlimit(RLIMIT_DATA, &old_);
}

void Budget::say(std::string doing) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(doing);
}

void Budget::show(const std::stop_token& end) {
  constexpr double kMiB = 1 << 20;
  std::unique_lock lock(mutex_);
  std::condition_variable_any never;  // but for the end
  for (int seconds = 1; !never.wait_for(lock, end, std::chrono::seconds(1), [&] { return end.stop_requested(); });
       ++seconds) {
    const uint64_t now = data_bytes();
    const double held = now > before_ ? static_cast<double>(now - before_) / kMiB : 0;
    progress_.show(fmt::format("# {}: {} s, {:.0f} MiB of at most {}", doing_, seconds, held, to_text(Bytes{bytes_})));
  }
  progress_.clear();
}

}  // namespace tutti::tools
