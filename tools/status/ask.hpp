// Finding the processes that use Tutti, and asking one how its job does (control/status/status_server.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace tutti::tools {

/// The processes of this host (and network namespace) that can be asked, in the order of their numbers.
std::vector<uint32_t> processes_with_status();

/// The process itself, or, of a launcher, also one that serves its job (--restarts), one of its ranks.
uint32_t process_to_ask(uint32_t process);
/// The same; of 0 any process of this host. Throws Error(InvalidArgument) if none uses Tutti.
uint32_t any_process_to_ask(uint32_t process);

/// Makes all texts in it safe for a terminal: they come from processes of other hosts.
void make_printable(nlohmann::json& value);

/// What the process says of its job; texts are printable. Throws Error(InvalidArgument) if there is no such process,
/// it does not use Tutti, or it is another user's; Error(Timeout) if it does not answer; PeerFailed or ProtocolError if
/// it answers something else.
nlohmann::json ask_status(uint32_t process);
/// What it says of its own last calls (trace/rank_trace.hpp), likewise.
nlohmann::json ask_trace(uint32_t process);

}  // namespace tutti::tools
