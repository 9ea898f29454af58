// How a message is delivered, and the reason that users are told: one decision.
#include "exec/compile/delivery.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::exec {
namespace {

constexpr DeliveryRules kRules{.address_from = 1000, .mapped_from = 2000, .cma_from = 3000};
constexpr link::Access kProcess{.mapped = true, .cma = true};
constexpr link::Access kThread{.address = true};

struct Case {
  OutMessage message;
  link::Access out;
  Delivery delivery;
  const char* why;  ///< some words of it
};

TEST(Decide, TellsTheReasonOfWhatItDecides) {
  const Case cases[] = {
      {{.bytes = 40}, kThread, Delivery::Inline, "40 bytes fit"},
      {{.bytes = 5000}, kThread, Delivery::Staged, "is written to again"},
      {{.bytes = 5000, .stays = true}, kThread, Delivery::Address, "where it lies"},
      {{.bytes = 999, .stays = true}, kThread, Delivery::Staged, "999 bytes are shorter than the 1000"},
      {{.bytes = 2000, .stays = true, .shared = true}, kProcess, Delivery::Mapped, "the peer maps it"},
      {{.bytes = 2000, .stays = true}, kProcess, Delivery::Staged, "2000 bytes are shorter than the 3000"},
      {{.bytes = 1999, .stays = true, .shared = true}, kProcess, Delivery::Staged, "shorter than the 2000"},
      {{.bytes = 3000, .stays = true}, kProcess, Delivery::Cma, "kernel copies"},
      {{.bytes = 3000, .stays = true}, {.mapped = true}, Delivery::Staged, "cannot read the buffer"},
      {{.bytes = 3000, .stays = true}, {.push_bytes = 4096}, Delivery::Pushed, "written to slots"},
      {{.bytes = 8}, {.push_bytes = 4096, .ll_bytes = 512}, Delivery::Ll, "brings its flag"},
      {{.bytes = 512, .stays = true}, {.push_bytes = 4096, .ll_bytes = 512}, Delivery::Ll, "brings its flag"},
      {{.bytes = 513}, {.push_bytes = 4096, .ll_bytes = 512, .ll128_bytes = 999}, Delivery::Ll128, "flag"},
      {{.bytes = 513, .stays = true}, {.push_bytes = 4096, .ll_bytes = 512}, Delivery::Pushed, "written to"}};
  for (const Case& one : cases) {
    const Decision decision = decide(one.message, one.out, kRules);
    EXPECT_EQ(decision.delivery, one.delivery) << one.why;
    const std::string why = describe(decision, one.message.bytes);
    EXPECT_NE(why.find(one.why), std::string::npos) << why << " does not say: " << one.why;
  }
}

TEST(Decide, CmaThatTheRulesDoNotUseIsTheSlowerWay) {
  const Decision decision = decide({.bytes = 3000, .stays = true}, kProcess, {});
  EXPECT_EQ(decision.delivery, Delivery::Staged);
  EXPECT_EQ(decision.reason, Reason::CopiesAreFaster);
}

}  // namespace
}  // namespace tutti::exec
