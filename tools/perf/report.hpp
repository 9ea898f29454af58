// Rank 0's output of a run: the table, the progress line, the JSON file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/perf/bench.hpp"
#include "tools/perf/bound.hpp"
#include "tools/perf/options.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/progress.hpp"

namespace tutti::tools {

class Report {
 public:
  /// `rows`: all rows of the run. `bounds`: of its collective; none: unknown, or not asked for.
  Report(const PerfOptions& options, std::vector<RankPlace> places, const std::vector<PerfRow>& rows,
         Bounds bounds = {});

  /// Does what is written with --json take the standard output, in place of the table?
  bool output_taken() const;
  void header() const;
  /// `in_place` is empty if the collective has no such form.
  void row(const PerfRow& row, const Measurement& out_of_place, const std::optional<Measurement>& in_place);
  void footer() const;
  /// Throws Error(SystemError) naming the file.
  void write_json() const;

 private:
  struct Line {
    PerfRow row;
    Measurement out_of_place;
    std::optional<Measurement> in_place;
  };
  /// A single rank, which sends nothing.
  bool alone() const { return places_.size() == 1; }
  double algbw(const PerfRow& row, const Measurement& m) const;
  double busbw(const PerfRow& row, const Measurement& m) const;
  /// That of the bound which holds for the method that ran the calls; 0: unknown.
  double bound_busbw(const PerfRow& row, const Measurement& m) const;
  std::string columns(std::string_view size, std::string_view count, std::string_view type, std::string_view op,
                      std::string_view root) const;
  std::string half(const PerfRow& row, const std::optional<Measurement>& m) const;
  double average_busbw() const;
  uint64_t wrong() const;

  const PerfOptions& options_;
  std::vector<RankPlace> places_;
  Bounds bounds_;
  std::vector<Line> lines_;
  struct {
    size_t size = 6, count = 5, type = 4, op = 5;
  } widths_;  // of columns; at least their headings'
};

}  // namespace tutti::tools
