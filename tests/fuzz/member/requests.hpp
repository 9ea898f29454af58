// The requests and answers of the transport shm, as transports/shm/shm.cpp has them to itself.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::fuzz {

inline constexpr uint64_t kMagic = 0x326d6873'69747574;

struct LinkRequest {
  uint32_t channel, needs_memory;
};
struct LinkAnswer {
  uint64_t magic, arena_offset, arena_bytes, link;
};
struct RegionAnswer {
  uint64_t magic, bytes;
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace tutti::fuzz
