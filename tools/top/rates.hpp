// What each rank of a job has done between two answers of `tutti status`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

struct TopRow {
  int64_t rank = 0;
  std::string host;
  uint32_t process = 0;
  std::string state;              ///< "answers", "silent", "stopped", "gone", "failed"
  double calls = 0;               ///< a second
  double sent = 0, received = 0;  ///< bytes a second
  double waiting = 0;             ///< share of the time, in waits longer than a moment
  size_t awaited_by = 0;          ///< ranks that wait for it now
  std::string call;               ///< the one that it has entered last
  std::string whom;               ///< for which rank it waits now: "3", "1-3"; "": for none
};

struct TopTable {
  std::string title;  ///< of the communicator by which ranks are numbered: the job's largest
  size_t processes = 0, hosts = 0;
  std::vector<TopRow> rows;
  std::vector<std::pair<int64_t, std::vector<int64_t>>> waits;  ///< ranks that wait now, and for whom
  std::vector<std::string> verdicts;
};

enum class TopOrder : uint8_t { Worst, Waiting, Calls, Sent, Rank };
inline constexpr int kTopOrders = 5;
const char* name_of(TopOrder order);

/// `before` and `now`: pages of control/status/job_status.hpp, `seconds` apart. A process's row counts its calls on all
/// communicators; with several ranks in the largest one, each rank's on that one. Throws nlohmann::json::exception.
TopTable top_table(const nlohmann::json& before, const nlohmann::json& now, double seconds);

/// What the rank does now: "waits for 3: barrier()".
std::string doing_text(const TopRow& row);

/// Worst: first those without an answer, then those for which most ranks wait, then those that wait most.
void sort_rows(std::vector<TopRow>& rows, TopOrder order);

/// Lines of at most `width` columns, at most `height` of them (0: all).
std::string top_text(const TopTable& table, TopOrder order, size_t width, size_t height);

}  // namespace tutti::tools
