#include "tools/watch/history.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/secret.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxRank = 1 << 16;

ordered_json to_json(const TopRow& row) {
  return {{"rank", row.rank},         {"host", row.host},       {"process", row.process},
          {"state", row.state},       {"calls", row.calls},     {"sent", row.sent},
          {"received", row.received}, {"waiting", row.waiting}, {"awaited_by", row.awaited_by},
          {"doing", doing_text(row)}};
}

ordered_json waits_json(const std::vector<std::pair<int64_t, std::vector<int64_t>>>& waits) {
  ordered_json all = ordered_json::array();
  for (size_t i = 0; i < std::min(waits.size(), History::kMaxRows); ++i) {
    std::vector<int64_t> whom = waits[i].second;
    whom.resize(std::min(whom.size(), History::kMaxAwaited));
    all.push_back({waits[i].first, std::move(whom)});
  }
  return all;
}

}  // namespace

History::History(double interval) : interval_(interval), run_(random_u64() >> 12) {}  // JavaScript's integers: 53 bits

void History::add(TopTable table, double seconds) {
  Sample sample{.number = ++last_, .seconds = seconds, .waiting = {}};
  for (const TopRow& row : table.rows) {
    sample.calls += row.calls;
    sample.sent += row.sent;
    if (row.rank < 0 || row.rank >= kMaxRank) continue;
    const auto rank = static_cast<size_t>(row.rank);
    if (rank >= sample.waiting.size()) sample.waiting.resize(rank + 1, -1);
    if (row.state == "answers") sample.waiting[rank] = static_cast<int8_t>(std::lround(row.waiting * 100));
  }
  cells_ += sample.waiting.size();
  samples_.push_back(std::move(sample));
  while (samples_.size() > kMaxSamples || (cells_ > kMaxCells && samples_.size() > 1)) {
    cells_ -= samples_.front().waiting.size();
    samples_.pop_front();
  }
  sort_rows(table.rows, TopOrder::Worst);
  now_ = std::move(table);
  if (!now_.rows.empty()) last_seen_ = now_;
  error_.clear();
}

std::string History::page(uint64_t after) const {
  const TopTable& job = error_.empty() || last_seen_.rows.empty() ? now_ : last_seen_;
  ordered_json page{{"title", job.title}, {"processes", job.processes}, {"hosts", job.hosts}, {"interval", interval_}};
  page["rows"] = ordered_json::array();
  for (size_t i = 0; i < std::min(job.rows.size(), kMaxRows); ++i) page["rows"].push_back(to_json(job.rows[i]));
  page["waits"] = waits_json(job.waits);
  page["verdicts"] = job.verdicts;
  page["error"] = error_.empty() ? ordered_json() : ordered_json(error_);
  page["run"] = run_;
  page["last"] = last_;
  page["samples"] = ordered_json::array();
  for (const Sample& sample : samples_) {
    if (sample.number <= after) continue;
    ordered_json waiting = ordered_json::array();
    for (const int8_t share : sample.waiting) waiting.push_back(share < 0 ? ordered_json() : ordered_json(share));
    page["samples"].push_back({{"number", sample.number},
                               {"seconds", sample.seconds},
                               {"calls", sample.calls},
                               {"sent", sample.sent},
                               {"waiting", std::move(waiting)}});
  }
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tutti::tools
