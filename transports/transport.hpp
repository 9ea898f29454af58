// A transport: a maker of links. One instance serves one rank of one communicator and knows no collective.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"
#include "link/arena.hpp"
#include "link/arena_memory.hpp"
#include "link/link.hpp"
#include "link/peer_regions.hpp"
#include "link/traits.hpp"
#include "transports/remote_memory.hpp"
#include "transports/wireup.hpp"

namespace tutti::transports {

/// Whether a peer can be reached, at what cost, or exactly why not.
struct Reach {
  bool ok = false;
  std::string why_not;
  double alpha = 0;  ///< seconds for an empty message
  double beta = 0;   ///< seconds per byte
};

/// How a rank reads another's zero-copy messages: unknown or not at all, by CMA (link/cma.hpp), or in place.
enum class ReadAccess : uint8_t { None, Cma, Direct };

/// A word of a rank's memory that peers try to read.
struct Word {
  uint64_t at = 0;  ///< address; 0: peers do not try
  uint64_t value = 0;
};

/// What a rank and its links to and from a peer can do.
struct Capabilities {
  link::Access out;  ///< how messages to the peer can be delivered; by CMA, only if the peer `reads` this rank's memory
  link::Access in;   ///< how messages from the peer may be delivered
  ReadAccess reads = ReadAccess::None;  ///< how this rank reads the peer's zero-copy messages, as tried
};

/// The input of a transport's constructor. All of it outlives the transport.
struct Context {
  Wireup* wireup = nullptr;
  link::Arena* arena = nullptr;
  std::shared_ptr<const Fd> arena_file;  ///< in which the arena lies; null: no peer maps it
  uint64_t arena_offset = 0;             ///< of the arena in it
  /// Increases when a call begins: what the call before it read is in use no more. Null: there is only one call.
  const uint64_t* calls = nullptr;
  bool direct_access = true;                  ///< ranks may read and write each other's memory, where they can
  link::PeerRegions* peer_regions = nullptr;  ///< that the rank has mapped; null: the transport has its own
};

/// What a device does with registered memory. Read: sends it; it may be mapped read-only.
enum class MemoryUse : uint8_t { Read, ReadWrite };

/// Keeps memory registered; null if the transport needs no registration. See Transport::register_memory.
using Registration = std::shared_ptr<const void>;

/// What the links to and from a peer on a link lane have carried since they were made, as their wire counts it.
struct Traffic {
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint64_t sent = 0;      ///< bytes that have arrived at the peer
  uint64_t received = 0;  ///< bytes that have come from it
  uint64_t busy = 0;      ///< nanoseconds in which bytes were on the way to the peer, which had room for more
  uint64_t resent = 0;    ///< packets that were sent once more
};

/// Calls on one instance come from one thread at a time; `probe` and `traffic` from any.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  virtual Reach probe(Rank peer) const = 0;

  /// What can be done with a peer that it reaches; tried on a word of the peer's memory. Cheap; asks nobody.
  virtual Capabilities capabilities(Rank peer, const Word& word) const {
    (void)peer;
    (void)word;
    return {};
  }

  /// Bytes of the longest message that its links carry, but for zero-copy ones.
  virtual uint64_t longest_message() const { return uint64_t{1} << 40; }

  /// One end of the link to (from) `peer` on `link_lane`; each end is made once, the other end at any time. Needs no
  /// user thread of the peer. Throws Error; `deadline` bounds the wait for the peer's control thread.
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) = 0;

  /// Registers [data, data + bytes) with the transport's device, so that zero-copy messages can lie there: pins, maps
  /// or exports it (verbs: ibv_reg_mr; UCX: ucp_mem_map; libfabric: fi_mr_reg; NCCL's network plugins: regMr).
  ///
  ///   When      A program is bound to new buffers, and before it publishes a zero-copy message in them. Never for a
  ///             message: it may take milliseconds. An engine that gets such a message finds the registration by the
  ///             message's address, which is anywhere in the range.
  ///   Release   The memory is registered until the last copy of the handle is gone. Until then the caller keeps it
  ///             allocated, at this address. Handles are independent of each other: ranges may overlap, and be
  ///             registered again. They go before the transport does, by the thread that calls it.
  ///   Cache     A transport may keep a registration longer, to find it again. Then it must notice when the memory is
  ///             unmapped or replaced (UCX and libfabric watch the process's mappings); if it cannot, it keeps none.
  ///   Kind      The transport finds out whose memory it is: a host's, or a device's (verbs: as a dmabuf).
  ///   Errors    Throws Error(OutOfMemory) if it cannot be pinned, with the limit and how to raise it, or
  ///             Error(Unsupported) if the device cannot reach it. Then nothing is registered; the caller stages its
  ///             messages.
  virtual Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) {
    (void)data;
    (void)bytes;
    (void)use;
    return nullptr;
  }

  /// Not nullopt: register_memory() takes memory of GPUs, so messages may be sent from there. Messages of more than so
  /// many bytes arrive in posted memory of a GPU; shorter ones always in memory of the host.
  virtual std::optional<uint64_t> direct_above() const { return std::nullopt; }

  /// True for an engine: a transport whose messages move only inside `progress`.
  virtual bool is_engine() const = 0;
  /// Engines move messages between their rings and a wire here, and set `moved` if anything happened. Never waits.
  virtual Status progress(bool& moved) {
    moved = false;
    return {};
  }
  /// True when no outgoing byte needs `progress` any more: a call may return.
  virtual bool flushed() const { return true; }
  /// The communicator has failed: stop using the memory of zero-copy messages, and move nothing any more.
  virtual void stop() {}
  /// Sleeps until something may have happened, at most `seconds`. False: this transport cannot wait.
  virtual bool sleep(double seconds) {
    (void)seconds;
    return false;
  }
  /// By peer and lane; empty if its wire does not count. Cheap enough for once a second.
  virtual std::vector<Traffic> traffic() const { return {}; }
};

/// New fields come at the end.
struct TransportEntry {
  uint64_t bytes = sizeof(TransportEntry);  ///< as its maker knows it
  const char* name;
  const char* summary;
  int preference;  ///< of the transports that reach a peer, the smallest wins
  std::unique_ptr<Transport> (*make)(const Context& context);
  /// What this machine lacks for it, "" if nothing. Null: it needs nothing. Asked when a module is loaded.
  std::string (*why_not)() = nullptr;
  /// Its devices, or why it has none, for people: "usable: …" or "not usable: …". Null: it is usable.
  std::string (*state)() = nullptr;
  bool between_hosts = false;  ///< it connects hosts
  /// Makes the arena of a rank with peers in other processes of its host, of memory that they map
  /// (link/arena_memory.hpp). The most preferred transport that has one is asked. Null: memory of any kind serves.
  link::ArenaMemory (*arena)(uint64_t bytes, link::SegmentFiles& files) = nullptr;
  /// Its device, for windows: it reads and writes memory of the peers that this transport reaches. Throws Error. Null:
  /// it has none that the hardware would keep within what is exposed.
  std::unique_ptr<RemoteMemory> (*remote_memory)(Wireup& wireup) = nullptr;
  /// Without remote_memory: why windows may not reach its peers by the device of another transport; "": they may. Null:
  /// they may not, since who forces this transport may do so because of what is wrong with such devices.
  std::string (*why_no_rdma)() = nullptr;
};

/// Registers a transport; each folder transports/<name>/ has one, and so has each module.
class TransportRegistration {
 public:
  explicit TransportRegistration(const TransportEntry& entry);
};

/// The transports that can be used, most preferred first: those of the library and, loaded at the first call, its
/// modules (transports/module_loader.hpp).
const std::vector<TransportEntry>& transports();

/// Makes one, with what is registered to wrap it. Throws what making it throws.
std::unique_ptr<Transport> make(const TransportEntry& entry, const Context& context);

/// Registers what wraps each transport that make() makes, once in the library (transports/fault).
class WrapRegistration {
 public:
  using Wrap = std::unique_ptr<Transport> (*)(std::unique_ptr<Transport> inner, const Context& context);
  explicit WrapRegistration(Wrap wrap);
};

/// A module that was loaded.
struct LoadedModule {
  std::string name;
  const void* backend = nullptr;  ///< the exec::BackendEntry that it registers; null: none
};
const std::vector<LoadedModule>& loaded_modules();

/// A module that cannot be used.
struct UnusableModule {
  std::string name;
  std::string why_not;
};
const std::vector<UnusableModule>& unusable_modules();

}  // namespace tutti::transports
