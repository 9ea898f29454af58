// Values taken from the front of the fuzzer's input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::fuzz {

class Words {
 public:
  Words(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool more() const { return !rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  /// As many bytes as the next two bytes say, at most.
  std::string text(size_t most = SIZE_MAX) {
    const size_t low = byte(), high = byte();
    const std::string_view taken = rest_.substr(0, low | high << 8U);
    rest_.remove_prefix(taken.size());
    return std::string(taken.substr(0, most));
  }
  /// A small number, or one that is critical for readers.
  uint64_t number() {
    constexpr std::array<uint64_t, 8> kOdd{UINT64_MAX, uint64_t{1} << 63U, 1U << 31U, 1U << 16U, 4096, 8192, 128, 64};
    const uint8_t which = byte();
    return which < 200 ? which : kOdd[which % kOdd.size()];
  }
  /// One of the known words, or another.
  std::string one_of(const std::vector<std::string>& known, size_t most) {
    const size_t which = byte() % (known.size() + 1);
    return which < known.size() ? known[which] : text(most);
  }

 private:
  std::string_view rest_;
};

}  // namespace tutti::fuzz
