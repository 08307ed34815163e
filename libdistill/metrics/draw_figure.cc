#include "libdistill/metrics/draw_figure.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "libdistill/metrics/canvas.h"

namespace distill {
namespace {

// Pixels.
constexpr double kMargin = 24, kHeadHeight = 52, kRunsHeight = 24, kPanelHeight = 300, kNoteHeight = 30;
constexpr double kLeft = 66, kRight = 18, kTop = 40, kBottom = 44;  // of a panel, around its diagram
constexpr double kSmall = 12, kMedium = 13, kLarge = 18;            // letters
constexpr double kSwatch = 26;                                      // the piece of line in a legend
constexpr size_t kFewPoints = 60;                                   // are marked, each with a dot

constexpr Colour kBlack = {0.13, 0.13, 0.13}, kGrey = {0.4, 0.4, 0.4}, kFrame = {0.6, 0.6, 0.6},
                 kGrid = {0.91, 0.91, 0.91};
// Okabe and Ito's, which the colour-blind can tell apart; the order is ours.
constexpr Colour Rgb(int red, int green, int blue) { return {red / 255.0, green / 255.0, blue / 255.0}; }
constexpr Colour kColours[] = {Rgb(0, 114, 178),  Rgb(213, 94, 0),  Rgb(0, 158, 115), Rgb(204, 121, 167),
                               Rgb(86, 180, 233), Rgb(230, 159, 0), Rgb(115, 77, 38), Rgb(60, 60, 60)};

class Drawing {
 public:
  explicit Drawing(const Figure& figure)
      : figure_(figure),
        columns_(figure.panels.size() > 1 ? 2 : 1),
        rows_(std::max<size_t>(1, (figure.panels.size() + columns_ - 1) / columns_)),
        compares_(figure.runs.size() > 1),
        canvas_(kPictureWidth, static_cast<int>(Height())) {}

  absl::StatusOr<std::string> Png() {
    DrawHead();
    for (size_t i = 0; i < figure_.panels.size(); ++i) {
      const double width = (kPictureWidth - kMargin) / static_cast<double>(columns_);
      const double left = kMargin / 2 + width * static_cast<double>(i % columns_);
      const double top = HeadHeight() + kPanelHeight * static_cast<double>(i / columns_);
      DrawPanel(figure_.panels[i], {left, top, left + width, top + kPanelHeight});
    }
    if (!figure_.note.empty()) {
      canvas_.Write(canvas_.Fit(figure_.note, kSmall, kPictureWidth - 2 * kMargin), {kMargin, Height() - 14}, kSmall,
                    kGrey);
    }
    return canvas_.Png();
  }

 private:
  double HeadHeight() const { return kHeadHeight + (compares_ ? kRunsHeight : 0); }
  double Height() const {
    return HeadHeight() + kPanelHeight * static_cast<double>(rows_) + (figure_.note.empty() ? 6 : kNoteHeight);
  }

  // Several runs have a colour each; of one, training and evaluation have.
  Colour ColourOf(const FigureLine& line) const {
    const size_t number = compares_ ? line.run : line.kind == LineKind::kEvaluation ? 1 : 0;
    Colour colour = kColours[number % std::size(kColours)];
    if (line.is_faint) colour.opacity = 0.25;
    return colour;
  }

  void DrawHead() {
    const double end = canvas_.WidthOf(figure_.subtitle, kMedium) + 3 * kMargin;
    canvas_.Write(canvas_.Fit(figure_.title, kLarge, kPictureWidth - end, true), {kMargin, 34}, kLarge, kBlack,
                  Align::kLeft, true);
    canvas_.Write(figure_.subtitle, {kPictureWidth - kMargin, 34}, kMedium, kGrey, Align::kRight);
    if (!compares_) return;
    const double most = (kPictureWidth - 2 * kMargin) / static_cast<double>(figure_.runs.size()) - kSwatch - 30;
    Place at = {kMargin, kHeadHeight + 8};
    for (size_t run = 0; run < figure_.runs.size(); ++run) {
      canvas_.Line({{at.x, at.y - 4}, {at.x + kSwatch, at.y - 4}}, 3, kColours[run % std::size(kColours)]);
      const std::string name = canvas_.Fit(figure_.runs[run], kMedium, most);
      canvas_.Write(name, {at.x + kSwatch + 6, at.y}, kMedium, kBlack);
      at.x += kSwatch + 30 + canvas_.WidthOf(name, kMedium);
    }
  }

  void DrawPanel(const FigurePanel& panel, const Box& cell) {
    const Box box = {cell.left + kLeft, cell.top + kTop, cell.right - kRight, cell.bottom - kBottom};
    DrawAxes(panel, box);
    const double legend = DrawLegend(panel, {box.right, box.top - 12});
    const double width = box.right - box.left - legend - 10;
    canvas_.Write(canvas_.Fit(panel.title, kMedium, width, true), {box.left, box.top - 12}, kMedium, kBlack,
                  Align::kLeft, true);
    for (const FigureLine& line : panel.lines) DrawCurve(panel, line, box);
  }

  void DrawAxes(const FigurePanel& panel, const Box& box) {
    for (const Tick& tick : panel.up.ticks) {
      const double y = std::round(box.bottom - panel.up.Place(tick.value) * (box.bottom - box.top)) + 0.5;
      canvas_.Line({{box.left, y}, {box.right, y}}, 1, kGrid);
      canvas_.Write(tick.label, {box.left - 8, y + 4}, kSmall, kGrey, Align::kRight);
    }
    for (const Tick& tick : panel.across.ticks) {
      const double x = std::round(box.left + panel.across.Place(tick.value) * (box.right - box.left)) + 0.5;
      canvas_.Line({{x, box.top}, {x, box.bottom}}, 1, kGrid);
      canvas_.Write(tick.label, {x, box.bottom + 17}, kSmall, kGrey, Align::kMiddle);
    }
    const double left = std::round(box.left) + 0.5, bottom = std::round(box.bottom) + 0.5;
    canvas_.Line({{left, box.top}, {left, bottom}, {box.right, bottom}}, 1, kFrame);
    canvas_.Write("step", {(box.left + box.right) / 2, box.bottom + 34}, kSmall, kGrey, Align::kMiddle);
  }

  // What the kinds of lines are, from `end` to the left; how wide that is.
  double DrawLegend(const FigurePanel& panel, Place end) {
    const double right = end.x;
    for (const LineKind kind : {LineKind::kMean, LineKind::kEvaluation, LineKind::kTraining}) {
      const auto found = std::find_if(panel.lines.begin(), panel.lines.end(),
                                      [&](const FigureLine& line) { return line.kind == kind; });
      if (found == panel.lines.end()) continue;
      const std::string name = kind == LineKind::kTraining     ? "training"
                               : kind == LineKind::kEvaluation ? "evaluation"
                                                               : figure_.mean_name;
      Colour colour = compares_ ? kGrey : ColourOf(*found);
      if (found->is_faint) colour.opacity = 0.35;
      canvas_.Write(name, end, kSmall, kGrey, Align::kRight);
      end.x -= canvas_.WidthOf(name, kSmall) + 6;
      const Place middle = {end.x - kSwatch / 2, end.y - 4};
      canvas_.Line({{end.x - kSwatch, middle.y}, {end.x, middle.y}}, WidthOf(*found), colour, IsDashed(*found));
      if (kind == LineKind::kEvaluation) canvas_.Dot(middle, 3, colour);
      end.x -= kSwatch + 14;
    }
    return right - end.x;
  }

  double WidthOf(const FigureLine& line) const { return line.kind == LineKind::kTraining ? 1.3 : 1.8; }
  bool IsDashed(const FigureLine& line) const { return compares_ && line.kind == LineKind::kEvaluation; }

  void DrawCurve(const FigurePanel& panel, const FigureLine& line, const Box& box) {
    const Colour colour = ColourOf(line);
    // A dot is not cut where its point is on the frame.
    canvas_.ClipTo({box.left - 4, box.top - 4, box.right + 4, box.bottom + 4});
    std::vector<Place> piece;
    const auto draw = [&] {
      if (piece.size() > 1) canvas_.Line(piece, WidthOf(line), colour, IsDashed(line));
      const bool has_dots = line.kind == LineKind::kEvaluation && line.points.size() <= kFewPoints;
      for (const Place& place : piece) {
        if (has_dots || piece.size() == 1) canvas_.Dot(place, 3, colour);
      }
      piece.clear();
    };
    for (const CurvePoint& point : line.points) {
      if (!std::isfinite(point.value)) {
        draw();
        continue;
      }
      piece.push_back({box.left + panel.across.Place(point.step) * (box.right - box.left),
                       box.bottom - panel.up.Place(point.value) * (box.bottom - box.top)});
    }
    draw();
    canvas_.Unclip();
  }

  const Figure& figure_;
  const size_t columns_, rows_;
  const bool compares_;  // several runs
  Canvas canvas_;
};

}  // namespace

absl::StatusOr<std::string> DrawPng(const Figure& figure) { return Drawing(figure).Png(); }

}  // namespace distill
