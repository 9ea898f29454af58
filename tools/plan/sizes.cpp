#include "tools/plan/sizes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/format.hpp"
#include "select/explain.hpp"
#include "select/select.hpp"
#include "select/synthesised.hpp"

namespace tutti::tools {
namespace {

constexpr uint64_t kSmallest = 8, kLargest = uint64_t{1} << 30;

/// "3.1", "12.3", "1234": µs.
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return us < 10 ? fmt::format("{:.2f}", us) : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string without_hash(const std::string& name) { return name.substr(0, name.find('@')); }

/// The two ends of a row: once where they are the same.
std::string both(const std::string& first, const std::string& last) {
  return first == last ? first : first + " to " + last;
}

/// "ring 12.3", "two_shot (nvls) 4.56": what a switch folds is of another method than the plans.
std::string other_text(const SizeRow::At& at) {
  const char* const by = at.other_by == exec::methods::nvls.name ? " (nvls)" : "";
  return fmt::format("{}{} {}", at.other, by, microseconds(at.other_seconds));
}

std::string share_text(const SizeRow::At& at) { return at.of_bound ? fmt::format("{:.0f}", 100 * *at.of_bound) : "-"; }

}  // namespace

std::vector<SizeRow> sizes_of_plans(Collective collective, const select::CostInputs& inputs) {
  const select::Choices choices(collective, inputs);
  std::vector<SizeRow> rows;
  for (uint64_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
    const uint64_t block = select::block_bytes(collective, bytes, inputs.ranks);
    if (block == 0) continue;
    const auto all = choices.rated(block, {});
    const auto best = [&](bool synthesised) {
      const select::Candidate* found = nullptr;
      for (const select::Candidate& one : all) {
        const bool is = select::is_synthesised(select::name_of_algorithm(one.row));
        if (is != synthesised || !one.rejected.empty()) continue;
        if (found == nullptr || one.seconds < found->seconds) found = &one;
      }
      return found;
    };
    const select::Candidate *made = best(true), *other = best(false);
    if (made == nullptr) continue;
    SizeRow::At at{.seconds = made->seconds, .of_bound = {}, .other = {}, .other_by = {}};
    const auto least = select::least_time(*made, block, inputs);
    if (select::share_of_bound(least, made->seconds) != "-") at.of_bound = least->seconds / made->seconds;
    if (other != nullptr) {
      at.other = select::name_of_algorithm(other->row);
      at.other_by = other->row.method->name;
      at.other_seconds = other->seconds;
    }
    const std::string name = select::name_of_algorithm(made->row);
    if (rows.empty() || rows.back().plan != name)
      rows.push_back({.from = bytes, .plan = name, .first = at, .last = {}});
    rows.back().to = bytes;
    rows.back().last = at;
  }
  return rows;
}

std::string text_of(const std::vector<SizeRow>& rows) {
  std::string text;
  const auto line = [&](auto&&... cells) { text += fmt::format("  {:<14}{:<24}{:>18}{:>12}  {}\n", cells...); };
  line("bytes", "plan", "predicted", "% of bound", "the catalogue's best (times in us)");
  for (const SizeRow& row : rows) {
    line(both(to_text(Bytes{row.from}), to_text(Bytes{row.to})), without_hash(row.plan),
         both(microseconds(row.first.seconds), microseconds(row.last.seconds)),
         both(share_text(row.first), share_text(row.last)), both(other_text(row.first), other_text(row.last)));
  }
  return text;
}

std::string json_of(Collective collective, Rank ranks, const std::vector<SizeRow>& rows) {
  using nlohmann::ordered_json;
  ordered_json page{{"collective", name_of(collective)}, {"ranks", ranks}, {"sizes", ordered_json::array()}};
  const auto end = [](const SizeRow::At& at) {
    ordered_json object{{"seconds", at.seconds}};
    if (at.of_bound) object["of_bound"] = *at.of_bound;
    if (!at.other.empty()) {
      object["catalogue"] = {{"algorithm", at.other}, {"method", at.other_by}, {"seconds", at.other_seconds}};
    }
    return object;
  };
  for (const SizeRow& row : rows) {
    page["sizes"].push_back(
        {{"from", row.from}, {"to", row.to}, {"plan", row.plan}, {"first", end(row.first)}, {"last", end(row.last)}});
  }
  return page.dump(2) + "\n";
}

}  // namespace tutti::tools
