#include "topo/graph_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/file_kind.hpp"
#include "base/format.hpp"

namespace tutti::topo {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "tutti-topology";
constexpr int kDeepest = 8;
constexpr size_t kLongestText = 1000;

template <class Kind>
std::optional<Kind> kind_named(const std::string& name, int kinds) {
  for (int i = 0; i < kinds; ++i) {
    if (name == name_of(static_cast<Kind>(i))) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

ordered_json json_of(const Node& node) {
  ordered_json object{{"kind", name_of(node.kind)}};
  const auto put = [&](const char* name, const auto& value, bool told) {
    if (told) object[name] = value;
  };
  put("in", node.parent, node.parent != kNoNode);
  put("name", node.name, !node.name.empty());
  put("model", node.model, !node.model.empty());
  put("address", node.address, !node.address.empty());
  put("number", node.number, node.number >= 0);
  put("processors", to_text(node.processors), !node.processors.empty());
  put("usable", to_text(node.usable), !node.usable.empty());
  put("quota", node.quota, node.quota > 0);
  put("sm", node.sm, node.sm > 0);
  put("count", node.count, node.count != 1);
  put("bytes", node.bytes, node.bytes > 0);
  put("port", node.port, node.port > 0);
  put("assumed", true, node.assumed);
  return object;
}

ordered_json json_of(const Link& link) {
  ordered_json object{{"kind", name_of(link.kind)}, {"a", link.a}, {"b", link.b}, {"gbps", link.gbps}, {"us", link.us}};
  if (link.width != 1) object["width"] = link.width;
  if (link.assumed) object["assumed"] = true;
  if (link.measured) object["measured"] = true;
  if (link.most > 0) object["most"] = link.most;
  return object;
}

ordered_json json_of(const Figure& figure) {
  ordered_json object{{"between", name_of(figure.between)}, {"us", figure.us}, {"gbps", figure.gbps}};
  if (figure.a != kNoNode) object["a"] = figure.a;
  if (figure.b != kNoNode) object["b"] = figure.b;
  if (figure.most > 0) object["most"] = figure.most;
  if (figure.in_place) object["in_place"] = true;
  if (!figure.over.empty()) object["over"] = figure.over;
  object["transport"] = figure.transport;
  object["origin"] = figure.origin;
  return object;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

template <class List>
void put_list(std::string& text, const char* name, const List& list) {
  text += fmt::format(",\n\"{}\": [", name);
  bool first = true;
  for (const auto& one : list) {
    text += first ? "\n" : ",\n";
    first = false;
    text += dump(json_of(one));
  }
  text += "\n]";
}

/// Reads characters and counts lines, so that each object's line is known when it ends.
class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCounter(const char* at, size_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  bool operator==(const LineCounter& other) const { return at_ == other.at_; }
  bool operator!=(const LineCounter& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* line_;
};

/// Reads one object of a file. All complaints name its line.
class Fields {
 public:
  Fields(const json& object, const std::string& name, size_t line) : object_(object), name_(name), line_(line) {
    if (!object.is_object()) fail("not an object");
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw_error(Code::InvalidArgument, "{}:{}: {}", name_, line_, why);
  }

  std::string text(const char* field) const {
    const json* value = find(field);
    if (value == nullptr) return "";
    if (!value->is_string()) fail(fmt::format("\"{}\" is not a text", field));
    const auto& text = value->get_ref<const std::string&>();
    if (text.size() > kLongestText) fail(fmt::format("\"{}\" is longer than {} bytes", field, kLongestText));
    return text;
  }
  uint64_t whole(const char* field, uint64_t otherwise, uint64_t most) const {
    const json* value = find(field);
    if (value == nullptr) return otherwise;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > most) {
      fail(fmt::format("\"{}\" is not a whole number from 0 to {}", field, most));
    }
    return value->get<uint64_t>();
  }
  double real(const char* field) const {
    const json* value = find(field);
    if (value == nullptr) return 0;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < 0) {
      fail(fmt::format("\"{}\" is not a number that is 0 or more", field));
    }
    return value->get<double>();
  }
  bool flag(const char* field) const {
    const json* value = find(field);
    if (value != nullptr && !value->is_boolean()) fail(fmt::format("\"{}\" is not true or false", field));
    return value != nullptr && value->get<bool>();
  }
  Cores cores(const char* field) const {
    try {
      return parse_cores(text(field));
    } catch (const Error& error) {
      if (error.code() == Code::InvalidArgument) throw;
      fail(fmt::format("\"{}\": {}", field, error.what()));
    }
  }
  template <class Kind>
  Kind kind(int kinds) const {
    const std::string word = text("kind");
    const auto found = kind_named<Kind>(word, kinds);
    if (!found) fail(fmt::format("there is no kind \"{}\"", word));
    return *found;
  }

 private:
  const json* find(const char* field) const {
    const auto at = object_.find(field);
    return at == object_.end() ? nullptr : &*at;
  }

  const json& object_;
  const std::string& name_;
  size_t line_;
};

constexpr uint64_t kMaxInt = 1 << 20;
constexpr uint64_t kMaxUint = std::numeric_limits<uint32_t>::max();

Node node_of(const Fields& fields) {
  Node node{.kind = fields.kind<NodeKind>(kNodeKinds)};
  node.parent = static_cast<NodeId>(fields.whole("in", kNoNode, kMaxNodes));
  node.name = fields.text("name");
  node.model = fields.text("model");
  node.address = fields.text("address");
  // One more than is in the file, so that an absent one is -1.
  const uint64_t number = fields.whole("number", kMaxUint, kMaxInt);
  node.number = number == kMaxUint ? -1 : static_cast<int>(number);
  node.processors = fields.cores("processors");
  node.usable = fields.cores("usable");
  node.quota = fields.real("quota");
  node.sm = static_cast<int>(fields.whole("sm", 0, 10000));
  node.count = static_cast<uint32_t>(fields.whole("count", 1, kMaxUint));
  node.bytes = fields.whole("bytes", 0, std::numeric_limits<uint64_t>::max());
  node.port = fields.real("port");
  node.assumed = fields.flag("assumed");
  return node;
}

Link link_of(const Fields& fields) {
  return {.a = static_cast<NodeId>(fields.whole("a", kNoNode, kMaxUint)),
          .b = static_cast<NodeId>(fields.whole("b", kNoNode, kMaxUint)),
          .kind = fields.kind<LinkKind>(kLinkKinds),
          .width = static_cast<uint32_t>(fields.whole("width", 1, kMaxUint)),
          .gbps = fields.real("gbps"),
          .us = fields.real("us"),
          .assumed = fields.flag("assumed"),
          .measured = fields.flag("measured"),
          .most = fields.real("most")};
}

Figure figure_of(const Fields& fields) {
  Figure figure{.a = static_cast<NodeId>(fields.whole("a", kNoNode, kMaxUint)),
                .b = static_cast<NodeId>(fields.whole("b", kNoNode, kMaxUint)),
                .us = fields.real("us"),
                .gbps = fields.real("gbps"),
                .most = fields.real("most"),
                .in_place = fields.flag("in_place"),
                .over = fields.text("over"),
                .transport = fields.text("transport"),
                .origin = fields.text("origin")};
  const std::string between = fields.text("between");
  for (const auto kind : {Figure::Between::Threads, Figure::Between::Processes, Figure::Between::Hosts}) {
    if (between != name_of(kind)) continue;
    figure.between = kind;
    return figure;
  }
  fields.fail(fmt::format("there are no links between \"{}\"", between));
}

/// The line where each object of each list ends.
using Lines = std::map<std::string, std::vector<size_t>>;

json parse(std::string_view text, const std::string& name, Lines& lines) {
  if (text.size() > kLongestJson) {
    throw_error(Code::InvalidArgument, "{}: {} bytes; at most {} are read", name, text.size(), kLongestJson);
  }
  size_t line = 1;
  std::string list;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepest) throw_error(Code::InvalidArgument, "{}:{}: nested deeper than {}", name, line, kDeepest);
    if (event == json::parse_event_t::key && depth == 1) list = value.get<std::string>().substr(0, kLongestText);
    if (event == json::parse_event_t::object_end && depth == 2) lines[list].push_back(line);
    return true;
  };
  try {
    return json::parse(LineCounter(text.data(), &line), LineCounter(text.data() + text.size(), &line), watch);
  } catch (const json::exception& error) {
    throw_error(Code::InvalidArgument, "{}:{}: {}", name, line, error.what());
  }
}

/// Calls read(fields) for each object of a list.
template <class Read>
void each(const json& root, const Lines& lines, const char* list, const std::string& name, const Read& read) {
  const auto at = root.find(list);
  if (at == root.end() || !at->is_array()) {
    throw_error(Code::InvalidArgument, "{}:1: there is no list \"{}\"", name, list);
  }
  const auto found = lines.find(list);
  size_t next = 0;
  for (const json& object : *at) {
    const bool known = object.is_object() && found != lines.end() && next < found->second.size();
    read(Fields(object, name, known ? found->second[next++] : 1));
  }
}

template <class T, class Read>
std::vector<T> plain_list(const json& root, const char* list, const std::string& name, const Read& read) {
  std::vector<T> values;
  const auto at = root.find(list);
  if (at == root.end()) return values;
  for (const json& value : *at) {
    const std::optional<T> one = read(value);
    if (!one) throw_error(Code::InvalidArgument, "{}:1: \"{}\" has an entry that it cannot have", name, list);
    values.push_back(*one);
  }
  return values;
}

}  // namespace

std::string to_json(const Graph& graph) {
  std::string text = fmt::format("{{\"format\": \"{}\", \"version\": 1", kFormat);
  put_list(text, "nodes", graph.nodes);
  put_list(text, "links", graph.links);
  if (!graph.figures.empty()) put_list(text, "figures", graph.figures);
  if (!graph.facts.empty()) text += ",\n\"facts\": " + dump(graph.facts);
  if (!graph.processes.empty()) text += ",\n\"processes\": " + dump(graph.processes);
  text += ",\n\"ranks\": " + dump(graph.ranks) + ",\n\"notes\": " + dump(graph.notes) + "\n}\n";
  return text;
}

Graph graph_of_json(std::string_view text, const std::string& name) {
  check_kind_of_file(text, name, kFormat, "a topology (NCCL's or hwloc's XML, or the JSON of `tutti topo --json`)");
  Lines lines;
  const json root = parse(text, name, lines);
  const auto bad = [&](const char* why) { throw_error(Code::InvalidArgument, "{}:1: {}", name, why); };
  if (!root.is_object() || root.value("format", json()) != kFormat) bad("\"format\" is not \"tutti-topology\"");
  if (root.value("version", json()) != 1) bad("\"version\" is not 1, the only one that is known");
  Graph graph;
  const auto checked = [](const Fields& fields, auto&& checks) {
    try {
      checks();
    } catch (const Error& error) {
      fields.fail(error.what());
    }
  };
  each(root, lines, "nodes", name, [&](const Fields& fields) {
    Node node = node_of(fields);
    checked(fields, [&] { check_node(graph, graph.add(std::move(node))); });
  });
  each(root, lines, "links", name, [&](const Fields& fields) {
    if (graph.links.size() >= kMaxLinks) fields.fail("too many links");
    graph.links.push_back(link_of(fields));
    checked(fields, [&] { check_link(graph, graph.links.size() - 1); });
  });
  graph.ranks = plain_list<NodeId>(root, "ranks", name, [](const json& value) -> std::optional<NodeId> {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxNodes) return std::nullopt;
    return value.get<NodeId>();
  });
  graph.processes = plain_list<uint32_t>(root, "processes", name, [](const json& value) -> std::optional<uint32_t> {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxUint) return std::nullopt;
    return value.get<uint32_t>();
  });
  if (root.contains("figures")) {
    each(root, lines, "figures", name, [&](const Fields& fields) {
      if (graph.figures.size() >= kMaxLinks) fields.fail("too many figures");
      graph.figures.push_back(figure_of(fields));
      checked(fields, [&] { check_figure(graph, graph.figures.size() - 1); });
    });
  }
  const auto facts = root.find("facts");
  if (facts != root.end()) {
    if (!facts->is_object()) bad("\"facts\" is not an object");
    for (const auto& [fact, value] : facts->items()) {
      if (!value.is_number() || fact.size() > kLongestText) bad("\"facts\" has an entry that it cannot have");
      graph.facts[fact] = value.get<double>();
    }
  }
  graph.notes = plain_list<std::string>(root, "notes", name, [](const json& value) -> std::optional<std::string> {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText) return std::nullopt;
    return value.get<std::string>();
  });
  try {
    check(graph);
  } catch (const Error& error) {
    throw_error(Code::InvalidArgument, "{}:1: {}", name, error.what());
  }
  return graph;
}

}  // namespace tutti::topo
