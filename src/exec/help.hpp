// What a rank that waits does for those that it waits for: it copies with them what it has lent (transports/help.hpp).
#pragma once

#include <span>

#include "exec/interpreter.hpp"
#include "transports/link.hpp"

namespace tutti::exec {

/// Copies one tile for a reader of one of these links, where a reader has asked for that. True when it did.
bool help_a_reader(std::span<transports::OutLink> outs);

/// These links' reader stops: no writer begins to copy, or to fold, to its memory any more.
void refuse_help(std::span<transports::InLink> ins);

/// After that: has the writer of this link, who was doing so, stopped too?
bool alone(const transports::InLink& in);

}  // namespace tutti::exec
