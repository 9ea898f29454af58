// Ranges of calls for a profiler that is attached to this process, by NVTX (NVIDIA Tools Extension, which Nsight
// Systems and others read): https://nvidia.github.io/NVTX. Without a profiler, or in a build without NVTX's headers,
// nothing.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::trace {

/// Is one attached? Known at the first question, since a profiler starts the program.
bool profiler_is_attached();

/// From its construction to its destruction something has this name and number on the profiler's time line. Ranges may
/// overlap, and end in another thread.
class ProfilerRange {
 public:
  /// Empty: nothing.
  ProfilerRange() = default;
  ProfilerRange(const std::string& name, uint64_t number);
  ~ProfilerRange() { end(); }
  ProfilerRange(ProfilerRange&& other) noexcept : id_(other.id_), open_(other.open_) { other.open_ = false; }
  ProfilerRange& operator=(ProfilerRange&& other) noexcept;
  void end();

 private:
  uint64_t id_ = 0;
  bool open_ = false;
};

}  // namespace tutti::trace
