#include "exec/cuda/programs.hpp"

#include <algorithm>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/gpu/transfers.hpp"
#include "exec/method.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr size_t kMaxShapes = 64;

template <class T>
T* at(const Pool::Block& block) {
  return reinterpret_cast<T*>(block.at);
}

Arithmetic arithmetic_of(const Reduction* reduction) {
  if (reduction == nullptr) return {};
  return {.op = reduction->op,
          .element_bytes = static_cast<uint32_t>(size_of(reduction->type)),
          .divide_by = reduction->divide_by,
          .round_each = reduction->round_each};
}

/// What the program of a shape depends on beyond it.
std::string key_of(const Direct& direct, const Reduction* reduction) {
  std::string key = gpu::shape_of(direct);
  if (reduction == nullptr) return key;
  const uint64_t numbers[] = {static_cast<uint64_t>(reduction->type), static_cast<uint64_t>(reduction->op),
                              reduction->divide_by, reduction->round_each ? 1U : 0U};
  return key.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
}

}  // namespace

Programs::Programs(const tutti::cuda::Device& device, const gpu::Gpu& gpu, Links& links, const gpu::CallCount& calls,
                   gpu::Staging staging, std::function<bool()> runs)
    : device_(device),
      calls_(calls),
      staging_(staging),
      runs_(std::move(runs)),
      pool_(std::make_shared<Pool>(device, env().cuda_programs)),
      freed_(std::make_shared<Freed>()),
      uploads_(gpu, device, calls),
      links_(links),
      out_(at<link::OutLink>(pool_->take(kMaxLinks * sizeof(link::OutLink)))),
      in_(at<link::InLink>(pool_->take(kMaxLinks * sizeof(link::InLink)))) {}

Programs::~Programs() = default;

Placed Programs::place(const Program& program, const std::string& type, const Reduction* reduction) {
  return place(program, gpu::connect_links(program, links_), type, reduction, false);
}

Placed Programs::place(const Program& program, const std::vector<gpu::ReplicaLinks>& links, const std::string& type,
                       const Reduction* reduction, bool own_tables) {
  add_links();
  const Arithmetic arithmetic = arithmetic_of(reduction);
  const std::string elements = reduction != nullptr ? kernel_type(*reduction) : type;
  const gpu::Surroundings around{.workspace = workspace_for(program), .staging = staging_, .own_tables = own_tables};
  const uint64_t bytes = gpu::make_image(program, links, arithmetic, around, nullptr).bytes.size();
  const Pool::Block block = memory(bytes);
  const gpu::Image image = gpu::make_image(program, links, arithmetic, around, at<unsigned char>(block));
  uploads_.add(block.at, image.bytes.data(), image.bytes.size());
  return {.call = {.head = {},
                   .image = image.where,
                   .out_links = out_,
                   .in_links = in_,
                   .progress = image.progress,
                   .items = image.items,
                   .lanes = static_cast<uint32_t>(program.last.lanes.size()),
                   .threads = threads_for(program),
                   .straight = gpu::runs_straight(program),
                   .window_bytes = program.window_bytes,
                   .transfers = {.firsts = image.firsts}},
          .kernel = lanes_kernel(device_, elements, kind_of(program)),
          .batch = program.method->reads_in_place ? LoadedKernel() : batch_kernel(device_, elements),
          .memory = owner_of(block)};
}

Placed Programs::transfers(const Direct& direct, Rank rank, const PeerTraits& traits, const Reduction* reduction,
                           uint32_t width, const std::function<bool(Rank)>& single) {
  const std::string key = key_of(direct, reduction);
  const auto known = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& one) { return one.key == key; });
  if (known != shapes_.end()) {
    shapes_.splice(shapes_.begin(), shapes_, known);
    return known->placed;
  }
  if (shapes_.size() == kMaxShapes) shapes_.pop_back();
  Program program = lower_direct(gpu::example_of(direct), rank, static_cast<Rank>(traits.size()), traits);
  program.width = width;
  for (;;) {
    try {
      Placed placed = place(program, gpu::connect_links(program, links_, single), word_of(1), reduction, true);
      placed.call.transfers.message = direct.message;
      return shapes_.emplace_front(Shape{key, std::move(placed)}).placed;
    } catch (const Error& error) {
      if (error.code() != Code::OutOfMemory || shapes_.empty()) throw;
      shapes_.pop_back();
    }
  }
}

void Programs::write(CUstream stream, uint64_t counted) {
  counted != 0 ? uploads_.send(stream, counted) : uploads_.send_now();
}

const gpu::TransferPart* Programs::parts(const std::vector<gpu::TransferPart>& parts, CUstream stream, uint64_t counted,
                                         std::shared_ptr<void>& kept) {
  const uint64_t bytes = parts.size() * sizeof(gpu::TransferPart);
  if (counted != 0 && bytes <= Uploads::kLongestLoan) {
    return reinterpret_cast<const gpu::TransferPart*>(uploads_.lend(parts.data(), bytes, counted));
  }
  const Pool::Block block = memory(bytes);
  const auto own = owner_of(block);
  uploads_.add(block.at, parts.data(), bytes);
  write(stream, counted);
  kept = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(kept, own);
  return at<gpu::TransferPart>(block);
}

/// Waits for calls if only programs that are gone have what is needed.
Pool::Block Programs::memory(uint64_t bytes) {
  reuse_memory();
  if (const auto block = pool_->try_take(bytes)) return *block;
  calls_.wait_for(calls_.enqueued());
  reuse_memory();
  return pool_->take(bytes);
}

std::shared_ptr<void> Programs::owner_of(const Pool::Block& block) const {
  return {nullptr, [freed = freed_, pool = pool_, block](void*) {
            const std::lock_guard lock(freed->mutex);
            freed->blocks.push_back(block);
          }};
}

/// When nothing runs, what programs have left can be used again.
void Programs::reuse_memory() {
  const std::lock_guard lock(freed_->mutex);
  if (freed_->blocks.empty() || runs_()) return;
  for (const Pool::Block& block : freed_->blocks) pool_->give(block);
  freed_->blocks.clear();
}

/// One workspace serves all programs, since calls follow each other. Older, smaller ones stay: graphs may use them.
unsigned char* Programs::workspace_for(const Program& program) {
  const uint64_t bytes = gpu::workspace_of(program);
  if (workspace_.bytes < bytes) workspace_ = pool_->take(std::max(bytes, 2 * workspace_.bytes));
  return at<unsigned char>(workspace_);
}

void Programs::add_links() {
  const auto add = [this](auto* there, const auto& links, size_t& known) {
    if (links.size() > kMaxLinks) throw_error(Code::Unsupported, "more than {} links between GPUs", kMaxLinks);
    if (links.size() == known) return;
    uploads_.add(reinterpret_cast<CUdeviceptr>(there + known), links.data() + known,
                 (links.size() - known) * sizeof *there);
    known = links.size();
  };
  add(out_, links_.outs(), outs_there_);
  add(in_, links_.ins(), ins_there_);
}

}  // namespace tutti::exec::cuda
