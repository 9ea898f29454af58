// Nic, by libibverbs.
#pragma once

#include <memory>

#include "topo/share.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

/// The port that find_port() finds. Throws Error.
std::unique_ptr<Nic> make_ibv_nic(const topo::HostPlace& place);

}  // namespace tutti::transports::verbs
