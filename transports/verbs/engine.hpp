// The engine: all links of one rank over one port of a device.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transports/transport.hpp"
#include "transports/verbs/in_end.hpp"
#include "transports/verbs/out_end.hpp"

namespace tutti::transports::verbs {

class Engine final : public Transport {
 public:
  /// `queues`: queue pairs of a link.
  Engine(const Context& context, std::unique_ptr<Nic> nic, uint32_t queues, const char* name);
  ~Engine() override;

  const char* name() const override { return name_; }
  bool is_engine() const override { return true; }
  Reach probe(Rank peer) const override;
  /// The engine reads outgoing messages where they lie.
  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.address = true}, .in = {}}; }
  uint64_t longest_message() const override { return kMaxMessage; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override;

  Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) override {
    return memory_.acquire(data, bytes, use);
  }

  Status progress(bool& moved) override;
  bool flushed() const override;
  void stop() override;
  bool sleep(double seconds) override;

 private:
  static std::string label(uint32_t link_lane);
  Status turn(bool& moved);
  Status take_completions(bool& moved);
  Status take(const Completion& completion);
  Status look_around(bool& moved);
  Status take_streams(bool& moved);
  Status read_streams(bool& moved);
  Status take_events();
  const Connection* connection_of(uint32_t queue) const;
  void explain(Status& status);
  void drain() noexcept;
  bool busy() const;

  Wireup& wireup_;
  const char* const name_;
  const uint32_t wanted_queues_;
  std::unique_ptr<Nic> nic_;
  Memory memory_;
  std::deque<OutEnd> outs_;  // deques: addresses are stable
  std::deque<InEnd> ins_;
  std::vector<size_t> expected_;  // of ins_, whose streams have not come yet
  uint32_t greeting_ = 0;         // ends that are not ready
  uint32_t idle_turns_ = 0;
  std::string last_event_;  // of the port
  Status failure_;          // the first one; it is permanent
  bool stopped_ = false;
};

}  // namespace tutti::transports::verbs
