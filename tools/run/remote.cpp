#include "tools/run/remote.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

constexpr std::string_view kPidLine = "tutti-run-pid ";

constexpr std::string_view kHost = "{host}";

/// True for a command that joins its arguments to one text, which a shell of the other host reads.
bool has_remote_shell(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  return name == "ssh" || name == "rsh" || name == "dbclient";
}

/// The words of --launcher for `host`.
std::vector<std::string> launcher_words(const std::string& launcher, const std::string& host) {
  std::vector<std::string> words;
  std::istringstream text(launcher);
  for (std::string word; text >> word;) {
    for (size_t at = 0; (at = word.find(kHost, at)) != std::string::npos; at += host.size()) {
      word.replace(at, kHost.size(), host);
    }
    words.push_back(std::move(word));
  }
  return words;
}

/// What runs a script on a host.
std::vector<std::string> on_host(const std::string& launcher, const std::string& host, const std::string& script) {
  // exec: the script replaces the login shell, and so leads the process group that sshd made.
  const std::string for_shell = "exec sh -c " + shell_quoted(script);
  if (launcher.empty()) return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-T", "--", host, for_shell};
  std::vector<std::string> words = launcher_words(launcher, host);
  if (std::any_of(words.begin(), words.end(), has_remote_shell)) {
    words.push_back(for_shell);
  } else {
    words.insert(words.end(), {"sh", "-c", script});
  }
  return words;
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
      // The watcher: its parent is ssh's remote end.
      "(trap '' TERM; while kill -0 \"$PPID\" 2>/dev/null; do sleep 1; done; "
      "kill -s TERM -- -$$; sleep {grace}; kill -s KILL -- -$$) >/dev/null 2>&1 </dev/null & w=$!; "
      // The program runs in the foreground: a shell's background commands ignore SIGINT and SIGQUIT. The shell gets the
      // same signals, and must outlive the program to tell its status.
      "trap : INT QUIT TERM HUP USR1 USR2; (exec {program}); s=$?; "
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

std::vector<std::string> remote_signals(const std::string& launcher, const std::string& host) {
  return on_host(launcher, host, "while read -r s p; do kill -s \"$s\" -- \"-$p\"; done 2>/dev/null");
}

std::string starter_of(const std::string& launcher, const std::string& host) {
  if (launcher.empty()) return "ssh -o BatchMode=yes " + host;
  return fmt::format("{}", fmt::join(launcher_words(launcher, host), " "));
}

std::string signal_line(int pid, int signal) { return fmt::format("{} {}\n", sigabbrev_np(signal), pid); }

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
