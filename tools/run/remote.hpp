// Ranks on other hosts: started through ssh, which must log in without a prompt (BatchMode), or through the command of
// --launcher, to which "sh -c SCRIPT" is appended; after ssh, rsh or dbclient it is one argument, quoted for the shell
// of the other host.
//
// The environment is sent over ssh's standard input, not its command line, which other users of both hosts can read: it
// contains the job's secret. A remote watcher ends the rank when the connection is lost. The first line of output is
// the process id: signals are sent to it over one more connection of each host.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// 'text' for a POSIX shell.
std::string shell_quoted(std::string_view text);

/// The command that starts the job's program on `host` in `folder`.
std::vector<std::string> remote_command(const Job& job, const std::string& host, const std::string& folder);

/// The input that it reads first: rank `rank`'s variables, one per line, and an empty line. Throws
/// Error(InvalidArgument) if a value cannot be passed.
std::string remote_preamble(const Job& job, int rank);

/// The command that reads lines of `signal_line` and sends those signals to processes of `host`, until its input ends.
std::vector<std::string> remote_signals(const std::string& launcher, const std::string& host);

/// A signal for all processes of the remote rank whose process id is `pid`.
std::string signal_line(int pid, int signal);

/// What runs a command on `host`, for messages: "ssh -o BatchMode=yes b".
std::string starter_of(const std::string& launcher, const std::string& host);

/// Throws Error(InvalidArgument) unless `launcher` has words, and {host} among them.
void check_launcher(const std::string& launcher);

/// The process id in the first line of `remote_command`'s output; empty for any other line.
std::optional<int> remote_pid(std::string_view line);

}  // namespace tutti::tools
