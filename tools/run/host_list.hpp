// Lists of hosts, as --hosts and --hostfile take them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

struct Host {
  std::string name;          ///< as ssh takes it, "user@name" too
  std::optional<int> slots;  ///< the most ranks it takes; empty: its share of what the others leave
};

/// Reads "a,b:4", where "node[08-11,20]" stands for five hosts, as Slurm writes them; or "@FILE", a host file. Throws
/// Error(InvalidArgument), SystemError if the file cannot be read.
std::vector<Host> parse_hosts(std::string_view text);

/// Reads a host file, one host a line, in the formats of Open MPI ("a slots=4"), MPICH ("a:4") and PBS (a name for each
/// slot). "#" begins a comment. `origin` names the file in errors. Throws Error(InvalidArgument).
std::vector<Host> parse_host_file(std::string_view text, const std::string& origin);

/// The same of the file at `path`; "-": standard input. Throws Error(SystemError) too.
std::vector<Host> read_host_file(const std::string& path);

}  // namespace tutti::tools
