// The two ends of a link whose memory is all in one place, as between CPUs.
#pragma once

#include "link/host_ends.hpp"
#include "link/link.hpp"

namespace tutti::link {

inline OutLink writing_end(LinkMemory& memory, HostWriter* host = nullptr) {
  if (host != nullptr) host->memory = &memory;
  return {.ring = memory.ring, .consumed = &memory.consumed, .host = host};
}

inline InLink reading_end(LinkMemory& memory, HostReader* host = nullptr) {
  if (host != nullptr) host->memory = &memory;
  return {.ring = memory.ring, .consumed = &memory.consumed, .host = host};
}

}  // namespace tutti::link
