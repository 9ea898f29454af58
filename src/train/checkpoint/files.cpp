#include "train/checkpoint/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tutti::train {
namespace {

[[noreturn]] void cannot(const char* what, const Path& path) {
  const int error = errno;
  throw Error(Code::SystemError,
              fmt::format("checkpoint: {} cannot be {}: {}", path.string(), what, std::strerror(error)));
}

[[noreturn]] void cannot_read(const Path& path) {
  if (errno == ENOENT) throw Torn(path, "there is no such file");
  cannot("read", path);
}

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

Torn::Torn(const Path& path, const std::string& why)
    : Error(Code::SystemError, fmt::format("checkpoint: {} is torn: {}", path.string(), why)) {}

Path step_folder(const Path& folder, int64_t step) { return folder / fmt::format("step-{:08}", step); }
Path rank_file(const Path& folder, int rank, const char* suffix) {
  return folder / fmt::format("rank-{:05}.{}", rank, suffix);
}

std::vector<int64_t> steps_in(const Path& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int64_t step = 0;
    if (name.rfind("step-", 0) == 0) std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (step > 0 && entry.path() == step_folder(folder, step)) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void remove_partial(const Path& folder) {
  std::error_code error;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".partial")) found.push_back(entry.path());
  }
  for (const Path& path : found) std::filesystem::remove_all(path);
}

std::string checksum(Bytes bytes) {
  if (sodium_init() < 0) throw Error(Code::SystemError, "libsodium cannot start: no source of random numbers");
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     nullptr, 0);
  std::string text;
  for (const unsigned char byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

Writer::Writer(Path path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) cannot("made", path_);
}

Writer::~Writer() { close(fd_); }

void Writer::append(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot("written", path_);
    size_ += static_cast<size_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void Writer::sync() {
  if (fsync(fd_) != 0) cannot("written to disk", path_);
}

void sync_folder(const Path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) cannot("opened", folder);
  const bool synced = fsync(fd) == 0 || errno == EINVAL;  // EINVAL: this file system has nothing to sync
  close(fd);
  if (!synced) cannot("written to disk", folder);
}

void write_json(const Path& path, const nlohmann::json& content) {
  const nlohmann::json all{{"content", content}, {"checksum", checksum(bytes_of(content.dump()))}};
  Writer file(path);
  file.append(bytes_of(all.dump()));
  file.sync();
}

nlohmann::json read_json(const Path& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path);
  std::ostringstream text;
  text << file.rdbuf();
  const nlohmann::json all = nlohmann::json::parse(text.str(), nullptr, false);
  if (!all.is_object() || !all.contains("content") || !all.contains("checksum")) throw Torn(path, "it is not whole");
  if (all["checksum"] != checksum(bytes_of(all["content"].dump()))) throw Torn(path, "its checksum is another");
  return all["content"];
}

void read_bytes(const Path& path, size_t offset, std::span<std::byte> bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw Torn(path, fmt::format("it ends before byte {}", offset + bytes.size()));
}

std::optional<Error> first_failure(Collectives& world, const std::function<void()>& function) {
  struct Outcome {
    int32_t code = 0;
    char text[508] = {};
  };
  Outcome mine;
  const auto failed = [&mine](Code code, const std::string& text) {
    mine.code = static_cast<int32_t>(code);
    text.copy(mine.text, sizeof mine.text - 1);
  };
  try {
    function();
  } catch (const Error& error) {
    failed(error.code(), error.what());
  } catch (const std::exception& error) {  // of the file system or of JSON
    failed(Code::SystemError, fmt::format("checkpoint: {}", error.what()));
  }
  std::vector<Outcome> all{mine};
  if (!world.absent()) {
    all.resize(static_cast<size_t>(world.size()));
    world.communicator().all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code != 0)
      return Error(static_cast<Code>(all[rank].code), fmt::format("rank {}: {}", rank, all[rank].text));
  }
  return std::nullopt;
}

void all_or_none(Collectives& world, const std::function<void()>& function) {
  if (const std::optional<Error> why = first_failure(world, function)) throw Error(*why);
}

}  // namespace tutti::train
