#include "tools/perf/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMostSizes = 100000;

struct TypeAlias {
  DType type;
  const char* name;  // nccl-tests'
};
constexpr TypeAlias kTypeAliases[] = {
    {DType::I8, "int8"},    {DType::U8, "uint8"},      {DType::I32, "int32"},       {DType::U32, "uint32"},
    {DType::I64, "int64"},  {DType::U64, "uint64"},    {DType::F16, "half"},        {DType::F32, "float"},
    {DType::F64, "double"}, {DType::BF16, "bfloat16"}, {DType::F8E4M3, "fp8_e4m3"}, {DType::F8E5M2, "fp8_e5m2"},
    {DType::I16, "int16"},  {DType::U16, "uint16"}};

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int c = 0; c < kCollectives; ++c) names.emplace_back(name_of(static_cast<Collective>(c)));
  return names;
}

template <class T, class Name>
std::vector<T> parse_list(const char* flag, const std::string& word, int number, const Name& is_called) {
  std::vector<T> all, found;
  std::vector<std::string> names;
  for (int i = 0; i < number; ++i) {
    const T value = static_cast<T>(i);
    all.push_back(value);
    if (is_called(value, word)) found.push_back(value);
  }
  if (word == "all") return all;
  if (!found.empty()) return found;
  for (const T value : all) names.emplace_back(name_of(value));
  throw_error(Code::InvalidArgument, "{} {}: choose from {}, all", flag, word, fmt::join(names, ", "));
}

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
          // At least an element for each rank, unless nothing is asked for.
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

Collective parse_collective(const std::string& word) {
  std::string name = word;
  const std::string suffix = "_perf";
  if (name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
    name.resize(name.size() - suffix.size());
  }
  if (name == "sendrecv") name = "send_recv";
  if (name == "alltoall") name = "all_to_all";
  const auto names = collective_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw_error(Code::InvalidArgument, "there is no collective {}; choose from {}", word, fmt::join(names, ", "));
  }
  return static_cast<Collective>(found - names.begin());
}

std::vector<DType> parse_types(const std::string& word) {
  return parse_list<DType>("-d", word, kDTypes, [](DType type, const std::string& name) {
    return name == name_of(type) || std::any_of(std::begin(kTypeAliases), std::end(kTypeAliases),
                                                [&](const auto& a) { return a.type == type && name == a.name; });
  });
}

std::vector<Op> parse_ops(const std::string& word) {
  return parse_list<Op>("-o", word, kOps,
                        [](Op op, const std::string& name) { return name == name_of(op) || name == op_name(op); });
}

std::vector<size_t> sweep(size_t first, size_t last, size_t step, double factor) {
  std::vector<size_t> sizes;
  for (size_t size = first; size <= last;) {
    sizes.push_back(size);
    if (sizes.size() > kMostSizes) throw_error(Code::InvalidArgument, "those are more than {} sizes", kMostSizes);
    const double next = step > 0 ? static_cast<double>(size) + static_cast<double>(step)
                                 : std::max(1.0, static_cast<double>(size)) * factor;
    if (next > static_cast<double>(last)) break;
    size = std::max(size + 1, static_cast<size_t>(next));
  }
  return sizes;
}

const char* op_name(Op op) { return op == Op::PreMulSum ? "mulsum" : name_of(op); }

}  // namespace tutti::tools
