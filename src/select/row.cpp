#include "select/row.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/format.hpp"

namespace tutti::select {

uint64_t window_for(const Row& row, uint64_t block) {
  constexpr uint64_t kGrain = 128;
  const auto parts = [](uint64_t bytes, uint64_t of) { return (bytes + of - 1) / of; };
  uint64_t most = row.window;
  if (row.width > 1) most = std::min(most, std::max(kGrain, parts(block, row.width)));
  if (block <= most) return most;
  return parts(parts(block, parts(block, most)), kGrain) * kGrain;
}

std::string sizes_text(const Row& row, uint64_t block) {
  const uint64_t window = window_for(row, block);
  const std::string rounds = window >= block ? "one round" : fmt::format("rounds of {}", to_text(Bytes{window}));
  return row.width == 1 ? rounds : fmt::format("{}, width {}", rounds, row.width);
}

std::string deliveries_text(const exec::DeliveryRules& rules) {
  std::string text;
  const auto add = [&](const char* name, uint64_t from) {
    if (from == link::kNever) return;
    text += fmt::format("{}{} from {}", text.empty() ? "" : ", ", name, to_text(Bytes{from}));
  };
  add("zcopy", rules.address_from);
  add("mapped", rules.mapped_from);
  add("cma", rules.cma_from);
  add("cooperative", rules.cooperative_from);
  return text.empty() ? "all staged" : text;
}

}  // namespace tutti::select
