#include "tools/status/ask.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <exception>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "base/socket.hpp"
#include "base/version.hpp"

namespace tutti::tools {
namespace {

constexpr double kWithin = 5;                   // seconds
constexpr size_t kMaxReply = size_t{64} << 20;  // bytes

struct Socket {
  uint32_t process = 0;
  std::string name;
  auto operator<=>(const Socket&) const = default;
};

/// /proc/net/unix has a line for each socket, with the name of an abstract one after an @. Anybody may take a name.
std::vector<Socket> sockets() {
  const std::regex pattern(R"(^\w+: \w+ \w+ \w+ \w+ \w+ +\d+ @(tutti-status-(\d{1,10})-\d+)$)");
  std::vector<Socket> all;
  std::ifstream file("/proc/net/unix");
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_search(line, found, pattern)) continue;
    const unsigned long process = std::stoul(found[2]);
    if (process <= INT_MAX) all.push_back({static_cast<uint32_t>(process), found[1]});
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());  // a connection to a socket has its name too
  return all;
}

/// A connection to this process, and to no other that has taken its name.
Fd connect_to(const Socket& socket, WaitLimit limit) {
  Fd fd = connect_unix(socket.name, limit);
  const int64_t user = peer_user(fd.get()), me = static_cast<int64_t>(geteuid());
  if (peer_process(fd.get()) == static_cast<int64_t>(socket.process) && (me == 0 || user == me)) return fd;
  throw_error(Code::InvalidArgument, "process {} is another user's", socket.process);
}

std::string reply_of(int fd, const char* request, WaitLimit limit) {
  send_all(fd, request, limit);
  std::string reply;
  char bytes[4096];
  while (reply.empty() || reply.back() != '\n') {
    const ptrdiff_t got = recv_now(fd, bytes, sizeof bytes);
    if (got < 0) break;
    if (got == 0 || limit.deadline.passed()) await_ready(fd, POLLIN, limit);
    reply.append(bytes, static_cast<size_t>(got));
    if (reply.size() > kMaxReply) throw_error(Code::ProtocolError, "its answer has no end");
  }
  return reply;
}

/// 0: there is no such process.
uint32_t parent_of(uint32_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line, state;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  uint32_t parent = 0;
  rest >> state >> parent;
  return parent;
}

/// Is `process` a child of `ancestor`, or a child's child: a rank of the launcher `ancestor`?
bool descends(uint32_t process, uint32_t ancestor) {
  constexpr int kDeepest = 32;
  for (int i = 0; i < kDeepest && process > 1; ++i) {
    process = parent_of(process);
    if (process == ancestor) return true;
  }
  return false;
}

[[noreturn]] void refuse(uint32_t process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) {
    throw_error(Code::InvalidArgument, "there is no process {}", process);
  }
  throw_error(
      Code::InvalidArgument,
      "process {} cannot be asked: it does not use Tutti, has not made a communicator yet, is another user's, or "
      "runs in another network namespace. Without a process, `tutti status` shows all that can be asked",
      process);
}

/// `answer`: a member of the reply.
nlohmann::json ask(uint32_t process, const char* request, const char* answer) {
  const WaitLimit limit{.deadline = Deadline::in(kWithin)};
  for (const Socket& socket : sockets()) {
    if (socket.process != process) continue;
    try {
      const Fd fd = connect_to(socket, limit);
      nlohmann::json page = parse_shallow_json(reply_of(fd.get(), request, limit), false);
      if (!page.is_object() || !page.contains(answer)) {
        throw_error(Code::PeerFailed,
                    "process {} gives no whole answer: too many ask it at once, or its Tutti is another version than "
                    "this one, {}",
                    process, version());
      }
      make_printable(page);
      return page;
    } catch (const Error& error) {
      if (error.code() == Code::InvalidArgument) continue;  // somebody else's socket
      if (error.code() != Code::Timeout) throw;
      throw_error(Code::Timeout, "process {} does not answer: it is stopped, or its host is overloaded", process);
    }
  }
  refuse(process);
}

/// Does it answer, and is it a rank of any communicator itself?
bool has_ranks(uint32_t process) {
  try {
    const nlohmann::json page = ask_status(process);
    const nlohmann::json& processes = page.at("processes");
    return std::any_of(processes.begin(), processes.end(), [](const auto& one) { return !one.at("ranks").empty(); });
  } catch (const std::exception&) {  // then it is asked again, and the error told
    return true;
  }
}

}  // namespace

void make_printable(nlohmann::json& value) {
  if (value.is_string()) value = printable(value.get<std::string>());
  if (value.is_structured()) {
    for (nlohmann::json& item : value) make_printable(item);
  }
}

std::vector<uint32_t> processes_with_status() {
  std::vector<uint32_t> all;
  for (const Socket& socket : sockets()) {
    if (all.empty() || all.back() != socket.process) all.push_back(socket.process);
  }
  return all;
}

uint32_t process_to_ask(uint32_t process) {
  const std::vector<uint32_t> all = processes_with_status();
  const auto rank = std::find_if(all.begin(), all.end(), [&](uint32_t one) { return descends(one, process); });
  if (rank == all.end()) return process;
  // A launcher with --restarts answers too, as its job's server, but has no ranks. A rank may have children of its own.
  const bool answers = std::find(all.begin(), all.end(), process) != all.end();
  return answers && has_ranks(process) ? process : *rank;
}

uint32_t any_process_to_ask(uint32_t process) {
  if (process != 0) return process_to_ask(process);
  const std::vector<uint32_t> all = processes_with_status();
  if (all.empty()) throw_error(Code::InvalidArgument, "no process of this host could be asked: none uses Tutti now");
  return process_to_ask(all.front());
}

nlohmann::json ask_status(uint32_t process) { return ask(process, "job\n", "tutti_status"); }

nlohmann::json ask_trace(uint32_t process) { return ask(process, "trace\n", "tutti_trace"); }

}  // namespace tutti::tools
