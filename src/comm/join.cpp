#include "comm/join.hpp"

#include <optional>

#include "base/env.hpp"
#include "comm/placement.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/host.hpp"

namespace tutti::comm {
namespace {

/// A mistake in one rank's environment is to end the wait of the others too.
std::optional<control::Launch> recognise_own_launch() {
  try {
    return control::recognise_launch();
  } catch (const Error& error) {
    if (const auto launch = control::recognise_launch_despite_mistakes()) control::withdraw(*launch, error);
    throw;
  }
}

}  // namespace

UniqueId create_unique_id() {
  return control::on_this_host([] { return control::create_unique_id(); });
}

std::shared_ptr<Communicator> join_from_environment() {
  const auto launch = recognise_own_launch();
  if (!launch)
    return Communicator::join(create_unique_id(), 1, 0, {.title = "world", .processors = current_processors()});
  const UniqueId id = control::exchange_unique_id(*launch, Deadline::in(env().init_timeout));
  return Communicator::join(id, launch->size, launch->rank, {.title = "world", .processors = current_processors()});
}

}  // namespace tutti::comm
