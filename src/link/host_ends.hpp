// What the ends of a link between CPUs have beyond messages: they read and write each other's memory.
#pragma once

#include <cstdint>

#include "link/link.hpp"

namespace tutti::link {

class PeerMappings;  // link/mapped_memory.hpp
class CmaGate;       // link/cma.hpp

/// The reader's state of a cooperative copy or direct store.
struct CooperativeReader {
  enum class Phase : uint32_t { None, Open, Closed };
  Phase phase = Phase::None;
  uint64_t number = 0;  ///< of the message, plus one
  uint64_t tiles = 0;
  uint64_t taken = 0;           ///< tiles that the reader has claimed, from the front
  uint64_t route = 0;           ///< as in Offer
  unsigned char* to = nullptr;  ///< the destination
  uint64_t bytes = 0;
  Edges edges;  ///< of the destination, not written by the writer
};

/// The reading end's.
struct HostReader {
  LinkMemory* memory = nullptr;
  int process = 0;                   ///< the writer's process, readable by CMA; 0: not readable
  PeerMappings* mappings = nullptr;  ///< the writer's regions, if this process can map them
  CmaGate* gate = nullptr;           ///< the gate that the writer passes when it writes to this process by CMA
  CooperativeReader cooperative;
};

/// A zero-copy message: its number plus one, and where it lies.
struct ZcopyMessage {
  uint64_t number = 0;
  const unsigned char* data = nullptr;
  uint64_t bytes = 0;
};

/// The writing end's.
struct HostWriter {
  LinkMemory* memory = nullptr;
  int process = 0;                   ///< the reader's process, writable by CMA; 0: not writable
  PeerMappings* mappings = nullptr;  ///< the reader's regions, if this process can map them
  ZcopyMessage messages[kCapacity];  ///< by slot
  uint64_t number = 0;               ///< of the message whose tiles are claimed, plus one
  uint64_t claimed = 0;              ///< tiles of it claimed so far
  uint64_t done = 0;                 ///< tiles of it copied so far
  uint64_t unreachable = 0;          ///< number, plus one, of the message whose destination cannot be reached
  bool stopped = false;              ///< cooperative copy has failed on this link
  bool no_direct_stores = false;     ///< the reader's memory cannot be reached for direct stores
};

}  // namespace tutti::link
