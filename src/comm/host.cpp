#include "comm/host.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/format.hpp"
#include "base/secret.hpp"

namespace tutti::comm {
namespace {

std::string make_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::string words = "tutti host " + boot;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/ipc", "/proc/self/ns/pid"}) {
    struct stat entry {};
    if (stat(space, &entry) == 0) words += fmt::format(" {}:{}", entry.st_dev, entry.st_ino);
  }
  return public_name(derive_key(words));
}

}  // namespace

const std::string& host_identity() {
  static const auto* const kIdentity = new std::string(make_identity());  // never destroyed: used until the very end
  return *kIdentity;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::string this_process() { return fmt::format("process {} on {}", getpid(), host_name()); }

uint64_t process_start(uint32_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return 0;
  // The second field is the program's name in parentheses and may hold anything; the start time is field 22.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? std::strtoull(field.c_str(), nullptr, 10) : 0;
}

Fd watch_process(uint32_t process, uint64_t started, bool* unsupported) {
  *unsupported = false;
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0)));  // close-on-exec by itself
  if (!fd) {
    *unsupported = errno != ESRCH;
    return fd;
  }
  const uint64_t now = process_start(process);
  if (now != 0 && now != started) fd.reset();  // the number belongs to another process by now
  return fd;
}

}  // namespace tutti::comm
