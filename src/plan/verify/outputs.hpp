// What a collective requires of its outputs.
#pragma once

#include <string>

#include "plan/verify/forest.hpp"

namespace tutti::plan::verifier {

/// What is wrong with the value of an output block of a rank; "" if it is the required one. A fold that claims to
/// complete what it holds must have been checked when it ran: holds_everything().
std::string fault_of_output(const Forest& forest, const Shape& shape, uint32_t rank, uint32_t block, Value value);

}  // namespace tutti::plan::verifier
