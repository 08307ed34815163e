// A picture that is drawn with lines and words, by Cairo. For draw_figure.cc alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

struct Colour {
  double red = 0, green = 0, blue = 0, opacity = 1;
};
struct Place {
  double x = 0, y = 0;
};
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};
enum class Align { kLeft, kMiddle, kRight };

// Pixels from the upper left corner. An error that Cairo has is kept, and is Png's.
class Canvas {
 public:
  // White.
  Canvas(int width, int height);
  ~Canvas();

  // `at`: on the base line.
  void Write(absl::string_view text, Place at, double size, Colour colour, Align align = Align::kLeft,
             bool bold = false);
  // The text as Write shows it, without the middle where it is wider than `width`.
  std::string Fit(absl::string_view text, double size, double width, bool bold = false);
  double WidthOf(absl::string_view text, double size, bool bold = false);
  void Line(const std::vector<Place>& places, double width, Colour colour, bool is_dashed = false);
  void Dot(Place at, double radius, Colour colour);
  // Until Unclip nothing is drawn outside.
  void ClipTo(const Box& box);
  void Unclip();

  [[nodiscard]] absl::StatusOr<std::string> Png();

 private:
  struct Handles;
  const std::unique_ptr<Handles> handles_;
};

}  // namespace distill
