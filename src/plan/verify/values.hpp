// Computes the value of every location, and checks that the outputs are what the collective requires.
#pragma once

#include <vector>

#include "plan/verify/forest.hpp"
#include "plan/verify/replay.hpp"

namespace tutti::plan::verifier {

/// One round on symbols, in place or not. Runs each step that the Replay passes; throws Rejected if a step reads what
/// was never written, reads what it writes itself at another index, or claims to complete what is not complete.
class Values {
 public:
  Values(const Model& model, Forest& forest, bool in_place);
  void run(const Moment& moment);
  /// Throws Rejected at the first output with a wrong value.
  void check_outputs() const;
  /// The values of an output block of a rank, by atom.
  std::span<const Value> output(uint32_t rank, uint32_t block) const {
    return {&memory_[model_.location(rank, Buffer::Output, block, in_place_)], model_.atoms()};
  }

 private:
  struct Payload {  // a sent message, kept until its last reader has it
    std::vector<Value> values;
    uint32_t readers = 0;
  };
  void gather(const Moment& moment, Range pieces, std::vector<Value>& to);
  void gather_local(const Moment& moment, Range pieces);
  void gather_message(uint32_t message);
  void send(const Moment& moment, const Step& step);
  void fold(const Moment& moment, const Step& step);
  void check_completion(const Moment& moment, Value value);
  void mark_destination(const Moment& moment, const Step& step);
  void store(const Moment& moment, const Step& step);
  void check_output(uint32_t rank, uint32_t block, uint32_t atom) const;
  const char* mode() const { return in_place_ ? " (in place)" : ""; }

  const Model& model_;
  Forest& forest_;
  bool in_place_;
  std::vector<Value> memory_;         // by location
  std::vector<uint32_t> marked_by_;   // by location within its rank: the step that last wrote it, + 1
  std::vector<uint32_t> marked_at_;   // … and the index within its message
  std::vector<Payload> payloads_;     // a pool
  std::vector<uint32_t> free_;        // unused ones of it
  std::vector<uint32_t> payload_of_;  // by step
  std::vector<Value> operands_;       // of the current step: one row per operand
  std::vector<Value> result_, column_;
  uint64_t completion_work_ = 0;
};

}  // namespace tutti::plan::verifier
