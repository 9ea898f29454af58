// Messages between the launcher's job server and the processes of its job.
#pragma once

#include <cstdint>
#include <string>

#include "control/messages.hpp"

namespace tutti::control {

/// Pings in the time after which either end treats the other as lost.
inline constexpr int kJobBeats = 4;

/// The first message of a connection: who the process is.
struct JoinJob {
  static constexpr Kind kKind = Kind::JoinJob;
  std::string version;
  Rank slot = kNoRank;       ///< the launcher's number for it; kNoRank: no launcher has started it
  uint32_t incarnation = 0;  ///< how often the launcher had started a process in this slot before
  Member me;
  static void fields(auto& m, auto& v) {
    v.words(m.version, kMaxLabel);
    v.number(m.slot, m.incarnation);
    v.item(m.me);
  }
};

/// It wants to be a rank of the next generation.
struct MemberReady {
  static constexpr Kind kKind = Kind::MemberReady;
  uint32_t request = 0;  ///< counts these
  uint32_t wait_ms = 0;  ///< how long it waits for the others
  static void fields(auto& m, auto& v) { v.number(m.request, m.wait_ms); }
};

/// The answer where there is no next generation for it.
struct NotAdmitted {
  static constexpr Kind kKind = Kind::NotAdmitted;
  uint32_t request = 0;
  Code code = Code::InternalError;
  std::string text;
  static void fields(auto& m, auto& v) {
    v.number(m.request);
    v.code(m.code);
    v.words(m.text, kMaxSmall);
  }
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
  uint32_t attempt = 0;
  static void fields(auto& m, auto& v) { v.number(m.attempt); }
};

struct MadeId {
  static constexpr Kind kKind = Kind::MadeId;
  uint32_t attempt = 0;
  Code code = Code::InternalError;  ///< where `hex` is empty: why there is no id …
  std::string hex, text;            ///< … in words
  static void fields(auto& m, auto& v) {
    v.number(m.attempt);
    v.code(m.code);
    v.text(m.hex, kMaxName);
    v.words(m.text, kMaxSmall);
  }
};

/// Server → process: a communicator is to be made, and this process's place in it.
struct Generation {
  static constexpr Kind kKind = Kind::Generation;
  uint32_t request = 0;  ///< to which this is the answer
  uint32_t number = 0;   ///< from 1
  Rank rank = 0, ranks = 0;
  std::string hex;  ///< the unique id
  static void fields(auto& m, auto& v) {
    v.number(m.request, m.number, m.rank, m.ranks);
    v.text(m.hex, kMaxName);
  }
};

/// Server → process, when it changes.
struct JobNotice {
  static constexpr Kind kKind = Kind::JobNotice;
  static constexpr uint32_t kDoesNotEnd = UINT32_MAX;
  uint32_t waiting = 0;               ///< processes that wait for the next generation
  uint32_t broken = 0;                ///< the newest generation of which a process has ended
  uint32_t ends_in_ms = kDoesNotEnd;  ///< the job is to end so soon
  static void fields(auto& m, auto& v) { v.number(m.waiting, m.broken, m.ends_in_ms); }
};

}  // namespace tutti::control
