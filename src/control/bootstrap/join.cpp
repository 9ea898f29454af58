#include "control/bootstrap/join.hpp"

#include <poll.h>

#include <algorithm>
#include <future>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/socket.hpp"
#include "base/version.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/endpoint.hpp"
#include "control/host.hpp"
#include "control/rendezvous_server.hpp"
#include "control/trunks.hpp"

namespace tutti::control {
namespace {

constexpr int kOpensLaterPauseMs = 10;
constexpr double kWithdrawalSeconds = 2;        // to reach the rendezvous server
constexpr double kInformedWithinSeconds = 0.2;  // for late ranks to come and hear why there is no communicator

}  // namespace

std::string explain_unreachable(const std::string& failure, const std::vector<Address>& addresses, bool here) {
  if (here || !std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.is_loopback(); })) {
    return failure;
  }
  std::vector<std::string> texts;
  for (const Address& address : addresses) texts.push_back(to_string(address));
  return fmt::format(
      "it runs on another host and offers only its loopback address ({}), which other hosts cannot reach: set "
      "TUTTI_INTERFACE there to an interface that this host reaches, or unset it",
      fmt::join(texts, ", "));
}

UniqueId id_of(const Member& maker, const Key& key) {
  UniqueId id;
  id.key = key;
  id.host = hash64(maker.host);
  id.port = maker.port;
  id.addresses = maker.addresses;
  id.addresses.resize(std::min(id.addresses.size(), UniqueId::kMaxAddresses));
  return id;
}

void open_server(ControlThread& control, const Key& key, Places places) {
  const auto server = std::make_shared<RendezvousServer>(control, public_name(key), nullptr, std::move(places));
  if (control.add_server(key, server)) control.loop().post([server] { server->open(); });
}

UniqueId create_unique_id() {
  ControlThread& control = ControlThread::get();
  control.check_settings();
  UniqueId id = id_of(control.local_member(), random_key());
  open_server(control, id.key);
  return id;
}

void release_unique_id(const UniqueId& id) {
  ControlThread& control = ControlThread::get();
  if (const auto server = control.server(id.name())) {
    control.loop().post([server] { server->close_if_unused(); });
  }
}

void withdraw(const UniqueId& id, Withdraw withdrawal, size_t informed_elsewhere) {
  withdrawal.process = ControlThread::get().local_member().nonce;
  const WaitLimit limit{Deadline::in(kWithdrawalSeconds), nullptr};
  const bool here = id.host == hash64(host_identity());
  try {
    const Fd fd = dial(here ? std::vector{Address::loopback()} : id.addresses, id.port, id.key, limit);
    call<Accepted>(fd.get(), withdrawal, limit);
    ControlThread::get().wait_until_informed(id.name(), static_cast<size_t>(withdrawal.ranks) - informed_elsewhere,
                                             Deadline::in(kInformedWithinSeconds));
  } catch (const Error&) {  // no process is left to inform
  }
}

namespace {

/// Connects a rank to the rendezvous server, in the process that made the id.
Fd dial_server(const UniqueId& id, const ControlThread& control, WaitLimit limit) {
  const bool here = id.host == hash64(control.local_member().host);
  const std::vector<Address> addresses = here ? std::vector{Address::loopback()} : id.addresses;
  for (;;) {
    const double silent = env().heartbeat;
    try {
      return dial(addresses, id.port, id.key, {Deadline::in(std::min(limit.deadline.left(), silent)), limit.stop});
    } catch (const Error& error) {
      if (error.code() == Code::Aborted) throw;
      if (error.code() == Code::Timeout && !limit.deadline.passed()) {
        throw_error(Code::PeerFailed, "the process that made the unique id, usually rank 0's, is gone ({}): {}",
                    error.what(), describe_silence(silent));
      }
      if (id.opens_later && is_rejection(error.code())) {
        if (limit.deadline.passed())
          throw_error(Code::Timeout, "its first rank has not made this call ({})", error.what());
        poll(nullptr, 0, kOpensLaterPauseMs);
        continue;
      }
      throw_error(error.code(), "the process that made the unique id (usually rank 0's) cannot be reached: {}",
                  explain_unreachable(error.what(), addresses, here));
    }
  }
}

/// How a rank reaches the rendezvous server: over a trunk if it is a split's, else by the id.
struct Server {
  const UniqueId& id;
  const Member* member = nullptr;            // the split's first rank
  std::string holder = {};                   // the same in messages
  std::shared_ptr<Trunks> trunks = nullptr;  // null: by the id
};

Server server_of(const UniqueId& id, const JoinTerms& terms, const ControlClient* parent) {
  if (parent == nullptr) return {id};
  const Member& member = parent->member(terms.leader);
  Server server{id, &member, describe_rank(terms.leader, member), parent->trunks()};
  if (server.trunks == nullptr) throw_error(Code::InvalidUsage, "every rank has left the communicator that is split");
  return server;
}

std::shared_ptr<Trunk> trunk_to(const Server& server, WaitLimit limit) {
  const double silent = env().heartbeat;
  try {
    return server.trunks->to(*server.member, {Deadline::in(std::min(limit.deadline.left(), silent)), limit.stop});
  } catch (const Error& error) {
    if (error.code() == Code::Timeout && !limit.deadline.passed()) {
      throw_error(Code::PeerFailed, "{}, which would hold the rendezvous server, is gone ({}): {}", server.holder,
                  error.what(), describe_silence(silent));
    }
    const Member& here = ControlThread::get().local_member();
    throw_error(error.code(), "{}, which would hold the rendezvous server, cannot be reached: {}", server.holder,
                explain_unreachable(error.what(), server.member->addresses, server.member->host == here.host));
  }
}

uint32_t milliseconds(Deadline deadline) { return static_cast<uint32_t>(std::min(deadline.left() * 1e3, 4e9)); }

/// Registers the rank and waits until all ranks have joined.
void register_rank(ControlThread& control, ControlClient& client, const Server& server, std::string info,
                   const JoinTerms& terms, Deadline deadline) {
  const WaitLimit limit{deadline, terms.stop};
  control.check_settings();
  Register request;
  request.version = version();
  request.ranks = client.ranks();
  request.rank = client.rank();
  request.names = terms.names;
  request.me = control.local_member();
  request.me.info = std::move(info);
  if (server.trunks != nullptr) {
    auto trunk = trunk_to(server, limit);
    request.wait_ms = milliseconds(deadline);
    client.adopt(std::move(trunk), request);
  } else {
    Fd fd = dial_server(server.id, control, limit);
    request.wait_ms = milliseconds(deadline);
    send_all(fd.get(), pack(request), limit);
    client.adopt(std::move(fd));
  }
  client.wait_joined(limit);
}

/// False for errors that came from the rendezvous server, or mean that it does not exist: then no rank waits for a
/// withdrawal.
/// But the end of a trunk says nothing of the server: others may have reached it.
bool others_wait(Code code, const JoinTerms& terms) {
  if (code == Code::PeerFailed && terms.parent != nullptr) return terms.parent->failed() == 0;
  return code != Code::Timeout && code != Code::PeerFailed && code != Code::Aborted;
}

/// The error of a rank that could not join.
Error not_joined(const Error& why, Rank ranks, Rank rank, const JoinTerms& terms, bool with_process) {
  const std::string process = with_process ? fmt::format(" ({})", this_process()) : "";
  const std::string what =
      terms.names.empty()
          ? fmt::format("rank {} of {}{} could not join its communicator", rank, ranks, process)
          : fmt::format("rank {}{} could not join the communicator that is made", name_of(rank, terms.names), process);
  return {why.code(), fmt::format("{}: {}", what, why.what())};
}

/// The same as withdraw() over a trunk.
void withdraw_over_trunk(const Server& server, Withdraw withdrawal) {
  const Deadline deadline = Deadline::in(kWithdrawalSeconds);
  ControlThread& control = ControlThread::get();
  withdrawal.process = control.local_member().nonce;
  try {
    const auto taken = std::make_shared<std::promise<void>>();
    control.loop().post(
        [trunk = trunk_to(server, {deadline, nullptr}), name = server.id.name(), first = pack_body(withdrawal), taken] {
          const auto channel = trunk->open_channel(name, first);
          // The server closes the channel when it has taken the withdrawal. The channel lives until then, or a while.
          channel->open([](std::string_view) {}, [taken](const std::string&) { taken->set_value(); });
          ControlThread::get().loop().at(Deadline::in(kWithdrawalSeconds), [channel] { channel->close(); });
        });
    taken->get_future().wait_until(deadline.at());
    control.wait_until_informed(server.id.name(), static_cast<size_t>(withdrawal.ranks),
                                Deadline::in(kInformedWithinSeconds));
  } catch (const Error&) {  // no process is left to inform
  }
}

/// The other ranks are not to wait for one that could not register: what it throws, when they have been told.
Error tell_the_others(ControlThread& control, const UniqueId& id, Rank ranks, Rank rank, const JoinTerms& terms,
                      const Error& error) {
  // Another rank may have withdrawn with this code, too.
  const bool is_stopped = terms.why && terms.stop->load(std::memory_order_acquire) != 0;
  if (error.code() == Code::Aborted && is_stopped) {
    Error why = terms.why();
    Endpoint::withdraw(id, terms, {ranks, rank, why.code(), std::string(why.what()).substr(0, kMaxSmall)});
    return why;
  }
  if (others_wait(error.code(), terms)) {
    Endpoint::withdraw(id, terms, {ranks, rank, error.code(), describe_withdrawal(name_of(rank, terms.names), error)});
  } else if (error.code() != Code::Timeout) {
    control.wait_until_informed(id.name(), static_cast<size_t>(ranks), Deadline::in(kInformedWithinSeconds));
  }
  return not_joined(error, ranks, rank, terms, is_of_the_system(error.code()));
}

}  // namespace

void Endpoint::withdraw(const UniqueId& id, const JoinTerms& terms, const Withdraw& withdrawal) {
  if (terms.parent == nullptr) return control::withdraw(id, withdrawal);
  if (terms.parent->lost(terms.leader)) return;  // all hear of that
  try {
    withdraw_over_trunk(server_of(id, terms, terms.parent->client_.get()), withdrawal);
  } catch (const Error&) {  // no rank needs it
  }
}

std::unique_ptr<Endpoint> Endpoint::join(const UniqueId& id, Rank ranks, Rank rank, std::string info, Deadline deadline,
                                         const JoinTerms& terms) {
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    throw_error(Code::InvalidArgument, "rank {} of {}: there can be 1 to {} ranks, numbered from 0", rank, ranks,
                kMaxRanks);
  }
  if (info.size() > kMaxInfo) throw_error(Code::InvalidArgument, "a rank's info has at most {} bytes", kMaxInfo);
  ControlThread& control = [&]() -> ControlThread& {
    try {
      return ControlThread::get();
    } catch (const Error& error) {
      throw not_joined(error, ranks, rank, terms, true);
    }
  }();
  const Server server = server_of(id, terms, terms.parent == nullptr ? nullptr : terms.parent->client_.get());
  const auto client = std::make_shared<ControlClient>(control, id.key, ranks, rank, server.trunks, server.holder);
  control.add_client(client);  // before other ranks learn of this one: they may connect at once
  try {
    register_rank(control, *client, server, std::move(info), terms, deadline);
  } catch (const Error& error) {
    const Error told = tell_the_others(control, id, ranks, rank, terms, error);
    client->give_up();  // after the reason: whose connection closes before it counts as gone
    throw told;
  }
  control.endpoint_opened();
  return std::unique_ptr<Endpoint>(new Endpoint(control, client));
}

}  // namespace tutti::control
