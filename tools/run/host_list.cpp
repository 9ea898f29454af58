#include "tools/run/host_list.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <unordered_map>

#include "base/format.hpp"
#include "base/printable.hpp"

namespace tutti::tools {
namespace {

constexpr int kMaxSlots = 65536;
constexpr size_t kMaxHosts = 65536;
constexpr size_t kMaxFileBytes = 16 << 20;

int parse_slots(std::string_view digits, const std::string& where, std::string_view entry) {
  int slots = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  if (failure != std::errc{} || end != digits.data() + digits.size() || slots < 1 || slots > kMaxSlots) {
    throw_error(Code::InvalidArgument, "{}: \"{}\": the number of slots must be from 1 to {}", where, printable(entry),
                kMaxSlots);
  }
  return slots;
}

/// "name" or "user@name". ssh would take a leading dash for an option.
bool is_name(std::string_view text) {
  const auto belongs = [](unsigned char c) { return c > ' ' && c != 127 && std::strchr(":,[]", c) == nullptr; };
  const size_t user = text.find('@');
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), belongs) && user != 0 &&
         user != text.size() - 1 && user == text.rfind('@');
}

/// "name" or "name:slots".
Host parse_host(std::string_view entry, const std::string& where) {
  const size_t colon = entry.rfind(':');
  Host host{std::string(entry.substr(0, colon)), std::nullopt};
  if (!is_name(host.name)) {
    throw_error(Code::InvalidArgument, "{}: \"{}\" is not a host; write name or name:slots, e.g. --hosts a,b:4", where,
                printable(entry));
  }
  if (colon != std::string_view::npos) host.slots = parse_slots(entry.substr(colon + 1), where, entry);
  return host;
}

/// The end of the entry that begins at `start`: the next comma that is not in brackets.
size_t end_of_entry(std::string_view text, size_t start) {
  bool inside = false;
  for (size_t i = start; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return i;
  }
  return text.size();
}

[[noreturn]] void refuse_brackets(std::string_view entry, const std::string& where) {
  throw_error(Code::InvalidArgument, "{}: \"{}\": write ranges as node[1-4,7], at most {} hosts", where,
              printable(entry), kMaxHosts);
}

/// Adds the names of "node[08-11,20]-ib", whose brackets `open` and `close` are.
void expand_brackets(std::string_view entry, size_t open, size_t close, const std::string& where,
                     std::vector<std::string>& names) {
  const std::string_view before = entry.substr(0, open), after = entry.substr(close + 1);
  std::string_view ranges = entry.substr(open + 1, close - open - 1);
  while (true) {
    const size_t comma = std::min(ranges.find(','), ranges.size());
    const std::string_view range = ranges.substr(0, comma);
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash), high = dash < range.size() ? range.substr(dash + 1) : low;
    uint32_t first = 0, last = 0;
    const auto read = [](std::string_view digits, uint32_t& value) {
      const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return failure == std::errc{} && end == digits.data() + digits.size();
    };
    if (!read(low, first) || !read(high, last) || last < first || low.size() > 9 ||
        names.size() + (last - first) >= kMaxHosts) {
      refuse_brackets(entry, where);
    }
    for (uint32_t number = first; number <= last; ++number) {
      names.push_back(fmt::format("{}{:0{}}{}", before, number, low.size(), after));
    }
    if (comma == ranges.size()) return;
    ranges.remove_prefix(comma + 1);
  }
}

/// "node[1-4]:8" as its hosts.
void add_entry(std::string_view entry, const std::string& where, std::vector<Host>& hosts) {
  const size_t open = entry.find('[');
  if (open == std::string_view::npos) {
    hosts.push_back(parse_host(entry, where));
    return;
  }
  const size_t close = entry.find(']', open);
  if (close == std::string_view::npos || entry.find('[', close) != std::string_view::npos)
    refuse_brackets(entry, where);
  std::vector<std::string> names;
  expand_brackets(entry, open, close, where, names);
  for (const std::string& name : names) hosts.push_back(parse_host(name, where));
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The words after a host's name: "slots=4 max_slots=8". Only slots says how many ranks it takes.
std::optional<int> parse_words(std::string_view words, const std::string& where, std::string_view line) {
  std::optional<int> slots;
  while (!(words = trimmed(words)).empty()) {
    const size_t end = std::min(words.find_first_of(" \t"), words.size());
    const std::string_view word = words.substr(0, end);
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals == std::string_view::npos || (name != "slots" && name != "max_slots" && name != "max-slots")) {
      throw_error(Code::InvalidArgument, "{}: \"{}\" after the host is not known; write name, name:4 or name slots=4",
                  where, printable(word));
    }
    const int value = parse_slots(word.substr(equals + 1), where, line);
    if (name == "slots") slots = value;
    words.remove_prefix(end);
  }
  return slots;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text) {
  if (text.starts_with('@')) return read_host_file(std::string(text.substr(1)));
  std::vector<Host> hosts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = end_of_entry(text, start);
    add_entry(text.substr(start, end - start), "--hosts", hosts);
    start = end + 1;
  }
  std::unordered_map<std::string_view, size_t> seen;
  for (const Host& host : hosts) {
    if (++seen[host.name] > 1) {
      throw_error(Code::InvalidArgument, "--hosts: {} is listed twice; write {}:2 for two ranks", host.name, host.name);
    }
  }
  return hosts;
}

std::vector<Host> parse_host_file(std::string_view text, const std::string& origin) {
  std::vector<Host> hosts;
  std::unordered_map<std::string, size_t> known;  // by name: its index
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, std::min(text.find('#'), end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", origin, number);
    std::vector<Host> read;
    const size_t blank = std::min(line.find_first_of(" \t"), line.size());
    add_entry(line.substr(0, blank), where, read);
    const std::optional<int> slots = parse_words(line.substr(blank), where, line);
    for (Host& host : read) {
      if (slots) host.slots = slots;
      const auto [entry, fresh] = known.try_emplace(host.name, hosts.size());
      if (fresh) {
        hosts.push_back(std::move(host));
      } else {  // a line for each slot
        Host& first = hosts[entry->second];
        first.slots = std::min(first.slots.value_or(1) + host.slots.value_or(1), kMaxSlots);
      }
    }
    if (hosts.size() > kMaxHosts) {
      throw_error(Code::InvalidArgument, "{}: more than {} hosts", where, kMaxHosts);
    }
  }
  if (hosts.empty()) throw_error(Code::InvalidArgument, "{}: there is no host in this file", origin);
  return hosts;
}

std::vector<Host> read_host_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& stream = path == "-" ? std::cin : file;
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad() || (path != "-" && !file.is_open())) {
    throw_error(Code::SystemError, "the host file {} cannot be read: {}", path, std::strerror(errno));
  }
  if (text.size() > kMaxFileBytes) throw_error(Code::InvalidArgument, "{}: too long for a host file", path);
  return parse_host_file(text, path);
}

}  // namespace tutti::tools
