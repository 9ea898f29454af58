// What the engine needs of an RDMA device: regions, reliable queue pairs, one completion queue. ibv_nic.cpp implements
// it with libibverbs; tests have a device in this process that reorders what the standard lets be reordered.
//
// A *notice* is 32 bits that a write delivers to the peer as a completion, after all earlier writes of the same queue
// are visible there (verbs: RDMA WRITE WITH IMMEDIATE, or a SEND after the write). An atomic step sees them too, and so
// does a processor that reads what the step has stored; and a read sees them. Nothing else orders writes. (The rules:
// those of the InfiniBand Architecture Specification, volume 1, chapter 9.5, as its users state them: ibv_reg_mr(3) of
// rdma-core on completions, and for atomic steps DeepEP, issue 83, and NCCL, issue 2210, whose signals rely on them in
// regions without relaxed ordering, as those of windows are here.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "transports/remote_memory.hpp"

namespace tutti::transports::verbs {

inline constexpr uint32_t kGidBytes = 16;

/// Where a device can be reached: both ends exchange it.
struct NicAddress {
  uint16_t lid = 0;  ///< InfiniBand; 0 with RoCE
  uint16_t mtu = 0;  ///< bytes
  unsigned char gid[kGidBytes] = {};
};

/// One end of a queue pair.
struct QueueAddress {
  uint32_t number = 0;  ///< 24 bits
  uint32_t first = 0;   ///< first packet sequence number, 24 bits
};

struct NicInfo {
  std::string name;  ///< "mlx5_0:1"
  NicAddress address;
  uint32_t max_inline = 0;   ///< bytes that a write may carry in its work request
  bool immediate = true;     ///< writes can carry a notice; else a send follows them
  bool adaptive = false;     ///< the network may route each packet of a write without a notice by itself
  bool dmabuf = false;       ///< register_dmabuf() works
  uint32_t max_work = 1024;  ///< work requests that a queue may hold
  RemoteAtomics atomics = RemoteAtomics::None;
  uint32_t max_reads = 1;  ///< reads and atomic steps that a queue may have under way, as the one that asks or is asked
  uint32_t max_message = 1u << 30;  ///< bytes of a work request
};

/// What the device may do with a region. The peer writes data there; or single words that must stay in order; or this
/// device only sends from there; or peers write, read and make atomic steps (a part of a window).
enum class RegionUse : uint8_t { Send, Data, Words, Window };

/// Registered memory; deregistered when destroyed.
class Region {
 public:
  virtual ~Region() = default;
  RegionUse use = RegionUse::Send;
  bool of_device = false;  ///< a GPU's memory: this processor must not touch it
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
};

/// Memory of a device, as other devices can reach it.
struct DmaBuf {
  int fd = -1;
  uint64_t offset = 0;  ///< in the dmabuf
  uint64_t bytes = 0;
  uint64_t address = 0;  ///< where the owning device has it
};

struct Piece {
  const void* at = nullptr;
  uint32_t bytes = 0;
  uint32_t key = 0;  ///< local_key; unused if the bytes are inline
};

/// A work request: writes its pieces, one after the other, to `remote`; or reads from there into them; or changes the 8
/// bytes there as one step, and stores what was there before in its one piece.
struct Work {
  enum class Kind : uint8_t { Write, WriteNotice, SendNotice, Read, Add, CompareSwap };
  uint64_t id = 0;  ///< of its completion
  Kind kind = Kind::Write;
  bool completes = false;  ///< a completion is wanted also if it succeeds
  bool inlined = false;    ///< the pieces may change as soon as it is posted
  Piece pieces[2];
  uint32_t count = 0;  ///< pieces
  uint32_t notice = 0;
  uint64_t remote = 0;
  uint32_t remote_key = 0;
  uint64_t operand = 0;   ///< what is added, or swapped in
  uint64_t expected = 0;  ///< of CompareSwap
};

struct Completion {
  enum class Result : uint8_t { Ok, Unreachable, NotReady, Refused, Flushed, Other };
  uint64_t id = 0;
  bool received = false;  ///< a notice of the peer; else own work is done
  uint32_t notice = 0;
  Result result = Result::Ok;
  const char* text = "";  ///< the device's words for `result`
};

/// One end of a queue pair. Destroyed: what was posted and has not been sent yet is lost.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual QueueAddress address() const = 0;
  /// To the peer's end; `reads` of each end may be under way. Throws Error.
  virtual void connect(const NicAddress& nic, const QueueAddress& peer, uint32_t reads = 1) = 0;
  /// Posts one work request; 0 or an errno.
  virtual int post(const Work& work) = 0;
  /// Posts room for `count` more notices; their completions have `id`. 0 or an errno.
  virtual int post_receives(uint32_t count) = 0;
  /// Nothing is sent or received any more when it returns.
  virtual void stop() = 0;
};

/// What a device reports beside completions.
struct Event {
  std::string text;    ///< in words; "": nothing has happened
  uint32_t queue = 0;  ///< number of the queue that has failed; 0: none
  bool fatal = false;  ///< the device has failed
};

/// What the peer may do with this end's regions: nothing, write, or all that each of them is registered for.
enum class PeerAccess : uint8_t { None, Write, All };

struct QueueNeeds {
  uint64_t receive_id = 0;
  uint32_t works = 0;     ///< own work requests at a time
  uint32_t receives = 0;  ///< notices of the peer at a time
  PeerAccess access = PeerAccess::Write;
};

/// One port of one device, for one rank. Calls come from one thread at a time.
class Nic {
 public:
  virtual ~Nic() = default;
  virtual const NicInfo& info() const = 0;
  /// Throws Error(OutOfMemory) with the limit and how to raise it, or Error(Unsupported).
  virtual std::unique_ptr<Region> register_memory(void* data, uint64_t bytes, RegionUse use) = 0;
  /// Throws Error likewise. Only with NicInfo::dmabuf.
  virtual std::unique_ptr<Region> register_dmabuf(const DmaBuf& memory, RegionUse use) = 0;
  /// Throws Error.
  virtual std::unique_ptr<Queue> make_queue(const QueueNeeds& needs) = 0;
  /// Takes up to `most` completions; −1 if the device has failed.
  virtual int poll(Completion* into, int most) = 0;

  /// The next thing that has happened to the device, the port or a queue.
  virtual Event next_event() = 0;
  /// A descriptor that becomes readable with the next completion or event, after arm(); −1: there is none.
  virtual int descriptor() const { return -1; }
  virtual void arm() {}
};

}  // namespace tutti::transports::verbs
