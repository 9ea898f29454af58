#include "config.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace fake {
namespace {

std::string text(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}
uint64_t number(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 0);
}

}  // namespace

Config::Config()
    : devices(static_cast<int>(number("FAKE_CUDA_DEVICES", 1))),
      version(static_cast<int>(number("FAKE_CUDA_VERSION", CUDA_VERSION))),
      multiprocessors(static_cast<uint32_t>(number("FAKE_CUDA_MULTIPROCESSORS", 8))),
      queues(static_cast<int>(std::clamp<uint64_t>(number("CUDA_DEVICE_MAX_CONNECTIONS", 8), 1, 32))),
      memory(number("FAKE_CUDA_MEMORY", 1ULL << 30)),
      seed(number("FAKE_CUDA_SEED", 1)),
      counts(number("FAKE_CUDA_COUNT", 0) != 0),
      open_to_host(number("FAKE_CUDA_OPEN_TO_HOST", 0) != 0),
      twins(text("FAKE_CUDA_TWINS", "")) {
  read_capabilities(text("FAKE_CUDA_CAPABILITY", "90"));
  read_links(text("FAKE_CUDA_LINKS", "all"));
  read_injections(text("FAKE_CUDA_INJECT", ""));
  read_rules(text("FAKE_CUDA_RULES", ""));
}

Path Config::path(int from, int to) const { return from == to ? Path::None : paths_[from * devices + to]; }

int Config::capability(int device) const {
  return capabilities_[std::min(static_cast<size_t>(device), capabilities_.size() - 1)];
}

bool Config::has_multicast(int device) {
  if (capability(device) < 90) return false;
  for (int other = 0; other < devices; ++other) {
    if (other != device && path(device, other) != Path::NvLink) return false;
  }
  return devices > 1 && !fails("no_multicast", device);
}

void Config::read_capabilities(const std::string& list) {
  std::istringstream in(list);
  std::string one;
  while (std::getline(in, one, ',')) capabilities_.push_back(std::atoi(one.c_str()));
}

void Config::read_links(const std::string& links) {
  paths_.assign(devices * devices, links == "all" ? Path::NvLink : Path::None);
  if (links == "all" || links == "none") return;
  std::istringstream in(links);
  std::string pair;
  while (std::getline(in, pair, ',')) {
    int a = 0, b = 0;
    char kind = 0;
    if (std::sscanf(pair.c_str(), "%d%c%d", &a, &kind, &b) != 3 || a >= devices || b >= devices) continue;
    paths_[a * devices + b] = paths_[b * devices + a] = kind == '~' ? Path::Pcie : Path::NvLink;
  }
}

void Config::read_injections(const std::string& injections) {
  std::istringstream in(injections);
  std::string item;
  while (std::getline(in, item, ',')) {
    Injection one;
    if (const size_t at = item.find(':'); at != std::string::npos) {
      one.nth = std::strtoull(item.c_str() + at + 1, nullptr, 0);
      item.resize(at);
    }
    if (const size_t at = item.find('@'); at != std::string::npos) {
      one.device = std::atoi(item.c_str() + at + 1);
      item.resize(at);
    }
    one.what = item;
    injections_.push_back(one);
  }
}

// What it does not know is an error of the test that asked for it.
void Config::read_rules(const std::string& rules) {
  std::istringstream in(rules);
  std::string rule;
  while (std::getline(in, rule, ',')) {
    if (rule == "drain") {
      drains = true;
    } else if (rule == "queue") {
      bounds_queues = true;
    } else if (rule == "ranges") {
      hides_ranges = true;
    } else {
      std::fprintf(stderr, "fake cuda: FAKE_CUDA_RULES: there is no rule '%s'\n", rule.c_str());
      std::abort();
    }
  }
}

bool Config::fails(const char* what, int device) {
  bool failed = false;
  for (Injection& one : injections_) {
    if (one.what != what || (one.device >= 0 && one.device != device)) continue;
    ++one.times;
    failed |= one.nth == 0 || one.times == one.nth;
  }
  return failed;
}

Config& config() {
  static auto& the_config = *new Config;  // the engine outlives main()
  return the_config;
}

}  // namespace fake
