#include "select/select.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/bytes.hpp"
#include "base/format.hpp"
#include "select/deliveries.hpp"
#include "select/entries.hpp"
#include "select/synthesised.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr double kNoise = 1.05;   // by which times of equally fast algorithms differ from one measurement to the next
constexpr double kAsGood = 1.03;  // of fewer blocks: the others are left to the user's kernels
constexpr double kModelNoise = 1.02;  // the model counts no copies inside a rank: times so near to each other are equal
constexpr int kLeastBucket = 3, kBuckets = 40;  // sizes are decided by powers of two, up to 1 TiB

exec::Reduction reduction_of(const CallKind& kind, const CostInputs& inputs) {
  return {.type = kind.type, .op = kind.op, .round_each = inputs.reproducible};
}

/// Of a reduce in host memory, where messages are staged and every rank has a core.
bool overlaps(const Entry& entry, const CostInputs& inputs) {
  const HandOver& over = inputs.hand_over;
  return entry.algorithm->collective == Collective::Reduce && entry.usable->method->is_on_host() &&
         inputs.inside.in_place && inputs.oversubscription <= 1 && !over.always_cma &&
         over.reading != transports::ReadAccess::Direct;
}

Predicted predict_width(const Entry& entry, uint64_t bytes, const CostInputs& inputs, uint32_t width) {
  plan::Cost cost = entry.cost;
  exec::Prices plain = prices_of(inputs);
  plain.overlaps = overlaps(entry, inputs);
  exec::Prices prices = plain;
  const exec::Method& method = *entry.usable->method;
  if (method.price != nullptr) method.price(cost, prices, inputs.ranks, width);
  const uint64_t window = method.is_on_host() || width == 1 ? entry.window : std::min(entry.window, bytes / width);
  // As the simulator has it, plans along groups and those made for a machine overlap near and far messages on GPUs;
  // others alternate between the links.
  const bool for_links = plan::needs_groups(*entry.algorithm, inputs.ranks) || is_synthesised(entry.algorithm->name);
  const bool overlap = !method.is_on_host() && for_links;
  const uint32_t replicas = overlap ? width : 1;
  const Predicted closed = predict(cost, bytes, window, prices, replicas);
  if (!entry.traffic) return closed;
  Predicted counted = predict(*entry.traffic, entry.cost, bytes, window, plain, replicas);
  if (method.price == nullptr) return counted;
  // What the method adds to the plan's costs, or takes from them, is that of the closed form.
  const Predicted without = predict(entry.cost, bytes, window, plain, replicas);
  counted.latency = std::max(0.0, counted.latency + closed.latency - without.latency);
  counted.bandwidth = std::max(0.0, counted.bandwidth + closed.bandwidth - without.bandwidth);
  return counted;
}

uint32_t max_width(const Entry& entry, uint64_t bytes, const CostInputs& inputs) {
  const UsableMethod& usable = *entry.usable;
  if (!usable.method->wide) return 1;
  const uint32_t most = usable.width > 0 ? std::min(usable.width, inputs.max_width) : inputs.max_width;
  uint64_t least = usable.least_window;
  // Threads of a rank: a short call is done before another thread has woken.
  if (usable.method->is_on_host()) least = std::max(least, machine_constants().block_per_thread);
  if (least == 0) return most;
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / least, 1, most));
}

/// On the host, as wide as can be; on a device the fewest blocks with which the predicted time is close to the best.
uint32_t width_of(const Entry& entry, uint64_t bytes, const CostInputs& inputs) {
  const uint32_t most = max_width(entry, bytes, inputs);
  if (most == 1 || entry.usable->method->is_on_host()) return most;
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t width = 1; width <= most; ++width) {
    best = std::min(best, predict_width(entry, bytes, inputs, width).seconds());
  }
  uint32_t fewest = 1;
  while (fewest < most && predict_width(entry, bytes, inputs, fewest).seconds() > kAsGood * best) ++fewest;
  return fewest;
}

/// The best of a few widths: for comparing candidates.
Predicted predict_best(const Entry& entry, uint64_t bytes, const CostInputs& inputs) {
  const uint32_t most = max_width(entry, bytes, inputs);
  Predicted best = predict_width(entry, bytes, inputs, most);
  if (entry.usable->method->is_on_host()) return best;
  for (uint32_t width = 1; width < most; width *= 2) {
    const Predicted predicted = predict_width(entry, bytes, inputs, width);
    if (predicted.seconds() < best.seconds()) best = predicted;
  }
  return best;
}

/// Why a call of this size and kind cannot run so; "" if it can.
std::string why_not(const Entry& entry, uint64_t bytes, const CallKind& kind, const CostInputs& inputs, bool measured) {
  const UsableMethod& usable = *entry.usable;
  const exec::Method& method = *usable.method;
  if (reduces(entry.algorithm->collective) && method.supports != nullptr &&
      !method.supports(reduction_of(kind, inputs))) {
    return fmt::format("it cannot fold {} of {}", name_of(kind.op), name_of(kind.type));
  }
  const uint64_t rounds = (bytes + entry.window - 1) / entry.window;
  if (usable.rounds > 0 && rounds > usable.rounds && !(entry.forced_method && usable.message > 0)) {
    return fmt::format("it takes {} rounds of {}, where {} has at most {}", rounds, to_text(Bytes{entry.window}),
                       method.name, usable.rounds);
  }
  if (method.only_modelled && !entry.forced_method && !measured) {
    return fmt::format("{} has not run between GPUs yet, so it runs only where TUTTI_METHOD forces it", method.name);
  }
  return "";
}

/// Bytes of a block that a round moves. If every message is certain to be read in its sender's memory, staging memory
/// does not limit the window: messages are then fewer and longer.
uint64_t row_window(const Entry& entry, uint64_t bytes, const Row& row, const CallKind& kind,
                    const CostInputs& inputs) {
  using transports::ReadAccess;
  constexpr uint64_t kGrain = 128;
  const uint64_t staged = std::max(kGrain, entry.window / (inputs.shares_staging ? row.width : 1));
  if (!row.method->is_on_host()) return staged;
  const HandOver& over = inputs.hand_over;
  const bool read = over.reading == ReadAccess::Direct ||
                    (over.reading == ReadAccess::Cma && row.deliveries.cma_from != link::kNever);
  const bool lent = entry.algorithm->lends && kind.op != Op::PreMulSum && bytes >= zcopy_from(over);
  return read && lent ? std::max(entry.window, machine_constants().zcopy_longest) : staged;
}

Row row_of(const Entry& entry, uint64_t bytes, const CallKind& kind, const CostInputs& inputs) {
  Row row{.algorithm = entry.algorithm, .method = entry.usable->method};
  if (!entry.rejected.empty()) return row;
  row.width = width_of(entry, bytes, inputs);
  if (row.method->is_on_host()) {
    row.deliveries = deliveries_of(entry.algorithm->collective, bytes, inputs.ranks, inputs.hand_over);
    if (!entry.algorithm->direct_stores) row.deliveries.direct_store_from = link::kNever;
  }
  if (row.method->reads_in_place) row.deliveries.mapped_from = 0;
  row.window = row_window(entry, bytes, row, kind, inputs);
  return row;
}

/// Are its messages read where they lie, in memory that peers can map or read? (Then nothing is staged.)
bool reads_in_place(const Entry& entry, uint64_t bytes, const CallKind& kind, const CostInputs& inputs) {
  const bool two_levels = inputs.groups != nullptr && inputs.groups->has_two_levels();
  return entry.algorithm->lends && entry.usable->method->is_on_host() && kind.op != Op::PreMulSum &&
         inputs.inside.in_place && (!two_levels || inputs.between.in_place) && bytes >= zcopy_from(inputs.hand_over);
}

Candidate rate(const Entry& entry, uint64_t bytes, const CallKind& kind, const CostInputs& inputs) {
  Candidate candidate{.row = {.algorithm = entry.algorithm, .method = entry.usable->method},
                      .rejected = entry.rejected,
                      .outdone = entry.outdone,
                      .never = !entry.rejected.empty(),
                      .preferred = entry.preferred};
  if (candidate.rejected.empty()) {
    if (inputs.profile != nullptr) {
      candidate.measured = inputs.profile->seconds(inputs.situation, entry.algorithm->collective,
                                                   candidate_name(entry.algorithm->name, *entry.usable->method), bytes);
    }
    candidate.rejected = why_not(entry, bytes, kind, inputs, candidate.measured.has_value());
  }
  if (!candidate.rejected.empty()) return candidate;
  candidate.predicted = predict_best(entry, bytes, inputs);
  candidate.stages = entry.cost.stages;
  candidate.reads_in_place = reads_in_place(entry, bytes, kind, inputs);
  if (entry.traffic) candidate.where = entry.traffic->where;
  candidate.seconds = candidate.measured.value_or(candidate.predicted.seconds());
  return candidate;
}

/// Of measured algorithms that are level, the model's favourite comes first: it is the same at neighbouring sizes, and
/// in the next measurement. Of predicted ones, the one that copies least: the model does not count staging. What the
/// user demands comes before what it outdoes, because its rejection has a reason of its own; and what only this call
/// cannot use before what no call can.
bool is_better(const Candidate& a, const Candidate& b) {
  if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
  if (!a.rejected.empty()) return std::pair(a.outdone, a.never) < std::pair(b.outdone, b.never);
  if (a.preferred != b.preferred) return a.preferred;
  if (a.measured.has_value() != b.measured.has_value()) return a.measured.has_value();
  if (a.level != b.level) return a.level;
  if (a.level && !a.measured && a.reads_in_place != b.reads_in_place) return a.reads_in_place;
  if (a.level && a.predicted.seconds() != b.predicted.seconds()) return a.predicted.seconds() < b.predicted.seconds();
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  // Prefer longer messages: lent ones need no staging memory, the others share it among their stages.
  if (a.row.algorithm->lends != b.row.algorithm->lends) return a.row.algorithm->lends;
  return a.stages < b.stages;
}

/// Finds those that are as fast as the best one but for noise. Measured ones are compared with each other, and so are
/// predicted ones; those whose method the user prefers come before all others, so they have a best one of their own.
void mark_level(std::vector<Candidate>& all) {
  std::map<std::pair<bool, bool>, double> least;
  const auto class_of = [](const Candidate& c) { return std::pair(c.measured.has_value(), c.preferred); };
  for (const Candidate& candidate : all) {
    if (!candidate.rejected.empty()) continue;
    const auto [at, is_first] = least.try_emplace(class_of(candidate), candidate.seconds);
    if (!is_first) at->second = std::min(at->second, candidate.seconds);
  }
  for (Candidate& candidate : all) {
    if (!candidate.rejected.empty()) continue;
    candidate.level = candidate.seconds <= (candidate.measured ? kNoise : kModelNoise) * least[class_of(candidate)];
  }
}

}  // namespace

struct Choices::Impl {
  Collective collective;
  CostInputs inputs;  // before the entries, which refer to it
  std::vector<Entry> entries;
  struct Best {
    Candidate candidate;
    size_t entry = 0;
  };
  std::map<std::pair<uint64_t, bool>, Best> known;  // by size, and whether all methods can fold so

  std::vector<Candidate> rate_all(uint64_t bytes, const CallKind& kind) const {
    std::vector<Candidate> all;
    all.reserve(entries.size());
    for (const Entry& entry : entries) all.push_back(rate(entry, bytes, kind, inputs));
    mark_level(all);
    return all;
  }
  bool folds_by_all(const CallKind& kind) const {
    return std::all_of(inputs.methods.begin(), inputs.methods.end(), [&](const UsableMethod& usable) {
      return usable.method->supports == nullptr || usable.method->supports(reduction_of(kind, inputs));
    });
  }
  const Best& best(uint64_t bytes, const CallKind& kind) {
    const auto [at, is_new] = known.try_emplace({bytes, folds_by_all(kind)});
    if (!is_new) return at->second;
    std::vector<Candidate> all = rate_all(bytes, kind);
    const auto found = std::min_element(all.begin(), all.end(), is_better);
    at->second = {std::move(*found), static_cast<size_t>(found - all.begin())};
    return at->second;
  }
};

Choices::Choices(Collective collective, const CostInputs& inputs)
    : impl_(new Impl{.collective = collective, .inputs = inputs, .entries = {}, .known = {}}) {
  impl_->entries = entries_of(collective, impl_->inputs);
}
Choices::~Choices() = default;

bool Choices::none() const { return impl_->entries.empty(); }

std::vector<Candidate> Choices::rated(uint64_t bytes, const CallKind& kind) const {
  std::vector<Candidate> all = impl_->rate_all(bytes, kind);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].rejected.empty()) all[i].row = row_of(impl_->entries[i], bytes, kind, impl_->inputs);
  }
  std::stable_sort(all.begin(), all.end(), is_better);
  return all;
}

Row Choices::row(uint64_t bytes, const CallKind& kind) {
  const Impl::Best& best = impl_->best(decided_at(bytes), kind);
  const Entry& entry = impl_->entries[best.entry];
  if (!entry.rejected.empty()) refuse(entry, entry.rejected, impl_->inputs);
  Row row = row_of(entry, bytes, kind, impl_->inputs);
  row.refused = best.candidate.rejected;
  return row;
}

std::vector<uint64_t> Choices::steps() const {
  const CostInputs& inputs = impl_->inputs;
  std::vector<uint64_t> steps;
  for (int bucket = kLeastBucket; bucket < kBuckets; ++bucket) steps.push_back((uint64_t{3} << bucket) / 2);
  if (!inputs.methods.front().method->is_on_host()) return steps;
  for (const uint64_t step : delivery_steps(impl_->collective, inputs.ranks, inputs.hand_over)) steps.push_back(step);
  steps.push_back(zcopy_from(inputs.hand_over));
  for (uint64_t width = 2; width <= inputs.max_width; ++width) {
    steps.push_back(width * machine_constants().block_per_thread);
  }
  return steps;
}

void Choices::warn() const { warn_of_one_level(impl_->entries, impl_->inputs); }

std::vector<Candidate> candidates(Collective collective, uint64_t bytes, const CostInputs& inputs,
                                  const CallKind& kind) {
  return Choices(collective, inputs).rated(bytes, kind);
}

uint64_t decided_at(uint64_t bytes) {
  uint64_t size = uint64_t{1} << kLeastBucket;
  while (size < uint64_t{1} << kBuckets && bytes >= size + size / 2) size *= 2;
  return size;
}

}  // namespace tutti::select
