// float32 means float32: what LibTorch would round by itself on GPUs.
#pragma once

namespace distill {

// From now on cuDNN's recurrent layers and convolutions of float32 multiply in float32 in this process. By LibTorch's
// default they round what they multiply to TF32, 10 bits of mantissa, on GPUs from compute capability 8.0 on; its
// matrix products do not. distill::Run calls it.
void MultiplyFloat32Exactly();

}  // namespace distill
