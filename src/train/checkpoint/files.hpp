// Files of a checkpoint: written to disk before anything relies on them, and checked when read.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/collectives.hpp"

namespace tutti::train {

using Path = std::filesystem::path;
using Bytes = std::span<const std::byte>;

inline constexpr const char* kFormat = "tutti checkpoint";
inline constexpr int kVersion = 1;
inline constexpr size_t kArrays = 3;  // of a piece: master and two moments

/// A checkpoint's file is not as it was saved.
class Torn : public Error {
 public:
  Torn(const Path& path, const std::string& why);
};

Path step_folder(const Path& folder, int64_t step);
Path rank_file(const Path& folder, int rank, const char* suffix);

/// Elements [first, first + count) of the box that begins at `start` of a tensor of shape `full`.
struct Box {
  std::vector<size_t> full, start, shape;
  size_t first = 0, count = 0;
};

/// A piece that a rank has saved, and where it lies in the rank's file: an entry of the rank's table.
struct Saved : Box {
  std::string name, checksum;
  size_t offset = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Saved, name, full, start, shape, first, count, offset, checksum)
};

/// The steps of a folder's complete checkpoints, the newest first.
std::vector<int64_t> steps_in(const Path& folder);

/// Removes what saves have left that did not end, because a rank was killed.
void remove_partial(const Path& folder);

/// BLAKE2b, 256 bits, in hexadecimal.
std::string checksum(Bytes bytes);

/// A file that is being written. Throws Error(SystemError).
class Writer {
 public:
  explicit Writer(Path path);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  void append(Bytes bytes);
  size_t size() const { return size_; }
  /// All is on disk when it returns.
  void sync();

 private:
  Path path_;
  int fd_;
  size_t size_ = 0;
};

/// Names made and removed in `folder` are on disk when it returns.
void sync_folder(const Path& folder);

/// {"content": …, "checksum": …}
void write_json(const Path& path, const nlohmann::json& content);
/// Throws Torn if the file is.
nlohmann::json read_json(const Path& path);
/// `bytes.size()` bytes from `offset` on. Throws Torn if they are not there.
void read_bytes(const Path& path, size_t offset, std::span<std::byte> bytes);

/// Calls `function` on each rank. The error of the first rank on which it throws, on all of them, with that rank's
/// number. Throws if the ranks cannot tell each other.
std::optional<Error> first_failure(Collectives& world, const std::function<void()>& function);
/// The same, but throws it.
void all_or_none(Collectives& world, const std::function<void()>& function);

}  // namespace tutti::train
