// Ranks on other hosts: started through ssh, which must log in without asking (BatchMode).
//
// The environment goes through ssh's standard input, not its command line, which other users of both hosts can read:
// the job's secret is in it. A watcher over there ends the rank when the connection is lost. The first line that comes
// back tells the process id, so that signals can follow by a second, short connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// 'text' for a POSIX shell.
std::string shell_quoted(std::string_view text);

/// The ssh command that starts the job's program on `host` in `folder`.
std::vector<std::string> remote_command(const Job& job, const std::string& host, const std::string& folder);

/// What it reads first: rank `rank`'s variables, one a line, and an empty line. Throws Error(InvalidArgument) where a
/// value cannot be passed on.
std::string remote_preamble(const Job& job, int rank);

/// The ssh command that sends a signal to all processes of a rank over there.
std::vector<std::string> remote_signal(const std::string& host, int pid, int signal);

/// The process id in the line with which `remote_command`'s output starts; nothing in any other line.
std::optional<int> remote_pid(std::string_view line);

}  // namespace tutti::tools
