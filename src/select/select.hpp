// Which algorithm a call uses, and in windows of what size: a table that rank 0 computes and all ranks share. A choice
// depends only on what is equal on all ranks (collective, message size, number of ranks), so all ranks make the same
// one. Times are measured ones (select/profile.hpp), else those of the model (select/model.hpp). Where some candidates
// are measured, only those are chosen from: `tutti tune` leaves out what is predicted at over twice the best.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/algorithm.hpp"
#include "select/model.hpp"

namespace tutti::select {

/// Reads "all_reduce:ring,bcast:binomial", with collectives as in base/spelling.hpp. Throws Error(InvalidArgument),
/// which names TUTTI_ALGO and the unknown word.
std::map<std::string, std::string> parse_forced(const std::string& text);

/// One line of `explain`: a candidate and what it costs.
struct Candidate {
  const plan::Algorithm* algorithm = nullptr;
  double seconds = 0;              ///< measured, else predicted
  Predicted predicted;             ///< of the model, if it can be used
  std::optional<double> measured;  ///< by `tutti tune`
  bool level = false;              ///< measured, and as fast as the best measured one but for noise
  std::string rejected;            ///< why it cannot be used; empty if it can
  int64_t stages = 0;              ///< sets of peers that share the staging memory
};

/// The size for which calls of `bytes` bytes a block are decided: a power of two.
uint64_t decided_at(uint64_t bytes);

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
