#include "train/device/block_cache.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti::train {

BlockCache::~BlockCache() {
  for (const auto& [time, block] : free_) source_.give_back(block.data, (block.key & 1) != 0);
}

size_t BlockCache::size_class(size_t bytes) {
  constexpr size_t kLeast = 64;
  const size_t step = std::max(kLeast, std::bit_floor(bytes) / 8);
  return std::max(kLeast, (bytes + step - 1) / step * step);
}

void* BlockCache::allocate(size_t bytes, bool shared) {
  const Key key = key_of(bytes, shared);
  const auto known = of_class_.find(key);
  void* block = nullptr;
  if (known != of_class_.end() && !known->second.empty()) {
    block = free_.extract(known->second.back()).mapped().data;
    known->second.pop_back();
  } else {
    const size_t needed = size_class(bytes), most = std::max(peak_, requested_ + bytes) / 4 * 5;
    while (!free_.empty() && reserved_ + needed > most) give_back_oldest();
    block = source_.take(needed, shared);
    reserved_ += needed;
  }
  requested_ += bytes;
  peak_ = std::max(peak_, requested_);
  return block;
}

void BlockCache::release(void* data, size_t bytes, bool shared) noexcept {
  const Key key = key_of(bytes, shared);
  requested_ -= bytes;
  try {
    const auto place = free_.emplace(time_, Free{data, key}).first;
    try {
      of_class_[key].push_back(time_++);
    } catch (...) {
      free_.erase(place);
      throw;
    }
  } catch (...) {  // there is no memory to remember it by
    source_.give_back(data, shared);
    reserved_ -= size_class(bytes);
  }
}

void BlockCache::give_back_oldest() {
  const Free block = free_.begin()->second;
  auto& times = of_class_[block.key];
  times.erase(times.begin());
  free_.erase(free_.begin());
  source_.give_back(block.data, (block.key & 1) != 0);
  reserved_ -= block.key & ~size_t{1};
}

}  // namespace tutti::train
