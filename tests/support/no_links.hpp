// Links that lead nowhere: for tests that look at programs and run none.
#pragma once

#include "exec/links.hpp"

namespace tutti::exec {

class NoLinks : public Connector {
 public:
  explicit NoLinks(uint64_t lend_from = transports::kNeverLend) : lend_from_(lend_from) {}
  transports::OutLink connect_out(Rank, uint32_t) override { return {.lend_from = lend_from_}; }
  transports::InLink connect_in(Rank, uint32_t) override { return {}; }

 private:
  uint64_t lend_from_;
};

}  // namespace tutti::exec
