#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "control/status/ras/report.hpp"
#include "control/status/ras/summary.hpp"

namespace tutti::control::ras {
namespace {

using nlohmann::ordered_json;

ordered_json to_page(const Rank& rank) {
  ordered_json counts;
  for (size_t i = 0; i < kCounted.size(); ++i) counts[kCounted[i]] = rank.counts[i];
  return {{"rank", rank.rank},
          {"host", rank.place.node},
          {"pid", rank.place.process},
          {"cuda_dev", rank.place.device},
          {"nvml_dev", rank.place.device},
          {"status",
           {{"init_state", 0},
            {"async_error", rank.error},
            {"finalize_called", rank.state == State::Finalize},
            {"destroy_flag", false},
            {"abort_flag", rank.state == State::Abort}}},
          {"collective_counts", counts}};
}

ordered_json to_page(const Missing& rank) {
  return {{"rank", rank.rank},
          {"host", rank.place.node},
          {"pid", rank.place.process},
          {"cuda_dev", rank.place.device},
          {"nvml_dev", rank.place.device},
          {"status", {{"unresponsive", rank.unresponsive}, {"considered_dead", rank.dead}}}};
}

ordered_json to_page(const Communicator& communicator) {
  ordered_json page{{"hash", fmt::format("0x{:x}", communicator.hash)},
                    {"secondary_hash", "0x0:0x0"},
                    {"size", communicator.size},
                    {"ranks_count", communicator.ranks.size()},
                    {"missing_ranks_count", communicator.missing.size()}};
  page["ranks"] = ordered_json::array();
  for (const Rank& rank : communicator.ranks) page["ranks"].push_back(to_page(rank));
  page["missing_ranks"] = ordered_json::array();
  for (const Missing& rank : communicator.missing) page["missing_ranks"].push_back(to_page(rank));
  return page;
}

}  // namespace

std::string to_json(const Job& job, const std::string& timestamp) {
  ordered_json page{{"nccl_version", fmt::format("{} (Tutti {})", kNcclVersion, job.version)},
                    {"cuda_runtime_version", 0},
                    {"cuda_driver_version", 0},
                    {"timestamp", timestamp},
                    {"communicators_count", job.communicators.size()}};
  page["communicators"] = ordered_json::array();
  for (const Communicator& communicator : job.communicators) page["communicators"].push_back(to_page(communicator));
  page["ras"] = {{"collection_time_sec", std::round(job.seconds * 1e3) / 1e3},
                 {"timeouts_count", silent_processes(job)}};
  return page.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::control::ras
