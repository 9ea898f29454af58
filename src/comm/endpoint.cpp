#include "comm/endpoint.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/version.hpp"
#include "comm/control.hpp"
#include "comm/describe.hpp"
#include "comm/dial.hpp"
#include "comm/host.hpp"
#include "comm/hub.hpp"
#include "comm/seat.hpp"

namespace tutti::comm {
namespace {

constexpr double kAfterFailureSeconds = 2;  // for the others to hear of a failure before this process ends

/// Where a rank of this process finds `member`.
std::vector<Address> addresses_of(const Member& member, const Member& home) {
  return member.host == home.host ? std::vector{Address::loopback()} : member.addresses;
}

uint32_t milliseconds(Deadline deadline) { return static_cast<uint32_t>(std::min(deadline.left() * 1e3, 4e9)); }

}  // namespace

UniqueId create_unique_id() {
  Control& control = Control::get();
  UniqueId id;
  id.key = random_key();
  id.host = hash64(control.home().host);
  id.port = control.home().port;
  id.addresses = control.home().addresses;
  id.addresses.resize(std::min(id.addresses.size(), UniqueId::kMaxAddresses));
  const auto hub = std::make_shared<Hub>(control, id.key);
  control.add_hub(hub);
  control.loop().post([hub] { hub->open(); });
  return id;
}

void release_unique_id(const UniqueId& id) {
  Control& control = Control::get();
  if (const auto hub = control.hub(id.name())) {
    control.loop().post([hub] { hub->close_if_unused(); });
  }
}

std::unique_ptr<Endpoint> Endpoint::join(const UniqueId& id, Rank ranks, Rank rank, std::string info,
                                         Deadline deadline) {
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    throw_error(Code::InvalidArgument, "rank {} of {}: there can be 1 to {} ranks, numbered from 0", rank, ranks,
                kMaxRanks);
  }
  if (info.size() > kMaxInfo) throw_error(Code::InvalidArgument, "a rank's info has at most {} bytes", kMaxInfo);
  Control& control = [&]() -> Control& {
    try {
      return Control::get();
    } catch (const Error& error) {
      throw_error(error.code(), "rank {} of {} ({}) could not join its communicator: {}", rank, ranks, this_process(),
                  error.what());
    }
  }();
  const auto seat = std::make_shared<Seat>(control, id.key, ranks, rank);
  control.add_seat(seat);  // before anybody hears of this rank: peers may reach it at once
  try {
    const bool here = id.host == hash64(control.home().host);
    Fd fd = dial(here ? std::vector{Address::loopback()} : id.addresses, id.port, id.key, {deadline, nullptr});
    Register request;
    request.version = version();
    request.ranks = ranks;
    request.rank = rank;
    request.wait_ms = milliseconds(deadline);
    request.me = control.home();
    request.me.info = std::move(info);
    send_all(fd.get(), pack(request), {deadline, nullptr});
    seat->adopt(std::move(fd));
    seat->wait_joined(deadline);
  } catch (const Error& error) {
    seat->give_up();
    throw_error(error.code(), "rank {} of {}{} could not join its communicator: {}", rank, ranks,
                is_of_the_system(error.code()) ? fmt::format(" ({})", this_process()) : "", error.what());
  }
  control.endpoint_came();
  return std::unique_ptr<Endpoint>(new Endpoint(control, seat));
}

Endpoint::Endpoint(Control& control, std::shared_ptr<Seat> seat) : control_(control), seat_(std::move(seat)) {}

Endpoint::~Endpoint() {
  if (gone_ || control_.forked()) return;
  seat_->fail(Code::Aborted, fmt::format("rank {} dropped its communicator without leaving it", rank()));
  seat_->say_goodbye({});
  control_.endpoint_went();
}

Rank Endpoint::rank() const { return seat_->rank(); }
Rank Endpoint::ranks() const { return seat_->ranks(); }
const transports::Place& Endpoint::place(Rank r) const { return seat_->place(r); }
const std::string& Endpoint::name() const { return seat_->name(); }
const std::string& Endpoint::info(Rank r) const { return seat_->member(r).info; }
std::string Endpoint::describe(Rank r) const { return describe_rank(r, seat_->member(r)); }

void Endpoint::check_usable() const {
  control_.check_not_forked();
  if (gone_) throw_error(Code::InvalidUsage, "rank {} has left its communicator", rank());
  check();
}

std::vector<std::string> Endpoint::exchange(std::string mine, Deadline deadline) {
  check_usable();
  return seat_->exchange(std::move(mine), deadline);
}

// ---- failure

const std::atomic<uint32_t>& Endpoint::failed() const { return seat_->failed(); }
std::optional<std::pair<Code, std::string>> Endpoint::failure() const { return seat_->failure(); }

void Endpoint::check() const {
  if (failed().load(std::memory_order_acquire) == 0) return;
  const auto first = failure();
  throw Error(first->first, first->second);
}

void Endpoint::fail(Code code, const std::string& text) {
  if (!control_.forked()) seat_->fail(code, text);
}

void Endpoint::abort() { fail(Code::Aborted, fmt::format("{} aborted the communicator", describe(rank()))); }
bool Endpoint::lost(Rank r) const { return seat_->lost(r); }

// ---- call boards

void Endpoint::serve_board(std::function<std::string(uint64_t)> board) { seat_->board().set(std::move(board)); }

std::future<std::optional<std::string>> Endpoint::ask_board(Rank peer, uint64_t call, Deadline deadline) {
  control_.check_not_forked();
  seat_->member(peer);  // throws if there is no such rank
  if (const auto here = control_.seat(name(), peer)) {
    std::promise<std::optional<std::string>> answer;
    answer.set_value(here->board()(call));
    return answer.get_future();
  }
  return seat_->ask_board(peer, call, deadline);
}

// ---- leaving

Farewell Endpoint::leave(uint64_t calls, Deadline deadline, uint64_t digest, const std::string& last,
                         std::vector<Traffic> traffic) {
  Farewell farewell;
  farewell.rank = rank();
  if (control_.forked()) return farewell;
  bool waited = false;
  if (!gone_.exchange(true)) {
    seat_->say_goodbye({calls, digest, last, std::move(traffic)});
    waited = control_.endpoint_went();
    if (waited) {
      const bool failed = seat_->failed().load() != 0;
      control_.wait_until_through(failed ? Deadline::in(std::min(kAfterFailureSeconds, deadline.left())) : deadline);
    }
  }
  farewell.complete = seat_->done(&farewell.mismatch);
  const auto unheard = waited ? control_.take_unheard() : std::nullopt;
  if (unheard && farewell.mismatch.empty()) {
    farewell.rank = unheard->rank;
    farewell.mismatch =
        fmt::format("{} (in a communicator of {} ranks that was left before)", unheard->mismatch, unheard->ranks);
  }
  return farewell;
}

std::optional<Left> Endpoint::left(Rank r) const { return seat_->left(r); }

// ---- transports::Wireup

Fd Endpoint::open_stream(Rank peer, const std::string& label, Deadline deadline) {
  check_usable();
  if (label.size() > kMaxLabel) throw_error(Code::InvalidArgument, "a stream's label has at most {} bytes", kMaxLabel);
  const Member& member = seat_->member(peer);
  const Patience patience{deadline, &failed()};
  try {
    Fd fd = dial(addresses_of(member, control_.home()), member.port, seat_->key(), patience);
    call<Accepted>(fd.get(), OpenStream{rank(), peer, label}, patience);
    return fd;
  } catch (const Error& error) {
    check();
    throw_error(error.code() == Code::InvalidArgument ? Code::PeerFailed : error.code(),
                "rank {} cannot open stream '{}' to {}: {}", rank(), label, describe(peer), error.what());
  }
}

std::optional<Fd> Endpoint::take_stream(Rank peer, const std::string& label) {
  control_.check_not_forked();
  return seat_->streams().take(peer, label);
}

void Endpoint::serve(const std::string& service, Service answer) {
  control_.check_not_forked();
  const bool retry = static_cast<bool>(answer);
  seat_->services().serve(service, std::move(answer));
  if (retry) seat_->retry_services();
}

Endpoint::Reply Endpoint::ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) {
  check_usable();
  const Member& member = seat_->member(peer);
  const Patience patience{deadline, &failed()};
  try {
    if (const auto here = control_.seat(name(), peer)) return here->services().ask(rank(), service, request, patience);
    if (member.host != control_.home().host) throw_error(Code::InvalidArgument, "it runs on another host");
    const Fd fd = dial_unix(member.unix_name, seat_->key(), patience);
    Reply reply;
    reply.bytes = call<comm::Reply>(fd.get(), Ask{rank(), peer, service, request}, patience, &reply.fd).bytes;
    return reply;
  } catch (const Error& error) {
    check();
    throw_error(error.code(), "rank {} asked {} for '{}': {}", rank(), describe(peer), service, error.what());
  }
}

}  // namespace tutti::comm
