#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Conformance, OverThreads);

}  // namespace tutti::test
