#include "exec/gpu/transfers.hpp"

#include <algorithm>
#include <utility>

namespace tutti::exec::gpu {
namespace {

/// An address that each call replaces.
unsigned char* const kSomewhere = reinterpret_cast<unsigned char*>(uintptr_t{4096});

}  // namespace

std::string shape_of(const Direct& direct) {
  std::string shape;
  const auto add = [&](uint64_t number) { shape.append(reinterpret_cast<const char*>(&number), sizeof number); };
  add(direct.message);
  add(direct.link_lane);
  add(uint64_t{direct.scaled} << 32 | direct.folds.size());
  for (const Transfer& transfer : direct.transfers) {
    add(uint64_t{transfer.send} << 32 | transfer.peers.size());
    for (const Rank peer : transfer.peers) add(static_cast<uint64_t>(peer));
  }
  return shape;
}

Direct example_of(const Direct& direct) {
  Direct example = direct;
  const uint64_t bytes = direct.message + direct.message / 2;
  for (Transfer& transfer : example.transfers) {
    transfer.data = kSomewhere;
    transfer.bytes = bytes;
    transfer.tag = 0;
  }
  for (BlockFold& fold : example.folds) fold = {kSomewhere, kSomewhere, bytes, 0};
  return example;
}

TransferPart part_of(const unsigned char* data, uint64_t bytes, uint64_t tag, uint64_t message, uint32_t most) {
  const uint64_t whole = bytes / message;
  const auto width = static_cast<uint32_t>(std::clamp<uint64_t>(whole, 1, most));
  return {.at = reinterpret_cast<uint64_t>(data),
          .tag = tag,
          .each = whole / width,
          .rest = bytes % message,
          .more = static_cast<uint32_t>(whole % width),
          .width = width};
}

std::vector<TransferPart> parts_of(const Direct& direct, const MostReplicas& most) {
  std::vector<TransferPart> parts;
  const auto add = [&](const std::vector<Rank>& peers, const unsigned char* data, uint64_t bytes, uint64_t tag) {
    parts.push_back(part_of(data, bytes, tag, direct.message, most(peers)));
  };
  for (const auto& [ends, queue] : lanes_of(direct)) {
    for (const Transfer* transfer : queue) add(transfer->peers, transfer->data, transfer->bytes, transfer->tag);
  }
  for (const BlockFold& fold : direct.folds) {
    add({}, fold.mine, fold.bytes, fold.tag);
    add({}, fold.to, fold.bytes, fold.tag);
  }
  return parts;
}

Direct with_far_apart(const Direct& direct, const std::function<bool(Rank)>& is_far) {
  Direct parted = direct;
  parted.transfers.clear();
  for (const Transfer& transfer : direct.transfers) {
    Transfer near = transfer, far = transfer;
    std::erase_if(near.peers, is_far);
    std::erase_if(far.peers, [&](Rank peer) { return !is_far(peer); });
    for (Transfer* const part : {&near, &far}) {
      if (!part->peers.empty()) parted.transfers.push_back(std::move(*part));
    }
  }
  return parted;
}

uint32_t width_of(const std::vector<TransferPart>& parts) {
  uint32_t width = 1;
  for (const TransferPart& part : parts) width = std::max(width, part.width);
  return width;
}

}  // namespace tutti::exec::gpu
