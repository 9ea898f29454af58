#include "conformance/cases.hpp"

#include <fmt/format.h>

#include <numeric>

namespace tutti::conformance {
namespace {

bool may_be_in_place(Collective collective) {
  return collective != Collective::AllToAll && collective != Collective::SendRecv && collective != Collective::Barrier;
}

/// All roots of few ranks; of many ranks the first two, the middle and the last. Operators other than sum alternate
/// them.
std::vector<int> roots_for(Collective collective, Op op, int ranks, int turn) {
  if (!has_root(collective)) return {0};
  if (op != Op::Sum) return {turn % ranks};
  if (ranks > 8) return {0, 1, ranks / 2, ranks - 1};
  std::vector<int> roots(static_cast<size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

void add_cases(const Sweep& sweep, Collective collective, int ranks, std::vector<Case>& cases) {
  const std::vector<Op> only_sum = {Op::Sum};
  int turn = 0;
  for (const DType type : sweep.types) {
    for (const Op op : reduces(collective) ? sweep.ops : only_sum) {
      for (const size_t count : sweep.counts) {
        for (const int root : roots_for(collective, op, ranks, turn++)) {
          const tools::CallShape shape{collective, type, op, ranks, root, count};
          cases.push_back({shape});
          if (may_be_in_place(collective)) cases.push_back({shape, true});
          if (collective == Collective::AllToAll) cases.push_back({shape, false, true});
        }
      }
    }
  }
}

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypes; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOps; ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

size_t fewer_than(int ranks) { return ranks > 2 ? static_cast<size_t>(ranks) - 1 : 1; }

}  // namespace

std::string describe(const Case& c) {
  const tools::CallShape& s = c.shape;
  std::string text = fmt::format("{}(count={}, {}", name_of(s.collective), s.count, name_of(s.type));
  if (reduces(s.collective)) text += fmt::format(", {}", name_of(s.op));
  if (has_root(s.collective)) text += fmt::format(", root={}", s.root);
  return text + fmt::format(") of {} ranks{}{}", s.ranks, c.in_place ? ", in place" : "",
                            c.grouped ? ", by sends and receives" : "");
}

Sweep all_kinds(int ranks, bool exhaustive) {
  Sweep sweep{all_types(), all_ops(), {0, 1, 17, 1031}};
  if (ranks > 2) sweep.counts.push_back(fewer_than(ranks));
  if (exhaustive) sweep.counts.insert(sweep.counts.end(), {64, 333, 4099});
  return sweep;
}

Sweep many_sizes(bool exhaustive) {
  Sweep sweep{{DType::U8, DType::F32}, {Op::Sum, Op::PreMulSum}, {39, 40, 41, 2047, 2048, 2049, 8191, 8192, 8193}};
  sweep.counts.insert(sweep.counts.end(), {65537, 300007});
  if (exhaustive) {
    sweep.types.insert(sweep.types.end(), {DType::F16, DType::F64});
    sweep.counts.insert(sweep.counts.end(), {1 << 20, 5000011});
  }
  return sweep;
}

Sweep few_kinds(int ranks) {
  if (ranks > 8) return {{DType::F32}, {Op::Sum, Op::Avg}, {1, 17, 1031}};
  return {{DType::U8, DType::F32, DType::BF16}, {Op::Sum, Op::Avg, Op::PreMulSum}, {0, 1, fewer_than(ranks), 17, 3001}};
}

std::vector<Case> list_cases(const Sweep& sweep, int ranks) {
  std::vector<Case> cases;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::Barrier) {
      for (int k = 0; k < 20; ++k) cases.push_back({{collective, DType::U8, Op::Sum, ranks, 0, 0}});
    } else {
      add_cases(sweep, collective, ranks, cases);
    }
  }
  return cases;
}

}  // namespace tutti::conformance
