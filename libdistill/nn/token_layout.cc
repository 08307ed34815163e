#include "libdistill/nn/token_layout.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "libdistill/nn/variable_length_attention.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Document {
  int64_t begin;  // in the batch's B * T tokens
  int64_t length;
};

std::vector<Document> DocumentsOf(const TokenInput& input) {
  const int64_t rows = input.input_ids.size(0), tokens = input.input_ids.size(1);
  TORCH_CHECK(static_cast<int64_t>(input.document_starts.size()) == rows, "document_starts names ",
              input.document_starts.size(), " rows of ", rows);
  std::vector<Document> documents;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t>& starts = input.document_starts[row];
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      TORCH_CHECK(0 <= starts[i] && starts[i] <= starts[i + 1] && starts[i + 1] <= tokens, "row ", row,
                  ": document_starts ", starts[i], ", ", starts[i + 1], " do not lie within ", tokens, " tokens");
      if (starts[i] < starts[i + 1]) documents.push_back({row * tokens + starts[i], starts[i + 1] - starts[i]});
    }
  }
  return documents;
}

// Every row a document of all its tokens: the flat order is the batch's.
TokenLayout WholeRows(int64_t rows, int64_t tokens, torch::Device device) {
  TokenLayout layout;
  layout.rectangles = {{rows, tokens}};
  layout.positions = torch::arange(tokens, torch::TensorOptions(torch::kInt64).device(device)).repeat({rows});
  layout.begins = torch::arange(rows + 1, torch::TensorOptions(torch::kInt32).device(device)).mul_(tokens);
  layout.max_length = tokens;
  return layout;
}

// A gather whose gradient is the gather by the inverse order, since each real token stands in exactly one place.
struct ReorderFunction : torch::autograd::Function<ReorderFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& flat, const Tensor& target, const Tensor& source,
                        const std::optional<Tensor>& real) {
    context->save_for_backward({source, real.value_or(Tensor())});
    return flat.index_select(0, target);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    Tensor grad = grads[0].index_select(0, saved[0]);
    if (saved[1].defined()) grad.mul_(saved[1]);
    return {grad, Tensor(), Tensor(), Tensor()};
  }
};

// The gradient of index_select adds up, since it cannot know that no row is taken twice.
struct RowsAtFunction : torch::autograd::Function<RowsAtFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& flat, const Tensor& places) {
    context->save_for_backward({places});
    context->saved_data["rows"] = flat.size(0);
    return flat.index_select(0, places);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor places = context->get_saved_variables()[0];
    Tensor grad = at::zeros({context->saved_data["rows"].toInt(), grads[0].size(1)}, grads[0].options());
    return {grad.index_copy_(0, places, grads[0]), Tensor()};
  }
};

// The numbers of a layout, before they are tensors.
struct Places {
  std::vector<int64_t> source, positions, target, begins = {0}, real;
};

// Appends a document, padded to its rectangle's length.
void Place(const Document& document, TokenLayout::Rectangle& rectangle, Places& places) {
  ++rectangle.documents;
  rectangle.real_lengths.push_back(document.length);
  for (int64_t i = 0; i < rectangle.length; ++i) {
    const bool is_real = i < document.length;
    if (is_real) places.target[document.begin + i] = static_cast<int64_t>(places.source.size());
    places.source.push_back(document.begin + (is_real ? i : 0));
    places.positions.push_back(i);
    places.real.push_back(is_real ? 1 : 0);
  }
  const int64_t end = static_cast<int64_t>(places.source.size()), padding = rectangle.length - document.length;
  places.begins.push_back(end - padding);
  if (padding > 0) places.begins.push_back(end);
}

TokenLayout LayOut(const TokenInput& input, bool in_order) {
  TORCH_CHECK(input.input_ids.dim() == 2 && input.input_ids.scalar_type() == torch::kInt64,
              "input_ids must be int64 [B, T]");
  const int64_t rows = input.input_ids.size(0), tokens = input.input_ids.size(1);
  const torch::Device device = input.input_ids.device();
  if (input.document_starts.empty()) return WholeRows(rows, tokens, device);
  std::vector<Document> documents = DocumentsOf(input);
  const auto is_whole = [&](const Document& document) { return document.length == tokens; };
  const bool all_whole = std::all_of(documents.begin(), documents.end(), is_whole);
  if (documents.empty() || (all_whole && static_cast<int64_t>(documents.size()) == rows)) {
    return WholeRows(rows, tokens, device);
  }
  const auto is_longer = [](const Document& a, const Document& b) { return a.length > b.length; };
  if (!in_order) std::stable_sort(documents.begin(), documents.end(), is_longer);
  // An eighth of padding at most is cheaper than another call of every layer's attention.
  const auto fits = [&](int64_t length, int64_t longest) {
    return in_order ? length == longest : length * 8 >= longest * 7;
  };
  TokenLayout layout;
  Places places;
  places.target.resize(rows * tokens);
  for (const Document& document : documents) {
    layout.max_length = std::max(layout.max_length, document.length);
    if (layout.rectangles.empty() || !fits(document.length, layout.rectangles.back().length)) {
      layout.rectangles.push_back({0, document.length});
    }
    Place(document, layout.rectangles.back(), places);
  }
  for (TokenLayout::Rectangle& rectangle : layout.rectangles) {
    if (rectangle.real_lengths.back() == rectangle.length) rectangle.real_lengths.clear();  // the shortest is last
  }
  layout.positions = ToDevice(places.positions, device);
  layout.begins = ToDevice(places.begins, device).to(torch::kInt32);
  if (in_order && static_cast<int64_t>(places.source.size()) == rows * tokens) return layout;
  layout.source = ToDevice(places.source, device);
  layout.target = ToDevice(places.target, device);
  if (std::find(places.real.begin(), places.real.end(), 0) != places.real.end()) {
    layout.real = ToDevice(places.real, device).to(torch::kBool).unsqueeze(1);
  }
  return layout;
}

}  // namespace

std::shared_ptr<const TokenLayout> LayoutOf(const TokenInput& input, bool in_order) {
  if (input.layout == nullptr) return std::make_shared<const TokenLayout>(LayOut(input, in_order));
  return in_order && input.layout->in_order != nullptr ? input.layout->in_order : input.layout;
}

std::vector<DocumentSpan> SpansOf(const TokenLayout& layout) {
  std::vector<DocumentSpan> spans;
  for (const TokenLayout::Rectangle& rectangle : layout.rectangles) {
    for (int64_t i = 0; i < rectangle.documents; ++i) {
      spans.push_back(
          {rectangle.length, rectangle.real_lengths.empty() ? rectangle.length : rectangle.real_lengths[i]});
    }
  }
  return spans;
}

Tensor RowsAt(const Tensor& flat, const Tensor& places) { return RowsAtFunction::apply(flat, places); }

Tensor ToBatchOrder(const Tensor& flat, const TokenLayout& layout, int64_t rows, int64_t tokens) {
  Tensor ordered = flat;
  if (layout.target.defined()) {
    ordered = ReorderFunction::apply(flat, layout.target, layout.source,
                                     layout.real.defined() ? std::optional(layout.real) : std::nullopt);
  }
  return ordered.view({rows, tokens, flat.size(1)});
}

void TokenInput::LayOut() {
  if (layout != nullptr) return;
  TokenLayout made = distill::LayOut(*this, /*in_order=*/false);
  if (made.source.defined() && HasVariableLengths(input_ids.device())) {
    made.in_order = std::make_shared<const TokenLayout>(distill::LayOut(*this, /*in_order=*/true));
  }
  layout = std::make_shared<const TokenLayout>(std::move(made));
}

std::vector<Tensor> TokenInput::tensors() const {
  std::vector<Tensor> all = {input_ids};
  if (token_types.defined()) all.push_back(token_types);
  for (const TokenLayout* one = layout.get(); one != nullptr; one = one->in_order.get()) {
    for (const Tensor& tensor : {one->positions, one->begins, one->source, one->real, one->target}) {
      if (tensor.defined()) all.push_back(tensor);
    }
  }
  return all;
}

}  // namespace distill
