#include "exec/links.hpp"

#include <algorithm>

#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

constexpr uint64_t kAlignment = 128;
constexpr uint64_t kMaxSlots = 512;  // more than a link holds messages: these only let a long ring be long

uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

uint32_t Links::out(const LinkId& link) {
  const auto known = out_numbers_.find(link);
  if (known != out_numbers_.end()) return known->second;
  outs_.push_back(connector_.connect_out(link.peer, link.link_lane));
  outs_.back().link_lane = link.link_lane;
  out_ids_.push_back(link);
  return out_numbers_[link] = static_cast<uint32_t>(outs_.size() - 1);
}

uint32_t Links::in(const LinkId& link) {
  const auto known = in_numbers_.find(link);
  if (known != in_numbers_.end()) return known->second;
  ins_.push_back(connector_.connect_in(link.peer, link.link_lane));
  ins_.back().link_lane = link.link_lane;
  return in_numbers_[link] = static_cast<uint32_t>(ins_.size() - 1);
}

StoreChoice& Links::stores(const std::vector<uint32_t>& outs) {
  std::vector<LinkId> readers;
  for (const uint32_t out : outs) {
    const LinkId& link = out_ids_[out];
    readers.push_back({link.peer, link.link_lane / link::kThreadLinkLanes * link::kThreadLinkLanes});
  }
  return stores_[readers];
}

OwnedStage::OwnedStage(uint64_t slot_bytes, std::vector<uint32_t> links, StoreChoice* stores) : outs(std::move(links)) {
  stage.slot_bytes = round_up(slot_bytes);
  stage.readers = static_cast<uint32_t>(outs.size());
  stage.outs = outs.data();
  stage.stores = stores;
}

uint32_t Staging::slots_for(uint64_t one_each, uint64_t max_bytes) const {
  const uint64_t all = arena_.staging_bytes();
  if (one_each * link::kSlots > all / 2) return link::kFewestSlots;
  const bool is_long = one_each >= machine_constants().ring_from;
  const uint64_t ring = is_long ? machine_constants().long_ring : machine_constants().short_ring;
  const uint64_t bytes = std::min({all / machine_constants().staged_programs, ring, max_bytes});
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / std::max<uint64_t>(1, one_each),
                                                    is_long ? link::kSlots : link::kFewestSlots, kMaxSlots));
}

bool Staging::assign(std::span<OwnedStage* const> stages, uint64_t max_bytes) {
  uint64_t one_each = 0;
  for (const OwnedStage* s : stages) one_each += s->stage.slot_bytes;
  const uint32_t slots = slots_for(one_each, max_bytes);
  if (one_each * slots > arena_.staging_bytes() - used_) return false;
  arena_.use_staging(used_ + one_each * slots);
  for (OwnedStage* s : stages) {
    s->stage.base = arena_.staging() + used_;
    s->stage.slots = slots;
    s->stage.next = 0;
    s->held.assign(static_cast<size_t>(slots) * s->outs.size(), 0);
    s->stage.held = s->held.data();
    s->generation = generation_;
    used_ += s->stage.slot_bytes * slots;
  }
  return true;
}

void Staging::reset() {
  used_ = 0;
  ++generation_;
}

}  // namespace tutti::exec
