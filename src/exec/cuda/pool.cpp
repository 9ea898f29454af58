#include "exec/cuda/pool.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/format.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kAlignment = 512;

/// What pools that are gone have left, by device.
struct Spare {
  std::mutex mutex;
  std::map<int, std::vector<Pool::Block>> all;
  static Spare& of_this_process() {
    static auto* const kSpare = new Spare;
    return *kSpare;
  }
};

/// So many bytes or more, of a pool that is gone.
std::optional<Pool::Block> spare(int device, uint64_t bytes) {
  Spare& spare = Spare::of_this_process();
  const std::lock_guard lock(spare.mutex);
  auto& all = spare.all[device];
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Pool::Block& one) { return one.bytes >= bytes && one.bytes <= 2 * bytes; });
  if (found == all.end()) return std::nullopt;
  const Pool::Block block = *found;
  all.erase(found);
  return block;
}

}  // namespace

Pool::Pool(const tutti::cuda::Device& device, uint64_t bytes) : device_(device) {
  if (const auto known = spare(device.number(), bytes)) {
    all_ = *known;
  } else {
    const tutti::cuda::WithContext with(device.context());
    tutti::cuda::check(tutti::cuda::driver().cuMemAlloc(&all_.at, bytes), "memory of the GPU for programs");
    all_.bytes = bytes;
  }
  free_.push_back(all_);
}

Pool::~Pool() {
  Spare& spare = Spare::of_this_process();
  const std::lock_guard lock(spare.mutex);
  spare.all[device_.number()].push_back(all_);
}

std::optional<Pool::Block> Pool::try_take(uint64_t wanted) {
  const uint64_t bytes = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->bytes >= bytes && (best == free_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best == free_.end()) return std::nullopt;
  const Block taken{best->at, bytes};
  best->at += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) free_.erase(best);
  return taken;
}

Pool::Block Pool::take(uint64_t bytes) {
  if (const auto block = try_take(bytes)) return *block;
  throw_error(Code::OutOfMemory,
              "the {} KiB of {} that a communicator has for programs are used up: raise TUTTI_CUDA_PROGRAMS",
              all_.bytes >> 10, device_.name());
}

void Pool::give(const Block& block) {
  const auto next = std::partition_point(free_.begin(), free_.end(), [&](const Block& b) { return b.at < block.at; });
  auto mine = free_.insert(next, block);
  const auto joins = [](const Block& one, const Block& other) { return one.at + one.bytes == other.at; };
  if (const auto after = mine + 1; after != free_.end() && joins(*mine, *after)) {
    mine->bytes += after->bytes;
    free_.erase(after);
  }
  if (mine != free_.begin() && joins(*(mine - 1), *mine)) {
    (mine - 1)->bytes += mine->bytes;
    free_.erase(mine);
  }
}

}  // namespace tutti::exec::cuda
