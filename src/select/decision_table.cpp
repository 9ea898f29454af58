#include "select/decision_table.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "base/shallow_json.hpp"
#include "select/deliveries.hpp"
#include "select/select.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

using exec::DeliveryRules;
using nlohmann::json;

constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxWindow = uint64_t{1} << 62;
constexpr uint64_t kMaxWidth = 4096;
constexpr const char* kDirect = "direct";

/// Rules, numbered: most rows have the same.
class Rules {
 public:
  size_t number(const DeliveryRules& rules) {
    const auto known = std::find(all_.begin(), all_.end(), rules);
    if (known != all_.end()) return static_cast<size_t>(known - all_.begin());
    all_.push_back(rules);
    return all_.size() - 1;
  }
  json text() const {
    json list = json::array();
    for (const DeliveryRules& rules : all_) {
      list.push_back(
          {rules.address_from, rules.mapped_from, rules.cma_from, rules.cooperative_from, rules.direct_store_from});
    }
    return list;
  }
  static std::vector<DeliveryRules> parse(const json& list) {
    std::vector<DeliveryRules> all;
    for (const json& one : list) {
      const auto at = [&](size_t i) { return whole_number(one.at(i)); };
      all.push_back({.address_from = at(0),
                     .mapped_from = at(1),
                     .cma_from = at(2),
                     .cooperative_from = at(3),
                     .direct_store_from = at(4)});
    }
    return all;
  }

 private:
  std::vector<DeliveryRules> all_;
};

/// Both ends must split a transfer alike, so the length of messages depends only on what both know.
Row direct_row(const CostInputs& inputs) {
  const uint64_t share =
      inputs.staging / machine_constants().transfer_staging / link::kSlots / static_cast<uint64_t>(inputs.ranks);
  const uint64_t most = std::min(inputs.message, share);
  Row row{.method = inputs.methods.front().method,
          .window = std::max<uint64_t>(link::kStride, most / link::kStride * link::kStride)};
  if (row.method->is_on_host()) row.deliveries = deliveries_of_transfers(inputs.hand_over);
  return row;
}

json text_of(const Row& row, Rules& rules) {
  json text = {name_of_algorithm(row), row.method->name, row.window, row.width, rules.number(row.deliveries)};
  if (!row.refused.empty()) text.push_back(row.refused);
  return text;
}

Row row_from(const json& text, Collective collective, const std::vector<DeliveryRules>& rules,
             const CostInputs& inputs) {
  const auto fail = [&] { throw Error(Code::ProtocolError, text.dump()); };
  const exec::Method* const method = exec::find_method(text.at(1).get<std::string>());
  const auto algorithm = text.at(0).get<std::string>();
  Row row{.algorithm = algorithm == kDirect ? nullptr : plan::find_algorithm(collective, algorithm),
          .method = method,
          .window = whole_number(text.at(2)),
          .deliveries = rules.at(whole_number(text.at(4)))};
  if (text.size() > 5) row.refused = text.at(5).get<std::string>();
  const uint64_t width = whole_number(text.at(3));
  if (method == nullptr || row.window == 0 || row.window > kMaxWindow || width == 0 || width > kMaxWidth) fail();
  row.width = static_cast<uint32_t>(width);
  if (method->backend != inputs.methods.front().method->backend) fail();
  if ((row.algorithm == nullptr) != (collective == Collective::SendRecv)) fail();
  if (row.algorithm != nullptr && !row.algorithm->allows({collective, inputs.ranks, inputs.groups})) fail();
  return row;
}

/// A number below the number of ranks for each of them, or for none.
std::vector<Rank> ranks_from(const json& list, Rank ranks) {
  std::vector<Rank> read;
  for (const json& one : list) {
    const uint64_t number = whole_number(one);
    if (number >= static_cast<uint64_t>(ranks)) throw Error(Code::ProtocolError, one.dump());
    read.push_back(static_cast<Rank>(number));
  }
  if (!read.empty() && read.size() != static_cast<size_t>(ranks)) throw Error(Code::ProtocolError, "ranks");
  return read;
}

std::vector<Rank> ranks_of(const plan::RankOrder& order) { return {order.ranks().begin(), order.ranks().end()}; }

/// The group of each rank; none: there is but one level.
std::vector<Rank> labels_of(const plan::Grouping* groups) {
  std::vector<Rank> labels;
  for (Rank rank = 0; groups != nullptr && groups->has_two_levels() && rank < groups->ranks(); ++rank)
    labels.push_back(groups->group_of(rank));
  return labels;
}

}  // namespace

DecisionTable::DecisionTable(const CostInputs& inputs)
    : round_each_(inputs.reproducible),
      direct_(direct_row(inputs)),
      order_(inputs.order),
      own_orders_(inputs.own_orders),
      groups_(inputs.groups) {
  for (const UsableMethod& usable : inputs.methods) {
    if (usable.method->supports != nullptr && usable.why_not.empty()) partial_ = usable.method;
  }
  for (int i = 0; i < kCollectives; ++i) add(static_cast<Collective>(i), inputs);
}

void DecisionTable::add(Collective collective, const CostInputs& inputs) {
  Choices choices(collective, inputs);
  if (choices.none()) return;
  choices.warn();
  std::vector<uint64_t> bounds = choices.steps();
  bounds.push_back(kUnbounded);
  std::sort(bounds.begin(), bounds.end());
  const auto rows_for = [&](const CallKind& kind) {
    std::vector<Bounded> rows;
    uint64_t from = 0;
    for (const uint64_t below : bounds) {
      if (below <= from) continue;
      Row row = choices.row(from, kind);
      if (!rows.empty() && rows.back().row == row) rows.pop_back();
      rows.push_back({below, std::move(row)});
      from = below;
    }
    return rows;
  };
  const std::vector<Bounded>& plain = rows_[{collective, kPlain}] = rows_for({DType::I32, Op::Sum});
  if (!reduces(collective)) return;
  const auto add_other = [&](uint8_t key, const CallKind& kind) {
    std::vector<Bounded> rows = rows_for(kind);
    if (rows != plain) rows_[{collective, key}] = std::move(rows);
  };
  add_other(partial_ == nullptr ? kScaled : kScaled | kUnsupported, {DType::F32, Op::PreMulSum});
  if (partial_ != nullptr) add_other(kUnsupported, {DType::F32, Op::Prod});
}

uint8_t DecisionTable::kind_of(const CallKind& kind) const {
  uint8_t bits = kind.op == Op::PreMulSum ? kScaled : kPlain;
  const exec::Reduction how{.type = kind.type, .op = kind.op, .round_each = round_each_};
  if (partial_ != nullptr && !partial_->supports(how)) bits |= kUnsupported;
  return bits;
}

const std::vector<DecisionTable::Bounded>& DecisionTable::rows(Collective collective) const {
  static const std::vector<Bounded>* const kNothing = new std::vector<Bounded>;
  const auto found = rows_.find({collective, kPlain});
  return found == rows_.end() ? *kNothing : found->second;
}

const Row& DecisionTable::row(Collective collective, uint64_t bytes, const CallKind& kind) const {
  auto found = rows_.find({collective, reduces(collective) ? kind_of(kind) : uint8_t{kPlain}});
  if (found == rows_.end()) found = rows_.find({collective, kPlain});
  if (found == rows_.end() || found->second.empty()) {
    throw_error(Code::Unsupported, "there is no algorithm for {}", name_of(collective));
  }
  const std::vector<Bounded>& rows = found->second;
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Bounded& row) { return bytes < row.below; });
  const Row& row = at == rows.end() ? rows.back().row : at->row;
  if (!row.refused.empty()) {
    const bool folds =
        partial_ == nullptr || partial_->supports({.type = kind.type, .op = kind.op, .round_each = round_each_});
    throw_error(Code::Unsupported, "TUTTI_METHOD forces {} for {}: {}", row.method->name, name_of(collective),
                folds ? row.refused : fmt::format("it cannot fold {} of {}", name_of(kind.op), name_of(kind.type)));
  }
  return row;
}

std::string DecisionTable::text() const {
  Rules rules;
  json rows = json::array();
  for (const auto& [key, list] : rows_) {
    for (const Bounded& one : list) {
      rows.push_back({name_of(key.first), key.second, one.below, text_of(one.row, rules)});
    }
  }
  const json direct = text_of(direct_, rules);
  json own_orders = json::object();
  for (const auto& [collective, order] : own_orders_) own_orders[name_of(collective)] = ranks_of(order);
  const json page = {{"rows", rows},
                     {"direct", direct},
                     {"rules", rules.text()},
                     {"order", ranks_of(order_)},
                     {"own_orders", own_orders},
                     {"groups", labels_of(groups_.get())},
                     {"partial", partial_ == nullptr ? "" : partial_->name},
                     {"round_each", round_each_}};
  return page.dump();
}

DecisionTable DecisionTable::parse(const std::string& text, CostInputs inputs) {
  DecisionTable table;
  try {
    const json page = parse_shallow_json(text);
    const std::vector<Rank> labels = ranks_from(page.at("groups"), inputs.ranks);
    if (!labels.empty()) inputs.groups = std::make_shared<const plan::Grouping>(labels);
    table.groups_ = inputs.groups;
    const std::vector<DeliveryRules> rules = Rules::parse(page.at("rules"));
    for (const json& row : page.at("rows")) {
      const Collective collective = collective_named(row.at(0).get<std::string>());
      const uint64_t kind = whole_number(row.at(1));
      if (kind > (kScaled | kUnsupported)) throw Error(Code::ProtocolError, row.dump());
      auto& list = table.rows_[{collective, static_cast<uint8_t>(kind)}];
      const uint64_t below = whole_number(row.at(2));
      if (!list.empty() && below <= list.back().below) throw Error(Code::ProtocolError, row.dump());
      list.push_back({below, row_from(row.at(3), collective, rules, inputs)});
    }
    table.direct_ = row_from(page.at("direct"), Collective::SendRecv, rules, inputs);
    const auto partial = page.at("partial").get<std::string>();
    table.partial_ = partial.empty() ? nullptr : exec::find_method(partial);
    if (!partial.empty() && (table.partial_ == nullptr || table.partial_->supports == nullptr)) {
      throw Error(Code::ProtocolError, partial);
    }
    table.round_each_ = page.at("round_each").get<bool>();
    table.order_ = plan::RankOrder(ranks_from(page.at("order"), inputs.ranks));
    for (const auto& [name, ranks] : page.at("own_orders").items()) {
      table.own_orders_[collective_named(name)] = plan::RankOrder(ranks_from(ranks, inputs.ranks));
    }
  } catch (const std::exception& error) {
    throw_error(Code::ProtocolError, "rank 0's decision table cannot be read ({})", error.what());
  }
  return table;
}

}  // namespace tutti::select
