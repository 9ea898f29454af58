// What another command draws over the picture of `tutti topo --svg`.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tools/topo/host_picture.hpp"

namespace tutti::tools {

struct Overlay {
  LinkLook look;  ///< how links are drawn
  /// Over the hosts: where nodes are.
  std::function<void(Canvas&, const std::map<topo::NodeId, Box>&)> over;
  /// Below it all, from `top` on, `width` wide; in place of the legend. Returns where it ends.
  std::function<double(Canvas&, double left, double top, double width)> below;
};

/// Each host is drawn, up to kMaxGroups of them.
std::string draw_topology(const topo::Graph& graph, const std::string& title, const Overlay& overlay);

}  // namespace tutti::tools
