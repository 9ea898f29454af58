#include "comm/rank_report.hpp"

#include "base/format.hpp"

namespace tutti::comm {

RankReport parse_report(std::string_view bytes, Rank peer) {
  RankReport report = read_of<RankReport>(peer, bytes);
  if (report.crowding >= 1 && report.crowding <= 1e6) return report;
  throw_error(Code::ProtocolError, "the report of rank {} is invalid ({} in place of the ranks on a core)", peer,
              report.crowding);
}

}  // namespace tutti::comm
