// The calls of a communicator that move no data: split and leave. Every rank makes them at the same place among its
// calls, so they are numbered and entered on the call board as collectives are.
#include <algorithm>
#include <sstream>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/printable.hpp"
#include "comm/communicator.hpp"
#include "control/describe.hpp"

namespace tutti::comm {
namespace {

/// A split request is "colour key". Throws Error(ProtocolError) if the text is not one.
std::pair<int, int> parse_request(const std::string& text, Rank from) {
  std::istringstream in(text);
  std::pair<int, int> request;
  if (in >> request.first >> request.second && in.peek() == std::istringstream::traits_type::eof()) return request;
  throw_error(Code::ProtocolError, "rank {} did not contribute to the split, or its contribution is invalid", from);
}

}  // namespace

/// An exchange that is part of the running call. While it waits, it compares the call boards of missing ranks.
std::vector<std::string> Communicator::exchange(std::string mine, Deadline deadline) {
  const control::ExchangePurpose purpose{
      calls_, describe(*board_->collective(calls_)),
      [this](const std::vector<Rank>& missing, bool compare) { diagnostics_.missing(missing, compare); }};
  try {
    auto all = endpoint_->exchange(std::move(mine), deadline, purpose);
    diagnostics_.end();
    return all;
  } catch (...) {
    diagnostics_.end();
    throw;
  }
}

/// Throws if no call can be made. Returns until when the call may last.
Deadline Communicator::begin_control_call(const CallSpec& spec) {
  unusable_status(describe(spec)).throw_if_bad();
  return enter_control_call(spec);
}

Deadline Communicator::enter_control_call(const CallSpec& spec) {
  board_->enter(++calls_, spec);
  trace_->enter(calls_, spec);
  diagnostics_.begin(calls_, spec);
  digest_ = (digest_ ^ spec.kinds()) * kGoldenRatio;
  return Deadline::in(timeouts_.of_init());
}

void Communicator::leave_control_call() {
  board_->leave(calls_);
  trace_->leave();
}

void Communicator::fail_control_call(Code code, const char* why) {
  trace_->fail(*board_, code);
  const Status status = diagnostics_.fail(code, why);
  leave_trace();
  throw Error(status.code, status.text);
}

std::optional<SplitResult> Communicator::split(int colour, int key) {
  const Deadline deadline = begin_control_call({.splits = true});
  return in_control_call([&]() -> std::optional<SplitResult> {
    const auto requests = exchange(fmt::format("{} {}", colour, key), deadline);
    std::vector<std::pair<int, Rank>> members;  // (key, rank)
    for (Rank peer = 0; peer < ranks(); ++peer) {
      const auto [their_colour, their_key] = parse_request(requests[static_cast<size_t>(peer)], peer);
      if (colour >= 0 && their_colour == colour) members.emplace_back(their_key, peer);
    }
    std::sort(members.begin(), members.end());
    leave_control_call();
    if (colour < 0) return std::nullopt;
    std::vector<Rank> of_members;
    for (const auto& member : members) of_members.push_back(member.second);
    const auto mine = std::find(of_members.begin(), of_members.end(), rank());
    return SplitResult{endpoint_->split_id(of_members.front(), fmt::format("split {} colour {}", calls_, colour)),
                       static_cast<Rank>(members.size()),
                       static_cast<Rank>(mine - of_members.begin()),
                       groups_among(*groups_, of_members),
                       control::title_of_split(diagnostics_.title(), colour, of_members),
                       calls_,
                       {.stop = &failed_,
                        .why = [this] { return failure_for_others(); },
                        .names = of_members,
                        .parent = endpoint_.get(),
                        .leader = of_members.front()},
                       fabric_->arenas()};
  });
}

uint64_t Communicator::add_buffer(uint8_t backend, const void* data, uint64_t bytes) {
  constexpr const char* kCall = "register()";
  unusable_status(kCall).throw_if_bad();
  BackendCalls& on = *on_[backend];
  on.check_served(rank(), title());
  try {
    const uint64_t number = on.backend().add_region(data, bytes);
    unusable_status(kCall).throw_if_bad();  // a peer may have failed instead of answering
    if (number == 0) return 0;
    registrations_[++last_registration_] = {backend, number, bytes};
    log_->registered.fetch_add(bytes, std::memory_order_relaxed);
    return last_registration_;
  } catch (const Error& error) {
    unusable_status(kCall).throw_if_bad();
    throw_error(error.code(), "rank {}: {}: {}", rank(), kCall, error.what());
  }
}

void Communicator::drop_buffer(uint64_t registration) {
  if (has_left()) return;
  const auto found = registrations_.find(registration);
  if (found == registrations_.end()) {
    throw_error(Code::InvalidArgument, "registration {} is not one of this communicator, or has ended", registration);
  }
  const Registered registered = found->second;
  registrations_.erase(found);
  log_->registered.fetch_sub(registered.bytes, std::memory_order_relaxed);
  BackendCalls& on = *on_[registered.backend];
  if (on.refused().empty()) on.backend().drop_region(registered.number);
}

void Communicator::fail(Code code, const std::string& text) { endpoint_->fail(code, control::said_by(rank(), text)); }

/// What a slower rank has found meanwhile, or a rank that was lost before it left.
Status Communicator::found_while_leaving() const {
  Status found = failure();
  const std::string prefix = fmt::format("rank {}: ", rank());  // of every text of failure()
  if (found.code == Code::PeerFailed) found.text = prefix + "destroy(): " + found.text.substr(prefix.size());
  return found.code == Code::Mismatch || found.code == Code::PeerFailed ? found : Status();
}

std::string Communicator::drop_at_exit() {
  constexpr double kToldWithin = 2;  // seconds
  const uint64_t waiting = next_ticket_.load(std::memory_order_relaxed) - serving_.load(std::memory_order_acquire);
  const auto last = board_->collective(board_->begun());
  const std::string begun =
      last ? fmt::format(" (the last one begun: {}, call {})", describe(*last), board_->begun()) : "";
  std::string text = fmt::format(
      "{} exited with {} pending{}: wait for calls on streams, and destroy the communicator, before the process ends",
      endpoint_->describe(rank()), counted(waiting, "call"), begun);
  endpoint_->drop(Code::PeerFailed, text, kToldWithin);
  return text;
}

Status Communicator::leave() {
  state_.store(State::Left, std::memory_order_relaxed);
  if (windows_ != nullptr) leave_windows();
  Status failed = failure();
  if (!failed.ok()) abort_driven();
  std::vector<control::PeerTransfers> traffic;
  for (const auto& [transfer, number] : transfer_counts_) {
    const auto [peer, sends] = transfer;
    if (traffic.empty() || traffic.back().peer != peer) traffic.push_back({peer, 0, 0});
    (sends ? traffic.back().sent : traffic.back().received) = number;
  }
  const std::string last = describe(board_->collective(calls_).value_or(CallSpec{}));
  board_->enter(calls_ + 1, {.leaves = true});
  uint64_t calls = calls_ + ended_;
  for (const auto& on : on_) {  // some may have been repeated that were enqueued once
    if (on->is_driven() || !on->refused().empty()) continue;
    calls += on->backend().finish(timeouts_.of_calls());
    if (failed.ok()) failed = failure();
  }
  calls -= enqueued_;
  const control::LeaveResult result =
      endpoint_->leave(calls, Deadline::in(timeouts_.of_calls()), digest_, last, std::move(traffic));
  if (failed.ok()) failed = found_while_leaving();
  if (!failed.ok()) return failed;
  if (!result.mismatch.empty()) return {Code::Mismatch, fmt::format("rank {}: {}", result.rank, result.mismatch)};
  if (!result.lost.empty()) return {Code::PeerFailed, fmt::format("rank {}: destroy(): {}", rank(), result.lost)};
  if (!result.late.empty()) {
    const std::string now = result.awaited != kNoRank ? diagnostics_.describe_activity(result.awaited) : "";
    return {Code::Timeout, fmt::format("rank {}: destroy(): {}{}. Raise {} if that may take longer", rank(),
                                       result.late, now, timeouts_.setting_of_calls())};
  }
  return {};
}

}  // namespace tutti::comm
