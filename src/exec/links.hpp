// A rank's links, connected at first use, and the staging memory of its programs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "exec/program.hpp"
#include "exec/state.hpp"
#include "exec/store_choice.hpp"
#include "link/arena.hpp"
#include "link/link.hpp"
#include "link/traits.hpp"

namespace tutti::exec {

/// Makes links. The communicator implements it, because it knows the transports.
class Connector {
 public:
  virtual ~Connector() = default;
  /// What the links between this rank and `peer` can do. May ask the peer's control thread the first time.
  virtual link::LinkTraits traits(Rank peer) = 0;
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane) = 0;
};

/// All links of a rank. Numbers are stable; pointers move when a link is added.
class Links {
 public:
  explicit Links(Connector& connector) : connector_(connector) {}
  link::LinkTraits traits(Rank peer) const { return connector_.traits(peer); }
  /// The number of a link; connects it at first use. Throws what connecting throws.
  uint32_t out(const LinkId& link);
  uint32_t in(const LinkId& link);
  std::vector<link::OutLink>& outs() { return outs_; }
  const std::vector<link::OutLink>& outs() const { return outs_; }
  std::vector<link::InLink>& ins() { return ins_; }
  const std::vector<link::InLink>& ins() const { return ins_; }
  /// How stages are filled whose readers are these out-links: one choice for all links to the same peers, of one
  /// thread. Stays where it is.
  StoreChoice& stores(const std::vector<uint32_t>& outs);

 private:
  Connector& connector_;
  std::map<LinkId, uint32_t> out_numbers_, in_numbers_;
  std::vector<link::OutLink> outs_;
  std::vector<link::InLink> ins_;
  std::vector<LinkId> out_ids_;
  std::map<std::vector<LinkId>, StoreChoice> stores_;  ///< by peers, and the first lane of the thread
};

/// A stage and the tables that it points into.
struct OwnedStage {
  /// Slots of `slot_bytes` bytes for messages to `outs`, numbers of links. It has no memory yet.
  OwnedStage(uint64_t slot_bytes, std::vector<uint32_t> outs, StoreChoice* stores = nullptr);
  OwnedStage(const OwnedStage&) = delete;
  OwnedStage& operator=(const OwnedStage&) = delete;

  Stage stage;
  std::vector<uint32_t> outs;
  std::vector<uint64_t> held;
  uint64_t generation = 0;  ///< of its memory
};

/// Assigns the staging region of a rank's arena from front to back. When it is full, all messages published from it
/// must be consumed; then reset() begins the next generation.
class Staging {
 public:
  explicit Staging(link::Arena& arena) : arena_(arena) {}
  uint64_t generation() const { return generation_; }
  uint64_t bytes() const { return arena_.staging_bytes(); }
  /// Assigns memory to all the stages; to none, and returns false, if too little is left. Throws Error(OutOfMemory) if
  /// the machine has none left.
  /// `max_bytes`: of all their slots together, where each has more than link::kSlots.
  bool assign(std::span<OwnedStage* const> stages, uint64_t max_bytes = UINT64_MAX);
  /// Forgets all assignments. Needs all published messages to be consumed.
  void reset();

 private:
  /// Slots of each stage, when all stages together take `one_each` bytes with one slot each: a short ring if
  /// messages are short, else a long one. kFewestSlots if kSlots would take more than half of the staging memory.
  uint32_t slots_for(uint64_t one_each, uint64_t max_bytes) const;

  link::Arena& arena_;
  uint64_t used_ = 0;
  uint64_t generation_ = 1;
};

}  // namespace tutti::exec
