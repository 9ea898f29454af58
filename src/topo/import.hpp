// Topologies from files: NCCL's XML (NCCL_TOPO_DUMP_FILE), hwloc's XML (lstopo file.xml), and Tutti's own JSON. Files
// are not trusted: a fault is an Error(InvalidArgument) "FILE:LINE: what".
#pragma once

#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace tutti::topo {

class XmlFile;

/// Reads a file of any of these kinds. Throws Error(SystemError) if it cannot be read.
Graph import_file(const std::string& path);
/// The same of a file's text; `name` is for messages.
Graph import_text(std::string_view text, const std::string& name);

/// The root element is <system>.
Graph import_nccl(const XmlFile& file);
/// The root element is <topology>, of hwloc 1 or 2.
Graph import_hwloc(const XmlFile& file);

}  // namespace tutti::topo
