// The group's part in windows.
#include <algorithm>
#include <utility>

#include "compat/torch/group.hpp"
#include "compat/torch/window.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {

tuttiComm_t Group::in_turn(const char* call) {
  check_usable(call);
  if (!queue_.idle()) queue_.drain();
  return comm_;
}

void Group::hold(std::shared_ptr<Window> window) {
  const std::lock_guard lock(mutex_);
  const Window* const key = window.get();
  windows_[key] = std::move(window);
}

void Group::release(const Window* window) {
  std::shared_ptr<Window> last;  // it may hold the group
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(window);
  if (found == windows_.end()) return;
  last = std::move(found->second);
  windows_.erase(found);
}

tuttiComm_t Group::communicator(const char* call) const {
  check_usable(call);
  return comm_;
}

void Group::share(const Window* window) {
  const std::lock_guard lock(mutex_);
  shared_.push_back(window);
}

void Group::close_unused() {
  std::vector<std::shared_ptr<Window>> windows;
  {
    const std::lock_guard lock(mutex_);
    for (const Window* const window : shared_) windows.push_back(windows_.at(window));
  }
  if (windows.empty()) return;
  constexpr long kHere = 2;  // windows_ and `windows` have it
  std::vector<uint8_t> unused;
  for (const auto& window : windows) unused.push_back(window.use_count() == kHere ? 1 : 0);
  tutti::check(tuttiAllReduce(unused.data(), unused.data(), unused.size(), tuttiUint8, tuttiMin, in_turn("rendezvous"),
                              nullptr));
  for (size_t i = 0; i < windows.size(); ++i) {
    if (unused[i] == 0) continue;
    {
      const std::lock_guard lock(mutex_);
      std::erase(shared_, windows[i].get());
    }
    windows[i]->close();
  }
}

}  // namespace tutti_torch
