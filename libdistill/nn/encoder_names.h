// What the files of encoders' folders call parameters; inside nn/ only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/model_folder.h"

namespace distill {

// For a masked language model.
WeightNames EncoderNames(const EncoderConfig& config);
// For a model with another head. A folder of the body alone has its names without the prefix. `heads`: the paths of
// those that may be missing, which are then drawn.
WeightNames EncoderNamesWithHead(const EncoderConfig& config, std::vector<std::string> heads, uint64_t seed);

}  // namespace distill
