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
#include "transports/wireup.hpp"

namespace tutti::transports {

/// Can a peer be reached, and how well; or exactly why not.
struct Reach {
  bool ok = false;
  std::string why_not;
  double alpha = 0;  ///< seconds for an empty message
  double beta = 0;   ///< seconds per byte
};

/// How a rank reads what another lends: not for sure, through the kernel (link/cma.hpp), or where it lies.
enum class ReadAccess : uint8_t { None, Pulled, Direct };

/// A word of a rank's memory, for others to try whether they can read it.
struct Word {
  uint64_t at = 0;  ///< address; 0: they shall not
  uint64_t value = 0;
};

/// What a transport is made from. All of it outlives the transport.
struct Context {
  Wireup* wireup = nullptr;
  link::Arena* arena = nullptr;
  int arena_fd = -1;  ///< the Segment (transports/shm) that the arena fills; −1 where peers cannot map it
};

/// Calls on one instance come from one thread at a time; `probe` from any.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  virtual Reach probe(Rank peer) const = 0;

  /// How this rank reads what `peer` lends it, tried on a word of the peer's. From any thread.
  virtual ReadAccess reading(Rank peer, const Word& word) const {
    (void)peer;
    (void)word;
    return ReadAccess::None;
  }
  /// The ranks have agreed that each of them reads all others, by `reading`; `acquaint` has nothing left to find out.
  virtual void all_read() {}

  /// Finds out how well a peer that has this transport can be written to; may ask its control thread. Optional, before
  /// its first link: links that are made without work all the same.
  virtual void acquaint(Rank peer, Deadline deadline) {
    (void)peer;
    (void)deadline;
  }

  /// One end of the link to (from) `peer` on `link_lane`; each end is made once. The other end may be made much later
  /// or earlier. Needs no user thread of the peer. Throws Error; `deadline` bounds the wait for the peer's control
  /// thread.
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) = 0;

  /// True for an engine: a transport whose messages move only while somebody calls `progress`.
  virtual bool is_engine() const = 0;
  /// Engines move messages between their rings and a wire here; true in `moved` when anything happened. Never waits.
  virtual Status progress(bool& moved) {
    moved = false;
    return {};
  }
  /// True when no outgoing byte needs this CPU any more: a call may return.
  virtual bool flushed() const { return true; }
  /// The communicator has failed: let go of all memory that was lent to this transport, and move nothing any more.
  virtual void stop() {}
  /// Sleeps until something may have happened, at most `seconds`. False: this transport cannot wake anybody.
  virtual bool sleep(double seconds) {
    (void)seconds;
    return false;
  }
};

struct TransportEntry {
  const char* name;
  const char* summary;
  int preference;  ///< among transports that reach a peer the smallest wins
  std::unique_ptr<Transport> (*make)(const Context& context);
};

/// Makes a transport known; transports/<name>/ has one of these.
class TransportRegistration {
 public:
  explicit TransportRegistration(const TransportEntry& entry);
};

/// All transports of this build, most preferred first.
const std::vector<TransportEntry>& transports();

}  // namespace tutti::transports
