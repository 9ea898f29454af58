#include "plan/verify/replay.hpp"

#include <algorithm>

#include "plan/verify/reject.hpp"

namespace tutti::plan::verifier {

Replay::Replay(const Model& model, uint32_t capacity, uint32_t versions, uint32_t rounds)
    : model_(model),
      capacity_(capacity),
      versions_(versions),
      rounds_(rounds),
      states_(model.all_lanes()),
      links_(model.links()),
      awaited_(model.steps()),
      queue_(model.all_lanes()),
      queued_(model.all_lanes()) {
  for (uint32_t lane = 0; lane < model.all_lanes(); ++lane) {
    const Range steps = model.steps_of(lane);
    states_[lane] = {steps, steps.begin, steps.size() == 0 ? rounds : 0};
  }
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) {
    for (uint32_t step = model.first_step(rank); step < model.first_step(rank + 1); ++step) {
      const uint32_t after = model.step(rank, step).after;
      if (after != kNone) awaited_[model.first_step(rank) + after] = true;
      for (const uint32_t m : model.sent(step)) links_[model.message(m).link].from = rank;
      for (const uint32_t m : model.received(step)) links_[model.message(m).link].to = rank;
    }
  }
  for (uint32_t m = 0; m < model.messages(); ++m) {
    Link& link = links_[model.message(m).link];
    if (link.count++ == 0) link.first = m;
  }
}

Replay::Wait Replay::blocked(uint32_t lane) const {
  const uint32_t step = states_[lane].step, beside = lane % model_.lanes();
  const Wait own = model_.lanes() > 1 ? blocked_by_own_rank(lane) : Wait{};
  if (own.reason != Reason::None) return own;
  for (const uint32_t m : model_.received(step)) {
    const Link& link = links_[model_.message(m).link];
    const uint64_t number = uint64_t{states_[lane].round} * link.count + (m - link.first);
    if (link.sent <= number) return {Reason::Message, link.from * model_.lanes() + beside};
  }
  for (const uint32_t m : model_.sent(step)) {
    const Link& link = links_[model_.message(m).link];
    if (link.sent - link.received >= capacity_) return {Reason::Credit, link.to * model_.lanes() + beside};
  }
  return {};
}

Replay::Wait Replay::blocked_by_own_rank(uint32_t lane) const {
  const State& state = states_[lane];
  const uint32_t rank = lane / model_.lanes(), after = model_.step(rank, state.step).after;
  if (after != kNone) {
    const uint32_t awaited = model_.first_step(rank) + after, other = model_.lane_of(awaited);
    const State& there = states_[other];
    if (there.round < state.round || (there.round == state.round && there.step <= awaited)) {
      return {Reason::After, other};
    }
  }
  if (model_.is_fenced(rank) && state.step == state.steps.begin && state.round >= versions_) {
    for (uint32_t other = rank * model_.lanes(); other < (rank + 1) * model_.lanes(); ++other) {
      if (states_[other].round + versions_ <= state.round) return {Reason::Fence, other};
    }
  }
  return {};
}

void Replay::perform(uint32_t lane) {
  State& state = states_[lane];
  const uint32_t step = state.step, beside = lane % model_.lanes();
  for (const uint32_t m : model_.received(step)) {
    Link& link = links_[model_.message(m).link];
    ++link.received;
    wake(link.from * model_.lanes() + beside);
  }
  for (const uint32_t m : model_.sent(step)) {
    Link& link = links_[model_.message(m).link];
    ++link.sent;
    wake(link.to * model_.lanes() + beside);
  }
  if (++state.step == state.steps.end) {
    state.step = state.steps.begin;
    ++state.round;
    wake_rank(lane);
  } else if (awaited_[step]) {
    wake_rank(lane);
  }
}

void Replay::wake(uint32_t lane) {
  if (queued_[lane] || finished(lane)) return;
  queued_[lane] = true;
  queue_[(head_ + waiting_++) % queue_.size()] = lane;
}

void Replay::wake_rank(uint32_t lane) {
  const uint32_t first = lane / model_.lanes() * model_.lanes();
  for (uint32_t other = first; other < first + model_.lanes(); ++other) {
    if (other != lane) wake(other);
  }
}

uint32_t Replay::pop() {
  const uint32_t lane = queue_[head_];
  head_ = (head_ + 1) % queue_.size();
  --waiting_;
  queued_[lane] = false;
  return lane;
}

std::string Replay::words_of(uint32_t lane, const Wait& wait) const {
  const uint32_t rank = wait.lane / model_.lanes();
  const std::string step = words(model_, states_[lane].step);
  switch (wait.reason) {
    case Reason::Message:
      return fmt::format("{} waits for a message of rank {}", step, rank);
    case Reason::Credit:
      return fmt::format("{} waits until rank {} has taken one of {} messages", step, rank, capacity_);
    case Reason::After:
      return fmt::format("{} waits for lane {}", step, wait.lane % model_.lanes());
    case Reason::Fence:
      return fmt::format("{} waits for lane {} to finish an earlier round", step, wait.lane % model_.lanes());
    case Reason::None:
      break;
  }
  return fmt::format("{} waits for nothing", step);
}

void Replay::check_all_finished() const {
  uint32_t lane = 0;
  while (lane < states_.size() && finished(lane)) ++lane;
  if (lane == states_.size()) return;
  // Every message is matched, so each waiting lane waits for another waiting lane: following them finds the cycle.
  std::vector<bool> seen(states_.size());
  while (!seen[lane]) {
    seen[lane] = true;
    lane = blocked(lane).lane;
  }
  constexpr size_t kShown = 6;
  std::vector<std::string> cycle;
  const uint32_t start = lane;
  size_t length = 0;
  do {
    const Wait wait = blocked(lane);
    if (cycle.size() < kShown) cycle.push_back(words_of(lane, wait));
    lane = wait.lane;
    ++length;
  } while (lane != start);
  if (length > kShown) cycle.push_back(fmt::format("… and {} more in this circle", length - kShown));
  reject("deadlock: {}", fmt::join(cycle, "; "));
}

}  // namespace tutti::plan::verifier
