// Nic, by libibverbs.
#pragma once

#include <memory>

#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

/// The port that find_port() finds. Throws Error.
std::unique_ptr<Nic> make_ibv_nic();

}  // namespace tutti::transports::verbs
