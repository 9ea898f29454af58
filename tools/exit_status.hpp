// What the exit statuses of the tools say.
#pragma once

#include "tutti/error.hpp"

namespace tutti::tools {

/// The words of the command line are refused: the same words would be refused again, so `tutti run --restarts` does not
/// start a rank again that ends so. Shells' own commands, Python's argparse and others have the same status for this.
inline constexpr int kRefusedStatus = 2;

/// Of a command that this error has ended.
inline int status_of(const Error& error) { return error.code() == Code::InvalidArgument ? kRefusedStatus : 1; }

}  // namespace tutti::tools
