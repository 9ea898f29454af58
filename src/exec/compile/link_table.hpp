// The links of a program while it is compiled: their numbers, and what they can do.
#pragma once

#include <map>
#include <vector>

#include "exec/compile/lower.hpp"

namespace tutti::exec {

class LinkTable {
 public:
  /// `form`: how messages travel that are short enough, on links that can do it; others in slots.
  LinkTable(Program& program, const PeerTraits& traits, link::Form form = link::Form::Ring)
      : program_(program), traits_(traits), form_(form) {}
  /// The number of the link to (from) `peer` on `link_lane` for a message of so many bytes; added at first use.
  uint32_t out(Rank peer, uint32_t link_lane, uint64_t bytes = link::kNever) {
    return number({peer, lane_for(link_lane, bytes, traits_of(peer).out)}, out_numbers_, program_.out_links);
  }
  uint32_t in(Rank peer, uint32_t link_lane, uint64_t bytes = link::kNever) {
    return number({peer, lane_for(link_lane, bytes, traits_of(peer).in)}, in_numbers_, program_.in_links);
  }
  /// Do messages from this link come in lines?
  bool is_flagged(uint32_t in) const { return program_.in_links[in].link_lane >= link::kLlLanes; }
  Rank reader(uint32_t out) const { return program_.out_links[out].peer; }
  Rank writer(uint32_t in) const { return program_.in_links[in].peer; }
  link::Access out_traits(uint32_t out) const { return in_form(traits_of(reader(out)).out); }
  const link::Access& in_traits(uint32_t in) const { return traits_of(writer(in)).in; }

 private:
  const link::LinkTraits& traits_of(Rank peer) const { return traits_.at(static_cast<size_t>(peer)); }
  link::Access in_form(link::Access access) const {
    if (form_ != link::Form::Ll) access.ll_bytes = 0;
    if (form_ != link::Form::Ll128) access.ll128_bytes = 0;
    return access;
  }
  uint32_t lane_for(uint32_t link_lane, uint64_t bytes, const link::Access& access) const {
    return link_lane + static_cast<uint32_t>(form_of(bytes, in_form(access))) * link::kLlLanes;
  }
  using Numbers = std::map<LinkId, uint32_t>;
  static uint32_t number(const LinkId& link, Numbers& numbers, std::vector<LinkId>& links) {
    const auto [found, is_new] = numbers.try_emplace(link, static_cast<uint32_t>(links.size()));
    if (is_new) links.push_back(link);
    return found->second;
  }

  Program& program_;
  const PeerTraits& traits_;
  const link::Form form_;
  Numbers out_numbers_, in_numbers_;
};

/// Decides how the message of `op` reaches each reader, given by the numbers of their links. Throws Error(Unsupported)
/// for a message that is too long to be pushed.
void add_outs(Program& program, WindowProgram& window, LinkTable& links, const std::vector<uint32_t>& readers,
              const OutMessage& message, const DeliveryRules& rules, Instruction& op);

/// The program's stage for messages of `bytes` bytes to these links. A link belongs to one lane, so equal links imply
/// the same lane.
uint32_t stage_for(Program& program, const std::vector<uint32_t>& outs, uint64_t bytes);

}  // namespace tutti::exec
