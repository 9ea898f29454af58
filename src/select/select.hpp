// Which algorithm a call uses, and in windows of what size: a table that rank 0 computes and all ranks share.
//
// A choice depends only on what must be equal on all ranks (collective, size of the message, number of ranks), so that
// all make the same one. Costs are the algorithms' closed forms under the α–β–γ model: T = rounds·α + bytes·β +
// folded·γ, bytes being the more of what a rank sends and receives. Where ranks read each other's memory, what goes to
// several of them is written once, and counts once.
//
// Where ranks share cores, nobody gets further in a round until all of its core have had their turn, and they compute
// and copy one after the other: α grows by a change of threads for each of the others, the rest as often as they are.
//
// Where groups of ranks (of one host) are known, links between them have an α and β of their own. Algorithms that work
// along groups, or that keep some steps inside groups of neighbours, say what of their cost goes between groups, and
// pay each part at its rate; of any other, the model takes all messages as going between them. Every rank has its own
// way out of its group.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/algorithm.hpp"
#include "select/given.hpp"

namespace tutti::select {

/// What messages take over the slowest of some pairs of ranks.
struct LinkCost {
  double alpha = 1e-6;    ///< seconds for an empty message
  double beta = 1e-10;    ///< seconds per byte
  double message = 1e-7;  ///< seconds of processor time for each message beyond the first of a round
  bool in_place = false;  ///< readers read where the writer wrote, all of them the same
};

/// What the model knows of the machine and the communicator: equal on all ranks.
struct Setting {
  Rank ranks = 1;
  std::shared_ptr<const plan::Grouping> groups = nullptr;  ///< null: nothing is known of groups
  LinkCost inside;                                         ///< within groups; everywhere, unless there are two levels
  LinkCost between;                                        ///< of links between groups, where there are two levels
  double gamma = 1e-10;                                    ///< seconds per byte folded
  double oversubscription = 1;                             ///< ranks that share a core, where most do; at least 1
  uint64_t staging = 0;                                    ///< bytes of the smallest staging memory of any rank
  uint64_t message = 0;                                    ///< bytes of the largest message
  bool reproducible = false;                               ///< reductions fold in the canonical order only
  bool groups_given = false;  ///< the groups are TUTTI_GROUPS' or a parent communicator's, not just the hosts
  /// Forced algorithms by collective ("all_reduce" → "ring"), from TUTTI_ALGO.
  std::map<std::string, std::string> forced;
  /// Plans of the user's, from TUTTI_PLAN, which are used wherever they are for the collective. The table of rank 0
  /// names them by their hash, so all ranks must have adopted the same.
  Given given;
};

/// Reads "all_reduce:ring,bcast:binomial", collectives as base/spelling.hpp knows them. Throws Error(InvalidArgument)
/// naming TUTTI_ALGO and what is not known.
std::map<std::string, std::string> parse_forced(const std::string& text);

/// One line of `explain`: a candidate and what the model thinks of it.
struct Candidate {
  const plan::Algorithm* algorithm = nullptr;
  double seconds = 0;
  std::string rejected;  ///< why it cannot be used; empty if it can
  int64_t stages = 0;    ///< sets of peers that share the staging memory
};

/// All algorithms of a collective for calls of `bytes` bytes a block, the best first, the impossible last.
std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const Setting& setting);

/// Bytes of a block that one round may move, so that every rank's staging memory holds enough messages of each of
/// its stages, whichever rank is the root; a multiple of 128. 0 where not even that much fits.
uint64_t window_bytes(const plan::Algorithm& algorithm, const Setting& setting);

/// What a call does.
struct Choice {
  const plan::Algorithm* algorithm = nullptr;
  uint64_t window = 0;  ///< bytes of a block
};

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Throws Error(Unsupported) naming TUTTI_ALGO where a forced algorithm cannot be used.
  explicit DecisionTable(const Setting& setting);
  /// The table as rank 0 sent it. Throws Error(ProtocolError) for what is none, and for a choice that cannot be used
  /// with the ranks and groups of `setting`.
  static DecisionTable parse(const std::string& text, const Setting& setting);
  std::string text() const;

  /// `bytes` of a block.
  Choice choose(Collective collective, uint64_t bytes) const;

 private:
  struct Row {
    uint64_t below;  ///< holds for blocks of fewer bytes
    Choice choice;
  };
  std::map<Collective, std::vector<Row>> rows_;
};

}  // namespace tutti::select
