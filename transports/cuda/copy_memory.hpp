// What ranks of one host share for calls that the copy engines run (exec/cuda/copies.hpp): each rank's staging memory,
// which the others read, and its words, by which the streams of the ranks wait for each other.
//
// The words lie in memory of the host, whatever the form of the staging memory is: then the host sees what a stream
// waits for, and can end the wait, without the help of a GPU whose queues may all be waiting.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "link/link.hpp"
#include "transports/cuda/memory.hpp"
#include "transports/wireup.hpp"

namespace tutti::cuda {

/// A stream can wait for a word to be at least so much, not to be equal to a tag: hence two words, each of which is as
/// large as a tag demands only if the other is not larger. Both are 0 while there is no message.
inline constexpr uint32_t kTagSum = 1U << 30;
struct TagWords {
  uint32_t tag = 0;   ///< from 1 to kTagSum − 1
  uint32_t rest = 0;  ///< kTagSum − tag
};
/// As large as any wait demands.
inline constexpr uint32_t kReleased = kTagSum;

/// What a peer tells this rank; it lies with this rank.
struct alignas(128) PeerWords {
  /// The tag of the peer's message in its slot; this rank sets it to 0 again.
  TagWords arrived[link::kCopySlots];
  /// 1: the peer has read this rank's message in that slot; this rank sets it to 0.
  uint32_t free[link::kCopySlots] = {};
};

/// How far this rank's stream is, for its host.
struct alignas(128) CopyPosition {
  uint32_t program = 0;  ///< that runs; 0: none
  uint32_t launch = 0;   ///< of it
  uint32_t wait = 0;     ///< the number of the wait that it has begun, from 1
};

/// One rank's part. Its memory is made at the first use. Any thread.
class CopyMemory {
 public:
  CopyMemory(const Device& device, Rank ranks, uint64_t staging) : device_(device), ranks_(ranks), bytes_(staging) {}
  const Device& device() const { return device_; }

  /// Throws Error(OutOfMemory | Unsupported).
  const PeerMemory& staging();
  const PeerMemory& words();
  /// Does any of it exist?
  bool is_used() const;

  CopyPosition& position();
  /// The words of `peer` on this host …
  PeerWords& of(Rank peer);
  /// … and, in bytes, where they are in words().
  static uint64_t offset_of(Rank peer) {
    return sizeof(CopyPosition) + static_cast<uint64_t>(peer) * sizeof(PeerWords);
  }
  /// Lets go all streams that wait for words of this rank.
  void release();

 private:
  const Device& device_;
  const Rank ranks_;
  const uint64_t bytes_;
  mutable std::mutex mutex_;
  std::shared_ptr<PeerMemory> staging_, words_;
};

/// The parts of all ranks, as this rank's GPU addresses them.
class CopyPeers {
 public:
  CopyPeers(transports::Wireup& wireup, const Device& device, uint64_t staging);
  ~CopyPeers();
  CopyPeers(const CopyPeers&) = delete;
  CopyPeers& operator=(const CopyPeers&) = delete;

  CopyMemory& own() const { return *own_; }
  struct Peer {
    CUdeviceptr staging = 0;
    CUdeviceptr words = 0;  ///< PeerWords, what this rank tells the peer
  };
  /// Throws Error(PeerFailed | Timeout | Unsupported | ProtocolError | OutOfMemory).
  const Peer& peer(Rank peer, Deadline deadline);

  /// Keeps the memory of this rank, and of all peers that are connected.
  std::shared_ptr<void> keep() const;
  const std::shared_ptr<CopyMemory>& own_memory() const { return own_; }

 private:
  struct Connected {
    Peer peer;
    std::shared_ptr<CopyMemory> thread;          // of this process; else
    std::shared_ptr<PeerMemory> staging, words;  // what was mapped
  };
  Connected connect(Rank peer, Deadline deadline);
  std::shared_ptr<PeerMemory> ask(Rank peer, uint32_t part, uint64_t bytes, Deadline deadline);

  transports::Wireup& wireup_;
  const Device& device_;
  const uint64_t staging_;
  const std::shared_ptr<CopyMemory> own_;
  std::map<Rank, Connected> peers_;
};

}  // namespace tutti::cuda
