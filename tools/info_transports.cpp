#include "tools/info_transports.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/port_range.hpp"
#include "link/cma.hpp"
#include "topo/constants.hpp"
#include "topo/ports.hpp"
#include "transports/shm/tracer.hpp"
#include "transports/tcp/streams.hpp"
#include "transports/transport.hpp"

namespace tutti::tools {
namespace {

std::string refused(const char* what) { return fmt::format("{} was refused: {}", what, std::strerror(errno)); }

/// "" if unnamed shared memory can be created; else why not.
std::string shm_objection() {
  constexpr size_t kBytes = 65536;
  const Fd memory(memfd_create("tutti-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return refused("memfd_create");
  if (posix_fallocate(memory.get(), 0, kBytes) != 0) return refused("memory for a memfd");
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return refused("sealing a memfd");
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return refused("mapping a memfd");
  munmap(mapped, kBytes);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket ? "" : refused("a UNIX socket");
}

/// A child process that is stopped until released.
class Sleeper {
 public:
  Sleeper() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const Fd ready(ends[0]), tell(ends[1]);
    process_ = fork();
    if (process_ == 0) {
      const int parent[] = {getppid()};
      transports::permit_cma(parent, [](int) { return true; });
      const bool told = ::write(tell.get(), "x", 1) == 1;
      while (told) pause();
      _exit(1);
    }
    char byte = 0;
    if (process_ > 0 && ::read(ready.get(), &byte, 1) != 1) byte = 0;
  }
  ~Sleeper() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  int process() const { return process_; }

 private:
  pid_t process_ = -1;
};

/// True if processes can read each other's memory through the kernel here. Tried with a child that permits it.
std::string pulling() {
  const Sleeper child;
  if (child.process() < 0) return "not tried whether straight from its memory: " + refused("another process");
  const unsigned char mine[8] = {};
  unsigned char theirs[8];
  const int error = link::cma_read(child.process(), mine, theirs, sizeof theirs);
  if (error == 0) return "large ones straight from its memory (process_vm_readv works)";
  return fmt::format("never straight from its memory: process_vm_readv was refused: {}", std::strerror(error));
}

/// The interfaces that TUTTI_INTERFACE permits, with their addresses, speeds and streams. Throws Error.
std::vector<std::string> interfaces() {
  std::vector<std::string> names, words;
  for (const Address& address : local_addresses()) {
    const std::string name = interface_of(address);
    if (address.is_loopback() || name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
    const double mbps = topo::read_interface(name).mbps;
    const uint32_t streams = transports::tcp::streams_for(mbps);
    words.push_back(fmt::format("{} ({}, {}, {} stream{} for each link)", name, to_string(address),
                                transports::tcp::speed_words(mbps), streams, streams == 1 ? "" : "s"));
  }
  return words;
}

/// The congestion control of data connections, as far as it is known without a peer.
std::string congestion_words() {
  if (const std::string& wanted = env().tcp_congestion; !wanted.empty() && wanted != "system") return wanted;
  std::string usual;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control"), usual);
  if (!usual.starts_with("bbr") || !env().tcp_congestion.empty()) return usual;
  return fmt::format("{}, but cubic or reno where a round trip takes less than {:g} ms", usual,
                     machine_constants().tcp_short_path * 1e3);
}

std::string tcp_line() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return "not usable: " + refused("a TCP socket");
  try {
    const std::optional<PortRange> ports = fixed_ports();
    const auto words = interfaces();
    if (words.empty()) return "usable: on this host only; no interface but loopback is up with an address";
    return fmt::format("usable: over {}; congestion control {}{}", fmt::join(words, ", "), congestion_words(),
                       ports ? fmt::format("; listening at ports {}-{}", ports->first, ports->last) : "");
  } catch (const Error& error) {
    return fmt::format("not usable: {}", error.what());
  }
}

std::string line_of(const transports::TransportEntry& entry) {
  const std::string name = entry.name;
  if (name == "tcp") return tcp_line();
  if (entry.state != nullptr) return entry.state();
  const std::string objection = name == "shm" ? shm_objection() : "";
  if (!objection.empty()) return "not usable: " + objection;
  return fmt::format("usable: {}{}", entry.summary, name == "shm" ? "; " + pulling() : "");
}

}  // namespace

nlohmann::ordered_json transport_lines() {
  nlohmann::ordered_json lines;
  for (const transports::TransportEntry& entry : transports::transports()) lines[entry.name] = line_of(entry);
  for (const transports::UnusableModule& module : transports::unusable_modules()) {
    lines[module.name] = "not usable: " + module.why_not;
  }
  return lines;
}

}  // namespace tutti::tools
