// The calls of a communicator that move no data: split and leave. Every rank makes them in the same place among its
// calls, so they have numbers and stand on the call board as collectives do.
#include <algorithm>
#include <sstream>

#include "base/env.hpp"
#include "base/format.hpp"
#include "comm/communicator.hpp"
#include "control/describe.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads over the high bits

/// A wish is "colour key". Throws Error(ProtocolError) for what is none.
std::pair<int, int> parse_wish(const std::string& text, Rank from) {
  std::istringstream in(text);
  std::pair<int, int> wish;
  if (in >> wish.first >> wish.second && in.peek() == std::istringstream::traits_type::eof()) return wish;
  throw_error(Code::ProtocolError, "rank {} takes no part in the split, or its wish makes no sense", from);
}

}  // namespace

/// An exchange that is part of the call that runs. While it waits, it looks at the call boards of ranks that are
/// missing.
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

std::optional<Part> Communicator::split(int colour, int key) {
  refusal().throw_if_bad();
  const Deadline deadline = Deadline::in(env().init_timeout);
  const CallSpec spec{.splits = true};
  board_->enter(++calls_, spec);
  diagnostics_.begin(calls_, spec);
  digest_ = (digest_ ^ spec.kinds()) * kOdd;
  try {
    const auto wishes = exchange(fmt::format("{} {}", colour, key), deadline);
    std::vector<std::pair<int, Rank>> members;  // (key, rank)
    for (Rank peer = 0; peer < ranks(); ++peer) {
      const auto [their_colour, their_key] = parse_wish(wishes[static_cast<size_t>(peer)], peer);
      if (colour >= 0 && their_colour == colour) members.emplace_back(their_key, peer);
    }
    std::sort(members.begin(), members.end());
    const bool leads = !members.empty() && members.front().second == rank();
    const auto ids = exchange(leads ? control::create_unique_id().hex() : "", deadline);
    board_->leave(calls_);
    if (colour < 0) return std::nullopt;
    std::vector<Rank> of_members;
    for (const auto& member : members) of_members.push_back(member.second);
    const auto place = std::find(of_members.begin(), of_members.end(), rank());
    return Part{control::UniqueId::from_hex(ids[static_cast<size_t>(of_members.front())]),
                static_cast<Rank>(members.size()), static_cast<Rank>(place - of_members.begin()),
                groups_among(*groups_, of_members), control::title_of_split(diagnostics_.title(), colour, of_members)};
  } catch (const Error& error) {
    diagnostics_.fail(error.code(), error.what()).throw_if_bad();
  } catch (const std::exception& error) {
    diagnostics_.fail(Code::OutOfMemory, error.what()).throw_if_bad();
  }
  return std::nullopt;
}

Status Communicator::leave() {
  left_ = true;
  Status failed = failure();
  if (!failed.ok()) exec::abandon(execution_);
  std::vector<control::PeerTransfers> traffic;
  for (const auto& [transfer, number] : transfer_counts_) {
    const auto [peer, sends] = transfer;
    if (traffic.empty() || traffic.back().peer != peer) traffic.push_back({peer, 0, 0});
    (sends ? traffic.back().sent : traffic.back().received) = number;
  }
  const std::string last = describe(board_->collective(calls_).value_or(CallSpec{}));
  board_->enter(calls_ + 1, {.leaves = true});
  const control::LeaveResult farewell =
      endpoint_->leave(calls_, Deadline::in(env().timeout), digest_, last, std::move(traffic));
  if (failed.ok() && failure().code == Code::Mismatch) failed = failure();  // a slower rank found it meanwhile
  if (!failed.ok()) return failed;
  if (!farewell.mismatch.empty()) return {Code::Mismatch, fmt::format("rank {}: {}", farewell.rank, farewell.mismatch)};
  if (!farewell.late.empty()) {
    const std::string now = farewell.awaited != kNoRank ? diagnostics_.whereabouts(farewell.awaited) : "";
    return {Code::Timeout, fmt::format("rank {}: destroy(): {}{}. Raise TUTTI_TIMEOUT if that may take longer", rank(),
                                       farewell.late, now)};
  }
  return {};
}

}  // namespace tutti::comm
