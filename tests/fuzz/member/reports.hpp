// A hostile member's contributions to the exchanges in which ranks agree, as JSON.
#pragma once

#include <string>

#include "fuzz/member/words.hpp"
#include "transports/transport.hpp"

namespace tutti::fuzz {

/// A correct rank's report. `word` can be read in its process.
std::string honest_report(const transports::Word& word);
/// A correct rank's conclusions from the reports; rank 0's contain the decision table.
std::string honest_verdict();
/// Either of them, changed as `words` say, or something else.
std::string hostile_report(Words& words, const transports::Word& word);

}  // namespace tutti::fuzz
