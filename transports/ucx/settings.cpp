#include "transports/ucx/settings.hpp"

#include <algorithm>
#include <string_view>

#include "base/format.hpp"

namespace tutti::transports::ucx {
namespace {

/// A list of names as UCX reads it: those that are permitted, or, if it begins with ^, those that are not.
struct List {
  explicit List(std::string_view text) : excludes(text.starts_with('^')) {
    if (excludes) text.remove_prefix(1);
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      std::string_view name = text.substr(0, end);
      if (name.starts_with('\\')) name.remove_prefix(1);  // the name itself, not what it stands for
      names.push_back(name);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  bool has(std::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }

  bool excludes;
  std::vector<std::string_view> names;
};

/// "rc", "rc_verbs", …; not "ud:aux", which only helps to connect.
bool is_rdma(std::string_view transport) {
  const std::string_view family = transport.substr(0, 2);
  if (family != "ib" && family != "rc" && family != "ud" && family != "dc") return false;
  return transport.size() == family.size() || transport[family.size()] == '_';
}

/// Windows use reliable connections, which UCX calls rc.
bool permits_transport(const List& list) {
  if (list.excludes) return !list.has("ib") && !list.has("rc") && !list.has("all");
  return list.has("all") || std::any_of(list.names.begin(), list.names.end(), is_rdma);
}

bool permits_device(const List& list, const std::vector<std::string>& rdma_devices) {
  if (list.has("all")) return !list.excludes;
  const auto is_named = [&](const std::string& device) {
    return std::any_of(list.names.begin(), list.names.end(), [&](std::string_view name) {
      return name == device || name.starts_with(device + ":");  // … and a port
    });
  };
  return std::any_of(rdma_devices.begin(), rdma_devices.end(),
                     [&](const std::string& device) { return is_named(device) != list.excludes; });
}

}  // namespace

std::string why_no_rdma(const std::string& transports, const std::string& devices,
                        const std::vector<std::string>& rdma_devices) {
  if (!permits_transport(List(transports))) return fmt::format("UCX_TLS is {}, without RDMA", transports);
  if (!rdma_devices.empty() && !permits_device(List(devices), rdma_devices)) {
    return fmt::format("UCX_NET_DEVICES is {}, without an RDMA device", devices);
  }
  return "";
}

}  // namespace tutti::transports::ucx
