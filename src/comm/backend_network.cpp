#include "comm/backend_network.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "comm/enqueued_calls.hpp"

namespace tutti::comm {

/// The endpoint's services, with streams and services of other names than those of the fabric's transports.
class BackendNetwork::Services final : public transports::Wireup {
 public:
  Services(Wireup& wireup, std::string prefix) : wireup_(wireup), prefix_(std::move(prefix)) {}
  Rank rank() const override { return wireup_.rank(); }
  Rank ranks() const override { return wireup_.ranks(); }
  const transports::ProcessId& process_id(Rank rank) const override { return wireup_.process_id(rank); }
  void confirm_process(Rank peer, Deadline deadline) override { wireup_.confirm_process(peer, deadline); }
  const std::string& name() const override { return wireup_.name(); }
  Fd open_stream(Rank peer, const std::string& label, Deadline deadline) override {
    return wireup_.open_stream(peer, own(label), deadline);
  }
  std::vector<transports::Path> paths(Rank peer) const override { return wireup_.paths(peer); }
  Fd open_stream_over(const transports::Path& path, Rank peer, const std::string& label, Deadline deadline) override {
    return wireup_.open_stream_over(path, peer, own(label), deadline);
  }
  std::optional<Fd> take_stream(Rank peer, const std::string& label) override {
    return wireup_.take_stream(peer, own(label));
  }
  void receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) override {
    wireup_.receive_streams(own(label), std::move(take));
  }
  void serve(const std::string& name, Service service) override { wireup_.serve(own(name), std::move(service)); }
  Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) override {
    return wireup_.ask(peer, own(service), request, deadline);
  }

 private:
  std::string own(const std::string& label) const { return prefix_ + label; }
  Wireup& wireup_;
  const std::string prefix_;
};

BackendNetwork::BackendNetwork(control::Endpoint& endpoint, Fabric& fabric, EnqueuedCalls* calls,
                               const std::string& name, double link_timeout)
    : endpoint_(endpoint),
      fabric_(fabric),
      calls_(calls),
      link_timeout_(link_timeout),
      services_(std::make_unique<Services>(endpoint, name + ":")) {}

BackendNetwork::~BackendNetwork() = default;

bool BackendNetwork::has_other_hosts() const {
  const std::string& mine = endpoint_.process_id(endpoint_.rank()).host;
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    if (endpoint_.process_id(peer).host != mine) return true;
  }
  return false;
}

/// Made at first use: a communicator may never be used for the backend's memory.
transports::Transport& BackendNetwork::transport_to(Rank peer) {
  const transports::TransportEntry& entry = fabric_.entry_to(peer);
  auto& known = transports_[entry.name];
  if (known == nullptr) {
    const transports::Context context{.wireup = services_.get(), .arena = &fabric_.arena(), .direct_access = false};
    known = transports::make(entry, context);
    if (known->is_engine()) engines_.push_back(known.get());
  }
  return *known;
}

link::OutLink BackendNetwork::connect_out(Rank peer, uint32_t link_lane) {
  return transport_to(peer).connect_out(peer, link_lane, Deadline::in(link_timeout_));
}

link::InLink BackendNetwork::connect_in(Rank peer, uint32_t link_lane) {
  return transport_to(peer).connect_in(peer, link_lane, Deadline::in(link_timeout_));
}

void BackendNetwork::failed(const Status& status, uint64_t call) {
  if (calls_ != nullptr) calls_->network_failed(status, call);
}

}  // namespace tutti::comm
