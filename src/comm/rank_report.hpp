// What ranks tell each other when a communicator is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/fields.hpp"
#include "comm/fabric.hpp"
#include "link/cost.hpp"
#include "select/synthesised.hpp"

namespace tutti::comm {

inline constexpr size_t kMaxReport = 1 << 20;  ///< bytes of a text in it
inline constexpr size_t kMaxTable = 8 << 20;   ///< bytes of a decision table

/// What a rank says of one of its backends.
struct BackendReport {
  std::string why_not;  ///< why the rank serves no calls on it; "" if it does
  std::string text;     ///< exec::Backend::report()

  static void fields(auto& m, auto& v) { v.words(m.why_not, kMaxReport), v.text(m.text, kMaxReport); }
};

/// What ranks tell each other when a communicator is made.
struct RankReport {
  FabricReport fabric;
  std::string plans = "{}";                            ///< JSON: the algorithms that TUTTI_PLAN gives, by collective
  std::string host;                                    ///< the host's name in messages
  std::string boot;                                    ///< of its kernel (control/host.hpp); "": unknown
  std::map<std::string, BackendReport> backends = {};  ///< by name: all but the host's
  double crowding = 1;          ///< ranks per core of its host, as its other communicators know them
  uint64_t kind = 0;            ///< of its host (comm/topology.hpp)
  uint64_t kind_with_gpus = 0;  ///< the same with its GPUs; 0: no backend of this rank uses them

  static void fields(auto& m, auto& v) {
    v.item(m.fabric);
    v.words(m.plans, kMaxReport);
    v.words(m.host, kMaxReport);
    v.text(m.boot, kMaxReport);
    v.map(m.backends, 256, 256);
    v.real(m.crowding);
    v.number(m.kind, m.kind_with_gpus);
  }
};

/// What a rank concludes from the reports.
struct Conclusions {
  transports::ReadAccess reading = transports::ReadAccess::Direct;
  bool shares_cores = false;
  bool operator==(const Conclusions&) const = default;
  static void fields(auto& m, auto& v) { v.choice(m.reading, transports::ReadAccess::Direct), v.flag(m.shares_cores); }
};

/// What ranks send with them: rank 0 what follows from its own.
struct ConclusionsPage {
  Conclusions conclusions;
  std::string table;
  std::string synthesised;  ///< plans that the table may name (select::Synthesised::text); "": none
  link::LinkCost inside, between;
  static void fields(auto& m, auto& v) {
    v.item(m.conclusions);
    v.text(m.table, kMaxTable);
    v.text(m.synthesised, select::kMaxSynthesised);
    v.item(m.inside);
    v.item(m.between);
  }
};

/// Reads a message of rank `peer`. Throws Error(ProtocolError), which names the rank.
template <class M>
M read_of(Rank peer, std::string_view bytes) {
  try {
    return unpack_fields<M>(bytes);
  } catch (const Error& error) {
    throw_error(Code::ProtocolError, "the report of rank {} is invalid ({})", peer, error.what());
  }
}

/// What rank 0 tells of its synthesised plans; "": it has none.
std::string text_of(const std::shared_ptr<const select::Synthesised>& synthesised);
/// And back, on another rank, which verifies them too. Throws Error(ProtocolError).
std::shared_ptr<const select::Synthesised> synthesised_from(const std::string& text, Rank ranks);

/// Reads what rank `peer` sent. Throws Error(ProtocolError).
RankReport parse_report(std::string_view bytes, Rank peer);

}  // namespace tutti::comm
