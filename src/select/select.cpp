#include "select/select.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "transports/link.hpp"

namespace tutti::select {
namespace {

constexpr uint64_t kGranule = 128;
constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
constexpr int kBuckets = 40;  // sizes are decided by powers of two, up to 1 TiB

Collective collective_named(std::string_view name) {
  for (int i = 0; i < kCollectives; ++i) {
    if (name == name_of(static_cast<Collective>(i))) return static_cast<Collective>(i);
  }
  throw_error(Code::InvalidArgument, "there is no collective '{}'", name);
}

/// Which ranks are near each other is not part of the setting: algorithms that work along groups are not candidates.
plan::Shape shape_of(const plan::Algorithm& algorithm, const Setting& s) { return {algorithm.collective, s.ranks}; }

/// What the model says of one call. A chain of dependent messages takes at least its own bytes, however little each
/// rank moves in all; with several windows only the first one pays for that.
double seconds(const plan::Algorithm& algorithm, uint64_t bytes, const Setting& s) {
  const plan::Cost cost = algorithm.cost(shape_of(algorithm, s));
  const auto size = static_cast<double>(bytes);
  const double first = std::min(size, static_cast<double>(window_bytes(algorithm, s)));
  const double chain = static_cast<double>(cost.rounds) * cost.message.value() * first;
  const double moved = std::max(std::max(cost.sent.value(), cost.received.value()) * size, chain);
  const auto extra = static_cast<double>(std::max<int64_t>(0, cost.stages - 1));
  return static_cast<double>(cost.rounds) * s.alpha + moved * s.beta + cost.folded.value() * size * s.gamma +
         extra * s.message_cost;
}

/// The algorithm that the user demands, if there is one.
struct Wish {
  const plan::Algorithm* algorithm = nullptr;
  bool given = false;  ///< by TUTTI_PLAN, else by TUTTI_ALGO
};

Wish wish_of(Collective collective, const Setting& setting) {
  const auto given = setting.given.find(collective);
  const auto forced = setting.forced.find(name_of(collective));
  if (given == setting.given.end()) {
    return forced == setting.forced.end() ? Wish{} : Wish{plan::find_algorithm(collective, forced->second), false};
  }
  if (forced != setting.forced.end()) {
    throw_error(Code::InvalidArgument, "TUTTI_PLAN gives {} for {}, where TUTTI_ALGO forces {}; unset one of them",
                given->second->name, name_of(collective), forced->second);
  }
  return {given->second, true};
}

}  // namespace

std::map<std::string, std::string> parse_forced(const std::string& text) {
  std::map<std::string, std::string> forced;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = item.find(':');
    if (colon == std::string::npos) {
      throw_error(Code::InvalidArgument, "TUTTI_ALGO: '{}' is not of the form collective:algorithm", item);
    }
    const std::string collective = item.substr(0, colon), algorithm = item.substr(colon + 1);
    if (plan::find_algorithm(collective_named(collective), algorithm) == nullptr) {
      std::string known;
      for (const plan::Algorithm* a : plan::algorithms_of(collective_named(collective))) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", a->name);
      }
      throw_error(Code::InvalidArgument, "TUTTI_ALGO: {} has no algorithm '{}'; it has {}", collective, algorithm,
                  known);
    }
    forced[collective] = algorithm;
  }
  return forced;
}

std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const Setting& setting) {
  std::vector<Candidate> all;
  std::vector<const plan::Algorithm*> known = plan::algorithms_of(collective);
  const Wish wish = wish_of(collective, setting);
  if (wish.given) known.push_back(wish.algorithm);
  for (const plan::Algorithm* a : known) {
    Candidate candidate{.algorithm = a};
    if (wish.algorithm != nullptr && wish.algorithm != a) {
      candidate.rejected =
          fmt::format("{} {}", wish.given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", wish.algorithm->name);
      candidate.seconds = std::numeric_limits<double>::infinity();  // the last: the forced one has a reason of its own
    } else if (!a->allows(shape_of(*a, setting))) {
      candidate.rejected = fmt::format("does not work for {} ranks ({})", setting.ranks, a->summary);
    } else if (setting.reproducible && reduces(collective) && !a->canonical) {
      candidate.rejected = "TUTTI_REPRODUCIBLE: it folds in another order than the canonical one";
    } else if (window_bytes(*a, setting) == 0) {
      candidate.rejected = fmt::format(
          "its messages fit neither TUTTI_MESSAGE ({} bytes) nor a share of the staging "
          "memory ({} bytes of TUTTI_ARENA); raise what is too small",
          setting.message, setting.staging);
    } else {
      candidate.seconds = seconds(*a, bytes, setting);
    }
    all.push_back(candidate);
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
    return a.seconds < b.seconds;
  });
  return all;
}

uint64_t window_bytes(const plan::Algorithm& algorithm, const Setting& setting) {
  const plan::Cost cost = algorithm.cost(shape_of(algorithm, setting));
  if (cost.message == plan::Ratio(0)) return kUnbounded / 2 / kGranule * kGranule;  // no message has a payload
  // Half of the staging memory for a plan: so two plans can take turns without a pause between them.
  const auto stages = static_cast<uint64_t>(std::max<int64_t>(1, cost.stages));
  const uint64_t slot = std::min(setting.message, setting.staging / 2 / stages / transports::kCapacity);
  // Rounding may lengthen a chunk by a granule.
  const uint64_t payload = std::max(slot, 2 * kGranule) - kGranule;
  const auto window = static_cast<uint64_t>(static_cast<double>(payload) / cost.message.value());
  return window / kGranule * kGranule;
}

DecisionTable::DecisionTable(const Setting& setting) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (plan::algorithms_of(collective).empty()) continue;
    auto& rows = rows_[collective];
    for (int bucket = 3; bucket <= kBuckets; ++bucket) {
      const uint64_t bytes = uint64_t{1} << bucket;
      const auto all = candidates(collective, bytes, setting);
      if (!all.front().rejected.empty()) {
        throw_error(Code::Unsupported, "no algorithm can do {} on {} ranks: {} {}", name_of(collective), setting.ranks,
                    all.front().algorithm->name, all.front().rejected);
      }
      const plan::Algorithm* best = all.front().algorithm;
      if (!rows.empty() && rows.back().choice.algorithm == best) rows.pop_back();
      rows.push_back({bucket == kBuckets ? kUnbounded : bytes + bytes / 2, {best, window_bytes(*best, setting)}});
    }
  }
}

DecisionTable DecisionTable::parse(const std::string& text) {
  DecisionTable table;
  try {
    for (const auto& row : nlohmann::json::parse(text)) {
      const Collective collective = collective_named(row.at(0).get<std::string>());
      const plan::Algorithm* algorithm = plan::find_algorithm(collective, row.at(2).get<std::string>());
      const Choice choice{algorithm, row.at(3).get<uint64_t>()};
      if (algorithm == nullptr || choice.window == 0) throw Error(Code::ProtocolError, row.dump());
      table.rows_[collective].push_back({row.at(1).get<uint64_t>(), choice});
    }
  } catch (const std::exception& error) {
    throw_error(Code::ProtocolError, "rank 0's decision table cannot be read ({})", error.what());
  }
  return table;
}

std::string DecisionTable::text() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [collective, list] : rows_) {
    for (const Row& row : list) {
      rows.push_back({name_of(collective), row.below, row.choice.algorithm->name, row.choice.window});
    }
  }
  return rows.dump();
}

Choice DecisionTable::choose(Collective collective, uint64_t bytes) const {
  const auto found = rows_.find(collective);
  if (found != rows_.end()) {
    for (const Row& row : found->second) {
      if (bytes < row.below) return row.choice;
    }
    if (!found->second.empty()) return found->second.back().choice;
  }
  throw_error(Code::Unsupported, "there is no algorithm for {}", name_of(collective));
}

}  // namespace tutti::select
