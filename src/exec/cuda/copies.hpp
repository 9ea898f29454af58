// Calls that the GPU's copy engines run, so that no multiprocessor is used.
//
// The program is one that kernels could run too: of every rank one message to each other rank, straight from its input
// to its output, in rounds. It is not interpreted on the GPU, but written out on the user's stream, as copies and as
// words that streams wait for and write:
//
//   of every round     wait until all readers have read what was in the slot, one of two of this rank's staging memory
//   of every message   copy it there; tell its readers the tag
//   of every arrival   wait for the tag; copy the message out of the sender's staging memory; tell the sender
//
// All that is enqueued is constant, so a graph may repeat it: a rank resets each word that it has waited for before it
// tells anybody, and the peer writes the word again only after it was told. What the peer writes is the call's tag, so
// a message of another call is never copied: the stream waits, and the watcher finds it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/backend.hpp"
#include "exec/compile/copy_items.hpp"
#include "exec/gpu/watcher.hpp"
#include "exec/observer.hpp"
#include "transports/cuda/copy_memory.hpp"

namespace tutti::exec::cuda {

/// One of the waits of a round.
struct CopyWait {
  Await await = Await::Nothing;  ///< Message: its tag; Staging: the word of the slot
  Rank peer = kNoRank;
  uint32_t step = 0;
};

/// Of a program, for the host that watches it.
struct CopyWaits {
  uint32_t number = 0;  ///< of the program
  uint64_t rounds = 0;
  std::vector<CopyWait> round;  ///< every round has the same
  std::atomic<uint32_t> tag{0};
};

class CopyExecution final : public Execution {
 public:
  using Execution::Execution;
  CopyLayout layout;
  std::vector<tutti::cuda::CopyPeers::Peer> peers;  ///< by rank
  std::shared_ptr<CopyWaits> waits;
  uint64_t items = 1;  ///< of the stream, in a call
};

class Copies final : public gpu::CopyCalls {
 public:
  /// `counted`: the device's address of HostRecord::counted.
  Copies(const BackendContext& context, const tutti::cuda::Device& device, CUdeviceptr counted);
  ~Copies() override;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Makes this rank's memory, and maps that of all peers. Throws Error(PeerFailed | Timeout | Unsupported |
  /// ProtocolError | OutOfMemory).
  void meet(Deadline deadline);
  /// Bytes of a slot of staging memory.
  static uint64_t slot_bytes();
  /// Connects the peers. Throws what that throws, and Error(Unsupported) for a plan of another form.
  std::unique_ptr<CopyExecution> compile(const plan::RankPlan& plan, const Geometry& geometry);
  /// Enqueues the call; `launch` is its number, `counted` that in CallCount (0: it is captured).
  void launch(CopyExecution& execution, const Binding& binding, CUstream stream, uint32_t launch, uint64_t counted);
  /// What a graph keeps for its calls.
  std::shared_ptr<void> keep() const { return peers_.keep(); }

  bool runs() const override;
  uint64_t progress() const override;
  std::optional<Stall> wait() const override;
  std::optional<Fault> wrong() const override;
  void release() const override;

 private:
  const CopyWaits* running(const tutti::cuda::CopyPosition& at) const;
  Rank rank() const { return context_.wireup->rank(); }
  Rank ranks() const { return context_.wireup->ranks(); }

  const BackendContext context_;
  tutti::cuda::CopyPeers peers_;
  const CUdeviceptr counted_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<CopyWaits>> programs_;  // by number
};

}  // namespace tutti::exec::cuda
