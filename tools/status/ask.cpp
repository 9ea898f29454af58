#include "tools/status/ask.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <regex>
#include <string>

#include "base/format.hpp"
#include "base/socket.hpp"

namespace tutti::tools {
namespace {

constexpr double kWithin = 5;  // seconds

struct Socket {
  uint32_t process = 0;
  std::string name;
};

/// /proc/net/unix has a line for each socket, with the name of an abstract one after an @.
std::vector<Socket> sockets() {
  const std::regex pattern(R"(@(tutti-status-(\d{1,10})-\d+)$)");
  std::vector<Socket> all;
  std::ifstream file("/proc/net/unix");
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_search(line, found, pattern)) continue;
    const auto process = static_cast<uint32_t>(std::stoul(found[2]));
    // A connection to the socket has its name too.
    if (std::any_of(all.begin(), all.end(), [&](const Socket& one) { return one.process == process; })) continue;
    all.push_back({process, found[1]});
  }
  std::sort(all.begin(), all.end(), [](const Socket& a, const Socket& b) { return a.process < b.process; });
  return all;
}

[[noreturn]] void refuse(uint32_t process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) {
    throw_error(Code::InvalidArgument, "there is no process {}", process);
  }
  throw_error(Code::InvalidArgument,
              "process {} cannot be asked: it does not use Tutti, has not made a communicator yet, or runs in another "
              "network namespace. Without a process, `tutti status` shows all that can be asked",
              process);
}

}  // namespace

std::vector<uint32_t> processes_with_status() {
  std::vector<uint32_t> all;
  for (const Socket& socket : sockets()) all.push_back(socket.process);
  return all;
}

nlohmann::ordered_json ask_status(uint32_t process) {
  const std::vector<Socket> all = sockets();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Socket& one) { return one.process == process; });
  if (found == all.end()) refuse(process);
  const WaitLimit limit{.deadline = Deadline::in(kWithin)};
  std::string reply;
  try {
    const Fd fd = connect_unix(found->name, limit);
    send_all(fd.get(), "job\n", limit);
    char bytes[4096];
    for (ptrdiff_t got = 0; (got = recv_now(fd.get(), bytes, sizeof bytes)) >= 0;) {
      if (got == 0) await_ready(fd.get(), POLLIN, limit);
      reply.append(bytes, static_cast<size_t>(got));
    }
  } catch (const Error& error) {
    if (error.code() != Code::Timeout) refuse(process);
    throw_error(Code::Timeout, "process {} does not answer: it is stopped, or its host is overloaded", process);
  }
  const auto page = nlohmann::ordered_json::parse(reply, nullptr, false);
  if (page.is_object() && page.contains("tutti_status")) return page;
  throw_error(Code::InvalidArgument, "process {} refuses to answer: it is another user's, or too many ask it at once",
              process);
}

}  // namespace tutti::tools
