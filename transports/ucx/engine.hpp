// The engine: all links of one rank, over one UCX worker.
#pragma once

#include <deque>
#include <vector>

#include "transports/transport.hpp"
#include "transports/ucx/in_end.hpp"
#include "transports/ucx/out_end.hpp"
#include "transports/ucx/worker.hpp"

namespace tutti::transports::ucx {

class Engine final : public Transport, private Worker::Sink {
 public:
  explicit Engine(const Context& context);
  ~Engine() override;

  const char* name() const override { return "ucx"; }
  bool is_engine() const override { return true; }
  Reach probe(Rank peer) const override;
  /// UCX reads outgoing messages where they lie.
  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.address = true}, .in = {}}; }
  uint64_t longest_message() const override { return kMaxMessage; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override;

  Status progress(bool& moved) override;
  bool flushed() const override;
  void stop() override;
  bool sleep(double seconds) override;

 private:
  static std::string label(uint32_t link_lane);
  bool take_message(Fabric::Piece header, void* data, uint64_t bytes, bool announced) override;
  void take_credit(Fabric::Piece header) override;
  void ignore(const char* what);
  Status turn(bool& moved);
  void take_streams(bool& moved);
  Status read_streams(bool& moved);
  Status read(Stream& stream, bool& moved);
  bool waiting() const;
  void drain() noexcept;

  Wireup& wireup_;
  Worker worker_;
  std::deque<OutEnd> outs_;  // deques: addresses are stable
  std::deque<InEnd> ins_;
  std::vector<size_t> expected_;  // of ins_, whose streams have not come yet
  uint32_t greeting_ = 0;         // ends that are not ready
  uint32_t idle_turns_ = 0;
  uint64_t ignored_ = 0;  // messages from unknown peers
  Status failure_;        // the first one; it is permanent
  bool stopped_ = false;
};

}  // namespace tutti::transports::ucx
