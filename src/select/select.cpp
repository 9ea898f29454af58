#include "select/select.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/shallow_json.hpp"
#include "base/spelling.hpp"
#include "link/link.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr uint64_t kGranule = 128;
constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
constexpr double kNoise = 1.05;  // by which times of equally fast algorithms differ from one measurement to the next
constexpr int kLeastBucket = 3, kBuckets = 40;  // sizes are decided by powers of two, up to 1 TiB

/// The larger of both, figure by figure.
void raise(plan::Cost& most, const plan::Cost& cost) {
  const auto lift = [](auto& figure, const auto& other) { figure = std::max(figure, other); };
  lift(most.rounds, cost.rounds);
  lift(most.sent, cost.sent);
  lift(most.received, cost.received);
  lift(most.folded, cost.folded);
  lift(most.stages, cost.stages);
  lift(most.message, cost.message);
  lift(most.chain, cost.chain);
  if (!most.between || !cost.between) return;
  lift(most.between->rounds, cost.between->rounds);
  lift(most.between->moved, cost.between->moved);
  lift(most.between->chain, cost.between->chain);
  lift(most.between->stages, cost.between->stages);
}

bool works_along_groups(const plan::Algorithm& algorithm, const Setting& s) {
  return s.groups != nullptr && !algorithm.allows({algorithm.collective, s.ranks});
}

/// The cost for the worst root, because one choice is made for all roots. The root's group comes first in the order of
/// groups, so the order is the same for consecutive roots of one group.
plan::Cost cost_of(const plan::Algorithm& algorithm, const Setting& s) {
  plan::Shape shape{algorithm.collective, s.ranks, s.groups};
  plan::Cost worst = algorithm.cost(shape);
  if (!has_root(algorithm.collective) || !works_along_groups(algorithm, s)) return worst;
  if (s.groups->smallest() == s.groups->largest()) return worst;
  for (Rank root = 1; root < s.ranks; ++root) {
    if (s.groups->group_of(root) == s.groups->group_of(root - 1)) continue;
    shape.groups = std::make_shared<const plan::Grouping>(s.groups->seen_from(root));
    raise(worst, algorithm.cost(shape));
  }
  return worst;
}

uint64_t window_of(const plan::Cost& cost, const Setting& setting) {
  if (cost.message == plan::Ratio(0)) return kUnbounded / 2 / kGranule * kGranule;  // no message has a payload
  // A plan gets half of the staging memory, so two plans can alternate without waiting for each other.
  const auto stages = static_cast<uint64_t>(std::max<int64_t>(1, cost.stages));
  // If that is little, half as many messages of twice the length.
  const uint64_t share = setting.staging / 2 / stages;
  const uint64_t slot =
      std::min(setting.message,
               std::max(share / link::kSlots, std::min(machine_constants().ample_slot, share / link::kFewestSlots)));
  // Rounding may lengthen a chunk by a granule.
  const uint64_t payload = std::max(slot, 2 * kGranule) - kGranule;
  const auto window = static_cast<uint64_t>(static_cast<double>(payload) / cost.message.value());
  return window / kGranule * kGranule;
}

/// The algorithm that the user demands, if any.
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

/// An algorithm under a setting: what does not depend on the size of a call.
struct Entry {
  const plan::Algorithm* algorithm = nullptr;
  std::string rejected;  ///< why it cannot be used; empty if it can
  bool outdone = false;  ///< rejected because the user demands another
  plan::Cost cost;       ///< if it can be used
  uint64_t window = 0;
};

/// Does it work along groups, and are these trivial: one group, or every rank alone?
bool tells_nothing(const plan::Algorithm& a, const Setting& setting) {
  return works_along_groups(a, setting) && !setting.groups->has_two_levels();
}

const char* why_groups_tell_nothing(const Setting& setting) {
  return setting.groups->groups() == 1 ? "all ranks are in one group" : "every rank is alone";
}

/// An algorithm along groups may be forced with trivial groups if the groups were given: the ranks of a
/// sub-communicator are often of one group. If none were given, the user has forgotten them. A single rank needs none.
bool may_be_forced(const Setting& setting) { return setting.groups_given || setting.ranks == 1; }

Entry enter(const plan::Algorithm& a, const Wish& wish, const Setting& setting) {
  Entry entry{.algorithm = &a};
  if (wish.algorithm != nullptr && wish.algorithm != &a) {
    entry.rejected = fmt::format("{} {}", wish.given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", wish.algorithm->name);
    entry.outdone = true;
  } else if (!a.allows({a.collective, setting.ranks, setting.groups})) {
    entry.rejected =
        fmt::format("does not work for {} ({})", counted(static_cast<uint64_t>(setting.ranks), "rank"), a.summary);
  } else if (tells_nothing(a, setting) && (wish.algorithm == nullptr || !may_be_forced(setting))) {
    entry.rejected = fmt::format("{}, so there is nothing to gain from groups", why_groups_tell_nothing(setting));
  } else if (setting.reproducible && reduces(a.collective) && !a.canonical) {
    entry.rejected = "TUTTI_REPRODUCIBLE: it folds in another order than the canonical one";
  } else {
    entry.cost = cost_of(a, setting);
    entry.window = window_of(entry.cost, setting);
    if (entry.window > 0) return entry;
    entry.rejected = fmt::format(
        "its messages fit neither TUTTI_MESSAGE ({} bytes) nor a share of the staging "
        "memory ({} bytes of TUTTI_ARENA); raise what is too small",
        setting.message, setting.staging);
  }
  return entry;
}

std::vector<Entry> entries(Collective collective, const Setting& setting) {
  std::vector<const plan::Algorithm*> known = plan::algorithms_of(collective);
  const Wish wish = wish_of(collective, setting);
  if (wish.given) known.push_back(wish.algorithm);
  std::vector<Entry> all;
  for (const plan::Algorithm* a : known) all.push_back(enter(*a, wish, setting));
  return all;
}

Candidate rate(const Entry& entry, uint64_t bytes, const Setting& setting) {
  if (entry.rejected.empty()) {
    Candidate candidate{.algorithm = entry.algorithm,
                        .predicted = predict(entry.cost, bytes, entry.window, setting),
                        .stages = entry.cost.stages};
    if (setting.profile != nullptr) {
      candidate.measured =
          setting.profile->seconds(setting.situation, entry.algorithm->collective, entry.algorithm->name, bytes);
    }
    candidate.seconds = candidate.measured.value_or(candidate.predicted.seconds());
    return candidate;
  }
  // The demanded algorithm comes before the others, because its rejection has a reason of its own.
  return {.algorithm = entry.algorithm,
          .seconds = entry.outdone ? std::numeric_limits<double>::infinity() : 0,
          .rejected = entry.rejected};
}

/// Of algorithms that are level, the model's favourite comes first: it is the same at neighbouring sizes, and in the
/// next measurement.
bool is_better(const Candidate& a, const Candidate& b) {
  if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
  if (a.measured.has_value() != b.measured.has_value()) return a.measured.has_value();
  if (a.level != b.level) return a.level;
  if (a.level && a.predicted.seconds() != b.predicted.seconds()) return a.predicted.seconds() < b.predicted.seconds();
  if (a.seconds != b.seconds || !a.rejected.empty()) return a.seconds < b.seconds;
  // Prefer longer messages: lent ones need no staging memory, the others share it among their stages.
  if (a.algorithm->lends != b.algorithm->lends) return a.algorithm->lends;
  return a.stages < b.stages;
}

/// In the order of the entries.
std::vector<Candidate> rate_all(const std::vector<Entry>& entries, uint64_t bytes, const Setting& setting) {
  std::vector<Candidate> all;
  double least = std::numeric_limits<double>::infinity();
  for (const Entry& entry : entries) {
    all.push_back(rate(entry, bytes, setting));
    if (all.back().rejected.empty() && all.back().measured) least = std::min(least, *all.back().measured);
  }
  for (Candidate& candidate : all) candidate.level = candidate.measured && *candidate.measured <= kNoise * least;
  return all;
}

/// The best candidate; if none can be used, the first that the user does not rule out.
std::pair<const Entry*, Candidate> best_of(const std::vector<Entry>& entries, uint64_t bytes, const Setting& setting) {
  const std::vector<Candidate> all = rate_all(entries, bytes, setting);
  const auto best = std::min_element(all.begin(), all.end(), is_better);
  return {&entries[static_cast<size_t>(best - all.begin())], *best};
}

/// Throws the reason: `entry` cannot be used, and no other algorithm can.
[[noreturn]] void refuse(const Entry& entry, const std::string& why, const Setting& setting) {
  const plan::Algorithm& a = *entry.algorithm;
  const std::string ranks = counted(static_cast<uint64_t>(setting.ranks), "rank");
  if (wish_of(a.collective, setting).algorithm != &a) {
    throw_error(Code::Unsupported, "no algorithm can do {} on {}: {} {}", name_of(a.collective), ranks, a.name, why);
  }
  const bool given = wish_of(a.collective, setting).given;
  const bool groups = setting.groups == nullptr || tells_nothing(a, setting);
  throw_error(Code::Unsupported, "{} {}:{}, which cannot be used on {}: {}{}",
              given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", name_of(a.collective), a.name, ranks, why,
              groups ? ". Say by TUTTI_GROUPS which ranks are near each other, or force another algorithm" : "");
}

/// Warns about a forced algorithm along groups when the groups are trivial.
void warn_of_one_level(const std::vector<Entry>& all, const Setting& setting) {
  if (setting.ranks == 1) return;
  for (const Entry& entry : all) {
    const plan::Algorithm& a = *entry.algorithm;
    if (!entry.rejected.empty() || !tells_nothing(a, setting)) continue;
    log_warn("TUTTI_ALGO forces {}:{} in a communicator of {} where {}: it gains nothing there", name_of(a.collective),
             a.name, counted(static_cast<uint64_t>(setting.ranks), "rank"), why_groups_tell_nothing(setting));
  }
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
    const Collective collective = read_collective(item.substr(0, colon), "TUTTI_ALGO");
    const std::string algorithm = item.substr(colon + 1), name = name_of(collective);
    if (plan::find_algorithm(collective, algorithm) == nullptr) {
      std::vector<std::string> known;
      for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.emplace_back(a->name);
      throw_error(Code::InvalidArgument, "TUTTI_ALGO: {} has no algorithm '{}'{}; it has {}", name, algorithm,
                  did_you_mean(algorithm, known), known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    const auto [before, is_new] = forced.emplace(name, algorithm);
    if (!is_new && before->second != algorithm) {
      throw_error(Code::InvalidArgument, "TUTTI_ALGO forces both {} and {} for {}; name one of them", before->second,
                  algorithm, name);
    }
  }
  return forced;
}

std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const Setting& setting) {
  std::vector<Candidate> all = rate_all(entries(collective, setting), bytes, setting);
  std::stable_sort(all.begin(), all.end(), is_better);
  return all;
}

uint64_t decided_at(uint64_t bytes) {
  uint64_t size = uint64_t{1} << kLeastBucket;
  while (size < uint64_t{1} << kBuckets && bytes >= size + size / 2) size *= 2;
  return size;
}

uint64_t window_bytes(const plan::Algorithm& algorithm, const Setting& setting) {
  return window_of(cost_of(algorithm, setting), setting);
}

DecisionTable::DecisionTable(const Setting& setting) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const std::vector<Entry> all = entries(collective, setting);
    if (all.empty()) continue;
    warn_of_one_level(all, setting);
    auto& rows = rows_[collective];
    for (int bucket = kLeastBucket; bucket <= kBuckets; ++bucket) {
      const uint64_t bytes = uint64_t{1} << bucket;
      const auto [best, rated] = best_of(all, bytes, setting);
      if (!rated.rejected.empty()) refuse(*best, rated.rejected, setting);
      if (!rows.empty() && rows.back().choice.algorithm == best->algorithm) rows.pop_back();
      rows.push_back({bucket == kBuckets ? kUnbounded : bytes + bytes / 2, {best->algorithm, best->window}});
    }
  }
}

DecisionTable DecisionTable::parse(const std::string& text, const Setting& setting) {
  DecisionTable table;
  try {
    for (const auto& row : parse_shallow_json(text)) {
      const Collective collective = collective_named(row.at(0).get<std::string>());
      const plan::Algorithm* algorithm = plan::find_algorithm(collective, row.at(2).get<std::string>());
      const Choice choice{algorithm, whole_number(row.at(3))};
      const bool usable = algorithm != nullptr && algorithm->allows({collective, setting.ranks, setting.groups});
      if (!usable || choice.window == 0 || choice.window > kUnbounded / 2) throw Error(Code::ProtocolError, row.dump());
      table.rows_[collective].push_back({whole_number(row.at(1)), choice});
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
