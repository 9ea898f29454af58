// Checks that sources and destinations have equal lengths for every message size.
#include "plan/verify/model.hpp"
#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {
namespace {

/// Iterates over the atoms of a list of pieces, run by run.
class Walk {
 public:
  Walk(const Model& model, uint32_t rank, std::span<const Piece> pieces) : model_(model), rank_(rank), pieces_(pieces) {
    refill();
  }
  bool done() const { return run_.count == 0; }
  uint32_t atom() const { return run_.atom; }
  uint32_t left() const { return run_.count; }
  void advance(uint32_t by) {
    run_.atom += by;
    run_.count -= by;
    refill();
  }

 private:
  void refill() {
    while (run_.count == 0 && next_ < pieces_.size()) run_ = model_.run_of(rank_, pieces_[next_++], false);
  }
  const Model& model_;
  uint32_t rank_;
  std::span<const Piece> pieces_;
  size_t next_ = 0;
  Run run_;
};

/// Throws if the atoms of `from` differ from those of `to`; what() describes `from` in the error.
template <class Words>
void check_same(const Model& model, uint32_t step, Walk from, Walk to, const Words& what) {
  while (!from.done() && !to.done()) {
    if (from.atom() != to.atom()) {
      reject("{}: {} carries {} where {} is wanted", words(model, step), what(),
             words_of_interval(model, from.atom(), from.atom() + from.left()),
             words_of_interval(model, to.atom(), to.atom() + to.left()));
    }
    const uint32_t both = std::min(from.left(), to.left());
    from.advance(both);
    to.advance(both);
  }
  if (!from.done()) {
    reject("{}: {} carries {} more than is wanted", words(model, step), what(),
           words_of_interval(model, from.atom(), from.atom() + from.left()));
  }
  if (!to.done()) {
    reject("{}: {} ends where {} is still wanted", words(model, step), what(),
           words_of_interval(model, to.atom(), to.atom() + to.left()));
  }
}

class LengthCheck {
 public:
  explicit LengthCheck(const Model& model) : model_(model) {}

  void run(uint32_t rank, uint32_t number) {
    const RankPlan& plan = model_.plans()[rank];
    const Step& step = model_.step(rank, number);
    count(step.pieces.size() + model_.atoms_in(rank, step.pieces));
    size_t message = 0;
    if (step.kind == StepKind::Recv) check_message(rank, number, 0, "the message");
    for (uint32_t i = 0; i < step.operands.size(); ++i) {
      const Operand& operand = plan.operands[step.operands.begin + i];
      const auto name = [&] { return step.kind == StepKind::Copy ? "its source" : fmt::format("operand {}", i); };
      if (operand.peer != kNoRank) {
        check_message(rank, number, message++, fmt::format("operand {} is the message", i));
      } else {
        check_against(rank, number, rank, operand.pieces,
                      [&] { return name() + ", " + words(plan, model_.pieces(rank, operand.pieces)) + ","; });
      }
    }
  }

 private:
  void check_message(uint32_t rank, uint32_t number, size_t index, const std::string& name) {
    const Message& message = model_.message(model_.received(number)[index]);
    const uint32_t send = message.send, sender = message.sender / model_.lanes();
    check_against(rank, number, sender, model_.step(sender, send).pieces,
                  [&] { return name + " of " + words(model_, send) + ", which"; });
  }

  template <class Words>
  void check_against(uint32_t rank, uint32_t number, uint32_t other, Range pieces, const Words& what) {
    const Range wanted = model_.step(rank, number).pieces;
    count(uint64_t{pieces.size()} + wanted.size() + model_.atoms_in(other, pieces));
    check_same(model_, number, {model_, other, model_.pieces(other, pieces)},
               {model_, rank, model_.pieces(rank, wanted)}, what);
  }

  void count(uint64_t more) {
    moves_ += more;
    if (moves_ > kMaxMoves) too_large("they move over {} chunks", kMaxMoves);
  }

  const Model& model_;
  uint64_t moves_ = 0;
};

}  // namespace

void check_lengths(const Model& model) {
  LengthCheck check(model);
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) {
    for (uint32_t step = model.first_step(rank); step < model.first_step(rank + 1); ++step) check.run(rank, step);
  }
}

}  // namespace tutti::plan::verifier
