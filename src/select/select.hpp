// Which algorithm a call uses, and in windows of what size: a table that rank 0 computes and all ranks share.
//
// A choice depends only on what is equal on all ranks (collective, message size, number of ranks), so all ranks make
// the same one. Costs are the algorithms' closed forms under the α–β–γ model: T = rounds·α + bytes·β + folded·γ, where
// `bytes` is the larger of what a rank sends and receives. When ranks read each other's memory, a message to several
// ranks is written once and counts once.
//
// Oversubscription: with k ranks per core, the ranks of a core run one after the other. α gains k − 1 context switches
// per round; the times to copy and to fold are multiplied by k.
//
// When groups of ranks (of one host) are known, links between groups have their own α and β. Algorithms that work along
// groups, or that keep some steps inside groups of neighbours, state which part of their cost goes between groups; each
// part is paid at its rate. For any other algorithm, the model assumes that all messages go between groups. Every rank
// has its own link out of its group.
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

/// The cost of messages between the slowest of some pairs of ranks.
struct LinkCost {
  double alpha = 0;       ///< seconds for an empty message
  double beta = 0;        ///< seconds per byte
  double message = 0;     ///< seconds of processor time for each message beyond the first of a round
  bool in_place = false;  ///< readers read the writer's memory: a message to several readers is written once
};

/// The model's view of the machine and the communicator: equal on all ranks.
struct Setting {
  Rank ranks = 1;
  std::shared_ptr<const plan::Grouping> groups = nullptr;  ///< null: groups are unknown
  LinkCost inside;                                         ///< inside groups; of all links, without two levels
  LinkCost between;                                        ///< between groups, with two levels
  double gamma = 0;                                        ///< seconds per byte folded
  double oversubscription = 1;                             ///< ranks on the core that most ranks share; at least 1
  uint64_t staging = 0;                                    ///< bytes of the smallest staging memory of any rank
  uint64_t message = 0;                                    ///< bytes of the largest message
  bool reproducible = false;                               ///< reductions fold in the canonical order only
  bool groups_given = false;  ///< the groups come from TUTTI_GROUPS or a parent communicator, not from the hosts
  /// Forced algorithms by collective ("all_reduce" → "ring"), from TUTTI_ALGO.
  std::map<std::string, std::string> forced;
  /// The user's plans, from TUTTI_PLAN, used for all calls of their collective. The table of rank 0 names them by hash,
  /// so all ranks must have adopted the same plans.
  Given given;
};

/// Reads "all_reduce:ring,bcast:binomial", with collectives as in base/spelling.hpp. Throws Error(InvalidArgument),
/// which names TUTTI_ALGO and the unknown word.
std::map<std::string, std::string> parse_forced(const std::string& text);

/// One line of `explain`: a candidate and its modelled cost.
struct Candidate {
  const plan::Algorithm* algorithm = nullptr;
  double seconds = 0;
  std::string rejected;  ///< why it cannot be used; empty if it can
  int64_t stages = 0;    ///< sets of peers that share the staging memory
};

/// All algorithms of a collective for calls of `bytes` bytes a block: the best first, those that cannot be used last.
std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const Setting& setting);

/// Bytes of a block that one round may move so that, for any root, every rank's staging memory holds enough messages of
/// each of its stages; a multiple of 128. 0 if not even 128 bytes fit.
uint64_t window_bytes(const plan::Algorithm& algorithm, const Setting& setting);

/// The algorithm and window of a call.
struct Choice {
  const plan::Algorithm* algorithm = nullptr;
  uint64_t window = 0;  ///< bytes of a block
};

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Throws Error(Unsupported), which names TUTTI_ALGO, if a forced algorithm cannot be used.
  explicit DecisionTable(const Setting& setting);
  /// Reads the table that rank 0 sent. Throws Error(ProtocolError) for an invalid text, and for a choice that cannot be
  /// used with the ranks and groups of `setting`.
  static DecisionTable parse(const std::string& text, const Setting& setting);
  std::string text() const;

  /// `bytes`: of a block.
  Choice choose(Collective collective, uint64_t bytes) const;

 private:
  struct Row {
    uint64_t below;  ///< applies to blocks of fewer bytes
    Choice choice;
  };
  std::map<Collective, std::vector<Row>> rows_;
};

}  // namespace tutti::select
