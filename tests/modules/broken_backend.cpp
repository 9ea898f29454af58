// Backends that break: BROKEN_MAKE throws what is no Error of the library, the other one forgets its peers.
#include <new>

#include "exec/backend.hpp"

namespace tutti::exec {
namespace {

const Method broken{.name = "broken", .backend = BROKEN_NAME};
const Method* const kMethods[] = {&broken};

class BrokenBackend final : public Backend {
 public:
  std::vector<Processor> meet(const std::vector<std::string>&) override { return {}; }
  std::unique_ptr<Execution> compile(const plan::RankPlan&, const Geometry&, const Reduction*) override { return {}; }
  std::unique_ptr<Execution> compile(const Direct&, const Reduction*) override { return {}; }
  Pending* enqueue(Execution&, const Binding&) override { return nullptr; }
  void abort() override {}
};

std::unique_ptr<Backend> make(const BackendContext&) {
#ifdef BROKEN_MAKE
  throw std::bad_alloc();
#else
  return std::make_unique<BrokenBackend>();
#endif
}

const BackendRegistration registration({.name = BROKEN_NAME,
                                        .summary = "breaks",
                                        .is_driven = true,
                                        .methods = kMethods,
                                        .current = [] { return 0; },
                                        .why_none = "there is always one",
                                        .owns = [](const void*) { return true; },
                                        .make = make,
                                        .allocate = [](uint64_t bytes) { return ::operator new(bytes); },
                                        .release = [](void* memory) { ::operator delete(memory); },
                                        .state = [] { return std::string("usable: breaks"); }});

}  // namespace
}  // namespace tutti::exec
