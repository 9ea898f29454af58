#include "topo/ports.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace tutti::topo {
namespace {

namespace fs = std::filesystem;

constexpr int kEthernet = 1;  // ARPHRD_ETHER

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double number_in(const fs::path& path, double otherwise) {
  std::istringstream words(first_line(path));
  double value = 0;
  return words >> value ? value : otherwise;
}

/// "0000:18:00.0".
bool is_pci_address(const std::string& name) {
  const size_t size = name.size();
  return size >= 12 && name[size - 2] == '.' && name[size - 5] == ':' && name[size - 8] == ':';
}

/// The PCI device that a device is, or lies on (as virtio's do).
std::string pci_address_of(const fs::path& device) {
  std::error_code error;
  for (fs::path at = fs::canonical(device, error); !error && at.has_relative_path(); at = at.parent_path()) {
    if (is_pci_address(at.filename())) return at.filename();
  }
  return "";
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

PortReport rdma_port(const fs::path& folder) {
  PortReport report{.name = folder.filename(), .address = pci_address_of(folder / "device"), .rdma = true};
  report.numa = static_cast<int>(number_in(folder / "device" / "numa_node", -1));
  report.active = false;
  for (const fs::path& port : entries(folder / "ports")) {
    if (first_line(port / "state").find("ACTIVE") == std::string::npos) continue;  // "4: ACTIVE"
    report.active = true;
    report.mbps += std::max(0.0, number_in(port / "rate", 0)) * 1000;  // "400 Gb/sec (4X NDR)"
  }
  return report;
}

PortReport interface(const fs::path& folder) {
  PortReport report{.name = folder.filename(), .address = pci_address_of(folder / "device")};
  report.numa = static_cast<int>(number_in(folder / "device" / "numa_node", -1));
  report.mbps = std::max(0.0, number_in(folder / "speed", 0));  // -1: unknown
  report.active = first_line(folder / "operstate") != "down";
  return report;
}

}  // namespace

std::vector<PortReport> read_ports(const std::string& root) {
  std::vector<PortReport> reports, without_device;
  std::set<std::string> addresses;
  for (const fs::path& folder : entries(root + "/sys/class/infiniband")) {
    reports.push_back(rdma_port(folder));
    addresses.insert(reports.back().address);
  }
  for (const fs::path& folder : entries(root + "/sys/class/net")) {
    if (folder.filename() == "lo" || number_in(folder / "type", kEthernet) != kEthernet) continue;
    PortReport report = interface(folder);
    if (!is_there(folder / "device")) {
      if (first_line(folder / "operstate") == "up") without_device.push_back(std::move(report));
    } else if (report.address.empty() || !addresses.contains(report.address)) {
      reports.push_back(std::move(report));
    }
  }
  return reports.empty() ? without_device : reports;
}

PortReport read_interface(const std::string& name, const std::string& root) {
  return interface(fs::path(root + "/sys/class/net") / name);
}

}  // namespace tutti::topo
