#include "tutti/train/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "train/core/hash.hpp"
#include "tutti/error.hpp"

namespace tutti::train {
namespace {

constexpr const char* kLicences = "/usr/share/common-licenses";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

/// Each licence once, in the order of names; links are other names of the same.
Corpus licences() {
  std::error_code error;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kLicences, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) files.insert(entry.path());
  }
  std::string all;
  for (const auto& file : files) all += contents(file);
  if (all.empty()) {
    throw Error(Code::InvalidArgument, fmt::format("the default text, the licences in {}, is not on this machine: name "
                                                   "a text by --text FILE",
                                                   kLicences));
  }
  return Corpus(std::move(all), kLicences);
}

}  // namespace

Corpus Corpus::read(const std::string& path) {
  if (path.empty()) return licences();
  std::string text = contents(path);
  if (text.empty()) {
    throw Error(Code::InvalidArgument, fmt::format("--text {}: there is no such file, or nothing in it", path));
  }
  return Corpus(std::move(text), path);
}

uint64_t Corpus::hash() const { return train::hash(bytes_); }

void Corpus::sequence(uint64_t seed, uint64_t step, uint64_t index, size_t length, int32_t* tokens,
                      int32_t* targets) const {
  if (size() <= length) {
    throw Error(Code::InvalidArgument,
                fmt::format("the text {} has {} bytes; a sequence of {} needs {}", name_, size(), length, length + 1));
  }
  const size_t first = mix(mix(mix(seed) + step) + index) % (size() - length);
  for (size_t i = 0; i < length; ++i) {
    tokens[i] = static_cast<unsigned char>(bytes_[first + i]);
    targets[i] = static_cast<unsigned char>(bytes_[first + i + 1]);
  }
}

}  // namespace tutti::train
