#include "plan/verify/values.hpp"

#include <algorithm>

#include "plan/verify/outputs.hpp"
#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {

Values::Values(const Model& model, Forest& forest, bool in_place)
    : model_(model),
      forest_(forest),
      in_place_(in_place),
      memory_(model.locations(), kUndefined),
      payload_of_(model.steps()) {
  uint32_t most = 0;
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) {
    most = std::max(most, model.locations_of_first(rank + 1) - model.locations_of_first(rank));
    const uint32_t count = blocks(model.shape(), Buffer::Input, static_cast<Rank>(rank));
    for (uint32_t block = 0; block < count; ++block) {
      const auto at = memory_.begin() + model.location(rank, Buffer::Input, block, in_place);
      std::fill(at, at + model.atoms(), forest.leaf(rank, block));
    }
  }
  marked_by_.resize(most);
  marked_at_.resize(most);
}

void Values::run(const Moment& moment) {
  const Step& step = model_.step(moment.rank, moment.step);
  if (step.kind == StepKind::Send) return send(moment, step);
  operands_.clear();
  mark_destination(moment, step);
  if (step.kind == StepKind::Reduce) {
    fold(moment, step);
  } else {
    if (step.kind == StepKind::Recv) gather_message(model_.received(moment.step)[0]);
    if (step.kind == StepKind::Copy) {
      gather_local(moment, model_.plans()[moment.rank].operands[step.operands.begin].pieces);
    }
    result_.swap(operands_);
  }
  store(moment, step);
}

void Values::gather(const Moment& moment, Range pieces, std::vector<Value>& to) {
  for (const Piece& piece : model_.pieces(moment.rank, pieces)) {
    const Run run = model_.run_of(moment.rank, piece, in_place_);
    for (uint32_t i = 0; i < run.count; ++i) {
      const Value value = memory_[run.location + i];
      if (value == kUndefined) {
        reject("{}: reads {} before anything was written there", words(model_, moment.step),
               words_of_location(model_, moment.rank, run.location + i));
      }
      to.push_back(value);
    }
  }
}

void Values::gather_local(const Moment& moment, Range pieces) {
  uint32_t place = 0;
  for (const Piece& piece : model_.pieces(moment.rank, pieces)) {
    const Run run = model_.run_of(moment.rank, piece, in_place_);
    for (uint32_t i = 0; i < run.count; ++i, ++place) {
      const uint32_t location = run.location + i;
      const uint32_t mark = location - model_.locations_of_first(moment.rank);
      if (marked_by_[mark] == moment.step + 1 && marked_at_[mark] != place) {
        reject("{}: reads {}, which it also writes at another position of the same step{}", words(model_, moment.step),
               words_of_location(model_, moment.rank, location), mode());
      }
    }
  }
  gather(moment, pieces, operands_);
}

void Values::gather_message(uint32_t message) {
  const uint32_t slot = payload_of_[model_.message(message).send];
  Payload& payload = payloads_[slot];
  operands_.insert(operands_.end(), payload.values.begin(), payload.values.end());
  if (--payload.readers == 0) free_.push_back(slot);
}

void Values::send(const Moment& moment, const Step& step) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(payloads_.size()));
    payloads_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  payload_of_[moment.step] = slot;
  payloads_[slot].values.clear();
  payloads_[slot].readers = step.peers.size();
  gather(moment, step.pieces, payloads_[slot].values);
}

void Values::fold(const Moment& moment, const Step& step) {
  const auto messages = model_.received(moment.step);
  size_t next = 0;
  for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
    const Operand& operand = model_.plans()[moment.rank].operands[i];
    if (operand.peer == kNoRank) {
      gather_local(moment, operand.pieces);
    } else {
      gather_message(messages[next++]);
    }
  }
  const size_t width = operands_.size() / step.operands.size();
  result_.resize(width);
  column_.resize(step.operands.size());
  for (size_t i = 0; i < width; ++i) {
    for (size_t o = 0; o < column_.size(); ++o) column_[o] = operands_[o * width + i];
    const Value known = forest_.end();
    result_[i] = forest_.fold(step.shape, step.completes, column_);
    if (step.completes && result_[i] >= known) check_completion(moment, result_[i]);
  }
}

void Values::check_completion(const Moment& moment, Value value) {
  completion_work_ += model_.ranks();
  if (completion_work_ > 4 * kMaxMoves) too_large("too many different folds");
  if (forest_.completions(value) > 1) {
    reject("{}: completes what was completed before{}", words(model_, moment.step), mode());
  }
  if (!forest_.holds_everything(value)) {
    reject("{}: claims to complete the fold, which {}{}", words(model_, moment.step), forest_.words_of_defect(value),
           mode());
  }
}

void Values::mark_destination(const Moment& moment, const Step& step) {
  uint32_t place = 0;
  for (const Piece& piece : model_.pieces(moment.rank, step.pieces)) {
    const Run run = model_.run_of(moment.rank, piece, in_place_);
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint32_t location = run.location + i;
      const uint32_t mark = location - model_.locations_of_first(moment.rank);
      if (marked_by_[mark] == moment.step + 1) {
        reject("{}: writes {} twice{}", words(model_, moment.step), words_of_location(model_, moment.rank, location),
               mode());
      }
      marked_by_[mark] = moment.step + 1;
      marked_at_[mark] = place++;
    }
  }
}

void Values::store(const Moment& moment, const Step& step) {
  auto next = result_.begin();
  for (const Piece& piece : model_.pieces(moment.rank, step.pieces)) {
    const Run run = model_.run_of(moment.rank, piece, in_place_);
    std::copy(next, next + run.count, memory_.begin() + run.location);
    next += run.count;
  }
}

void Values::check_outputs() const {
  for (uint32_t rank = 0; rank < model_.ranks(); ++rank) {
    const uint32_t count = blocks(model_.shape(), Buffer::Output, static_cast<Rank>(rank));
    for (uint32_t block = 0; block < count; ++block) {
      for (uint32_t atom = 0; atom < model_.atoms(); ++atom) check_output(rank, block, atom);
    }
  }
}

void Values::check_output(uint32_t rank, uint32_t block, uint32_t atom) const {
  const std::string fault = fault_of_output(forest_, model_.shape(), rank, block, output(rank, block)[atom]);
  if (fault.empty()) return;
  reject("rank {}: {}, {}{}", rank,
         words_of_location(model_, rank, model_.location(rank, Buffer::Output, block, false) + atom), fault, mode());
}

}  // namespace tutti::plan::verifier
