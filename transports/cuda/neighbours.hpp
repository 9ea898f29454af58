// What the ranks of this process have for each other, by communicator and rank: threads need no descriptors.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/rank.hpp"

namespace tutti::cuda {

/// Objects of one kind. Each is kept by its rank and by all who have found it.
template <class Object>
class Neighbours {
 public:
  using Key = std::pair<std::string, Rank>;  // communicator, rank
  void add(const Key& key, const std::shared_ptr<Object>& object) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
    objects_[key] = object;
  }
  /// Null: the rank has left, or uses no GPU.
  std::shared_ptr<Object> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second.lock();
  }
  static Neighbours& instance() {
    static auto* const kAll = new Neighbours;  // never destroyed: static objects may still hold links
    return *kAll;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Object>> objects_;
};

}  // namespace tutti::cuda
