// What a long command shows while it runs.
#pragma once

#include <chrono>
#include <condition_variable>
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
  std::condition_variable ended_;
  bool end_ = false, drawn_ = false;
  std::string text_;
  std::thread first_second_;  // draws what was shown before the first second had passed
};

}  // namespace tutti::tools
