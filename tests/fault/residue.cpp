#include "fault/residue.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace tutti::fault {
namespace {

namespace fs = std::filesystem;

void add_files(const std::string& directory, std::set<std::string>& things) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) things.insert(entry.path().string());
}

}  // namespace

std::set<std::string> lasting_things() {
  std::set<std::string> things;
  add_files("/dev/shm", things);
  add_files("/tmp", things);
  return things;
}

std::vector<int> processes_with(const std::string& variable) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int process = std::atoi(entry.path().filename().c_str());
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    if (process > 0 && ('\0' + all).find('\0' + variable + '\0') != std::string::npos) found.push_back(process);
  }
  return found;
}

}  // namespace tutti::fault
