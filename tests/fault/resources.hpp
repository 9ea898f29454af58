// What this process has of its host.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace tutti::fault {

struct Resources {
  long resident = 0;     ///< KiB
  long descriptors = 0;  ///< that are open
  long arenas = 0;       ///< KiB of this rank's shared memory, whoever has mapped it
};

inline Resources resources_of_process() {
  Resources found;
  long pages = 0, skipped = 0;
  std::ifstream("/proc/self/statm") >> skipped >> pages;
  found.resident = pages * (sysconf(_SC_PAGESIZE) / 1024);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    ++found.descriptors;
    struct stat file {};
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!target.starts_with("/memfd:tutti-arena")) continue;
    if (stat(entry.path().c_str(), &file) == 0) found.arenas += file.st_blocks / 2;
  }
  --found.descriptors;  // the folder's own
  return found;
}

}  // namespace tutti::fault
