// The example of a backend module: memory of the host behind a second backend, for threads of one process. Its links
// are its own: writers push into memory of their readers, as between GPUs. The host's interpreter runs its calls.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/format.hpp"
#include "exec/backend.hpp"
#include "exec/host/host_backend.hpp"

#ifndef EXAMPLE_NAME
#define EXAMPLE_NAME "example"
#endif

namespace tutti::exec {
namespace {

constexpr uint64_t kPushBytes = 256 << 10;  // of a slot: the longest message

/// The costs are those of any plan: links are priced by the offer below.
const Method pushed{.name = "pushed", .backend = EXAMPLE_NAME};
const Method* const kMethods[] = {&pushed};

/// A link's memory: ring and slots lie with the reader, the counter with the writer. One process has both.
struct LinkMemory {
  alignas(link::kStride) unsigned char ring[link::kCapacity * link::kLine] = {};
  alignas(link::kStride) uint64_t consumed = 0;
  std::unique_ptr<unsigned char[]> slots{new unsigned char[link::kPushSlots * kPushBytes]};
};

/// Freed when both ends are gone.
std::shared_ptr<LinkMemory> memory_of(const std::string& communicator, Rank from, Rank to, uint32_t link_lane) {
  static std::mutex mutex;
  static auto* const kAll = new std::map<std::tuple<std::string, Rank, Rank, uint32_t>, std::weak_ptr<LinkMemory>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*kAll, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = (*kAll)[{communicator, from, to, link_lane}];
  auto known = entry.lock();
  if (known == nullptr) entry = known = std::make_shared<LinkMemory>();
  return known;
}

class PushedLinks final : public Connector {
 public:
  explicit PushedLinks(transports::Wireup& wireup) : wireup_(wireup) {}
  link::LinkTraits traits(Rank) override { return {.out = {.push_bytes = kPushBytes}, .in = {}}; }
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override {
    LinkMemory& memory = *kept_.emplace_back(memory_of(wireup_.name(), wireup_.rank(), peer, link_lane));
    return {.ring = memory.ring,
            .consumed = &memory.consumed,
            .arena = memory.slots.get(),
            .push_bytes = kPushBytes,
            .peer = peer};
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane) override {
    LinkMemory& memory = *kept_.emplace_back(memory_of(wireup_.name(), peer, wireup_.rank(), link_lane));
    return {.ring = memory.ring,
            .consumed = &memory.consumed,
            .arena = memory.slots.get(),
            .arena_bytes = link::kPushSlots * kPushBytes,
            .peer = peer};
  }

 private:
  transports::Wireup& wireup_;
  std::vector<std::shared_ptr<LinkMemory>> kept_;
};

class ExampleBackend final : public Backend {
 public:
  explicit ExampleBackend(const BackendContext& context)
      : wireup_(*context.wireup),
        connector_(wireup_),
        host_({.rank = wireup_.rank(),
               .ranks = wireup_.ranks(),
               .links = &links_,
               .arena = &arena_,
               .engines = {},
               .failed = context.failed,
               .observer = context.observer,
               .backoff = context.backoff}) {}

  std::string report() const override { return fmt::format("{:x}", wireup_.process_id(wireup_.rank()).nonce); }

  std::vector<Processor> meet(const std::vector<std::string>& reports) override {
    for (const std::string& one : reports) {
      if (one != reports.front()) throw_error(Code::Unsupported, "the ranks are not threads of one process");
    }
    return std::vector<Processor>(reports.size(), {.id = "the process", .model = "example", .driver = "1"});
  }

  Offer agree(const WantedMethods&, const Exchange&) override {
    return {.methods = {{.method = &pushed}},
            .near = {.alpha = 300e-9, .beta = 1 / 6e9},
            .gamma = 1 / 10e9,
            .staging = arena_.staging_bytes(),
            .message = kPushBytes};
  }

  std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                     const Reduction* reduction) override {
    return host_.compile(plan, geometry, reduction);
  }
  std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) override {
    return host_.compile(direct, reduction);
  }
  Pending* enqueue(Execution& execution, const Binding& binding) override {
    Binding bound = binding;
    if (binding.scale_by_address) std::memcpy(&bound.scale, binding.scale, sizeof bound.scale);
    return host_.enqueue(execution, bound);
  }
  void abort() override { host_.abort(); }
  std::string transport_to(Rank) const override { return EXAMPLE_NAME; }

 private:
  struct alignas(link::Arena::kAlignment) Page {
    unsigned char bytes[link::Arena::kAlignment];
  };

  transports::Wireup& wireup_;
  PushedLinks connector_;
  Links links_{connector_};
  // For what goes to several readers: copied from here to their slots, so not read later.
  std::vector<Page> memory_{256};
  link::Arena arena_{memory_.front().bytes, memory_.size() * sizeof(Page)};
  HostBackend host_;
};

/// The thread's memory is that of all threads: of host memory, this backend owns everything.
const BackendRegistration example({
#ifdef EXAMPLE_LAYOUT
    .layout = EXAMPLE_LAYOUT,
#endif
    .name = EXAMPLE_NAME,
    .summary = "memory of the host, for threads of one process",
    .is_driven = true,
    .methods = kMethods,
    .current = [] { return 0; },
    .why_none = "there is always one",
    .owns = [](const void*) { return true; },
    .make = [](const BackendContext& context) -> std::unique_ptr<Backend> {
      return std::make_unique<ExampleBackend>(context);
    },
    .allocate = [](uint64_t bytes) { return ::operator new(bytes); },
    .release = [](void* memory) { ::operator delete(memory); },
    .state = [] { return std::string("usable: threads of one process"); }});

}  // namespace
}  // namespace tutti::exec
