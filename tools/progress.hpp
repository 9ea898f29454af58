// What a long command shows while it runs.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>

namespace tutti::tools {

/// One line on a terminal's stderr, from the first second of a run on; Ctrl-C clears it too.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  void draw();  // under the lock

  bool terminal_;
  std::chrono::steady_clock::time_point from_;
  std::mutex mutex_;
  bool drawn_ = false;
  std::string text_;
  std::jthread first_second_;  // draws what was shown before the first second had passed; the last: it uses the others
};

}  // namespace tutti::tools
