// The student of the DistilBERT recipe, as its config.json has it.
#pragma once

namespace distill {

inline constexpr char kDistilBert[] =
    R"({"model_type": "distilbert", "vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072})";

}  // namespace distill
