#include "plan/verify/races.hpp"

#include <algorithm>
#include <numeric>

#include "plan/verify/reject.hpp"

namespace tutti::plan::verifier {

AccessLog::AccessLog(const Model& model, const Clocks& clocks, uint32_t ranks, bool in_place, uint32_t versions,
                     uint32_t rounds)
    : model_(model),
      clocks_(clocks),
      locations_(model.locations_of_first(ranks)),
      in_place_(in_place),
      versions_(versions),
      window_rounds_(model.has_empty_messages() ? 2 : 1),
      writes_(locations_ * size_t{std::min(rounds, std::max(versions, window_rounds_))}),
      reads_(writes_.size(), kNone) {}

void AccessLog::add_read(size_t at, Access by, uint32_t send) {
  // A later read of the same lane replaces the earlier ones; lent reads are kept apart, to name the false lend.
  for (uint32_t r = reads_[at]; send == kNone && r != kNone; r = pool_[r].next) {
    if (pool_[r].by.lane == by.lane && pool_[r].send == kNone) {
      pool_[r].by.time = by.time;
      return;
    }
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(pool_.size()));
    pool_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  pool_[slot] = {by, send, reads_[at]};
  reads_[at] = slot;
}

namespace {

/// The number of rounds that show all cases: scratch is reused after `versions` rounds, and messages without chunks
/// order steps in round 0 only.
uint32_t rounds_needed(const Model& model, uint32_t versions) {
  if (model.shape().collective == Collective::Barrier) return 1;
  for (const RankPlan& plan : model.plans()) {
    if (plan.scratch_blocks > 0) return versions + 1;
  }
  return model.has_empty_messages() ? 2 : 1;
}

/// The lanes that touch memory of the first `ranks` ranks: their own, and those of ranks that read what they lend.
std::vector<uint32_t> lanes_near(const Model& model, uint32_t ranks) {
  std::vector<uint32_t> near(size_t{ranks} * model.lanes());
  std::iota(near.begin(), near.end(), 0);
  if (ranks < model.ranks()) {
    for (uint32_t step = 0; step < model.first_step(ranks); ++step) {
      for (const uint32_t m : model.sent(step)) near.push_back(model.lane_of(model.message(m).receive));
    }
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
  }
  return near;
}

}  // namespace

Races::Races(const Model& model, uint32_t ranks, uint32_t versions, Lends lends)
    : model_(model),
      ranks_(ranks),
      steps_(model.first_step(ranks)),
      versions_(std::max(versions, 1u)),
      rounds_(rounds_needed(model, versions_)),
      lends_(lends),
      clocks_(model.all_lanes(), lanes_near(model, ranks)),
      departures_(size_t{model.steps()} * rounds_),
      departed_(size_t{steps_} * rounds_),
      waiters_(model.steps()),
      ends_(size_t{model.all_lanes()} * rounds_, kNoSnapshot),
      broken_(lends == Lends::Supposed ? steps_ : 0) {
  logs_.emplace_back(model, clocks_, ranks, false, versions_, rounds_);
  if (model.has_alias()) logs_.emplace_back(model, clocks_, ranks, true, versions_, rounds_);
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) {
    for (const Step& step : model.plans()[rank].steps) {
      if (step.after != kNone) ++waiters_[model.first_step(rank) + step.after];
    }
  }
}

void Races::run(const Moment& moment) {
  clocks_.tick(moment.lane);
  ++now_;
  learn(moment);
  for (AccessLog& log : logs_) touch(moment, log);
  leave(moment);
}

uint32_t Races::time_of(uint32_t round, uint32_t lane, uint32_t step) const {
  const Range steps = model_.steps_of(lane);
  return round * steps.size() + (step - steps.begin) + 1;
}

bool Races::is_empty(uint32_t message) const {
  const Message& m = model_.message(message);
  const uint32_t rank = m.sender / model_.lanes();
  return model_.has_empty_messages() && model_.atoms_in(rank, model_.step(rank, m.send).pieces) == 0;
}

void Races::learn(const Moment& moment) {
  const uint32_t after = model_.step(moment.rank, moment.step).after, lanes = model_.lanes();
  if (after != kNone) {
    const uint32_t awaited = model_.first_step(moment.rank) + after;
    learn_from(moment, awaited, model_.lane_of(awaited));
  }
  for (const uint32_t m : model_.received(moment.step)) {
    if (moment.round > 0 && is_empty(m)) {
      clocks_.drop(departure(moment.round, model_.message(m).send));
    } else {
      learn_from(moment, model_.message(m).send, model_.message(m).sender);
    }
  }
  if (!fenced(moment.rank) || moment.round < versions_ || moment.step != model_.steps_of(moment.lane).begin) return;
  const uint32_t earlier = moment.round - versions_;
  for (uint32_t other = moment.rank * lanes; other < (moment.rank + 1) * lanes; ++other) {
    if (other == moment.lane || model_.steps_of(other).size() == 0) continue;
    clocks_.join(moment.lane, ends_[size_t{earlier} * model_.all_lanes() + other], other,
                 time_of(earlier, other, model_.steps_of(other).end - 1));
  }
}

void Races::learn_from(const Moment& moment, uint32_t step, uint32_t lane) {
  const Snapshot clock = departure(moment.round, step);
  clocks_.join(moment.lane, clock, lane, time_of(moment.round, lane, step));
  clocks_.drop(clock);
}

void Races::touch(const Moment& moment, AccessLog& log) {
  const Step& step = model_.step(moment.rank, moment.step);
  const Access by{moment.lane, clocks_.time(moment.lane)};
  const auto complain = [&](const Clash& clash) { report(clash, log); };
  const auto read = [&](Range pieces) {
    for (const Piece& piece : model_.pieces(moment.rank, pieces)) {
      log.read(moment.rank, piece, moment.round, by, complain);
    }
  };
  touch_lent(moment, log);
  if (moment.rank >= ranks_) return;
  if (step.kind == StepKind::Send) return read(step.pieces);
  if (model_.copies_to_itself(moment.rank, step, log.in_place())) return;
  for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
    read(model_.plans()[moment.rank].operands[i].pieces);
  }
  for (const Piece& piece : model_.pieces(moment.rank, step.pieces)) {
    log.write(moment.rank, piece, moment.round, by, now_, complain);
  }
}

bool Races::lent(const Step& step, bool in_place) const {
  return lends_ == Lends::Supposed || step.lend == Lend::Always || (step.lend == Lend::OutOfPlace && !in_place);
}

void Races::touch_lent(const Moment& moment, AccessLog& log) {
  const Access by{moment.lane, clocks_.time(moment.lane)};
  for (const uint32_t m : model_.received(moment.step)) {
    const uint32_t send = model_.message(m).send, owner = model_.message(m).sender / model_.lanes();
    if (owner >= ranks_) continue;
    const Step& step = model_.step(owner, send);
    if (!lent(step, log.in_place())) continue;
    for (const Piece& piece : model_.pieces(owner, step.pieces)) {
      log.read_lent(owner, piece, moment.round, by, send, departed(moment.round, send),
                    [&](const Clash& clash) { report(clash, log); });
    }
  }
}

void Races::leave(const Moment& moment) {
  const auto readers = static_cast<uint32_t>(model_.sent(moment.step).size()) + waiters_[moment.step];
  if (readers > 0) departure(moment.round, moment.step) = clocks_.keep(moment.lane, readers);
  if (moment.step < steps_) departed(moment.round, moment.step) = now_;
  const bool ends_round = moment.step + 1 == model_.steps_of(moment.lane).end;
  if (ends_round && fenced(moment.rank) && moment.round + versions_ < rounds_) {
    ends_[size_t{moment.round} * model_.all_lanes() + moment.lane] = clocks_.keep(moment.lane, 1);
  }
}

void Races::report(const Clash& clash, const AccessLog& log) {
  if (clash.send == kNone) reject_race(clash, log);
  const Lend claim = model_.step(clash.send).lend;
  if (claim == Lend::Always || (claim == Lend::OutOfPlace && !log.in_place())) reject_lend(clash, log);
  broken_[clash.send] |= log.in_place() ? 2 : 1;
}

Lend Races::provable(uint32_t step) const {
  if ((broken_[step] & 1) != 0) return Lend::Never;
  return broken_[step] == 0 ? Lend::Always : Lend::OutOfPlace;
}

uint32_t Races::step_of(Access access) const {
  const Range steps = model_.steps_of(access.lane);
  return steps.begin + (access.time - 1) % steps.size();
}

uint32_t Races::round_of(Access access) const { return (access.time - 1) / model_.steps_of(access.lane).size(); }

void Races::reject_race(const Clash& clash, const AccessLog& log) const {
  const uint32_t first = round_of(clash.writer), second = round_of(clash.other);
  const std::string rounds = first == second ? "" : fmt::format(", rounds {} and {}", first, second);
  reject("rank {}: {} and {} touch {}, in no fixed order, and one writes there{}{}", clash.writer.lane / model_.lanes(),
         words_in_rank(model_, step_of(clash.writer)), words_in_rank(model_, step_of(clash.other)),
         words_of_location(model_, clash.writer.lane / model_.lanes(), clash.location), rounds,
         log.in_place() ? " (in place)" : "");
}

void Races::reject_lend(const Clash& clash, const AccessLog& log) const {
  const uint32_t later = round_of(clash.writer) - round_of(clash.other);
  reject("{}: lent, but {} is overwritten by {}{} while {} may still read it{}", words(model_, clash.send),
         words_of_location(model_, clash.writer.lane / model_.lanes(), clash.location),
         words_in_rank(model_, step_of(clash.writer)), later == 0 ? "" : fmt::format(", {} rounds later,", later),
         words(model_, step_of(clash.other)), log.in_place() ? " (in place)" : "");
}

void Races::check_barrier() const {
  const uint32_t lanes = model_.lanes();
  const auto enters_before = [&](uint32_t entering, uint32_t leaving) {
    for (uint32_t in = entering * lanes; in < (entering + 1) * lanes; ++in) {
      for (uint32_t out = leaving * lanes; out < (leaving + 1) * lanes; ++out) {
        if (clocks_.knows(out, in, 1)) return true;
      }
    }
    return false;
  };
  for (uint32_t leaving = 0; leaving < model_.ranks(); ++leaving) {
    for (uint32_t entering = 0; entering < model_.ranks(); ++entering) {
      if (entering != leaving && !enters_before(entering, leaving)) {
        reject("rank {} may leave the barrier before rank {} has entered it", leaving, entering);
      }
    }
  }
}

}  // namespace tutti::plan::verifier
