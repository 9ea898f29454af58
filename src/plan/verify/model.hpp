// One numbering of all ranks' plans: steps, lanes, messages, atoms and memory locations.
//
// An *atom* is an interval of the window between two neighbouring boundaries of any partition of any rank: what a plan
// cannot cut further. A *location* is one atom of one block of one rank's buffer. The length of an atom depends on the
// message size and on its position (rounding). So two lists are equally long for every size only if they are the same
// atoms in the same order; this is required of a message and of all operands of a fold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan::verifier {

/// Consecutive atoms of one block: `count` of them from `atom` on, at the locations from `location` on.
struct Run {
  uint32_t location = 0;
  uint32_t atom = 0;
  uint32_t count = 0;
};

/// A message of one round: its sending and its receiving step.
struct Message {
  uint32_t send = 0;     ///< step, in the numbering of all ranks
  uint32_t receive = 0;  ///< likewise
  uint32_t sender = 0;   ///< lane, in the numbering of all ranks
  uint32_t link = 0;
};

/// The blocks of a rank that share memory when a call is in place.
struct Alias {
  uint32_t output = kNone;
  uint32_t input = kNone;
};

class Model {
 public:
  /// Numbers everything and matches messages. The plans must be sound (check_structure) and outlive the model.
  explicit Model(std::span<const RankPlan> plans);

  std::span<const RankPlan> plans() const { return plans_; }
  /// Do the lanes of a rank wait for each other between rounds?
  bool is_fenced(uint32_t rank) const { return fenced_[rank]; }
  const Shape& shape() const { return plans_.front().shape; }
  uint32_t ranks() const { return static_cast<uint32_t>(plans_.size()); }
  uint32_t lanes() const { return lanes_; }  ///< of each rank; lane l of rank r is number r · lanes() + l
  uint32_t all_lanes() const { return lanes_ * ranks(); }
  uint32_t atoms() const { return static_cast<uint32_t>(bounds_.size() - 1); }
  uint32_t locations() const { return locations_; }
  /// Locations [0, …) are those of ranks 0 to `ranks` − 1.
  uint32_t locations_of_first(uint32_t ranks) const { return first_location_[size_t{ranks} * kBuffers]; }
  uint32_t steps() const { return first_step_.back(); }
  bool has_alias() const { return has_alias_; }
  /// True if some message has no chunk: such messages are skipped after round 0.
  bool has_empty_messages() const { return has_empty_messages_; }

  /// Steps [begin, end) of a lane.
  Range steps_of(uint32_t lane) const {
    const uint32_t rank = lane / lanes_, first = first_step_[rank];
    const Range own = plans_[rank].lanes[lane % lanes_].steps;
    return {first + own.begin, first + own.end};
  }
  uint32_t first_step(uint32_t rank) const { return first_step_[rank]; }
  uint32_t rank_of(uint32_t step) const;
  uint32_t lane_of(uint32_t step) const;
  const Step& step(uint32_t rank, uint32_t step) const { return plans_[rank].steps[step - first_step_[rank]]; }
  const Step& step(uint32_t number) const { return step(rank_of(number), number); }

  /// Messages that a step sends, in the order of its peers / takes in, in the order of its operands.
  std::span<const uint32_t> sent(uint32_t step) const { return of_step(sent_, first_sent_, step); }
  std::span<const uint32_t> received(uint32_t step) const { return of_step(received_, first_received_, step); }
  const Message& message(uint32_t number) const { return messages_[number]; }
  uint32_t messages() const { return static_cast<uint32_t>(messages_.size()); }
  uint32_t links() const { return links_; }

  Run run_of(uint32_t rank, const Piece& piece, bool in_place) const;
  uint32_t location(uint32_t rank, Buffer buffer, uint32_t block, bool in_place) const;
  Alias alias(uint32_t rank) const { return alias_[rank]; }
  Fraction bound(uint32_t index) const { return bounds_[index]; }
  std::span<const Piece> pieces(uint32_t rank, Range range) const {
    return {plans_[rank].pieces.data() + range.begin, range.size()};
  }
  uint64_t atoms_in(uint32_t rank, Range pieces) const;
  /// True if the plans cannot write to the piece: the input, except for a block that is also the output.
  bool read_only(uint32_t rank, const Piece& piece, bool in_place) const {
    return piece.buffer == Buffer::Input && !(in_place && alias_[rank].input == piece.block);
  }
  /// True for a copy whose pieces are the same memory as its source's, piece by piece: it writes nothing.
  bool copies_to_itself(uint32_t rank, const Step& step, bool in_place) const;

 private:
  struct Entry {   // one end of a message, and its step
    uint64_t key;  // (sending lane, receiving rank)
    uint32_t step;
    uint32_t slot;  // its index in sent_ or received_
  };
  static std::span<const uint32_t> of_step(const std::vector<uint32_t>& all, const std::vector<uint32_t>& first,
                                           uint32_t step) {
    return {all.data() + first[step], first[step + 1] - first[step]};
  }
  uint64_t key(uint32_t from, uint32_t lane, uint32_t to) const {
    return (uint64_t{from} * lanes_ + lane) * ranks() + to;
  }
  void number_steps();
  void number_atoms();
  void number_locations();
  std::vector<Entry> ends(bool sending);
  void match_messages();
  [[noreturn]] void reject_unmatched(const std::vector<Entry>& sends, const std::vector<Entry>& receives,
                                     size_t at) const;

  std::span<const RankPlan> plans_;
  uint32_t lanes_ = 0, links_ = 0, locations_ = 0;
  bool has_alias_ = false, has_empty_messages_ = false;
  std::vector<bool> fenced_;  // by rank
  std::vector<uint32_t> first_step_;
  std::vector<Fraction> bounds_;
  std::vector<uint32_t> cuts_;                    // atom at each boundary of each distinct partition
  std::vector<std::vector<uint32_t>> first_cut_;  // by rank and partition: its first index in cuts_
  std::vector<uint32_t> first_location_;          // by rank and buffer
  std::vector<Alias> alias_;
  std::vector<uint32_t> first_sent_, sent_, first_received_, received_;
  std::vector<Message> messages_;
};

/// "rank 3, lane 0, step 7 (reduce output chunk 2)"
std::string words(const Model& model, uint32_t step);
/// "lane 0, step 7 (reduce output chunk 2)"
std::string words_in_rank(const Model& model, uint32_t step);
/// "output block 1 chunk 2 of 8 + …"
std::string words(const RankPlan& plan, std::span<const Piece> pieces);
/// "1/4 to 2/4 of the window"
std::string words_of_interval(const Model& model, uint32_t first_atom, uint32_t last_atom);
/// "output block 1, 1/4 to 2/4 of the window"
std::string words_of_location(const Model& model, uint32_t rank, uint32_t location);

/// Throws Rejected if a message or a local operand does not consist of the same atoms as its destination.
void check_lengths(const Model& model);

}  // namespace tutti::plan::verifier
