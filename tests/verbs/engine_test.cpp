// The engine of verbs, over the device in this process: the conformance suite of all transports.
#include "transports/verbs/engine.hpp"

#include <gtest/gtest.h>

#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

template <uint32_t kQueues, bool kImmediate>
struct FakeVerbs {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 20000;
  static constexpr bool kWire = true;
  static std::unique_ptr<transports::Transport> make(const transports::Context& context) {
    set_fake_nic_rules({.immediate = kImmediate, .max_inline = kQueues == 1 ? 220u : 64u});
    return std::make_unique<transports::verbs::Engine>(context, make_fake_nic(), kQueues, "verbs");
  }
};

using OverFakeVerbs = testing::Types<FakeVerbs<1, true>, FakeVerbs<4, true>, FakeVerbs<3, false>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Verbs, Conformance, OverFakeVerbs);

}  // namespace
}  // namespace tutti::test
