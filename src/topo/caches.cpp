#include "topo/caches.hpp"

#include <algorithm>
#include <fstream>

#include "base/bytes.hpp"
#include "base/format.hpp"

namespace tutti {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t number(const std::string& text) {
  const auto bytes = parse_bytes(text);  // "48K"
  return bytes ? *bytes : 0;
}

Cores processors(const std::string& text) {
  try {
    return parse_cores(text);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::vector<Cache> caches_of(int processor, const std::string& root) {
  constexpr int kMax = 16;
  std::vector<Cache> caches;
  for (int i = 0; i < kMax; ++i) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/cache/index{}/", root, processor, i);
    const std::string level = first_line(folder + "level");
    if (level.empty()) break;
    if (first_line(folder + "type") == "Instruction") continue;
    caches.push_back({.level = static_cast<int>(number(level)),
                      .bytes = number(first_line(folder + "size")),
                      .line = number(first_line(folder + "coherency_line_size")),
                      .processors = processors(first_line(folder + "shared_cpu_list"))});
  }
  std::stable_sort(caches.begin(), caches.end(), [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return caches;
}

CacheSizes cache_sizes(const Cores& processors, const std::string& root) {
  CacheSizes sizes;
  if (processors.empty()) return sizes;
  const std::vector<Cache> first = caches_of(processors.front(), root);
  if (first.empty()) return sizes;
  const auto serves = [](const Cache& cache, int processor) {
    return std::find(cache.processors.begin(), cache.processors.end(), processor) != cache.processors.end();
  };
  const auto users = [&](const Cache& cache) {
    return std::count_if(processors.begin(), processors.end(), [&](int p) { return serves(cache, p); });
  };
  for (const Cache& cache : first) {
    if (users(cache) <= users(first.front())) sizes.own = std::max(sizes.own, cache.bytes);
  }
  sizes.last = first.back().bytes;
  for (Cores left = processors; !left.empty(); ++sizes.lasts) {
    const std::vector<Cache> caches = caches_of(left.front(), root);
    std::erase_if(left,
                  [&, one = left.front()](int p) { return p == one || (!caches.empty() && serves(caches.back(), p)); });
  }
  return sizes;
}

}  // namespace tutti
