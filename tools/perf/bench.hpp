// Measures and checks a collective on one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf/gpu.hpp"
#include "tools/perf/guarded_buffer.hpp"
#include "tools/perf/options.hpp"
#include "tools/perf/pattern.hpp"
#include "tutti/memory.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {

/// Of all ranks combined.
struct Measurement {
  double seconds = 0;               ///< of one call
  double model = 0;                 ///< seconds that rank 0's cost model predicts; 0: it has none
  uint64_t wrong = 0;               ///< elements, and bytes outside the buffers
  std::string algorithm;            ///< of the timed calls: "ring"
  std::string method;               ///< "lanes"
  uint64_t window = 0, width = 0;   ///< of rank 0's last call
  std::string transport, delivery;  ///< of any rank's messages: "shm+tcp", "cma+staged"
};

class RankBench {
 public:
  /// Allocates memory for the largest row.
  RankBench(Communicator& comm, const PerfOptions& options, const std::vector<PerfRow>& rows);

  /// Fills the buffers of run(), which makes calls that are out of place and waits for them.
  void prepare(const PerfRow& row);
  void run(const PerfRow& row, int calls);
  /// All ranks call it with the same arguments and get the same result.
  Measurement measure(const PerfRow& row, bool in_place);

 private:
  /// The buffers of a call; null if this rank has none.
  struct Place {
    GuardedBuffer* buffer = nullptr;
    size_t offset = 0, bytes = 0;
    std::byte* data() const { return buffer == nullptr ? nullptr : buffer->data() + offset; }
  };

  void place_buffers(const PerfRow& row, Pattern& pattern, bool in_place);
  double time_calls(const PerfRow& row, tuttiRedOp_t op, tuttiCallInfo& how);
  uint64_t check_once(const PerfRow& row, bool in_place, uint64_t seed);
  /// What a call is given: the address on the GPU, if there is one.
  std::byte* address(const Place& place) const;
  void upload();
  void download();
  void run_calls(const PerfRow& row, tuttiRedOp_t op, int calls);
  void synchronize();
  tuttiStream_t stream() const;
  uint64_t count_wrong(Pattern& pattern, const PerfRow& row, bool in_place);
  void call(const PerfRow& row, tuttiRedOp_t op);
  void exchange(const PerfRow& row);
  double time_of_all(const std::vector<double>& times) const;
  CallShape shape_of(const PerfRow& row) const;

  Communicator& comm_;
  const PerfOptions& options_;
  int rank_, ranks_;
  std::optional<Stream> stream_;
  std::optional<GuardedBuffer> first_, second_;
  std::optional<Gpu> gpu_;
  std::byte *first_there_ = nullptr, *second_there_ = nullptr;  // the two buffers with their guards, on the GPU
  std::vector<Registration> registered_;
  Place in_, out_;
  uint64_t seed_ = 1;
};

}  // namespace tutti::tools
