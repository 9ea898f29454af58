#include "tools/watch/watched_job.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "tools/status/ask.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

using Clock = Deadline::Clock;

double seconds_between(Clock::time_point then, Clock::time_point now) {
  return std::chrono::duration<double>(now - then).count();
}

std::vector<uint32_t> processes_here(const nlohmann::json& page) {
  std::vector<uint32_t> all;
  for (const auto& one : page.at("processes")) {
    if (one.at("host") == page.at("host")) all.push_back(one.at("process").get<uint32_t>());
  }
  return all;
}

}  // namespace

WatchedJob::WatchedJob(uint32_t process, double interval, Hears hears)
    : process_(process), interval_(interval), hears_(std::move(hears)), before_(ask_status(process)) {
  others_ = processes_here(before_);
  thread_ = std::thread([this] { run(); });
}

WatchedJob::~WatchedJob() {
  ends_ = true;
  thread_.join();
}

nlohmann::json WatchedJob::ask() {
  try {
    return ask_status(process_);
  } catch (const Error&) {
    for (const uint32_t other : others_) {
      try {
        if (other == process_) continue;
        nlohmann::json page = ask_status(other);
        process_ = other;
        return page;
      } catch (const Error&) {  // the next one
      }
    }
    throw;
  }
}

void WatchedJob::run() {
  Clock::time_point then = Clock::now();
  const Clock::time_point began = then;
  while (!ends_) {
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_));
    try {
      nlohmann::json page = ask();
      const Clock::time_point now = Clock::now();
      hears_.rates(top_table(before_, page, seconds_between(then, now)), seconds_between(began, now));
      others_ = processes_here(page);
      before_ = std::move(page);
      then = now;
    } catch (const std::exception& error) {
      hears_.silence(fmt::format("The job has ended, or cannot be asked: {}", error.what()));
    }
  }
}

}  // namespace tutti::tools
