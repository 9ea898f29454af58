// Expert parallelism for experts of one's own: rows travel to the ranks of their experts, are computed there, and
// return. Here expert e multiplies its rows by e + 1.
#include <cstdio>
#include <vector>

#include "tutti/train/moe.hpp"

using namespace tutti::train;

constexpr size_t kWidth = 4;

int main() try {
  auto world = tutti::Communicator::from_environment();
  Counters counters;
  Collectives ep(world.split(0, world.rank()), counters);
  const auto device = make_host_device();
  Ledger ledger(*device);
  const MicroBatch batch;
  const Call call{ledger, batch, nullptr};

  // Two experts a rank; a router would choose. Row 7 is dropped.
  const size_t experts = 2 * static_cast<size_t>(ep.size());
  std::vector<int32_t> expert;
  for (size_t row = 0; row < 16; ++row) expert.push_back(static_cast<int32_t>(row * row % experts));
  expert[7] = -1;
  const ExpertDispatch dispatch(ep, experts, expert);  // exchanges the counts

  std::vector<float> values;
  for (const int32_t row : dispatch.order())
    values.insert(values.end(), kWidth, static_cast<float>(row + world.rank()));
  const Tensor rows = call.make(values.size());
  device->upload(rows->f32(), values.data(), rows->bytes());
  const Tensor arrived = dispatch.dispatch(call, rows, kWidth);
  for (size_t e = 0; e < dispatch.experts().size(); ++e) {
    const Entries mine = dispatch.experts()[e];
    const auto factor = static_cast<float>(static_cast<size_t>(ep.rank()) * 2 + e + 1);
    if (mine.count > 0) device->scale(arrived->span().part(mine.first * kWidth, mine.count * kWidth), factor);
  }
  const Tensor home = dispatch.combine(call, arrived, kWidth);
  std::vector<float> results(home->count());
  device->download(results.data(), home->f32(), home->bytes());
  double wrong = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto row = static_cast<size_t>(dispatch.order()[i / kWidth]);
    const float wanted =
        static_cast<float>(row + static_cast<size_t>(world.rank())) * static_cast<float>(expert[row] + 1);
    wrong += results[i] == wanted ? 0 : 1;
  }
  wrong = ep.sum(Purpose::Loss, wrong);
  if (world.rank() == 0) std::printf("%d ranks: expert %s\n", ep.size(), wrong == 0 ? "agrees" : "differs");
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
