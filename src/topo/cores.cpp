#include "topo/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/format.hpp"

namespace tutti {
namespace {

constexpr int kMax = 1 << 16;  // processors of a machine, at most

}  // namespace

Cores allowed_cores() {
  Cores cores;
  for (int room = 1024; room <= kMax && cores.empty(); room *= 4) {
    const auto words = static_cast<size_t>(room) / (8 * sizeof(unsigned long));
    std::vector<unsigned long> mask(words);
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    const size_t bytes = words * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) != 0) continue;  // more processors than fit
    for (int core = 0; core < room; ++core) {
      if (CPU_ISSET_S(static_cast<size_t>(core), bytes, set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int numa_node_of(const Cores& cores, const std::string& root) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(root + "/sys/devices/system/node", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    int node = 0;
    if (!name.starts_with("node") ||
        std::from_chars(name.data() + 4, name.data() + name.size(), node).ec != std::errc{}) {
      continue;
    }
    std::string text;
    std::ifstream file(at->path() / "cpulist");
    if (!std::getline(file, text) || text.empty()) continue;
    const Cores of_node = parse_cores(text);
    if (std::includes(of_node.begin(), of_node.end(), cores.begin(), cores.end())) return node;
  }
  return -1;
}

AffinityMask affinity_mask(const Cores& cores) {
  AffinityMask mask;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  for (const int core : cores) {
    const auto bit = static_cast<size_t>(core);
    if (mask.size() <= bit / kBits) mask.resize(bit / kBits + 1);
    mask[bit / kBits] |= 1UL << bit % kBits;
  }
  return mask;
}

void run_on(const AffinityMask& mask) {
  sched_setaffinity(0, mask.size() * sizeof(unsigned long), reinterpret_cast<const cpu_set_t*>(mask.data()));
}

std::string to_text(const Cores& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[last]);
    i = last + 1;
  }
  return text;
}

Cores parse_cores(const std::string& text) {
  Cores cores;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto invalid = [&] {
    throw_error(Code::ProtocolError, "'{}' is not a list of processors", text.substr(0, 100));
  };
  const auto number = [&] {
    int value = -1;
    const auto [rest, error] = std::from_chars(at, end, value);
    at = rest;
    if (error != std::errc() || value < 0 || value >= kMax || (!cores.empty() && value <= cores.back())) invalid();
    return value;
  };
  for (bool more = at != end; more;) {
    cores.push_back(number());
    if (at != end && *at == '-') {
      ++at;
      const int last = number();
      for (int core = cores.back() + 1; core <= last; ++core) cores.push_back(core);
    }
    more = at != end;
    if (more && *at++ != ',') invalid();
  }
  return cores;
}

}  // namespace tutti
