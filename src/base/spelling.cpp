#include "base/spelling.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "base/format.hpp"

namespace tutti {
namespace {

/// Other libraries' names of a value, normalised by `bare`.
template <class T>
struct Spelling {
  T value;
  std::string_view others;  // separated by blanks
};

constexpr Spelling<Collective> kCollectiveSpellings[] = {{Collective::ReduceScatter, "reducescatterblock"},
                                                         {Collective::Broadcast, "bcast"},
                                                         {Collective::SendRecv, "sendreceive p2p"}};

#define TUTTI_TYPE(name, text, bytes, kind, c, arithmetic, nccl, torch, others) {DType::name, others},
constexpr Spelling<DType> kTypeSpellings[] = {TUTTI_TYPES(TUTTI_TYPE)};
#undef TUTTI_TYPE

#define TUTTI_OPERATOR(name, text, others) {Op::name, others},
constexpr Spelling<Op> kOpSpellings[] = {TUTTI_OPERATORS(TUTTI_OPERATOR){Op::PreMulSum, "mulsum"}};
#undef TUTTI_OPERATOR

/// The word in lower case, without separators, a library's prefix and a test's suffix.
std::string bare(std::string_view word) {
  std::string small;
  for (const char c : word) {
    if (c != '_' && c != '-' && c != ' ') small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view prefix : {"tutti", "nccl", "mpi"}) {
    if (small.size() > prefix.size() && small.compare(0, prefix.size(), prefix) == 0) {
      small.erase(0, prefix.size());
      break;
    }
  }
  const std::string_view suffix = "perf";
  if (small.size() > suffix.size() && std::string_view(small).substr(small.size() - suffix.size()) == suffix) {
    small.resize(small.size() - suffix.size());
  }
  return small;
}

bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

template <class T>
std::vector<std::string> names_of(int number) {
  std::vector<std::string> names;
  for (int i = 0; i < number; ++i) names.emplace_back(name_of(static_cast<T>(i)));
  return names;
}

template <class T, size_t kSize>
std::optional<T> called(std::string_view word, int number, const Spelling<T> (&others)[kSize]) {
  const std::string wanted = bare(word);
  if (wanted.empty()) return std::nullopt;
  for (int i = 0; i < number; ++i) {
    if (wanted == bare(name_of(static_cast<T>(i)))) return static_cast<T>(i);
  }
  for (const Spelling<T>& spelling : others) {
    if (has_word(spelling.others, wanted)) return spelling.value;
  }
  return std::nullopt;
}

[[noreturn]] void unknown(const char* what, std::string_view word, std::string_view source,
                          const std::vector<std::string>& names) {
  throw_error(Code::InvalidArgument, "{}{}there is no {} '{}'{}; there are {}", source, source.empty() ? "" : ": ",
              what, word, did_you_mean(word, names), fmt::join(names, ", "));
}

/// The number of insertions, deletions, changes and swaps of adjacent letters between two words.
size_t distance(std::string_view a, std::string_view b) {
  std::array<std::vector<size_t>, 3> rows;  // for letters i, i − 1 and i − 2 of `a`
  for (auto& row : rows) row.resize(b.size() + 1);
  std::iota(rows[0].begin(), rows[0].end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::rotate(rows.begin(), rows.end() - 1, rows.end());
    rows[0][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      size_t& here = rows[0][j];
      here = std::min({rows[1][j] + 1, rows[0][j - 1] + 1, rows[1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) here = std::min(here, rows[2][j - 2] + 1);
    }
  }
  return rows[0][b.size()];
}

}  // namespace

std::optional<Collective> collective_called(std::string_view word) {
  return called<Collective>(word, kCollectives, kCollectiveSpellings);
}
std::optional<DType> type_called(std::string_view word) { return called<DType>(word, kDTypes, kTypeSpellings); }
std::optional<Op> op_called(std::string_view word) { return called<Op>(word, kOps, kOpSpellings); }

std::vector<std::string> collective_names() { return names_of<Collective>(kCollectives); }
std::vector<std::string> type_names() { return names_of<DType>(kDTypes); }
std::vector<std::string> op_names() { return names_of<Op>(kOps); }

Bytes read_call_bytes(const std::string& word, std::string_view option) {
  constexpr Bytes kMax{uint64_t{1} << 50};
  const auto bytes = parse_bytes(word);
  if (!bytes) throw_error(Code::InvalidArgument, "{} {}: write a number of bytes such as 8, 64K or 1G", option, word);
  if (*bytes > kMax) throw_error(Code::InvalidArgument, "{} {}: {} are the most", option, word, to_text(kMax));
  return *bytes;
}

Collective read_collective(std::string_view word, std::string_view source) {
  if (const auto found = collective_called(word)) return *found;
  unknown("collective", word, source, collective_names());
}

DType read_type(std::string_view word, std::string_view source) {
  if (const auto found = type_called(word)) return *found;
  unknown("element type", word, source, type_names());
}

Op read_op(std::string_view word, std::string_view source) {
  if (const auto found = op_called(word)) return *found;
  unknown("operator", word, source, op_names());
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;  // no longer word is a misspelling
  const std::string wanted = bare(word.substr(0, kLongest));
  if (wanted.empty()) return std::nullopt;
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(1, wanted.size() / 3) + 1;  // must need fewer edits than this
  for (const std::string& candidate : known) {
    const std::string other = bare(candidate);
    const bool begins = wanted.size() >= 3 && other.compare(0, wanted.size(), wanted) == 0;
    const size_t slips = begins ? 1 : distance(wanted, other);
    if (slips < least) {
      least = slips;
      best = &candidate;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto near = nearest(word, known);
  return near ? fmt::format(" (did you mean {}?)", *near) : "";
}

}  // namespace tutti
