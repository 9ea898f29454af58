// What answers the connections that prove a communicator's key: its meeting point and its seats in this process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/rank.hpp"
#include "comm/lobby.hpp"

namespace tutti::comm {

class Control;
class Seat;

class CommunicatorParty final : public Party {
 public:
  CommunicatorParty(Control& control, const Key& key) : control_(control), key_(key), name_(public_name(key)) {}
  const Key& key() const override { return key_; }
  void welcome(Fd& fd, std::string_view first) override;

 private:
  std::shared_ptr<Seat> seat(Rank to, Rank from) const;

  Control& control_;
  const Key key_;
  const std::string name_;
};

}  // namespace tutti::comm
