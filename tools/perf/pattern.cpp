#include "tools/perf/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/perf/small_float.hpp"
#include "tools/perf/values.hpp"

namespace tutti::tools {
namespace {

size_t largest_buffer(const CallShape& shape) {
  switch (shape.collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
    case Collective::Broadcast:
    case Collective::SendRecv:
      return shape.count;
    case Collective::Barrier:
      return 0;
    default:
      return shape.count * static_cast<size_t>(shape.ranks);
  }
}

uint64_t load(const std::byte* at, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, size);  // the lowest bytes first: little-endian hosts
  return bits;
}

}  // namespace

Pattern::Pattern(const CallShape& shape, uint64_t seed, std::shared_ptr<ValueTables> tables)
    : shape_(shape),
      seed_(seed),
      period_(std::min(kPeriod, largest_buffer(shape))),
      tables_(tables ? std::move(tables) : std::make_shared<ValueTables>()) {}

size_t Pattern::input_count(int rank) const {
  switch (shape_.collective) {
    case Collective::Barrier:
      return 0;
    case Collective::Broadcast:
      return rank == shape_.root ? shape_.count : 0;
    case Collective::ReduceScatter:
    case Collective::AllToAll:
      return shape_.count * static_cast<size_t>(shape_.ranks);
    case Collective::Scatter:
      return rank == shape_.root ? shape_.count * static_cast<size_t>(shape_.ranks) : 0;
    default:
      return shape_.count;
  }
}

size_t Pattern::output_count(int rank) const {
  size_t count = 0;
  for (const Run& run : output_runs(rank)) count += run.count;
  return count;
}

std::vector<Pattern::Run> Pattern::output_runs(int rank) const {
  const size_t count = shape_.count, mine = static_cast<size_t>(rank) * count;
  std::vector<Run> blocks;  // one of each rank
  const auto from_each = [&](size_t first) {
    for (int source = 0; source < shape_.ranks; ++source) blocks.push_back({source, first, count});
    return blocks;
  };
  switch (shape_.collective) {
    case Collective::AllReduce:
      return {{kFold, 0, count}};
    case Collective::Reduce:
      return rank == shape_.root ? std::vector<Run>{{kFold, 0, count}} : blocks;
    case Collective::ReduceScatter:
      return {{kFold, mine, count}};
    case Collective::Broadcast:
      return {{shape_.root, 0, count}};
    case Collective::Scatter:
      return {{shape_.root, mine, count}};
    case Collective::SendRecv:
      return {{(rank + shape_.ranks - 1) % shape_.ranks, 0, count}};
    case Collective::AllGather:
      return from_each(0);
    case Collective::Gather:
      return rank == shape_.root ? from_each(0) : blocks;
    case Collective::AllToAll:
      return from_each(mine);
    case Collective::Barrier:
      return blocks;
  }
  return blocks;
}

size_t Pattern::position(size_t index) const {
  const size_t turn = index / period_;
  const size_t angle = turn == 0 ? 0 : mix(seed_, turn, 6) % period_;
  return (index % period_ + angle) % period_;
}

uint64_t Pattern::input_element(int rank, size_t index) const {
  const Spot spot{seed_, shape_.ranks, position(index)};
  return reduces(shape_.collective) ? folded_value(spot, rank, shape_.type, shape_.op)
                                    : copied_value(spot, rank, shape_.type);
}

uint64_t Pattern::folded_element(size_t index) const {
  return fold_of_all({seed_, shape_.ranks, position(index)}, shape_.type, shape_.op);
}

uint64_t Pattern::scalar(int rank) const { return scalar_value(seed_, rank, shape_.type); }

const std::vector<std::byte>& Pattern::table(int source) {
  const std::optional<Op> op = reduces(shape_.collective) ? std::optional(shape_.op) : std::nullopt;
  std::vector<std::byte>& values = (*tables_)[{shape_.type, op, source}];
  const size_t size = size_of(shape_.type), known = values.size() / size;
  if (known >= period_) return values;
  values.resize(period_ * size);
  for (size_t i = known; i < period_; ++i) {  // of the first period, whose shift is 0
    const uint64_t bits = source == kFold ? folded_element(i) : input_element(source, i);
    std::memcpy(&values[i * size], &bits, size);
  }
  return values;
}

template <class Visit>
void Pattern::along(const std::vector<Run>& runs, const Visit& visit) {
  const size_t size = size_of(shape_.type);
  size_t offset = 0;
  for (const Run& run : runs) {
    for (size_t index = run.first, end = run.first + run.count; index < end;) {
      const size_t start = position(index);
      // Until this period of the table ends, its values are used up, or the run ends.
      const size_t length = std::min({period_ - index % period_, period_ - start, end - index});
      visit(&table(run.source)[start * size], offset, length * size);
      index += length;
      offset += length * size;
    }
  }
}

void Pattern::fill_input(int rank, std::byte* input) {
  along({{rank, 0, input_count(rank)}},
        [&](const std::byte* values, size_t offset, size_t bytes) { std::memcpy(input + offset, values, bytes); });
}

Verdict Pattern::compare(const std::vector<Run>& runs, const std::byte* buffer) {
  const size_t size = size_of(shape_.type);
  Verdict verdict;
  along(runs, [&](const std::byte* values, size_t offset, size_t bytes) {
    if (std::memcmp(buffer + offset, values, bytes) == 0) return;
    for (size_t at = 0; at < bytes; at += size) {
      const uint64_t got = load(buffer + offset + at, size), expected = load(values + at, size);
      if (got == expected) continue;
      if (verdict.wrong++ == 0) verdict = {1, (offset + at) / size, got, expected};
    }
  });
  return verdict;
}

Verdict Pattern::check_output(int rank, const std::byte* output) { return compare(output_runs(rank), output); }

Verdict Pattern::check_input(int rank, const std::byte* input) {
  return compare({{rank, 0, input_count(rank)}}, input);
}

std::string element_text(uint64_t bits, DType type) {
  const int digits = static_cast<int>(2 * size_of(type));
  if (is_float(type)) return fmt::format("{} (0x{:0{}x})", decode(bits, format_of(type)), bits, digits);
  const int spare = 64 - 8 * static_cast<int>(size_of(type));
  if (is_signed_integer(type)) {
    return fmt::format("{} (0x{:0{}x})", static_cast<int64_t>(bits << spare) >> spare, bits, digits);
  }
  return fmt::format("{} (0x{:0{}x})", bits, bits, digits);
}

}  // namespace tutti::tools
