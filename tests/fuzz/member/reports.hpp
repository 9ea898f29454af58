// What a hostile member gives to the exchanges in which ranks agree, as JSON.
#pragma once

#include <string>

#include "fuzz/member/words.hpp"
#include "transports/transport.hpp"

namespace tutti::fuzz {

/// What a rank of ours tells of itself. `word` is one that others can read in its process.
std::string honest_report(const transports::Word& word);
/// What a rank of ours makes of the others' reports; rank 0's has the decision table.
std::string honest_verdict();
/// Either of them, changed as `words` say; or nothing like them.
std::string hostile_report(Words& words, const transports::Word& word);

}  // namespace tutti::fuzz
