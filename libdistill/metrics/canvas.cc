#include "libdistill/metrics/canvas.h"

#include <cairo.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/utf8.h"

namespace distill {
namespace {

cairo_status_t AppendBytes(void* text, const unsigned char* bytes, unsigned int size) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), size);
  return CAIRO_STATUS_SUCCESS;
}

void SetFont(cairo_t* cairo, double size, bool bold) {
  cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, size);
}

void SetColour(cairo_t* cairo, const Colour& colour) {
  cairo_set_source_rgba(cairo, colour.red, colour.green, colour.blue, colour.opacity);
}

// Cairo ends its text at the first byte of 0, and refuses what is no UTF-8.
std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char byte : LossyUtf8(text)) printable.push_back(static_cast<unsigned char>(byte) < ' ' ? ' ' : byte);
  return printable;
}

}  // namespace

struct Canvas::Handles {
  cairo_surface_t* surface;
  cairo_t* cairo;
};

Canvas::Canvas(int width, int height) : handles_(std::make_unique<Handles>()) {
  handles_->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  handles_->cairo = cairo_create(handles_->surface);
  cairo_set_source_rgb(handles_->cairo, 1, 1, 1);
  cairo_paint(handles_->cairo);
  cairo_set_line_join(handles_->cairo, CAIRO_LINE_JOIN_BEVEL);
}

Canvas::~Canvas() {
  cairo_destroy(handles_->cairo);
  cairo_surface_destroy(handles_->surface);
}

double Canvas::WidthOf(absl::string_view text, double size, bool bold) {
  cairo_text_extents_t extents = {};
  SetFont(handles_->cairo, size, bold);
  cairo_text_extents(handles_->cairo, Printable(text).c_str(), &extents);
  return extents.x_advance;
}

std::string Canvas::Fit(absl::string_view text, double size, double width, bool bold) {
  const std::string whole = Printable(text);
  if (WidthOf(whole, size, bold) <= width) return whole;
  const std::vector<absl::string_view> letters = CodePoints(whole);
  const auto with = [&](size_t kept) {
    const auto tail = letters.end() - static_cast<std::ptrdiff_t>(kept / 2);
    return absl::StrCat(
        absl::StrJoin(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(kept - kept / 2), ""),
        "\xE2\x80\xA6", absl::StrJoin(tail, letters.end(), ""));  // an ellipsis
  };
  size_t fits = 0, too_many = letters.size();
  while (fits + 1 < too_many) {
    const size_t middle = (fits + too_many) / 2;
    (WidthOf(with(middle), size, bold) <= width ? fits : too_many) = middle;
  }
  return with(fits);
}

void Canvas::Write(absl::string_view text, Place at, double size, Colour colour, Align align, bool bold) {
  const double width = align == Align::kLeft ? 0 : WidthOf(text, size, bold);
  SetFont(handles_->cairo, size, bold);
  SetColour(handles_->cairo, colour);
  cairo_move_to(handles_->cairo, at.x - (align == Align::kRight ? width : width / 2), at.y);
  cairo_show_text(handles_->cairo, Printable(text).c_str());
}

void Canvas::Line(const std::vector<Place>& places, double width, Colour colour, bool is_dashed) {
  const double dashes[] = {5, 3};
  cairo_set_dash(handles_->cairo, dashes, is_dashed ? 2 : 0, 0);
  cairo_set_line_width(handles_->cairo, width);
  SetColour(handles_->cairo, colour);
  cairo_new_path(handles_->cairo);
  for (const Place& place : places) cairo_line_to(handles_->cairo, place.x, place.y);
  cairo_stroke(handles_->cairo);
}

void Canvas::Dot(Place at, double radius, Colour colour) {
  constexpr double kTurn = 6.283185307179586;
  SetColour(handles_->cairo, colour);
  cairo_new_path(handles_->cairo);
  cairo_arc(handles_->cairo, at.x, at.y, radius, 0, kTurn);
  cairo_fill(handles_->cairo);
}

void Canvas::ClipTo(const Box& box) {
  cairo_save(handles_->cairo);
  cairo_rectangle(handles_->cairo, box.left, box.top, box.right - box.left, box.bottom - box.top);
  cairo_clip(handles_->cairo);
}

void Canvas::Unclip() { cairo_restore(handles_->cairo); }

absl::StatusOr<std::string> Canvas::Png() {
  std::string bytes;
  cairo_status_t status = cairo_status(handles_->cairo);
  if (status == CAIRO_STATUS_SUCCESS)
    status = cairo_surface_write_to_png_stream(handles_->surface, AppendBytes, &bytes);
  if (status == CAIRO_STATUS_SUCCESS) return bytes;
  return absl::InternalError(absl::StrCat("Cairo cannot draw the picture: ", cairo_status_to_string(status)));
}

}  // namespace distill
