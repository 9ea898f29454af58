// The candidates for a call, what each costs, and the row of the best one. A candidate is an algorithm with a method to
// run it. Times are measured ones (select/profile.hpp), else those of the model
// (select/model.hpp). Where some candidates are measured, only those are chosen from: `tutti tune` leaves out what is
// predicted at over twice the best.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "select/forced.hpp"
#include "select/model.hpp"
#include "select/row.hpp"

namespace tutti::select {

/// One line of `explain`: a candidate and what it costs.
struct Candidate {
  Row row;
  double seconds = 0;              ///< measured, else predicted
  Predicted predicted;             ///< of the model, if it can be used
  std::optional<double> measured;  ///< by `tutti tune`
  bool level = false;              ///< as fast as the best one but for noise, of measured ones or of predicted ones
  bool reads_in_place = false;     ///< its messages are read in the buffers of the call, if peers can reach those
  std::string rejected;            ///< why it cannot be used; empty if it can
  bool outdone = false;            ///< rejected because the user demands another
  bool never = false;              ///< rejected whatever the call's size
  bool preferred = false;          ///< the user demands its method wherever it can run
  std::string where;               ///< the rank or link that is busy the longest, where the machine has a view; or ""
  int64_t stages = 0;              ///< sets of peers that share the staging memory
};

/// The size for which calls of `bytes` bytes a block are decided: a power of two.
uint64_t decided_at(uint64_t bytes);

/// All candidates of a collective for calls of `bytes` bytes a block: the best first, those that cannot be used last.
/// Their rows are those of such a call.
std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const CostInputs& inputs,
                                  const CallKind& kind = {});

/// The candidates of one collective, for calls of any size and kind.
class Choices {
 public:
  Choices(Collective collective, const CostInputs& inputs);
  ~Choices();
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  bool none() const;
  /// As candidates().
  std::vector<Candidate> rated(uint64_t bytes, const CallKind& kind) const;
  /// The row of a call: its candidate is the best one of its size class (decided_at), the sizes are the call's own.
  /// Throws Error(Unsupported), which names TUTTI_ALGO or TUTTI_METHOD, if what they demand cannot be used, or if
  /// nothing can.
  Row row(uint64_t bytes, const CallKind& kind);
  /// Sizes of a block from which on rows may differ from those below, in no order.
  std::vector<uint64_t> steps() const;
  /// Warns of a forced algorithm that gains nothing.
  void warn() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Bytes of a block that one round may move so that, for any root, every rank's staging memory holds enough messages of
/// each of its stages; a multiple of 128. 0 if not even 128 bytes fit.
uint64_t window_bytes(const plan::Algorithm& algorithm, const CostInputs& inputs);

}  // namespace tutti::select
