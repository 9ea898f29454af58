// All messages of the control plane.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/rank.hpp"
#include "control/message_format.hpp"
#include "control/transfer_counts.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

inline constexpr Rank kMaxRanks = 1 << 16;
inline constexpr size_t kMaxInfo = 1 << 20;       ///< what a rank passes to join()
inline constexpr size_t kMaxExchange = 16 << 20;  ///< a rank's contribution to one exchange()
inline constexpr size_t kMaxSmall = 4096;         ///< texts of errors, requests and their replies
inline constexpr size_t kMaxEntry = 16 << 10;     ///< a reply of a call board
inline constexpr size_t kMaxLabel = 64, kMaxName = 256;
inline constexpr size_t kMaxFirstFrame =
    kMaxInfo + kMaxRanks * sizeof(Rank) + kMaxSmall;              ///< the first frame of a connection
inline constexpr size_t kMaxToServer = kMaxExchange + kMaxSmall;  ///< any later frame to a rendezvous server
inline constexpr size_t kMaxFromServer = 1u << 30;                ///< any frame from a rendezvous server

enum class Kind : uint8_t {
  // the first message of a connection says what it is for
  Register = 1,  // a rank registers with the rendezvous server
  Stream,        // a stream for a transport; after Accepted it belongs to the transports
  Ask,           // one request to a service
  Fetch,         // asks rank 0 for the unique id (launch)
  Withdraw,      // a rank cannot take part, and why
  OpenTrunk,     // the connection carries channels (control/trunk.hpp)
  JoinJob,       // a process comes to the launcher's job server (control/elastic/messages.hpp)
  // answers to them
  Accepted,
  Refused,
  Reply,
  IdReply,
  // rendezvous server → rank
  Welcome,
  Table,
  Gathered,
  Missing,
  TransferCounts,
  MembershipUpdate,
  Done,
  // rank → rendezvous server
  Exchange,
  Report,
  LeaveNotice,
  // on a trunk
  OpenChannel,
  Carried,
  CloseChannel,
  // job server → process, and back
  JobWelcome,
  MakeId,
  Generation,
  JobNotice,
  NotAdmitted,
  MemberReady,
  MadeId,
  // both ways
  Fail,
  BoardAsk,
  BoardReply,
  Ping
};

/// A rank's process and where it listens.
struct Member {
  std::string host;  ///< identity, see transports::ProcessId
  uint32_t process = 0;
  uint64_t started = 0;
  uint64_t nonce = 0;     ///< random, see transports::ProcessId
  std::string host_name;  ///< in messages
  std::vector<Address> addresses;
  uint16_t port = 0;
  std::string unix_name;
  std::string info;  ///< opaque to the control plane

  static void fields(auto& m, auto& v) {
    v.text(m.host, kMaxName);
    v.number(m.process, m.started, m.nonce);
    v.words(m.host_name, kMaxName);
    v.list(m.addresses, 16);
    v.number(m.port);
    v.text(m.unix_name, kMaxName);
    v.text(m.info, kMaxInfo);
  }
};

/// Who may take which place of a communicator that is made.
struct Places {
  Rank ranks = 0;               ///< 0: those who register decide
  std::map<Rank, Member> kept;  ///< for ranks of these processes
  std::string title = {};       ///< of the communicator, in messages; empty: one is made of its id
};

struct Register {
  static constexpr Kind kKind = Kind::Register;
  std::string version;
  Rank ranks = 0, rank = 0;
  uint32_t wait_ms = 0;     ///< how long this rank waits for the others
  std::vector<Rank> names;  ///< of all ranks, in messages: see JoinTerms
  Member me;
  static void fields(auto& m, auto& v) {
    v.words(m.version, kMaxLabel);
    v.number(m.ranks, m.rank, m.wait_ms);
    v.numbers(m.names, kMaxRanks);
    v.item(m.me);
  }
};

struct OpenStream {
  static constexpr Kind kKind = Kind::Stream;
  Rank from = 0, to = 0;
  std::string label;
  static void fields(auto& m, auto& v) {
    v.number(m.from, m.to);
    v.text(m.label, kMaxLabel);
  }
};

struct Ask {
  static constexpr Kind kKind = Kind::Ask;
  Rank from = 0, to = 0;
  std::string service, request;
  static void fields(auto& m, auto& v) {
    v.number(m.from, m.to);
    v.text(m.service, kMaxName);
    v.text(m.request, kMaxSmall);
  }
};

struct Fetch {
  static constexpr Kind kKind = Kind::Fetch;
  Rank ranks = 0, rank = 0;
  static void fields(auto& m, auto& v) { v.number(m.ranks, m.rank); }
};

/// Sent to the process that the other ranks wait for: rank 0's before it hands out the unique id, then the server's.
struct Withdraw {
  static constexpr Kind kKind = Kind::Withdraw;
  Rank ranks = 0, rank = 0;
  Code code = Code::InternalError;
  std::string text;      ///< for all ranks: which rank withdraws, and why
  uint64_t process = 0;  ///< its Member::nonce
  static void fields(auto& m, auto& v) {
    v.number(m.ranks, m.rank);
    v.code(m.code);
    v.words(m.text, kMaxSmall);
    v.number(m.process);
  }
};

struct OpenTrunk {
  static constexpr Kind kKind = Kind::OpenTrunk;
  static void fields(auto&, auto&) {}
};

/// Opens a channel to the rendezvous server of a split, in the process that the trunk leads to.
struct OpenChannel {
  static constexpr Kind kKind = Kind::OpenChannel;
  uint64_t channel = 0;      ///< numbered from 1 by the process that dialed
  std::string communicator;  ///< its public name
  std::string first;         ///< the body of the channel's first message: Register or Withdraw
  static void fields(auto& m, auto& v) {
    v.number(m.channel);
    v.text(m.communicator, kMaxName);
    v.text(m.first, kMaxFirstFrame);
  }
};

/// The body of a frame of a channel follows.
struct Carried {
  static constexpr Kind kKind = Kind::Carried;
  static constexpr size_t kBodyBytes = sizeof(Kind) + sizeof(uint64_t);  ///< without what follows
  uint64_t channel = 0;
  static void fields(auto& m, auto& v) { v.number(m.channel); }
};

struct CloseChannel {
  static constexpr Kind kKind = Kind::CloseChannel;
  uint64_t channel = 0;
  static void fields(auto& m, auto& v) { v.number(m.channel); }
};

struct Accepted {
  static constexpr Kind kKind = Kind::Accepted;
  static void fields(auto&, auto&) {}
};

struct Refused {
  static constexpr Kind kKind = Kind::Refused;
  Code code = Code::InternalError;
  std::string text;
  static void fields(auto& m, auto& v) {
    v.code(m.code);
    v.words(m.text, kMaxSmall);
  }
};

struct Reply {
  static constexpr Kind kKind = Kind::Reply;
  std::string bytes;
  static void fields(auto& m, auto& v) { v.text(m.bytes, kMaxSmall); }
};

struct IdReply {
  static constexpr Kind kKind = Kind::IdReply;
  std::string hex;
  static void fields(auto& m, auto& v) { v.text(m.hex, kMaxName); }
};

/// The answer to Register: this rank waits for the others.
struct Welcome {
  static constexpr Kind kKind = Kind::Welcome;
  uint32_t heartbeat_ms = 0;  ///< after this silence either end treats the other as lost
  Member server;              ///< the process that holds the rendezvous server
  static void fields(auto& m, auto& v) {
    v.number(m.heartbeat_ms);
    v.item(m.server);
  }
};

/// All ranks have joined.
struct Table {
  static constexpr Kind kKind = Kind::Table;
  std::vector<Member> members;
  std::string title;  ///< what messages call the communicator, if it is one that grows; else each rank knows
  static void fields(auto& m, auto& v) {
    v.list(m.members, kMaxRanks);
    v.words(m.title, kMaxName);
  }
};

/// A contribution. `call` and `what` name the call that it is part of; they must be equal on all ranks.
struct Exchange {
  static constexpr Kind kKind = Kind::Exchange;
  uint32_t number = 0, wait_ms = 0;
  uint64_t call = 0;  ///< its number; 0: the communicator is being created
  std::string what;   ///< "split()"
  std::string bytes;
  static void fields(auto& m, auto& v) {
    v.number(m.number, m.wait_ms, m.call);
    v.words(m.what, kMaxName);
    v.text(m.bytes, kMaxExchange);
  }
};

struct Gathered {
  static constexpr Kind kKind = Kind::Gathered;
  uint32_t number = 0;
  std::vector<std::string> bytes;
  static void fields(auto& m, auto& v) {
    v.number(m.number);
    v.texts(m.bytes, kMaxRanks, kMaxExchange);
  }
};

/// To a rank that waits in an exchange: the ranks that have not contributed for a while, or contribute to another call.
struct Missing {
  static constexpr Kind kKind = Kind::Missing;
  uint32_t number = 0;
  uint8_t compare = 0;  ///< 1: the receiver compares its calls with theirs
  std::vector<Rank> ranks;
  static void fields(auto& m, auto& v) {
    v.number(m.number, m.compare);
    v.numbers(m.ranks, kMaxRanks);
  }
};

/// Sent before the MembershipUpdate of ranks that left: what each of them (`peer`) has sent to, and received from, the
/// receiver of this message.
struct TransferCounts {
  static constexpr Kind kKind = Kind::TransferCounts;
  std::vector<PeerTransfers> traffic;
  static void fields(auto& m, auto& v) { v.list(m.traffic, kMaxRanks); }
};

/// The ranks that have left or were lost.
struct MembershipUpdate {
  static constexpr Kind kKind = Kind::MembershipUpdate;
  struct Departure {
    Rank rank = 0;
    uint8_t lost = 0;  ///< 0: left after `calls` calls; 1: died
    uint64_t calls = 0;
    std::string last;  ///< the last of them
    static void fields(auto& m, auto& v) {
      v.number(m.rank, m.lost, m.calls);
      v.words(m.last, kMaxName);
    }
  };
  std::vector<Departure> departures;
  static void fields(auto& m, auto& v) { v.list(m.departures, kMaxRanks); }
};

/// Every rank has left or failed.
struct Done {
  static constexpr Kind kKind = Kind::Done;
  std::string mismatch;
  static void fields(auto& m, auto& v) { v.words(m.mismatch, kMaxSmall); }
};

/// The process of `rank` died, as seen on its own host.
struct Report {
  static constexpr Kind kKind = Kind::Report;
  Rank rank = 0;
  static void fields(auto& m, auto& v) { v.number(m.rank); }
};

struct LeaveNotice {
  static constexpr Kind kKind = Kind::LeaveNotice;
  uint64_t calls = 0;
  uint64_t digest = 0;  ///< of all calls, in order
  std::string last;     ///< the last one, in messages
  std::vector<PeerTransfers> traffic;
  static void fields(auto& m, auto& v) {
    v.number(m.calls, m.digest);
    v.words(m.last, kMaxSmall);
    v.list(m.traffic, kMaxRanks);
  }
};

/// Fails this communicator and, in the processes of its ranks, the communicators of the waits with these tickets. As
/// the first message of a connection, from a peer: a revocation (control/revocation.hpp), without tickets.
struct Fail {
  static constexpr Kind kKind = Kind::Fail;
  Code code = Code::InternalError;
  std::string text;
  std::vector<uint64_t> tickets = {};
  static void fields(auto& m, auto& v) {
    v.code(m.code);
    v.words(m.text, kMaxSmall);
    v.numbers(m.tickets, kMaxRanks);
  }
};

struct BoardAsk {
  static constexpr Kind kKind = Kind::BoardAsk;
  Rank peer = 0;  ///< to the rendezvous server: the asked rank; from it: the asking rank
  uint64_t ticket = 0, call = 0;
  static void fields(auto& m, auto& v) { v.number(m.peer, m.ticket, m.call); }
};

struct BoardReply {
  static constexpr Kind kKind = Kind::BoardReply;
  Rank peer = 0;
  uint64_t ticket = 0;
  uint8_t known = 0;  ///< 0: that rank has no board
  std::string entry;
  static void fields(auto& m, auto& v) {
    v.number(m.peer, m.ticket, m.known);
    v.text(m.entry, kMaxEntry);
  }
};

struct Ping {
  static constexpr Kind kKind = Kind::Ping;
  static void fields(auto&, auto&) {}
};

}  // namespace tutti::control
