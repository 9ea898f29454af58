// What a rank tells the others when its fabric is made.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "comm/fabric.hpp"

namespace tutti::comm {

/// What a rank says of its device.
struct DeviceReport {
  std::string why_not;              ///< why the rank serves no calls on device memory; "" if it does
  std::string id;                   ///< of the device, the same for all who use it
  uint64_t blocks = 0;              ///< of a call's kernel that the device runs at the same time
  std::vector<std::string> joined;  ///< ids of the devices to which its stores of a line stay whole
  std::string why_no_nvls;          ///< that folds for it and others (exec::DeviceExecutor); "" if there may be one
  std::string address;              ///< PCI, in the host's topology
  uint64_t kind = 0;                ///< of the host with its GPUs (comm/topology.hpp)
  std::string model, driver;        ///< as exec::DeviceExecutor has them
};

/// What a rank tells the others when its fabric is made.
struct RankReport {
  FabricReport fabric;
  std::string plans = "{}";  ///< JSON: the algorithms that TUTTI_PLAN gives, by collective
  std::string host;          ///< the host's name in messages
  std::string boot;          ///< of its kernel (control/host.hpp); "": unknown
  DeviceReport device;
  double crowding = 1;  ///< ranks per core of its host, as its other communicators know them
  uint64_t kind = 0;    ///< of its host (comm/topology.hpp)
};
std::string to_text(const RankReport& report);
/// Reads what rank `peer` sent. Throws Error(ProtocolError).
RankReport parse_report(const std::string& text, Rank peer);

/// Runs `body`, which reads JSON of rank `peer`. Throws Error(ProtocolError) for JSON of another form.
template <class Body>
decltype(auto) read_of(Rank peer, Body&& body) {
  try {
    return body();
  } catch (const nlohmann::json::exception& error) {
    throw_error(Code::ProtocolError, "the report of rank {} is invalid ({})", peer, error.what());
  }
}

}  // namespace tutti::comm
