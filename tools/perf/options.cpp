#include "tools/perf/options.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/spelling.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMaxSizes = 100000;
constexpr double kGiB = 1 << 30;

}  // namespace

bool has_in_place(Collective c) {
  return c != Collective::AllToAll && c != Collective::SendRecv && c != Collective::Barrier;
}

size_t blocks_of(Collective c, int ranks) {
  const bool divided = c == Collective::AllGather || c == Collective::ReduceScatter || c == Collective::AllToAll ||
                       c == Collective::Gather || c == Collective::Scatter;
  return divided ? static_cast<size_t>(ranks) : 1;
}

double bus_factor(Collective c, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (c == Collective::AllReduce) return 2 * others;
  return blocks_of(c, ranks) > 1 || ranks == 1 ? others : 1;
}

std::vector<PerfRow> rows_of(const PerfOptions& options, int ranks) {
  std::vector<int> roots{options.root};
  if (options.root == PerfOptions::kAllRoots) {
    roots.clear();
    for (int root = 0; root < ranks; ++root) roots.push_back(root);
  }
  std::vector<PerfRow> rows;
  for (const DType type : options.types) {
    const size_t unit = size_of(type) * blocks_of(options.collective, ranks);
    for (const Op op : options.ops) {
      for (const int root : roots) {
        size_t last = SIZE_MAX;
        for (const size_t size : options.sizes) {
          // At least one element per rank, unless zero bytes are asked for.
          const size_t count = options.collective == Collective::Barrier ? 0 : std::max<size_t>(size / unit, size > 0);
          if (count == last) continue;
          last = count;
          rows.push_back({type, op, root, count, count * unit});
        }
      }
    }
  }
  return rows;
}

uint64_t memory_of_rank(const std::vector<PerfRow>& rows) {
  uint64_t most = 0;
  for (const PerfRow& row : rows) most = std::max<uint64_t>(most, row.bytes);
  return most > UINT64_MAX / 2 ? UINT64_MAX : 2 * most;
}

void check_memory(const std::vector<PerfRow>& rows, uint64_t ranks, uint64_t available, const std::string& host) {
  const uint64_t each = memory_of_rank(rows);
  if (each <= available / std::max<uint64_t>(ranks, 1)) return;
  throw_error(Code::OutOfMemory,
              "the largest size takes two buffers of {:.1f} GiB for each rank; on {} that makes {:.1f} GiB, where "
              "{:.1f} GiB can be had: give a smaller -e (or -b), or fewer ranks",
              static_cast<double>(each) / 2 / kGiB, host, static_cast<double>(each) / kGiB * static_cast<double>(ranks),
              static_cast<double>(available) / kGiB);
}

std::vector<DType> parse_types(const std::string& word) {
  if (word != "all") return {read_type(word, "-d")};
  std::vector<DType> all;
  for (int i = 0; i < kDTypes; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::vector<Op> parse_ops(const std::string& word) {
  if (word != "all") return {read_op(word, "-o")};
  std::vector<Op> all;
  for (int i = 0; i < kOps; ++i) all.push_back(static_cast<Op>(i));
  return all;
}

std::vector<size_t> sweep(size_t first, size_t last, size_t step, double factor) {
  std::vector<size_t> sizes;
  for (size_t size = first; size <= last;) {
    sizes.push_back(size);
    if (sizes.size() > kMaxSizes) throw_error(Code::InvalidArgument, "those are more than {} sizes", kMaxSizes);
    const double next = step > 0 ? static_cast<double>(size) + static_cast<double>(step)
                                 : std::max(1.0, static_cast<double>(size)) * factor;
    if (next > static_cast<double>(last)) break;
    size = std::max(size + 1, static_cast<size_t>(next));
  }
  return sizes;
}

const char* op_name(Op op) { return op == Op::PreMulSum ? "mulsum" : name_of(op); }

}  // namespace tutti::tools
