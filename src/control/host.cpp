#include "control/host.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/secret.hpp"

namespace tutti::control {
namespace {

/// The permanent hardware address of an interface, in hexadecimal; empty if it has none. Virtual interfaces (bridges,
/// tunnels, those of containers) come and go, and have none.
std::string permanent_address(int socket, const char* interface) {
  struct {  // an ethtool_perm_addr with room for the address
    uint32_t command, size;
    std::array<unsigned char, 32> bytes;
  } answer{ETHTOOL_GPERMADDR, 32, {}};
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&answer);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return "";
  const std::string address = to_hex(answer.bytes.data(), std::min<size_t>(answer.size, answer.bytes.size()));
  return address.find_first_not_of('0') == std::string::npos ? "" : address;
}

/// The addresses of all interfaces of this network namespace, sorted.
std::set<std::string> permanent_addresses() {
  std::set<std::string> all;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct if_nameindex* const interfaces = if_nameindex();
  if (interfaces == nullptr) return all;
  for (const auto* entry = interfaces; entry->if_name != nullptr; ++entry) {
    if (std::string address = permanent_address(socket.get(), entry->if_name); !address.empty()) {
      all.insert(std::move(address));
    }
  }
  if_freenameindex(interfaces);
  return all;
}

std::string make_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat self {};
  if (boot.empty() || stat("/proc/self", &self) != 0) return "";
  std::string words = "tutti host " + boot;
  for (const std::string& address : permanent_addresses()) words += " " + address;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/ipc", "/proc/self/ns/pid"}) {
    struct stat entry {};
    if (stat(space, &entry) == 0) words += fmt::format(" {}:{}", entry.st_dev, entry.st_ino);
  }
  if (usable_env().ours.force_remote) words += fmt::format(" of process {} alone: {}", getpid(), random_hex(16));
  return public_name(derive_key(words));
}

}  // namespace

const std::string& host_identity() {
  static const auto* const kIdentity =
      new std::string(make_identity());  // never destroyed: used until the process ends
  return *kIdentity;
}

std::string boot_identity() {
  static const auto* const kIdentity = [] {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    const bool is_unknown = boot.empty() || usable_env().ours.force_remote;
    return new std::string(is_unknown ? "" : public_name(derive_key("tutti boot " + boot)));
  }();
  return *kIdentity;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::string this_process() { return fmt::format("process {} on {}", getpid(), host_name()); }

namespace {

struct Stat {
  std::string state;
  uint64_t started = 0;  // 0: there is no such process, or /proc shows another namespace
};

Stat stat_of(uint32_t process) {
  std::array<char, 32> self{};
  if (readlink("/proc/self", self.data(), self.size() - 1) < 0 || std::to_string(getpid()) != self.data()) return {};
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return {};
  // The second field is the program's name in parentheses and may contain any character; the start time is field 22.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  Stat found;
  fields >> found.state;
  std::string field;
  for (int i = 4; i <= 22; ++i) fields >> field;
  if (fields) found.started = std::strtoull(field.c_str(), nullptr, 10);
  return found;
}

}  // namespace

uint64_t process_start(uint32_t process) { return stat_of(process).started; }

bool is_stopped(uint32_t process, uint64_t started) {
  const Stat found = stat_of(process);
  return found.started == started && started != 0 && (found.state == "T" || found.state == "t");
}

Fd watch_process(uint32_t process, uint64_t started, bool* unsupported) {
  *unsupported = false;
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0)));  // sets close-on-exec
  if (!fd) {
    *unsupported = errno != ESRCH;
    return fd;
  }
  const uint64_t now = process_start(process);
  if (now != 0 && now != started) fd.reset();  // another process has this number now
  return fd;
}

}  // namespace tutti::control
