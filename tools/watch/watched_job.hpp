// The job that `tutti watch` looks at: asked again and again by a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tools/top/rates.hpp"

namespace tutti::tools {

class WatchedJob {
 public:
  struct Hears {
    std::function<void(TopTable table, double seconds)> rates;  ///< of the time since the last answer
    std::function<void(std::string why)> silence;
  };

  /// Asks this process, or if it gives no answer another one of its job on this host. Throws as ask_status() does if
  /// there is none. `hears` is called by the thread.
  WatchedJob(uint32_t process, double interval, Hears hears);
  ~WatchedJob();
  WatchedJob(const WatchedJob&) = delete;
  WatchedJob& operator=(const WatchedJob&) = delete;

 private:
  void run();
  nlohmann::json ask();

  uint32_t process_;
  const double interval_;
  const Hears hears_;
  nlohmann::json before_;
  std::vector<uint32_t> others_;  // of the job, on this host
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace tutti::tools
