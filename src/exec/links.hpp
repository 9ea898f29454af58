// A rank's links, made at first use, and the staging memory that plans publish from.
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

/// Who can make links: the communicator, which knows the transports.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane) = 0;
};

/// The tables that a program's link numbers point into. Numbers stay; pointers move when a link is added.
class Links {
 public:
  explicit Links(Connector& connector) : connector_(connector) {}
  /// The number of the link to (from) `peer` on `link_lane`. Throws what connecting throws.
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

/// A stage with the tables it points into.
struct OwnedStage {
  Stage stage;
  std::vector<uint32_t> outs;
  std::vector<uint64_t> held;
};

/// Hands out the staging region of a rank's arena from front to back. When it is used up, everything published from it
/// must be consumed, and it starts anew in the next generation.
class Staging {
 public:
  explicit Staging(link::Arena& arena) : arena_(arena) {}
  uint64_t generation() const { return generation_; }
  /// Gives memory to all the stages; false, and none, when too little is left.
  bool assign(std::vector<OwnedStage>& stages);
  /// Forgets all assignments. Only when no message published from here is unconsumed.
  void reset();

 private:
  /// For stages that take so many bytes with one slot each: as many as a link holds messages where they are short, for
  /// the rarer a slot is used again the rarer its writer has to ask for it; kFewestSlots where kSlots would take more
  /// than half of all there is.
  uint32_t slots_for(uint64_t one_each) const;

  link::Arena& arena_;
  uint64_t used_ = 0;
  uint64_t generation_ = 1;
};

}  // namespace tutti::exec
