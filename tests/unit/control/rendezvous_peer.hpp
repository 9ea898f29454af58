// A peer of the rendezvous server that is only a connection.
#pragma once

#include <string>

#include "base/version.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_thread.hpp"
#include "control/endpoint.hpp"
#include "endpoint_ranks.hpp"

namespace tutti::control {

inline WaitLimit wait_limit() { return {soon(), nullptr}; }

inline Fd connect(const UniqueId& id) { return dial({Address::loopback()}, id.port, id.key, wait_limit()); }

inline Register registration(Rank ranks, Rank rank) {
  Register request;
  request.version = version();
  request.ranks = ranks;
  request.rank = rank;
  request.wait_ms = 30000;
  request.me = ControlThread::get().local_member();
  request.me.process = 1;  // not this one
  return request;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tutti::control
