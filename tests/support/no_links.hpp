// Unconnected links, for tests that inspect programs and do not run them.
#pragma once

#include <set>

#include "exec/links.hpp"

namespace tutti::exec {

class NoLinks : public Connector {
 public:
  explicit NoLinks(const link::LinkTraits& traits = {}) : traits_(traits) {}
  link::LinkTraits traits(Rank) override { return traits_; }
  link::OutLink connect_out(Rank peer, uint32_t) override {
    sends_to.insert(peer);
    return {};
  }
  link::InLink connect_in(Rank, uint32_t) override { return {}; }

  std::set<Rank> sends_to;  ///< of all programs

 private:
  link::LinkTraits traits_;
};

}  // namespace tutti::exec
