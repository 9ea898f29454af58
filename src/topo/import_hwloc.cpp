// hwloc's XML: <topology> of <object>, which lie in each other and have processors (cpuset), of hwloc 1 and 2. Read
// here, not by hwloc, which trusts its files.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.hpp"
#include "topo/device.hpp"
#include "topo/import.hpp"
#include "topo/link_figures.hpp"
#include "topo/processors.hpp"
#include "topo/xml_file.hpp"

namespace tutti::topo {
namespace {

constexpr int64_t kMax = 1 << 20;  // of numbers of things
constexpr size_t kMaxAreas = 1 << 14;
constexpr int kNetwork = 2, kOpenFabrics = 3;  // hwloc_obj_osdev_type_e
constexpr int64_t kMaxBytes = int64_t{1} << 56;

/// hwloc 1 says "Socket" and "Cache" with a depth.
std::string type_of(pugi::xml_node object) {
  std::string type = object.attribute("type").value();
  if (type == "Socket") return "Package";
  if (type == "Cache") return fmt::format("L{}Cache", object.attribute("depth").value());
  return type;
}

int cache_level(const std::string& type) {
  const bool is = type.size() == 7 && type[0] == 'L' && type.ends_with("Cache") && type[1] >= '1' && type[1] <= '9';
  return is ? type[1] - '0' : 0;
}

const char* info(pugi::xml_node object, const char* name) {
  return object.find_child_by_attribute("info", "name", name).attribute("value").value();
}

bool is_device(const std::string& type) { return type == "Bridge" || type == "PCIDev"; }

class Reader {
 public:
  explicit Reader(const XmlFile& file) : file_(file) {}

  Graph read() {
    const pugi::xml_node machine = file_.root().child("object");
    if (!machine) file_.fail(file_.root(), "<topology> has no <object>");
    const std::string type = type_of(machine);
    if (type != "Machine" && type != "System")
      file_.fail(machine, "the outermost object is a '{}'", type.substr(0, 50));
    Node host{.kind = NodeKind::Host, .name = info(machine, "HostName"), .processors = cores_of(machine)};
    host_ = graph_.add(std::move(host));
    take_processor(machine);
    collect(machine);
    const bool has_cores =
        std::any_of(areas_.begin(), areas_.end(), [](const Node& a) { return a.kind == NodeKind::Core; });
    if (!has_cores) std::move(threads_.begin(), threads_.end(), std::back_inserter(areas_));
    add_complexes();
    for (const Node& area : areas_) graph_.nodes[host_].bytes += area.kind == NodeKind::Numa ? area.bytes : 0;
    add_processors(graph_, host_, std::move(areas_), processor_);
    for (const auto& [device, near] : devices_) {
      const DeviceRoot root = device_root(graph_, host_, near);
      if (!root.sure) unsure_ = true;
      add_device(root.node, device);
    }
    if (unsure_ && graph_.all(NodeKind::Numa).size() + graph_.all(NodeKind::Package).size() > 2) {
      graph_.notes.emplace_back("some devices do not report which NUMA node they are near: taken as near the first");
    }
    number_gpus(graph_, host_);
    return std::move(graph_);
  }

 private:
  Cores cores_of(pugi::xml_node object) const {
    try {
      return parse_mask(object.attribute("cpuset").value());
    } catch (const Error& error) {
      file_.fail(object, "cpuset: {}", error.what());
    }
  }

  int os_index(pugi::xml_node object) const {
    // hwloc writes -1 as an unsigned number where there is none.
    const auto index = file_.number(object, "os_index", -1, -1, std::numeric_limits<uint32_t>::max());
    return index > kMax ? -1 : static_cast<int>(index);
  }

  void take_processor(pugi::xml_node object) {
    const auto take = [&](std::string& field, const char* name) {
      if (field.empty()) field = std::string(info(object, name)).substr(0, 200);
    };
    const auto number = [&](int& field, const char* name) {
      const pugi::xml_node found = object.find_child_by_attribute("info", "name", name);
      if (found && field < 0) field = static_cast<int>(file_.number(found, "value", -1, -1, kMax));
    };
    take(processor_.vendor, "CPUVendor");
    take(processor_.arch, "Architecture");
    number(processor_.family, "CPUFamilyNumber");
    number(processor_.model, "CPUModelNumber");
  }

  void collect(pugi::xml_node parent) {
    for (const pugi::xml_node object : parent.children("object")) {
      const std::string type = type_of(object);
      if (is_device(type)) {
        devices_.emplace_back(object, cores_of(parent));
        continue;
      }
      if (type == "Package") {
        take_processor(object);
        areas_.push_back({.kind = NodeKind::Package,
                          .model = std::string(info(object, "CPUModel")).substr(0, 200),
                          .processors = cores_of(object),
                          .number = os_index(object)});
      } else if (type == "NUMANode") {
        areas_.push_back({.kind = NodeKind::Numa,
                          .processors = cores_of(object),
                          .number = os_index(object),
                          .bytes = bytes(object, "local_memory")});
      } else if (type == "Core") {
        areas_.push_back({.kind = NodeKind::Core, .processors = cores_of(object), .number = cores_++});
      } else if (type == "PU") {
        threads_.push_back({.kind = NodeKind::Core, .processors = cores_of(object), .number = os_index(object)});
      } else if (const int level = cache_level(type); level > 0) {
        caches_[level].push_back(
            {.kind = NodeKind::Complex, .processors = cores_of(object), .bytes = bytes(object, "cache_size")});
      }
      if (areas_.size() + threads_.size() > kMaxAreas) file_.fail(object, "more than {} processors", kMaxAreas);
      collect(object);
    }
  }

  uint64_t bytes(pugi::xml_node object, const char* attribute) const {
    return static_cast<uint64_t>(file_.number(object, attribute, 0, 0, kMaxBytes));
  }

  /// The caches of the last level that two cores share, or of level 3.
  void add_complexes() {
    const auto cores_in = [&](const Node& cache) {
      return std::count_if(areas_.begin(), areas_.end(), [&](const Node& a) {
        return a.kind == NodeKind::Core && std::includes(cache.processors.begin(), cache.processors.end(),
                                                         a.processors.begin(), a.processors.end());
      });
    };
    for (auto level = caches_.rbegin(); level != caches_.rend(); ++level) {
      const auto shared = [&](const Node& cache) { return cores_in(cache) > 1; };
      if (level->first < 3 && std::none_of(level->second.begin(), level->second.end(), shared)) continue;
      std::move(level->second.begin(), level->second.end(), std::back_inserter(areas_));
      return;
    }
  }

  /// The class, and the vendor, of pci_type="0302 [10de:2335] [10de:18be] a1".
  static DeviceKind kind_of(pugi::xml_node device) {
    if (type_of(device) == "Bridge") return DeviceKind::Bridge;
    const std::string type = device.attribute("pci_type").value();
    const size_t bracket = type.find('[');
    return device_kind(parse_hex(type) << 8, bracket == std::string::npos ? 0 : parse_hex(type.substr(bracket + 1)));
  }

  bool leads_somewhere(pugi::xml_node device) const {
    const DeviceKind kind = kind_of(device);
    if (kind == DeviceKind::Gpu || kind == DeviceKind::Nic) return true;
    return !useful_children(device).empty();
  }

  std::vector<pugi::xml_node> useful_children(pugi::xml_node device) const {
    std::vector<pugi::xml_node> useful;
    for (const pugi::xml_node child : device.children("object")) {
      if (is_device(type_of(child)) && leads_somewhere(child)) useful.push_back(child);
    }
    return useful;
  }

  void add_device(NodeId parent, pugi::xml_node device) {
    const DeviceKind kind = kind_of(device);
    if (kind == DeviceKind::Gpu || kind == DeviceKind::Nic) {
      add_leaf(parent, device, kind);
      return;
    }
    const std::vector<pugi::xml_node> children = useful_children(device);
    // Root ports, and ports of a switch, have one child: they are no place where ways part.
    const bool root = std::string_view(device.attribute("bridge_type").value()) == "0-1";
    if (!root && children.size() > 1) {
      const NodeId bridge = graph_.add({.kind = NodeKind::Bridge, .parent = parent, .address = address(device)});
      graph_.connect(link_of(device, bridge, parent, NodeKind::Bridge));
      parent = bridge;
    }
    for (const pugi::xml_node child : children) add_device(parent, child);
  }

  std::string address(pugi::xml_node device) const { return address_of(file_.text(device, "pci_busid")); }
  Link link_of(pugi::xml_node device, NodeId child, NodeId parent, NodeKind kind) const {
    return pci_link_of_rate(child, parent, kind, file_.real(device, "pci_link_speed", 0));
  }

  void add_leaf(NodeId parent, pugi::xml_node device, DeviceKind kind) {
    Node node{.kind = kind == DeviceKind::Gpu ? NodeKind::Gpu : NodeKind::Nic, .parent = parent};
    node.address = address(device);
    node.model = std::string(info(device, "PCIDevice")).substr(0, 200);
    bool fabrics = false;
    for (const pugi::xml_node system : device.children("object")) {
      const auto type = type_of(system) == "OSDev" ? file_.number(system, "osdev_type", -1, -1, kMax) : -1;
      if (kind == DeviceKind::Gpu && *info(system, "GPUModel") != '\0') node.model = info(system, "GPUModel");
      if (kind != DeviceKind::Nic || (type != kNetwork && type != kOpenFabrics)) continue;
      // An InfiniBand device's own name says more than that of its network interface.
      if (node.name.empty() || (type == kOpenFabrics && !fabrics)) node.name = file_.text(system, "name");
      fabrics = fabrics || type == kOpenFabrics;
    }
    if (kind == DeviceKind::Nic) {
      node.port = (fabrics ? figures::port_unknown : figures::port_ethernet_unknown).gbps;
      node.assumed = true;
    }
    const NodeKind node_kind = node.kind;
    const NodeId id = graph_.add(std::move(node));
    graph_.connect(link_of(device, id, parent, node_kind));
  }

  const XmlFile& file_;
  Graph graph_;
  NodeId host_ = kNoNode;
  ProcessorId processor_;
  std::vector<Node> areas_, threads_;
  std::map<int, std::vector<Node>> caches_;  // by level
  std::vector<std::pair<pugi::xml_node, Cores>> devices_;
  int cores_ = 0;
  bool unsure_ = false;
};

}  // namespace

Graph import_hwloc(const XmlFile& file) {
  return file.naming([&] { return Reader(file).read(); });
}

}  // namespace tutti::topo
