// Joining a communicator: the rank finds the rendezvous server by the unique id and registers there.
#pragma once

#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/secret.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/messages.hpp"

namespace tutti::control {

class ControlThread;

/// The reason why a connection to another host failed: its addresses, if all of them are loopback, else `failure`.
std::string explain_unreachable(const std::string& failure, const std::vector<Address>& addresses, bool here);
/// What an id says of its maker's process.
UniqueId id_of(const Member& maker, const Key& key);
/// Opens a rendezvous server, unless this process has it already.
void open_server(ControlThread& control, const Key& key, Places places = {});

}  // namespace tutti::control
