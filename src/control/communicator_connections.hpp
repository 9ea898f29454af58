// Routes the connections that prove a communicator's key to its rendezvous server and its clients in this process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/rank.hpp"
#include "control/acceptor.hpp"

namespace tutti::control {

class ControlThread;
class ControlClient;

class CommunicatorConnections final : public ConnectionHandler {
 public:
  CommunicatorConnections(ControlThread& control, const Key& key)
      : control_(control), key_(key), name_(public_name(key)) {}
  const Key& key() const override { return key_; }
  void on_connection(Fd& fd, std::string_view first) override;

 private:
  std::shared_ptr<ControlClient> client(Rank to, Rank from) const;

  ControlThread& control_;
  const Key key_;
  const std::string name_;
};

}  // namespace tutti::control
