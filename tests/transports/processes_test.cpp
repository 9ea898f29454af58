// The same between processes, and what happens when one of them is killed.
#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Conformance, OverProcesses);

}  // namespace tutti::test
