#include "train/checkpoint/assembly.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace tutti::train {
namespace {

bool same_box(const Box& a, const Box& b) { return a.start == b.start && a.shape == b.shape; }

bool fits(const Box& box) {
  if (box.full.size() != box.shape.size() || box.full.size() != box.start.size() || box.full.empty()) return false;
  size_t elements = 1;
  for (size_t d = 0; d < box.full.size(); ++d) {
    if (box.shape[d] > box.full[d] || box.start[d] > box.full[d] - box.shape[d]) return false;
    elements *= box.shape[d];
  }
  return box.first <= elements && box.count <= elements - box.first;
}

/// The values of two texts of facts, by name; "none" where one has none.
std::map<std::string, std::pair<std::string, std::string>> pairs_of(const std::string& before, const std::string& now) {
  std::map<std::string, std::pair<std::string, std::string>> pairs;
  const auto read = [&pairs](const std::string& text, auto member) {
    std::istringstream lines(text);
    for (std::string name, value; lines >> name >> value;)
      pairs.try_emplace(name, "none", "none").first->second.*member = value;
  };
  using Pair = std::pair<std::string, std::string>;
  read(before, &Pair::first);
  read(now, &Pair::second);
  return pairs;
}

}  // namespace

Assembly::Assembly(const CheckpointPart& part, std::string origin) : part_(part), origin_(std::move(origin)) {
  for (const StatePiece& piece : part.data_parallel.state()) {
    for (const Parameter& p : part.units[piece.unit].layout->parameters()) {
      const size_t from = std::max(piece.first, p.offset),
                   to = std::min(piece.first + piece.count(), p.offset + p.count);
      if (from >= to) continue;
      const size_t count = to - from;
      wanted_[p.name].push_back({{p.full, p.start, p.shape, from - p.offset, count},
                                 piece,
                                 from - piece.first,
                                 std::vector<float>(kArrays * count),
                                 std::vector<bool>(count)});
    }
  }
}

bool Assembly::wants(const Saved& saved) const {
  const auto found = wanted_.find(saved.name);
  if (found == wanted_.end()) return false;
  for (const Wanted& mine : found->second) {
    if (saved.full != mine.box.full) {
      throw Error(Code::Mismatch,
                  fmt::format("checkpoint: {} is of another model: {} is [{}] there and [{}] here", origin_, saved.name,
                              fmt::join(saved.full, ", "), fmt::join(mine.box.full, ", ")));
    }
    if (!fits(saved)) throw Torn(origin_, saved.name + " does not fit its tensor");
    const Box& box = mine.box;
    const bool apart =
        same_box(saved, box) && (saved.first >= box.first + box.count || box.first >= saved.first + saved.count);
    if (!apart) return true;
  }
  return false;
}

void Assembly::add(const Saved& saved, const std::vector<float>& values) {
  for (Wanted& mine : wanted_.at(saved.name)) copy_common(saved, values, mine);
}

/// Copies what two boxes of the same tensor have in common, row by row: a row is a run of the last dimension.
void Assembly::copy_common(const Saved& from, const std::vector<float>& values, Wanted& into) {
  const Box& to = into.box;
  const size_t dimensions = from.full.size(), last = dimensions - 1;
  for (size_t i = 0; i < from.count;) {
    // Where element i lies in the tensor, and where its row begins in the other box.
    size_t rest = from.first + i, place = 0, stride = 1, in_row = 0;
    bool inside = true;
    for (size_t d = dimensions; d-- > 0;) {
      const size_t at = from.start[d] + rest % from.shape[d];
      rest /= from.shape[d];
      if (d == last) {
        in_row = at;
      } else {
        inside = inside && at >= to.start[d] && at < to.start[d] + to.shape[d];
        place += (at - to.start[d]) * stride;
      }
      stride *= to.shape[d];
    }
    const size_t row = std::min(from.start[last] + from.shape[last] - in_row, from.count - i);
    const size_t begin = std::max(in_row, to.start[last]),
                 end = std::min(in_row + row, to.start[last] + to.shape[last]);
    for (size_t at = begin; inside && at < end; ++at) {
      const size_t target = place + at - to.start[last];
      if (target < to.first || target >= to.first + to.count) continue;
      for (size_t k = 0; k < kArrays; ++k)
        into.arrays[k * to.count + target - to.first] = values[k * from.count + i + at - in_row];
      into.known[target - to.first] = true;
    }
    i += row;
  }
}

void Assembly::finish() {
  for (const auto& [name, all] : wanted_) {
    for (const Wanted& mine : all) {
      const auto missing = static_cast<size_t>(std::count(mine.known.begin(), mine.known.end(), false));
      if (missing > 0) {
        throw Error(Code::Mismatch, fmt::format("checkpoint: {} lacks {} of {} elements of {}: it is of another model",
                                                origin_, missing, mine.box.count, name));
      }
      const Span arrays[kArrays] = {mine.piece.master, mine.piece.moment1, mine.piece.moment2};
      for (size_t k = 0; k < kArrays; ++k) {
        const Span to = arrays[k].part(mine.at, mine.box.count);
        part_.device.upload(to.data, mine.arrays.data() + k * mine.box.count, to.bytes());
      }
    }
  }
}

void check_model(const std::string& origin, const std::string& saved, const std::string& model) {
  for (const auto& [name, values] : pairs_of(saved, model)) {
    if (values.first == values.second) continue;
    const bool had = values.first != "none" && values.first != "0";
    throw Error(Code::Mismatch,
                fmt::format("checkpoint: {} is of another model: its {} is {}, and here it is {}: {} --{}{}, or begin "
                            "in another folder",
                            origin, name, values.first, values.second, had ? "restore" : "leave out", name,
                            had ? " " + values.first : ""));
  }
}

std::string differences(const std::string& before, const std::string& now) {
  std::string text;
  for (const auto& [name, values] : pairs_of(before, now)) {
    if (values.first == values.second || values.first == "none") continue;
    text += fmt::format("{}the {} was {} and is {}", text.empty() ? "" : ", ", name, values.first, values.second);
  }
  return text;
}

}  // namespace tutti::train
