// The engine: all links of one rank over one port of a device.
#pragma once

#include <memory>
#include <string>

#include "transports/link_engine.hpp"
#include "transports/verbs/receiver.hpp"
#include "transports/verbs/sender.hpp"

namespace tutti::transports::verbs {

class Engine final : public LinkEngine<Sender, Receiver, Connection> {
 public:
  /// `queues`: queue pairs of a link.
  Engine(const Context& context, std::unique_ptr<Nic> nic, uint32_t queues, const char* name,
         ExportDevice export_device = export_device_memory);
  ~Engine() override;

  const char* name() const override { return name_; }
  Reach probe(Rank peer) const override;
  uint64_t longest_message() const override { return kMaxMessage; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override;

  Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) override {
    return memory_.acquire(data, bytes, use);
  }
  std::optional<uint64_t> direct_above() const override {
    return nic_->info().dmabuf ? std::optional(kEager) : std::nullopt;
  }
  bool flushed() const override { return !waiting(); }

 private:
  Status turn(bool& moved) override;
  Status read(Connection& connection, bool& moved) override { return connection.read_stream(moved); }
  void explain(Status& failure) override;
  int descriptor() const override { return nic_->descriptor(); }
  bool arm() override;
  Status take_completions(bool& moved);
  Status take(const Completion& completion);
  Status take_events();
  const Connection* connection_of(uint32_t queue) const;
  void drain() noexcept;

  const char* const name_;
  const uint32_t wanted_queues_;
  std::unique_ptr<Nic> nic_;
  Memory memory_;
  std::string last_event_;  // of the port
};

}  // namespace tutti::transports::verbs
