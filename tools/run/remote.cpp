#include "tools/run/remote.hpp"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstring>
#include <sstream>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

constexpr std::string_view kPidLine = "tutti-run-pid ";

constexpr std::string_view kHost = "{host}";

/// What runs a script on a host.
std::vector<std::string> on_host(const std::string& launcher, const std::string& host, const std::string& script) {
  if (!launcher.empty()) {
    std::vector<std::string> words;
    std::istringstream text(launcher);
    for (std::string word; text >> word;) {
      for (size_t at = 0; (at = word.find(kHost, at)) != std::string::npos; at += host.size()) {
        word.replace(at, kHost.size(), host);
      }
      words.push_back(std::move(word));
    }
    words.insert(words.end(), {"sh", "-c", script});
    return words;
  }
  // exec: the script replaces the login shell, and so leads the process group that sshd made.
  return {
      "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-T", "--", host, "exec sh -c " + shell_quoted(script)};
}

/// "NAME=value" of a variable to pass: as given, or this process's.
std::optional<std::string> resolved(const std::string& exported) {
  if (exported.find('=') != std::string::npos) return exported;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, (exported + "=").c_str(), exported.size() + 1) == 0) return *entry;
  }
  return std::nullopt;
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::vector<std::string> remote_command(const Job& job, const std::string& host, const std::string& folder) {
  std::string program;
  for (const std::string& word : job.program) program += shell_quoted(word) + " ";
  const std::string script = fmt::format(
      "echo \"{pid_line}$$\"; "
      "while IFS= read -r v && [ -n \"$v\" ]; do export \"$v\"; done; "
      "cd -- {folder} || exit 126; "
      "exec 3<&0; "
      // The watcher: its parent is ssh's remote end.
      "(trap '' TERM; while kill -0 \"$PPID\" 2>/dev/null; do sleep 1; done; "
      "kill -s TERM -- -$$; sleep {grace}; kill -s KILL -- -$$) >/dev/null 2>&1 </dev/null 3<&- & w=$!; "
      "{program} <&3 3<&- & p=$!; exec 3<&-; "
      "trap : INT TERM HUP USR1 USR2; "
      "wait $p; s=$?; while kill -0 $p 2>/dev/null; do wait $p; s=$?; done; "
      "kill -s KILL $w 2>/dev/null; exit $s",
      fmt::arg("pid_line", kPidLine), fmt::arg("folder", shell_quoted(folder)), fmt::arg("grace", job.grace),
      fmt::arg("program", program));
  return on_host(job.launcher, host, script);
}

std::string remote_preamble(const Job& job, int rank) {
  std::string text;
  const auto add = [&text](const std::string& variable) {
    if (variable.find('\n') != std::string::npos) {
      throw_error(Code::InvalidArgument, "{}: a value of several lines cannot be passed on to another host",
                  variable.substr(0, variable.find('=')));
    }
    text += variable + '\n';
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TUTTI_", 6) == 0 || std::strncmp(*entry, "LD_LIBRARY_PATH=", 16) == 0) add(*entry);
  }
  for (const std::string& exported : job.exported) {
    if (const auto variable = resolved(exported)) add(*variable);
  }
  for (const std::string& variable : rank_environment(job, rank)) add(variable);
  return text + '\n';
}

std::vector<std::string> remote_signal(const std::string& launcher, const std::string& host, int pid, int signal) {
  return on_host(launcher, host, fmt::format("kill -s {} -- -{}", sigabbrev_np(signal), pid));
}

void check_launcher(const std::string& launcher) {
  if (launcher.empty() || launcher.find(kHost) != std::string::npos) return;
  throw_error(Code::InvalidArgument,
              "--launcher \"{}\": it does not say where {} goes; e.g. --launcher 'ip netns exec {}'", launcher, kHost,
              kHost);
}

std::optional<int> remote_pid(std::string_view line) {
  if (line.substr(0, kPidLine.size()) != kPidLine) return std::nullopt;
  line.remove_prefix(kPidLine.size());
  int pid = 0;
  const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), pid);
  if (failure != std::errc{} || end != line.data() + line.size() || pid <= 1) return std::nullopt;
  return pid;
}

}  // namespace tutti::tools
