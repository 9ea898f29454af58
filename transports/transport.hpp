// A transport: a maker of links. One instance serves one rank of one communicator and knows no collective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "link/arena.hpp"
#include "link/link.hpp"
#include "link/traits.hpp"
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
  int arena_fd = -1;  ///< the Segment (transports/shm) that the arena fills; −1 where peers cannot map it
  /// Increases when a call begins: what the call before it read is in use no more. Null: there is only one call.
  const uint64_t* calls = nullptr;
  bool direct_access = true;  ///< ranks may read and write each other's memory, where they can
};

/// Calls on one instance come from one thread at a time; `probe` from any.
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
};

struct TransportEntry {
  const char* name;
  const char* summary;
  int preference;  ///< of the transports that reach a peer, the smallest wins
  std::unique_ptr<Transport> (*make)(const Context& context);
};

/// Registers a transport; each folder transports/<name>/ has one.
class TransportRegistration {
 public:
  explicit TransportRegistration(const TransportEntry& entry);
};

/// All transports of this build, most preferred first.
const std::vector<TransportEntry>& transports();

}  // namespace tutti::transports
