// Text as batches of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::train {

/// A text in memory.
class Corpus {
 public:
  explicit Corpus(std::string bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}
  /// A file; "" is the licence texts that every Debian has. Throws Error(InvalidArgument) if there is no such file, or
  /// nothing in it.
  static Corpus read(const std::string& path);

  size_t size() const { return bytes_.size(); }
  const std::string& name() const { return name_; }
  /// Differs if the texts differ, all but certainly.
  uint64_t hash() const;
  /// Sequence `index` of step `step`: length + 1 bytes from a place that (seed, step, index) determines. So a global
  /// batch is the same however ranks and micro-batches divide it. Throws Error(InvalidArgument) if the text is shorter.
  void sequence(uint64_t seed, uint64_t step, uint64_t index, size_t length, int32_t* tokens, int32_t* targets) const;

 private:
  std::string bytes_, name_;
};

}  // namespace tutti::train
