// The engine: all links of one rank, over one UCX worker.
#pragma once

#include <optional>

#include "transports/link_engine.hpp"
#include "transports/ucx/receiver.hpp"
#include "transports/ucx/sender.hpp"
#include "transports/ucx/worker.hpp"

namespace tutti::transports::ucx {

class Engine final : public LinkEngine<Sender, Receiver, Stream>, private Worker::Sink {
 public:
  explicit Engine(const Context& context);
  ~Engine() override;

  const char* name() const override { return "ucx"; }
  Reach probe(Rank peer) const override;
  uint64_t longest_message() const override { return kMaxMessage; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override;

  bool flushed() const override { return !waiting() && worker_.flushed(); }
  void stop() override;

 private:
  bool take_message(Fabric::Piece header, void* data, uint64_t bytes, bool announced) override;
  void take_credit(Fabric::Piece header) override;
  void ignore(const char* what);
  Status turn(bool& moved) override;
  Status read(Stream& stream, bool& moved) override;
  Status given_up(bool& moved);
  int descriptor() const override { return worker_.descriptor(); }
  bool arm() override { return worker_.arm(); }  // false if something has happened
  void drain() noexcept;

  Worker worker_;
  uint64_t ignored_ = 0;                    // messages from unknown peers
  std::optional<Deadline> given_up_until_;  // until then, the loss of a peer may explain why UCX has given up
};

}  // namespace tutti::transports::ucx
