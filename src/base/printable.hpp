// Text from elsewhere that people will read.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// The text as it may go to a log or a terminal: what is no UTF-8, and characters that control a terminal or the order
/// of writing, become '?'; line breaks and tabs become blanks. It has as many bytes or fewer.
std::string printable(std::string_view text);

}  // namespace tutti
