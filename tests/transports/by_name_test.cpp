// The suite of all transports, over the one of this name and over the same with delays.
#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

struct ByName {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 20000;
  static auto make(const transports::Context& context) { return make_by_name(TUTTI_TESTED_TRANSPORT, context); }
};

using Both = testing::Types<ByName, Faulty<ByName>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Conformance, Both);

}  // namespace
}  // namespace tutti::test
