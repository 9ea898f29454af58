// The decision table: rank 0's rows for all calls, which all ranks share. A row depends only on what is equal on all
// ranks (collective, size, type, operator), so all ranks find the same one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "select/inputs.hpp"
#include "select/row.hpp"

namespace tutti::select {

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Throws Error(Unsupported), which names TUTTI_ALGO or TUTTI_METHOD, if what they force cannot be used.
  explicit DecisionTable(const CostInputs& inputs);
  /// Reads the table that rank 0 sent; its groups, if it has any, stand in place of those of `inputs`. Throws
  /// Error(ProtocolError) for an invalid text, and for rows that cannot be used with these ranks and groups.
  static DecisionTable parse(const std::string& text, CostInputs inputs);
  std::string text() const;

  /// Of a call with blocks of `bytes` bytes. Throws Error(Unsupported) where TUTTI_METHOD forces what cannot run it.
  const Row& row(Collective collective, uint64_t bytes, const CallKind& kind) const;
  /// That plans are drawn on, but for collectives that have an order of their own: CostInputs::own_orders.
  const plan::RankOrder& order() const { return order_; }
  const std::map<Collective, plan::RankOrder>& own_orders() const { return own_orders_; }
  const plan::RankOrder& order_of(Collective collective) const {
    const auto own = own_orders_.find(collective);
    return own == own_orders_.end() ? order_ : own->second;
  }
  /// The groups that plans work along.
  const std::shared_ptr<const plan::Grouping>& groups() const { return groups_; }
  /// Of transfers and vector calls: their window is that of a message.
  const Row& direct() const { return direct_; }

  struct Bounded {
    uint64_t below;  ///< for blocks of fewer bytes
    Row row;
    bool operator==(const Bounded&) const = default;
  };
  /// All rows of calls whose operator has no scalar and that every method can fold, by size.
  const std::vector<Bounded>& rows(Collective collective) const;

 private:
  /// Kinds of calls with rows of their own: bits.
  enum Kind : uint8_t { kPlain = 0, kScaled = 1, kUnsupported = 2 };
  uint8_t kind_of(const CallKind& kind) const;
  void add(Collective collective, const CostInputs& inputs);

  std::map<std::pair<Collective, uint8_t>, std::vector<Bounded>> rows_;
  const exec::Method* partial_ = nullptr;  // the method among the rows that does not fold everything
  bool round_each_ = false;                // small floats round at every node
  Row direct_;
  plan::RankOrder order_;
  std::map<Collective, plan::RankOrder> own_orders_;
  std::shared_ptr<const plan::Grouping> groups_;
};

}  // namespace tutti::select
