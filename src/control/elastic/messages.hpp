// Messages between the launcher's job server and the processes of its job.
#pragma once

#include <cstdint>
#include <string>

#include "control/messages.hpp"

namespace tutti::control {

/// Pings in the time after which either end treats the other as lost.
inline constexpr int kJobBeats = 4;

/// The first message of a connection: a process wants to be a rank of the next generation.
struct JoinJob {
  static constexpr Kind kKind = Kind::JoinJob;
  std::string version;
  Rank slot = kNoRank;   ///< the launcher's number for it; kNoRank: no launcher has started it
  uint32_t wait_ms = 0;  ///< how long it waits for the others
  Member me;
  static void fields(auto& m, auto& v) {
    v.words(m.version, kMaxLabel);
    v.number(m.slot, m.wait_ms);
    v.item(m.me);
  }
};

/// The same from a process that is known.
struct MemberReady {
  static constexpr Kind kKind = Kind::MemberReady;
  uint32_t wait_ms = 0;
  static void fields(auto& m, auto& v) { v.number(m.wait_ms); }
};

/// Server → process: it is known.
struct JobWelcome {
  static constexpr Kind kKind = Kind::JobWelcome;
  uint32_t heartbeat_ms = 0;  ///< after this silence either end treats the other as lost
  static void fields(auto& m, auto& v) { v.number(m.heartbeat_ms); }
};

/// Server → one process: all are there; it is to make the unique id of their communicator.
struct MakeId {
  static constexpr Kind kKind = Kind::MakeId;
  uint32_t generation = 0;
  static void fields(auto& m, auto& v) { v.number(m.generation); }
};

struct MadeId {
  static constexpr Kind kKind = Kind::MadeId;
  uint32_t generation = 0;
  Code code = Code::InternalError;  ///< where `hex` is empty: why there is no id …
  std::string hex, text;            ///< … in words
  static void fields(auto& m, auto& v) {
    v.number(m.generation);
    v.code(m.code);
    v.text(m.hex, kMaxName);
    v.words(m.text, kMaxSmall);
  }
};

/// Server → process: a communicator is to be made, and this process's place in it.
struct Generation {
  static constexpr Kind kKind = Kind::Generation;
  uint32_t number = 0;  ///< from 1
  Rank rank = 0, ranks = 0;
  std::string hex;  ///< the unique id
  static void fields(auto& m, auto& v) {
    v.number(m.number, m.rank, m.ranks);
    v.text(m.hex, kMaxName);
  }
};

/// Server → process, when it changes.
struct JobNotice {
  static constexpr Kind kKind = Kind::JobNotice;
  uint32_t waiting = 0;               ///< processes that wait for the next generation
  uint32_t ends_in_ms = kDoesNotEnd;  ///< the job is to end so soon
  static constexpr uint32_t kDoesNotEnd = UINT32_MAX;
  static void fields(auto& m, auto& v) { v.number(m.waiting, m.ends_in_ms); }
};

}  // namespace tutti::control
