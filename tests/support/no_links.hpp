// Unconnected links, for tests that inspect programs and do not run them.
#pragma once

#include "exec/links.hpp"

namespace tutti::exec {

class NoLinks : public Connector {
 public:
  explicit NoLinks(uint64_t zcopy_threshold = link::kNever) : zcopy_threshold_(zcopy_threshold) {}
  link::OutLink connect_out(Rank, uint32_t) override { return {.zcopy_threshold = zcopy_threshold_}; }
  link::InLink connect_in(Rank, uint32_t) override { return {}; }

 private:
  uint64_t zcopy_threshold_;
};

}  // namespace tutti::exec
