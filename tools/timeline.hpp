// Timelines as pictures: who did what, when. What a trace of any kind is drawn from.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// Something that lasted.
struct Bar {
  double start = 0, end = 0;  ///< seconds
  std::string kind;   ///< decides the colour: "forward", "all_reduce", "wait", … ; see kKinds in the .cpp file
  std::string label;  ///< stands in the bar, if there is room for it
  std::string text;   ///< what a viewer shows under the pointer
  int shade = 0;      ///< lighter by so many steps
};

struct TimelineRow {
  std::string name;
  /// Bars that overlap share the row's height. Else a bar that lies within another one is a part of it, and is drawn on
  /// top of it.
  bool side_by_side = false;
  std::vector<Bar> bars;
};

/// The rows of a rank, or of a process.
struct TimelineGroup {
  std::string name, note;
  std::vector<TimelineRow> rows;
};

struct TimelinePicture {
  std::string title;
  std::vector<std::string> notes;  ///< below the picture
  std::vector<TimelineGroup> groups;
};

/// A time in ms or µs: four digits, and all before the point (12345, never 1.234e+04).
std::string time_digits(double value);

/// An SVG with a legend of the kinds that it has, as wide as a page. Follows the reader's light or dark mode.
std::string to_svg(const TimelinePicture& picture);

}  // namespace tutti::tools
