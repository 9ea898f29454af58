#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "train/checkpoint/files.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {
namespace {

/// A piece's values, and where they come from: arrays of `count` elements, one after another.
struct Values {
  std::vector<float> arrays;
  std::vector<bool> known;
  explicit Values(size_t count) : arrays(kArrays * count), known(count) {}
  size_t count() const { return known.size(); }
};

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

/// Copies what two boxes of the same tensor have in common, row by row: a row is a run of the last dimension.
void copy_common(const Box& from, const std::vector<float>& values, const Box& to, Values& into) {
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

class Loader {
 public:
  Loader(Path folder, const CheckpointPart& part) : folder_(std::move(folder)), part_(part) {}

  /// The manifest, if it is one of this version and model.
  void check(const std::string& model) {
    manifest_ = read_json(folder_ / "manifest.json");
    if (manifest_.value("format", "") != kFormat || manifest_.value("version", 0) != kVersion) {
      throw Error(Code::InvalidArgument,
                  fmt::format("checkpoint: {} is {} version {}; this library reads {} version {}: go on with the Tutti "
                              "that saved it, or begin in another folder",
                              folder_.string(), manifest_.value("format", "?"), manifest_.value("version", 0), kFormat,
                              kVersion));
    }
    const std::string saved = manifest_.at("model").get<std::string>();
    for (const auto& [name, values] : pairs_of(saved, model)) {
      if (values.first == values.second) continue;
      const bool had = values.first != "none" && values.first != "0";
      throw Error(
          Code::Mismatch,
          fmt::format("checkpoint: {} is of another model: its {} is {}, and here it is {}: {} --{}{}, or begin "
                      "in another folder",
                      folder_.string(), name, values.first, values.second, had ? "restore" : "leave out", name,
                      had ? " " + values.first : ""));
    }
  }
  CheckpointOf of() const {
    return {manifest_.at("step").get<int64_t>(), manifest_.at("model").get<std::string>(), manifest_.value("run", "")};
  }

  void load() {
    read_tables();
    for (const StatePiece& piece : part_.data_parallel.state()) {
      for (const Parameter& p : part_.units[piece.unit].layout->parameters()) {
        const size_t from = std::max(piece.first, p.offset),
                     to = std::min(piece.first + piece.count(), p.offset + p.count);
        if (from < to) load(p, from - p.offset, to - from, piece, from - piece.first);
      }
    }
  }

 private:
  void read_tables() {
    const int ranks = manifest_.at("ranks").get<int>();
    for (int rank = 0; rank < ranks; ++rank) {
      for (const nlohmann::json& entry : read_json(rank_file(folder_, rank, "json"))) {
        auto saved = entry.get<Saved>();
        saved_[saved.name].emplace_back(rank_file(folder_, rank, "bin"), std::move(saved));
      }
    }
  }

  /// `count` elements of p from `first` on; they lie at `at` of the piece.
  void load(const Parameter& p, size_t first, size_t count, const StatePiece& piece, size_t at) {
    const Box mine{p.full, p.start, p.shape, first, count};
    Values values(count);
    for (const auto& [file, saved] : saved_[p.name]) {
      if (saved.full != p.full) {
        throw Error(Code::Mismatch,
                    fmt::format("checkpoint: {} is of another model: {} is [{}] there and [{}] here", folder_.string(),
                                p.name, fmt::join(saved.full, ", "), fmt::join(p.full, ", ")));
      }
      if (!fits(saved)) throw Torn(file, p.name + " does not fit its tensor");
      const bool apart = same_box(saved, mine) && (saved.first >= first + count || first >= saved.first + saved.count);
      if (!apart) copy_common(saved, read(file, saved), mine, values);
    }
    const auto missing = static_cast<size_t>(std::count(values.known.begin(), values.known.end(), false));
    if (missing > 0) {
      throw Error(Code::Mismatch, fmt::format("checkpoint: {} lacks {} of {} elements of {}: it is of another model",
                                              folder_.string(), missing, count, p.name));
    }
    const Span arrays[kArrays] = {piece.master, piece.moment1, piece.moment2};
    for (size_t k = 0; k < kArrays; ++k) {
      const Span to = arrays[k].part(at, count);
      part_.device.upload(to.data, values.arrays.data() + k * count, to.bytes());
    }
  }

  static std::vector<float> read(const Path& file, const Saved& saved) {
    std::vector<float> values(kArrays * saved.count);
    const auto bytes = std::as_writable_bytes(std::span(values));
    read_bytes(file, saved.offset, bytes);
    if (checksum(bytes) == saved.checksum) return values;
    throw Torn(file, saved.name + " has another checksum");
  }

  Path folder_;
  const CheckpointPart& part_;
  nlohmann::json manifest_;
  std::map<std::string, std::vector<std::pair<Path, Saved>>> saved_;  // by the parameter's name
};

/// What to do about a checkpoint that is torn.
std::string way_back(const Path& folder) {
  const std::vector<int64_t> steps = steps_in(folder);
  if (steps.size() < 2) return "";
  return fmt::format("; remove {} to go on from step {}", step_folder(folder, steps[0]).string(), steps[1]);
}

}  // namespace

std::string differences(const std::string& before, const std::string& now) {
  std::string text;
  for (const auto& [name, values] : pairs_of(before, now)) {
    if (values.first == values.second || values.first == "none") continue;
    text += fmt::format("{}the {} was {} and is {}", text.empty() ? "" : ", ", name, values.first, values.second);
  }
  return text;
}

CheckpointOf load_checkpoint(const std::string& folder, const std::string& model, const CheckpointPart& part) {
  int64_t step = 0;
  all_or_none(part.world, [&] {
    if (part.world.rank() != 0) return;
    const std::optional<int64_t> newest = newest_checkpoint(folder);
    if (!newest)
      throw Error(Code::InvalidArgument, fmt::format("checkpoint: there is none in {}: begin without one", folder));
    step = *newest;
  });
  if (!part.world.absent()) part.world.communicator().broadcast(step, 0);
  Loader loader(step_folder(folder, step), part);
  all_or_none(part.world, [&] {
    try {
      loader.check(model);
      loader.load();
    } catch (const Torn& error) {
      throw Error(error.code(), error.what() + way_back(folder));
    }
  });
  part.data_parallel.state_replaced();
  CheckpointOf of = loader.of();
  of.step = step;
  return of;
}

}  // namespace tutti::train
