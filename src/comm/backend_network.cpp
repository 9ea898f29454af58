#include "comm/device_network.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "comm/device_calls.hpp"
#include "transports/fault/fault.hpp"

namespace tutti::comm {

/// The endpoint's services, with streams and services of other names than those of the fabric's transports.
class DeviceNetwork::Services final : public transports::Wireup {
 public:
  explicit Services(Wireup& wireup) : wireup_(wireup) {}
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
  void serve(const std::string& name, Service service) override { wireup_.serve(own(name), std::move(service)); }
  Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) override {
    return wireup_.ask(peer, own(service), request, deadline);
  }

 private:
  static std::string own(const std::string& label) { return "device:" + label; }
  Wireup& wireup_;
};

DeviceNetwork::DeviceNetwork(control::Endpoint& endpoint, Fabric& fabric, EnqueuedCalls& calls, double link_timeout)
    : fabric_(fabric), calls_(calls), link_timeout_(link_timeout), services_(std::make_unique<Services>(endpoint)) {}

DeviceNetwork::~DeviceNetwork() = default;

/// Made at first use: a communicator may never be used for device memory.
transports::Transport& DeviceNetwork::engine_to(Rank peer) {
  const transports::TransportEntry& entry = fabric_.entry_to(peer);
  auto& known = transports_[entry.name];
  if (known == nullptr) {
    const transports::Context context{.wireup = services_.get(), .arena = &fabric_.arena(), .direct_access = false};
    auto made = transports::with_faults_of_environment(entry.make(context), context);
    if (!made->is_engine()) {
      throw_error(Code::Unsupported, "{} does not connect GPUs of different hosts: TUTTI_TRANSPORT names it",
                  entry.name);
    }
    known = std::move(made);
    engines_.push_back(known.get());
  }
  return *known;
}

link::OutLink DeviceNetwork::connect_out(Rank peer, uint32_t link_lane) {
  return engine_to(peer).connect_out(peer, link_lane, Deadline::in(link_timeout_));
}

link::InLink DeviceNetwork::connect_in(Rank peer, uint32_t link_lane) {
  return engine_to(peer).connect_in(peer, link_lane, Deadline::in(link_timeout_));
}

void DeviceNetwork::failed(const Status& status, uint64_t call) { calls_.network_failed(status, call); }

}  // namespace tutti::comm
