#include "control/endpoint.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/bootstrap/join.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/host.hpp"
#include "control/paths.hpp"
#include "control/trunks.hpp"
#include "topo/cores.hpp"

namespace tutti::control {
namespace {

constexpr double kAfterFailureSeconds = 2;    // for the other ranks to receive a failure before this process ends
constexpr double kComparedWithinSeconds = 1;  // for the rendezvous server to answer a leave notice
constexpr double kSilentServerSeconds =
    0.01;  // the same, where it did not answer the last one: a process may have many

/// Connects to the process that `member`, of this host, names as its own; see ControlClient::check_asker.
Fd dial_process(const Member& member, const Key& key, WaitLimit limit) {
  Fd fd = dial_unix(member.unix_name, key, limit);
  const int64_t process = peer_process(fd.get());
  if (process != static_cast<int64_t>(member.process))
    throw_error(Code::ProtocolError, "process {} listens there", process);
  return fd;
}

}  // namespace

Endpoint::Endpoint(ControlThread& control, std::shared_ptr<ControlClient> client)
    : control_(control), client_(std::move(client)) {}

Endpoint::~Endpoint() {
  drop(Code::Aborted, fmt::format("rank {} dropped its communicator without leaving it", rank()), 0);
}

Rank Endpoint::rank() const { return client_->rank(); }
Rank Endpoint::ranks() const { return client_->ranks(); }
const transports::ProcessId& Endpoint::process_id(Rank r) const { return client_->process_id(r); }
const std::string& Endpoint::name() const { return client_->name(); }
const std::string& Endpoint::title() const { return client_->title(); }
const std::string& Endpoint::info(Rank r) const { return client_->member(r).info; }
const std::string& Endpoint::host_name(Rank r) const { return client_->member(r).host_name; }

std::string Endpoint::describe(Rank r) const { return describe_rank(r, client_->member(r)); }

void Endpoint::check_not_left() const {
  control_.check_not_forked();
  if (gone_) throw_error(Code::InvalidUsage, "rank {} has left its communicator", rank());
}

void Endpoint::check_usable() const {
  check_not_left();
  check();
}

UniqueId Endpoint::split_id(Rank leader, std::string_view purpose) const {
  check_not_left();
  const Key& key = client_->key();
  std::string words(key.begin(), key.end());
  words += purpose;
  return id_of(client_->member(leader), derive_key(words));
}

UniqueId Endpoint::id_opened_by(Rank leader, std::string_view purpose, const Places& places) const {
  UniqueId id = split_id(leader, purpose);
  id.opens_later = true;
  // Any rank of the leader's process opens it: once a client with this key is there, its absence would be final.
  if (same_process(client_->member(leader), control_.local_member())) open_server(control_, id.key, places);
  return id;
}

UniqueId Endpoint::derive_id(Rank leader, std::string_view purpose) const { return id_opened_by(leader, purpose, {}); }

UniqueId Endpoint::grow_id(Rank leader, std::string_view purpose, const std::vector<Rank>& staying, Rank ranks,
                           const std::string& title) const {
  Places places{.ranks = ranks, .kept = {}, .title = title.substr(0, kMaxName)};
  for (const Rank rank : staying) {
    Member& member = places.kept[rank] = client_->member(rank);
    member.info.clear();
  }
  return id_opened_by(leader, purpose, places);
}

std::vector<std::string> Endpoint::exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose) {
  check_usable();
  return client_->exchange(std::move(mine), deadline, purpose);
}

// ---- failure

const std::atomic<uint32_t>& Endpoint::failed() const { return client_->failed(); }
std::optional<std::pair<Code, std::string>> Endpoint::failure() const { return client_->failure(); }

void Endpoint::check() const {
  if (failed().load(std::memory_order_acquire) == 0) return;
  const auto first = failure();
  throw Error(first->first, first->second);
}

void Endpoint::fail(Code code, const std::string& text) {
  if (!control_.forked()) client_->fail(code, text);
}

std::function<void(Code, const std::string&, const std::vector<uint64_t>&)> Endpoint::failing() const {
  return [weak = std::weak_ptr(client_)](Code code, const std::string& text, const std::vector<uint64_t>& tickets) {
    if (const auto client = weak.lock()) client->fail(code, text, tickets);
  };
}

void Endpoint::abort() { fail(Code::Aborted, fmt::format("{} aborted the communicator", describe(rank()))); }
void Endpoint::revoke() { fail(Code::Revoked, fmt::format("{} revoked the communicator", describe(rank()))); }
bool Endpoint::lost(Rank r) const { return client_->lost(r); }
std::vector<Rank> Endpoint::lost_ranks() const { return client_->lost_ranks(); }
std::shared_ptr<const std::atomic<uint32_t>> Endpoint::watch_losses(std::vector<Rank> ranks) const {
  return client_->watch_losses(std::move(ranks));
}

// ---- call boards

void Endpoint::serve_board(std::function<std::string(uint64_t)> board) { client_->board().set(std::move(board)); }

std::future<std::optional<std::string>> Endpoint::ask_board(Rank peer, uint64_t call, Deadline deadline) {
  control_.check_not_forked();
  client_->member(peer);  // throws if the rank does not exist
  if (const auto here = control_.client(name(), peer)) {
    std::promise<std::optional<std::string>> answer;
    answer.set_value(here->board()(call));
    return answer.get_future();
  }
  return client_->ask_board(peer, call, deadline);
}

// ---- leaving

LeaveResult Endpoint::leave(uint64_t calls, Deadline deadline, uint64_t digest, const std::string& last,
                            std::vector<PeerTransfers> traffic) {
  LeaveResult result;
  result.rank = rank();
  if (control_.forked()) return result;
  bool waited = false, idle = true;
  const double limit = deadline.left();
  if (!gone_.exchange(true)) {
    client_->send_leave_notice({calls, digest, last, std::move(traffic)});
    waited = control_.endpoint_closed();
    if (waited) {
      idle = control_.wait_until_idle(deadline, kAfterFailureSeconds);
    } else {
      static std::atomic<bool> silent{false};
      const double most = silent.load(std::memory_order_relaxed) ? kSilentServerSeconds : kComparedWithinSeconds;
      const bool answered = client_->wait_for_comparison(Deadline::in(std::min(deadline.left(), most)));
      silent.store(!answered, std::memory_order_relaxed);
    }
  }
  result.complete = client_->done(&result.mismatch);
  const auto failure = client_->failure();
  result.complete = result.complete || failure;
  if (result.mismatch.empty() && failure && failure->first == Code::Mismatch) result.mismatch = failure->second;
  // The rendezvous server may have ended before its word that all have left: its rank waited in vain, too.
  if (waited && !(idle && result.complete)) describe_late_ranks(result, limit, std::max(0.0, deadline.left()));
  const auto mismatch_is_late = waited ? control_.take_late_mismatch() : std::nullopt;
  if (mismatch_is_late && result.mismatch.empty()) {
    result.rank = mismatch_is_late->rank;
    result.mismatch = fmt::format("{} (in a communicator of {} ranks that was left before)", mismatch_is_late->mismatch,
                                  mismatch_is_late->ranks);
  }
  return result;
}

void Endpoint::drop(Code code, const std::string& why, double seconds) {
  if (control_.forked() || gone_.exchange(true)) return;
  client_->fail(code, why);
  client_->send_leave_notice({});
  if (control_.endpoint_closed() && seconds > 0) control_.wait_until_idle(Deadline::in(seconds), seconds);
}

/// The wait of `limit` seconds for the other ranks has ended, `left` seconds early. If a failure ended it, there is
/// nothing to add.
void Endpoint::describe_late_ranks(LeaveResult& result, double limit, double left) const {
  auto awaited = client_;
  std::string which;
  if (awaited->remaining_ranks().empty()) {
    awaited = control_.unfinished();
    if (awaited == nullptr) return;
    which = fmt::format(" a communicator of {} ranks that it has left before", awaited->ranks());
  }
  const auto ranks = awaited->remaining_ranks();
  if (ranks.empty()) return;
  // Ranks that wait together run out of time together, and the server's process may then be the first to end.
  if (left > limit / 10) result.lost = awaited->server_loss();
  if (!result.lost.empty() || awaited->failed().load(std::memory_order_acquire) != 0) return;
  result.late =
      fmt::format("rank {} waited {:.1f} s for {} to leave{}", awaited->rank(), limit - left, list_ranks(ranks), which);
  if (awaited == client_) result.awaited = ranks.front();
}

void Endpoint::when_all_have_left(const std::string& what, std::function<void()> then) {
  client_->when_all_have_left(what, std::move(then));
}
std::optional<Left> Endpoint::left(Rank r) const { return client_->left(r); }

// ---- transports::Wireup

Fd Endpoint::open_stream(Rank peer, const std::string& label, Deadline deadline) {
  return open_stream(addresses_of(client_->member(peer), control_.local_member()), nullptr, peer, label, deadline);
}

Fd Endpoint::open_stream_over(const transports::Path& path, Rank peer, const std::string& label, Deadline deadline) {
  return open_stream({path.to}, &path.from, peer, label, deadline);
}

std::vector<transports::Path> Endpoint::paths(Rank peer) const {
  const Member& member = client_->member(peer);
  if (member.host == control_.local_member().host) return {};
  return share_out(paths_to(member.addresses), numa_node_of(allowed_cores()), transports::place_on_host(*this));
}

Fd Endpoint::open_stream(const std::vector<Address>& addresses, const Address* from, Rank peer,
                         const std::string& label, Deadline deadline) {
  check_usable();
  if (label.size() > kMaxLabel) throw_error(Code::InvalidArgument, "a stream's label has at most {} bytes", kMaxLabel);
  const Member& member = client_->member(peer);
  const WaitLimit limit{deadline, &failed()};
  try {
    Fd fd = dial(addresses, member.port, client_->key(), limit, from);
    call<Accepted>(fd.get(), OpenStream{rank(), peer, label}, limit);
    return fd;
  } catch (const Error& error) {
    check();
    throw_error(error.code() == Code::InvalidArgument ? Code::PeerFailed : error.code(),
                "rank {} cannot open stream '{}' to {}: {}", rank(), label, describe(peer),
                explain_unreachable(error.what(), addresses, member.host == control_.local_member().host));
  }
}

std::optional<Fd> Endpoint::take_stream(Rank peer, const std::string& label) {
  control_.check_not_forked();
  return client_->streams().take(peer, label);
}

void Endpoint::receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) {
  client_->streams().receive(label, std::move(take));
}

void Endpoint::confirm_process(Rank peer, Deadline deadline) {
  check_usable();
  if (control_.client(name(), peer)) return;
  try {
    dial_process(client_->member(peer), client_->key(), {deadline, &failed()});
  } catch (const Error& error) {
    check();
    throw_error(error.code(), "the process of {} is not confirmed: {}", describe(peer), error.what());
  }
}

void Endpoint::serve(const std::string& service, Service answer) {
  control_.check_not_forked();
  const bool retry = static_cast<bool>(answer);
  client_->services().serve(service, std::move(answer));
  if (retry) client_->retry_services();
}

void Endpoint::end_services() {
  control_.check_not_forked();
  client_->services().remove_all();
  client_->streams().remove_all();
}

Endpoint::Reply Endpoint::ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) {
  check_usable();
  const Member& member = client_->member(peer);
  const WaitLimit limit{deadline, &failed()};
  try {
    if (const auto here = control_.client(name(), peer)) return here->services().ask(rank(), service, request, limit);
    if (member.host != control_.local_member().host) throw_error(Code::InvalidArgument, "it runs on another host");
    const Fd fd = dial_process(member, client_->key(), limit);
    Reply reply;
    reply.bytes = call<control::Reply>(fd.get(), Ask{rank(), peer, service, request}, limit, &reply.fd).bytes;
    return reply;
  } catch (const Error& error) {
    check();
    throw_error(error.code(), "rank {} asked {} for '{}': {}", rank(), describe(peer), service, error.what());
  }
}

}  // namespace tutti::control
