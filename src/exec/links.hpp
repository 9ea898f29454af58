// A rank's links, made at first use, and the staging memory of its programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/program.hpp"
#include "link/arena.hpp"
#include "link/link.hpp"

namespace tutti::exec {

/// Makes links. The communicator implements it, because it knows the transports.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane) = 0;
};

/// The tables that a program's link numbers index. Numbers are stable; pointers move when a link is added.
class Links {
 public:
  explicit Links(Connector& connector) : connector_(connector) {}
  /// The number of the link to (from) `peer` on `link_lane`; connects it at first use. Throws what connecting throws.
  uint32_t out(Rank peer, uint32_t link_lane);
  uint32_t in(Rank peer, uint32_t link_lane);
  std::vector<link::OutLink>& outs() { return outs_; }
  const std::vector<link::OutLink>& outs() const { return outs_; }
  std::vector<link::InLink>& ins() { return ins_; }
  const std::vector<link::InLink>& ins() const { return ins_; }

 private:
  using Key = std::pair<Rank, uint32_t>;
  Connector& connector_;
  std::map<Key, uint32_t> out_numbers_, in_numbers_;
  std::vector<link::OutLink> outs_;
  std::vector<link::InLink> ins_;
};

/// A stage and the tables that it points into.
struct OwnedStage {
  Stage stage;
  std::vector<uint32_t> outs;
  std::vector<uint64_t> held;
};

/// Assigns the staging region of a rank's arena from front to back. When it is full, all messages published from it
/// must be consumed; then reset() begins the next generation.
class Staging {
 public:
  explicit Staging(link::Arena& arena) : arena_(arena) {}
  uint64_t generation() const { return generation_; }
  /// Assigns memory to all the stages; to none, and returns false, if too little is left.
  bool assign(std::vector<OwnedStage>& stages);
  /// Forgets all assignments. Needs all published messages to be consumed.
  void reset();

 private:
  /// Slots of each stage, when all stages together take `one_each` bytes with one slot each. Short stages get up to
  /// kCapacity slots, because the writer then checks more rarely whether a slot is free. kFewestSlots if kSlots would
  /// take more than half of the staging memory.
  uint32_t slots_for(uint64_t one_each) const;

  link::Arena& arena_;
  uint64_t used_ = 0;
  uint64_t generation_ = 1;
};

}  // namespace tutti::exec
