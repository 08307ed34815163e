// Pages of 2 MiB for large tensors in host memory.
//
// A processor looks the place of each page up, and remembers some thousands of them: with pages of 4 KiB that is fewer
// than a head's weights have, and a product that goes through them column by column waits for each again. A step also
// takes its first touch of a page from the kernel 512 times less often. docs/measurements.md has what it gives.
#pragma once

namespace distill {

// From then on, tensors of 32 MiB and more that LibTorch allocates on the CPU have large pages where Linux gives them
// to who asks (madvise(2), MADV_HUGEPAGE), and are otherwise as they were. Smaller ones share pages with others: whole
// large pages within them would often be none. Takes no more memory: what lies beyond the last whole large page has
// small ones. Idempotent; to be called before other threads allocate.
void UseLargePages();

}  // namespace distill
