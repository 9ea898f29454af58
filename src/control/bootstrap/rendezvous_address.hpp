// Where rank 0 serves one unique id of a launch, and how the other ranks reach it.
//
// On one host that is an abstract UNIX socket, whose name every rank derives from the launch. Any user of the host can
// take such a name, if the launch has no secret: then rank 0 takes a random one and writes it into a file of this user
// (in tutti's cache folder), where the others find it.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/bootstrap/launch.hpp"

namespace tutti::control {

/// Name and key differ for each id of the launch.
struct RendezvousAddress {
  /// `number`: of the launch's ids.
  RendezvousAddress(const Launch& launch, const std::string& secret, uint64_t number);

  std::string describe() const;
  /// The file with the name that rank 0 has taken instead of `name`; "" if the user has no folder for it.
  std::string file_of_other_name() const;

  bool one_host;
  Key key;
  std::string name;  // of the UNIX socket
  std::string root;
  uint16_t port;
};

/// Rank 0's listening socket.
class RendezvousListener {
 public:
  /// Throws Error(SystemError) that says who holds the place, if another does.
  explicit RendezvousListener(const RendezvousAddress& address);
  ~RendezvousListener();
  RendezvousListener(const RendezvousListener&) = delete;
  RendezvousListener& operator=(const RendezvousListener&) = delete;

  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::string file_;  // to be removed
};

/// One connection to rank 0. Throws as dial() and dial_unix() do.
Fd dial_rank_zero(const RendezvousAddress& address, WaitLimit limit);

}  // namespace tutti::control
