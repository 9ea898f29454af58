#include "comm/rank_report.hpp"

#include "base/format.hpp"

namespace tutti::comm {

RankReport parse_report(std::string_view bytes, Rank peer) {
  RankReport report = read_of<RankReport>(peer, bytes);
  const auto check = [&](double value, double least, const char* what) {
    if (value >= least && value <= 1e6) return;
    throw_error(Code::ProtocolError, "the report of rank {} is invalid ({} in place of {})", peer, value, what);
  };
  check(report.crowding, 1, "the ranks on a core");
  check(report.fabric.most, 0, "the GB/s inside a host");
  return report;
}

std::string text_of(const std::shared_ptr<const select::Synthesised>& synthesised) {
  return synthesised == nullptr ? "" : synthesised->text;
}

std::shared_ptr<const select::Synthesised> synthesised_from(const std::string& text, Rank ranks) {
  if (text.empty()) return nullptr;
  try {
    return select::read_synthesised(text, std::nullopt, ranks);
  } catch (const Error& error) {
    throw_error(Code::ProtocolError,
                "rank 0's synthesised plans cannot be used: {}; TUTTI_SYNTH=off on all ranks does without them",
                error.what());
  }
}

}  // namespace tutti::comm
