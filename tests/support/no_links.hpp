// Links that lead nowhere: for tests that look at programs and run none.
#pragma once

#include "exec/links.hpp"

namespace tutti::exec {

class NoLinks : public Connector {
 public:
  transports::OutLink connect_out(Rank, uint32_t) override { return {}; }
  transports::InLink connect_in(Rank, uint32_t) override { return {}; }
};

}  // namespace tutti::exec
